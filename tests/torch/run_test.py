# SPDX-License-Identifier: Apache-2.0
"""What the gate says of given times, Taut's class by hand, and a wrong variable."""

import unittest

from ranks import JOBS, PACKAGE, PYTHON, end, environment, lines, main, start

SIMPLE = str(JOBS / "simple.py")


class ByHand(unittest.TestCase):
    def test_by_hand(self):
        """Four layers, of which each iteration after the first is summed as the
        scheduler says; PyTorch's own class stays where it is."""
        own = environment(False)
        own.update(PYTHONPATH=str(PACKAGE), TAUT_RUN_GATE="off", TAUT_RUN_PIECE="4096")
        for engine in ("coll", "process-group"):
            own["TAUT_RUN_ENGINE"] = engine
            ended = end(start([PYTHON, str(JOBS / "by_hand.py")], 2, own))
            for seen in lines(ended):
                seen = seen["by hand"]
                self.assertEqual((seen["kinds"], seen["plain"]), (["Parameter"], None))
                counts = seen["counts"]
                self.assertTrue(counts["crosses"])
                self.assertTrue(counts["engine"].startswith(engine))
                # Weights of 16 KB are four pieces, biases one; in four iterations.
                self.assertEqual(counts["pieces"], 4 * 4 * (4 + 1))


class Gate(unittest.TestCase):
    def test_wrong_variable(self):
        own = environment(True, TAUT_RUN_GATE="maybe")
        ended = end(start([PYTHON, SIMPLE], 2, own))
        lines(ended)
        self.assertIn("TAUT_RUN_GATE: expected on or off, found 'maybe'", ended[0][2])

    def gate(self, times):
        """The line of the log that says what was decided."""
        command = [PYTHON, SIMPLE, "--steps", "14", "--times", times]
        ended = end(start(command, 2, environment(True)))
        lines(ended)
        (line,) = ended[0][2].splitlines()
        return line

    def test_gate(self):
        """f + max(b, C) over max(f + b, C), by hand."""
        self.assertEqual(
            self.gate("20,30,60"),
            "taut: DistributedDataParallel crosses the barrier: forward 20.0 ms, backward "
            "30.0 ms, communication 60.0 ms: at most 1.33 times as fast",
        )
        self.assertEqual(
            self.gate("20,30,30.5"),
            "taut: DistributedDataParallel does not cross the barrier: forward 20.0 ms, "
            "backward 30.0 ms, communication 30.5 ms: at most 1.01 times as fast",
        )


if __name__ == "__main__":
    main()
