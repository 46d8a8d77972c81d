# SPDX-License-Identifier: Apache-2.0
"""Programs that look at parameters right after step(), by whatever way, see what
they see without Taut."""

from ranks import Case, main


class Parameters(Case):
    def test_all(self):
        either = {"writes_before_step"}
        self.same_as_pytorch(
            "parameters", engines=["coll"], on_time={"step_hooks"}, either=either
        )


if __name__ == "__main__":
    main()
