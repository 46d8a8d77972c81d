# SPDX-License-Identifier: Apache-2.0
"""The rows of bench/plan_compare.py, of times that are given."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "lab")]
import plan_compare


class Hand(unittest.TestCase):
    def row(self, grid, planned, ddp):
        row = plan_compare.Row("vgg", 1.0)
        row.grid, row.planned, row.ddp = grid, planned, ddp
        return row

    def test_a_turn_that_chose_does_not_count(self):
        """The best of several is too good in the turn in which it was chosen, and the
        machine may be slower in one turn than in another."""
        grid = {(1, "none"): [80.0, 100.0, 60.0], (4, "none"): [90.0]}
        row = self.row(grid, [100.0, 80.0, 50.0], [200.0, 200.0, 200.0])
        self.assertAlmostEqual(row.over_hand, (100 / 80 + 60 / 50) / 2)
        self.assertEqual(row.by_hand_ms, 80)

    def test_one_turn(self):
        row = self.row({(1, "none"): [80.0], (4, "none"): [90.0]}, [100.0], [200.0])
        self.assertAlmostEqual(row.over_hand, 0.8)

    def test_defaults_are_by_hand_too(self):
        row = self.row({(1, "none"): [80.0, 110.0]}, [70.0, 100.0], [90.0, 105.0])
        self.assertAlmostEqual(row.over_hand, 1.05)


if __name__ == "__main__":
    unittest.main()
