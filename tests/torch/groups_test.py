# SPDX-License-Identifier: Apache-2.0
"""Gradients that travel in groups of any size see what they see without Taut; what
cannot wait for the rest of its group is an error with a name."""

from ranks import Case, main

GROUPS = {"TAUT_RUN_FUSE": "700+40+3000+64"}


class Groups(Case):
    def test_gradients(self):
        at_once = {"clip_norm", "clip_value", "reads_gradients", "scaler"}
        at_once.add("zero_grad_before_step")
        either = {"writes_gradients", "reads_one_gradient"}
        self.same_as_pytorch("gradients", on_time=at_once, either=either, variables=GROUPS)

    def test_models(self):
        self.same_as_pytorch("models", on_time={"unused"}, variables=GROUPS)


if __name__ == "__main__":
    main()
