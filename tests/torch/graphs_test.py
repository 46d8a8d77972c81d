# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs of jobs that know nothing of them, without a GPU: what stands in for a
capture keeps and spoils memory as a graph does (jobs/graphs.py). What they train must be what
they train as they are, to the bit. tests/gpu/graphs_test.py is the same on a GPU."""

import tempfile
import unittest

from ranks import JOBS, PYTHON, end, environment, lines, main, start

JOB = [PYTHON, str(JOBS / "graphs.py"), "same", "narrow", "refused", "errors"]
# Forward passes of training that were played, those that were run as they were, and captures
# of a pass; of a graph two.
COUNTS = {
    "rows": [6, 0, 2],
    "adam": [6, 0, 2],
    "zeroed": [6, 0, 2],
    "zeroed late": [6, 0, 2],
    "norm": [6, 0, 2],
    "text": [6, 0, 2],
    "pair": [6, 0, 2],
    "twice": [6, 6, 2],
    "accumulates": [12, 0, 2],
    "uneven": [4, 2, 4],  # the third batch of a form is captured
    "evaluates": [6, 0, 2],
    "modes": [3, 3, 2],
    "moved": [4, 2, 4],
    "outputs": [6, 0, 2],
    "kept": [1, 5, 2],
    "unused": [6, 0, 2],
    "static": [6, 0, 2],
    "views": [12, 0, 2],
}
KEPT = (
    "5 of 6 forward passes were run as they were, the last one because the job keeps gradients "
    "from one step to the next"
)
REASONS = {
    "waiting": "its forward pass cannot be captured: operation not permitted when stream is "
    "capturing, at graphs.py:",
    "drawing": "its forward pass draws random numbers that are not the device's",
    "keeping": "its forward pass changes extra, which no graph does",
    "counting": "its forward pass changes n, which no graph does",
    "putting": "its forward pass puts another tensor in the place of mean",
    "past": "head.weight is read past the module that has it",
    "changing": "its forward pass changes what it is given, or a parameter",
    "own": "two passes with the same random numbers return other values",
    "remembering": "a play of its graph gives something else for what it returns",
    "hook": "body has hooks of the job's, which no graph calls",
    "gradient": "head.weight has hooks of the job's, which no graph calls",
    "wanted": "it is given a tensor that wants a gradient",
    "gaps": "it is given a tensor with gaps in memory",
    "script": "the model is TorchScript",
    "RECOMPUTE": "not beside recompute=nn.Module: body",
    "MICROBATCHES": "not beside microbatches=2",
    "host": "the model is on cpu: CUDA graphs are of a GPU",
}


class Graphs(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        own = environment(True, TAUT_RUN_SCHEDULE="off", TAUT_RUN_MEASURE=folder.name)
        (cls.seen,) = lines(end(start(JOB, 1, own), 240))

    def test_same(self):
        seen = self.seen["same"]
        self.assertEqual({n: seen[n]["counts"] for n in COUNTS}, COUNTS)
        for name in COUNTS:
            with self.subTest(name=name):
                self.assertEqual(seen[name]["differs"], [])
                made = ([], {"graphs": KEPT}) if name == "kept" else (["graphs"], {})
                self.assertEqual((seen[name]["made"], seen[name]["not_made"]), made)

    def test_beside_amp(self):
        seen = self.seen["narrow"]
        self.assertEqual(seen["made"], ["graphs", "amp=bf16", "optimizer=fused"])
        self.assertEqual(seen["differs"], [])

    def test_refused(self):
        seen = self.seen["refused"]
        for name, why in REASONS.items():
            with self.subTest(name=name):
                self.assertTrue(seen[name].startswith("graphs: " + why), seen[name])
        self.assertEqual(seen["value"], "TAUT_RUN_GRAPHS: expected on, found 'yes'")

    def test_errors(self):
        seen = self.seen["errors"]
        self.assertIn("a second backward pass through one forward pass", seen["again"])
        self.assertIn("gradients of gradients", seen["gradients"])


if __name__ == "__main__":
    main()
