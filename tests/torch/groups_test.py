# SPDX-License-Identifier: Apache-2.0
"""Gradients that travel in groups of any size see what they see without Taut; what
cannot wait for the rest of its group is an error with a name."""

from ranks import LATE, Case, main, programs

GROUPS = {"TAUT_RUN_FUSE": "700+40+3000+64"}


class Groups(Case):
    def test_gradients(self):
        at_once = {"clip_norm", "clip_value", "reads_gradients", "scaler"}
        at_once.add("zero_grad_before_step")
        either = {"writes_gradients", "reads_one_gradient"}
        but = ["penalty_static"]  # gradients_test.py
        self.same_as_pytorch(
            "gradients", but=but, on_time=at_once, either=either, variables=GROUPS
        )

    def test_models(self):
        self.same_as_pytorch("models", on_time={"unused"}, variables=GROUPS)

    def test_habits(self):
        """Models that come and go, with nothing of them left."""
        names = ["models_come_and_go", "collected_anywhere", "wrapped_again", "hooks_stay"]
        self.same_as_pytorch("habits", *names, engines=["coll"], variables=GROUPS)

    def test_half_of_a_group(self):
        one = {"TAUT_RUN_FUSE": "1000000+1"}
        name = "a_backward_for_each_head"
        self.same_as_pytorch("groups", name, engines=["coll"], variables=one)
        name = "reads_in_backward"
        said = {seen[name]["error"] for seen in programs("groups", name, **LATE, **one)[0]}
        line = (
            "last.weight or its gradient was read before backward() had that of scale, "
            "with which it is summed: TAUT_RUN_FUSE without groups allows it"
        )
        self.assertIn(line, said)
        for other in said - {line}:  # of a rank that has heard of it before
            self.assertRegex(other, "^sync: rank [01] has left with tasks under way$")


if __name__ == "__main__":
    main()
