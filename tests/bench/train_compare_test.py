# SPDX-License-Identifier: Apache-2.0
"""The rows of bench/train_compare.py, of times that are given."""

import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MS = 1e6

# f = 10, b = 30, u = 0; an embedding that is tied to the output, and a layer.
TOLD = {
    "forward_ns": 10 * MS,
    "backward_ns": 30 * MS,
    "update_ns": 0,
    "exposed_ns": 5 * MS,
    "step_ns": 45 * MS,
    "gradient_bytes": 4000,
    "tasks": [
        {"bytes": 1000, "update_ns": 0, "need_ns": 0, "ready_ns": 40 * MS},
        {"bytes": 3000, "update_ns": 0, "need_ns": 5 * MS, "ready_ns": 25 * MS},
    ],
}


class Bounds(unittest.TestCase):
    def test_window(self):
        for compute_ms, wire_ms, bound_ms in (
            (40, 20, 45),  # the embedding's 5 ms, behind all that is computed
            (44, 20, 45),  # no longer than measured: the rest may be a loader
            (20, 20, 30),  # the times halve: both, 20 + 12.5 - 2.5
            (40, 60, 80),  # both: 60 + 25 - 5
            (40, 0, 40),
        ):
            told = train_compare.window_ms(TOLD, compute_ms, wire_ms)
            self.assertAlmostEqual(told, bound_ms, delta=1e-5)

    def test_passes_are_a_part_of_the_step(self):
        """Beside 40 ms of them there are 10 of something else in 50."""
        told = dict(TOLD, step_ns=55 * MS)
        self.assertAlmostEqual(train_compare.window_ms(told, 25, 20), 32.5 - 2.5, delta=1e-5)

    @staticmethod
    def measured(told):
        row = train_compare.Row("gpt", 0.5)
        row.mbit, row.wire_ms, row.local = 100, 20, [40]
        row.ddp, row.taut, row.told = [60], [50], [told]
        row.cores = [{"busy": 0.97, "kernel": 0.2}]
        for times in row.buckets.values():
            times.append(60)
        return row

    def row(self, told):
        cells = self.measured(told).cells()
        return dict(zip(train_compare.HEAD.split(" | "), cells, strict=True))

    def test_row(self):
        cells = self.row(TOLD)
        self.assertEqual((cells["bound ms"], cells["window bound ms"]), ("40.0", "45.0"))
        self.assertEqual(cells["Taut ms (spread)"], "50.0 (0.0 %)")
        self.assertEqual(cells["cores busy (in the kernel)"], "97 % (20 %)")

    def test_kept_and_read_again(self):
        row = self.measured(TOLD)
        plan = plan_compare.Row("vgg", 1)
        plan.grid[(4.0, "fp16")] = [20.5]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kept.json")
            for one, make, table in (
                (row, train_compare.Row, "buckets"),
                (plan, plan_compare.Row, "grid"),
            ):
                common.keep_rows(path, [one], table)
                (again,) = common.kept_rows(path, make, table)
                self.assertEqual(vars(again), vars(one))

    def test_gate_is_off(self):
        self.assertEqual(self.row(None)["window bound ms"], "-")


if __name__ == "__main__":
    if not os.environ.get("TAUT_LIB"):
        print("no TAUT_LIB: not built, or with a sanitizer")
        sys.exit(77)
    sys.path.insert(0, str(ROOT / "bench"))
    import common
    import plan_compare
    import train_compare

    unittest.main(verbosity=2)
