# SPDX-License-Identifier: Apache-2.0
"""What bench/piece_core.py reads and how it fits."""

import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import inside
import piece_core

STAT = """cpu  100 0 50 900 10 1 5 0 7 0
cpu0 40 2 20 500 9 1 5 3 30 0
cpu1 60 0 30 400 1 0 0 0 0 0
intr 1 2 3
"""


class Numbers(unittest.TestCase):
    def test_busy(self):
        """All but idle, waiting, and guests, who are users already."""
        tick_ms = 1000 / os.sysconf("SC_CLK_TCK")
        self.assertAlmostEqual(piece_core.busy_ms(STAT, 0), (40 + 2 + 20 + 1 + 5 + 3) * tick_ms)
        self.assertAlmostEqual(piece_core.busy_ms(STAT, 1), 90 * tick_ms)
        with self.assertRaisesRegex(ValueError, "no core 2"):
            piece_core.busy_ms(STAT, 2)

    def test_slope(self):
        self.assertAlmostEqual(piece_core.slope([(1, 5), (2, 7), (4, 11)]), 2)
        # (-1.5, 0), (-0.5, 1), (0.5, -1), (1.5, 0) from the means
        self.assertAlmostEqual(piece_core.slope([(0, 1), (1, 2), (2, 0), (3, 1)]), -0.2)

    def test_what_a_job_says(self):
        said = "taut: says something\npiece_core: {\"busy_ms\": 3, \"messages\": 4}\n"
        self.assertEqual(inside.told(said, piece_core.SAID), [{"busy_ms": 3, "messages": 4}])


if __name__ == "__main__":
    unittest.main()
