#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Phases inside of gluon's DataLoader, and of an iterator that Module.fit takes."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stalls_case import JOBS, MS, Case, find_missing
import frameworks
from undisturbed import undisturbed

PYTHON = frameworks.find_python("mxnet")
JOB = str(JOBS / "mxnet_job.py")


class MxnetTest(Case):
    def run_mxnet(self, *words):
        self.run_job([PYTHON, JOB, str(self.data), *map(str, words)], rounds=2)
        self.assertNotIn("end", self.out)
        rank = self.rank()
        self.check_order(rank, 2)
        self.check_sums(rank, 4)
        self.check_reads(rank)
        keys = "loader", "unit", "workers", "depth", "items"
        return rank, [rank.told[key] for key in keys]

    def test_gluon(self):
        undisturbed(self.check_gluon)

    def check_gluon(self):
        rank, told = self.run_mxnet("--workers", 2, "--item", 8, "--step", 8)
        self.assertEqual(told, ["mxnet", "batch", "2", "4", str(self.n_files)])
        self.check_step(rank, "place", 8)
        self.check_step(rank, "cached", 4 * 8 / 2)
        self.assertTrue(all(phase.has_own for phase in rank.phases))

    def test_module(self):
        undisturbed(self.check_module)

    def check_module(self):
        """Its time in next() is what four items take."""
        rank, told = self.run_mxnet("--module", "--item", 2, "--step", 8)
        self.assertEqual(told, ["mxnet", "item", "0", "0", "-1"])
        self.check_step(rank, "place", 8)
        self.check_step(rank, "cached", 8 + 4 * 2)
        wait_ms = min(p.wait_ns / p.steps / MS for p in rank.named("cached"))
        self.assertGreater(wait_ms, 8)
        self.assertLess(wait_ms, 3 * 8)


if __name__ == "__main__":
    frameworks.main(find_missing(PYTHON, "mxnet"))
