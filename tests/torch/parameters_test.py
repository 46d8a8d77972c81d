# SPDX-License-Identifier: Apache-2.0
"""Programs that look at parameters right after step(), by whatever way, see what
they see without Taut."""

from ranks import Case, main


class Parameters(Case):
    def test_all(self):
        self.same_as_pytorch("parameters", on_time={"step_hooks"})


if __name__ == "__main__":
    main()
