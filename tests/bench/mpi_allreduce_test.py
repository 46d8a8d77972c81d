# SPDX-License-Identifier: Apache-2.0
"""bench/mpi_allreduce.py: what it makes of times that are given, worked out by
hand. Nothing is measured here."""

import glob
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import mpi_allreduce
import mpi_gpu


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


class Devices(unittest.TestCase):
    SAID = "taut: 2 ranks: all-reduces of an MPI communicator are Taut's, by shm"
    SIZES = [64, 256, 1024, 4096]

    def compared(self, told, failing=()):
        """(lines after the rates, words of all runs) of runs that print `told`."""
        runs = []

        def run(options, flavour, ranks, program, words, own, errors=None):
            way = pathlib.Path(own["TAUT_MPI_TABLE"]).name if own else "bare"
            runs.append((way, words, own))
            if way in failing:
                raise mpi_gpu.Failed("it failed")
            return told[way]

        options = types.SimpleNamespace(
            turns=2, ranks=[2], flavours=["mpich"], budget_ms=1, object="o", lib="l"
        )
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
            mpi_gpu, rate=lambda _: ["hit: 70 ns"], programs=lambda *_: {"mpich": "p"}
        ), mock.patch.object(mpi_gpu, "say"):
            blocks = list(mpi_gpu.compare(run, options, self.SIZES, folder))
        self.assertEqual(blocks[0], ["    hit: 70 ns", ""])
        return [line for lines in blocks[1:] for line in lines], runs

    def told(self, peer=", and by the ranks' devices"):
        rows = "1024 %.1f\n4096 %.1f\n"
        return {
            "bare": rows % (30, 60),
            "taut": self.SAID + ", a device's by way of the host\n" + rows % (20, 20),
            "peer": self.SAID + peer + "\n" + rows % (10, 40),
        }

    def test_columns_and_the_gain_of_the_better_way(self):
        lines, _ = self.compared(self.told())
        self.assertIn("| 1 KB | 30.0 | 20.0 | 10.0 | 3.00 |", lines)
        self.assertIn("| 4 KB | 60.0 | 20.0 | 40.0 | 3.00 |", lines)

    def test_what_stays_with_mpi_is_not_given_memory_of_a_device(self):
        for way, words, own in self.compared(self.told())[1]:
            self.assertEqual(words[2:], [4096, 1024], way)
            self.assertEqual(words[0], "host" if way == "bare" else "device")
            self.assertEqual("LD_PRELOAD" in own, way != "bare")

    def test_a_way_that_was_not_gone_has_no_times(self):
        other = self.told(", a device's by way of the host")
        other["peer"] = "taut: rank 1 of 2: no NVRTC; sums are made on the host\n" + other["peer"]
        lines, runs = self.compared(other)
        self.assertIn("| 1 KB | 30.0 | 20.0 | - | 1.50 |", lines)
        self.assertTrue(any("left out" in l and "no NVRTC" in l for l in lines), lines)
        self.assertEqual([way for way, _, _ in runs].count("peer"), 1)

    def test_a_way_that_fails_leaves_the_others(self):
        lines, _ = self.compared(self.told(), failing=["taut"])
        self.assertIn("| 4 KB | 60.0 | - | 40.0 | 1.50 |", lines)
        self.assertIn("- Taut, by way of the host is left out: it failed", lines)

    def test_the_compiler_of_the_device(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder) / "nvidia/cu13/lib"
            place.mkdir(parents=True)
            for name in ("libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0"):
                (place / name).touch()
            with mock.patch.object(sys, "path", [folder]), mock.patch.dict(os.environ):
                os.environ.pop("TAUT_NVRTC", None)
                if not glob.glob("/usr/local/cuda*"):
                    self.assertEqual(mpi_gpu.nvrtc(), str(place / "libnvrtc.so.13"))
                os.environ["TAUT_NVRTC"] = "/told"
                self.assertEqual(mpi_gpu.nvrtc(), "/told")


if __name__ == "__main__":
    unittest.main()
