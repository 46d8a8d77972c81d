# SPDX-License-Identifier: Apache-2.0
"""Models with tied, repeated, unused and checkpointed parameters, and passes of all
kinds, give what they give without Taut."""

from ranks import Case, main


class Models(Case):
    def test_all(self):
        either = {"unused_and_unread", "unused_accumulates"}
        self.same_as_pytorch("models", on_time={"unused"}, either=either)


if __name__ == "__main__":
    main()
