# SPDX-License-Identifier: Apache-2.0
"""Programs that look at gradients between backward() and the next forward pass, or
change them, see what they see without Taut."""

from ranks import LATE, Case, main, programs


class Gradients(Case):
    def test_all(self):
        # What needs all gradients at once waits for them, and is right.
        at_once = {"clip_norm", "clip_value", "reads_gradients", "scaler"}
        at_once.add("zero_grad_before_step")
        either = {"writes_gradients", "reads_one_gradient"}
        self.same_as_pytorch(
            "gradients", but=["penalty_static"], on_time=at_once, either=either
        )

    def test_a_graph_that_is_asked_before(self):
        """PyTorch 2.13 then sums nothing of a static graph's first step."""
        names = "penalty", "penalty_static"
        for seen in programs("gradients", *names, **LATE)[0]:
            self.assertEqual(seen["penalty"]["seen"], seen["penalty_static"]["seen"])

    def test_measured(self):
        """While the gate measures, and after it."""
        name = "one_rank_validates"
        without, _ = programs("gradients", name, taut=False)
        own, log = programs("gradients", name, TAUT_RUN_GATE="on")
        self.assertRegex(log, "cross(es)? the barrier: forward")
        for rank in range(2):
            self.assertEqual(own[rank][name]["seen"], without[rank][name]["seen"])


if __name__ == "__main__":
    main()
