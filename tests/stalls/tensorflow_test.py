#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Phases inside of tf.data: a loop in Python, and Keras' fit(). The order of a shuffle is
the same in all phases of a round: what is cached is what was read just before."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stalls_case import JOBS, Case, find_missing
import frameworks
from undisturbed import undisturbed

PYTHON = frameworks.find_python("tensorflow")
JOB = str(JOBS / "tensorflow_job.py")
STEP_MS, ITEM_MS = 15, 12


class TensorFlowTest(Case):
    n_files = 400  # a round reads a fifth of them

    def run_tensorflow(self, *words):
        times = ["--item", str(ITEM_MS), "--step", str(STEP_MS)]
        self.run_job([PYTHON, JOB, str(self.data), *times, *words], rounds=2)
        self.assertNotIn("end", self.out)
        left = [name for name in os.listdir(self.measured) if name.startswith("state-")]
        self.assertEqual(left, [])
        rank = self.rank()
        keys = "loader", "unit", "workers", "depth", "batch", "items", "device"
        told = tuple(rank.told[key] for key in keys)
        self.assertEqual(told, ("tf.data", "item", "2", "2", "4", str(self.n_files), "0"))
        self.check_order(rank, 2)
        self.check_reads(rank)
        self.check_step(rank, "place", STEP_MS)
        self.check_step(rank, "cached", 4 * ITEM_MS / 2)
        return rank

    def test_loop(self):
        undisturbed(lambda: self.check_sums(self.run_tensorflow(), 4))

    def test_fit(self):
        undisturbed(self.check_fit)

    def check_fit(self):
        """What it waits cannot be told."""
        for phase in self.run_tensorflow("--fit").phases:
            size = 2 if phase.name == "half" else 4
            self.assertEqual(phase.samples, phase.steps * size)
            self.assertEqual((phase.wait_ns, phase.lines), (0, []))


if __name__ == "__main__":
    frameworks.main(find_missing(PYTHON, "tensorflow"))
