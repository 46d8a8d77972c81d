# SPDX-License-Identifier: Apache-2.0
"""bench/mpi_allreduce.py: what it makes of times that are given, worked out by
hand. Nothing is measured here."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import mpi_allreduce


class Tables(unittest.TestCase):
    def rows(self, bare, forced):
        found = mpi_allreduce.rows_of(4, bare, forced)
        return [tuple(row.split()) for row in found]

    def test_taut_from_the_middle_of_two_sizes_on(self):
        bare = {64: 1, 1024: 1, 4096: 1, 16384: 10, 65536: 40}
        forced = {64: 0.1, 1024: 0.99, 4096: 1.5, 16384: 5, 65536: 40}
        self.assertEqual(
            self.rows(bare, forced),
            [("4", "1", "8192", "taut"), ("4", "1", "32768", "mpi")],
        )

    def test_what_is_always_mpi_s_has_no_row(self):
        self.assertEqual(self.rows({64: 1, 4096: 1}, {64: 2, 4096: 2}), [])

    def test_below_the_least_bytes_it_is_mpi_s(self):
        self.assertEqual(
            self.rows({256: 2, 1024: 2}, {256: 1, 1024: 1}), [("4", "1", "512", "taut")]
        )

    def test_first_size(self):
        self.assertEqual(self.rows({4096: 2}, {4096: 1}), [("4", "1", "0", "taut")])


class Lines(unittest.TestCase):
    def test_what_is_slower_is_marked(self):
        lines = mpi_allreduce.comparison("mpich", 2, {64: 1.0, 1024: 4.0}, {64: 1.03, 1024: 2.0})
        self.assertIn("| 64 B | 1.00 | 1.03 | 0.97 slower |", lines)
        self.assertIn("| 1 KB | 4.00 | 2.00 | 2.00 |", lines)


if __name__ == "__main__":
    unittest.main()
