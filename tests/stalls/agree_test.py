#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The share of a step that waits for data, found in two ways that have nothing in common:
by differences between phases, and by `taut report` from a recording of the same job. They
agree to within BOUND of a step, with items in the page cache and in storage."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stalls_case import JOBS, Case, find_missing
import frameworks
from undisturbed import undisturbed

PYTHON = frameworks.find_python("torch")
BOUND = 0.1
STEPS = "30:70"  # behind two epochs
USED_UP = 8  # steps that take what was made ahead while the recording began


class AgreeTest(Case):
    n_files = 48
    file_bytes = 1 << 20

    def command(self, *words):
        times = "--workers", "1", "--item", "2", "--step", "5"
        return [PYTHON, str(JOBS / "torch_job.py"), str(self.data), *times, *words]

    def by_report(self, name, *words):
        """Of the steps that nothing else held up."""
        run = str(self.measured / name)
        record = [os.environ["TAUT"], "record", "--steps", STEPS, "--out", run, "--"]
        own = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        command = record + self.command("--steps", "80", *words)
        subprocess.run(command, env=own, check=True, capture_output=True, timeout=120)
        told = subprocess.check_output([os.environ["TAUT"], "report", "--json", run])
        rows = [row["ms"] for row in json.loads(told)["breakdown"]]
        steps = [(sum(row.values()), row["data"]) for row in rows[USED_UP:]]
        usual = sorted(steps)[len(steps) // 2][0]
        steps = [step for step in steps if step[0] < 3 * usual]
        return sum(data for _, data in steps) / sum(whole for whole, _ in steps)

    def by_phases(self):
        self.run_job(self.command())
        rank = self.rank()
        place = rank.best_ms("place")
        return [1 - place / rank.best_ms(name) for name in ("cached", "cold")]

    def test_agreement(self):
        undisturbed(self.check_agreement)

    def check_agreement(self):
        cached, cold = self.by_phases()
        self.assertAlmostEqual(cached, self.by_report("cached"), delta=BOUND)
        self.assertAlmostEqual(cold, self.by_report("cold", "--cold"), delta=BOUND)
        self.assertGreater(cached, 0.2)  # there was something to agree on


if __name__ == "__main__":
    why = find_missing(PYTHON, "torch") or frameworks.needs(PYTHON, "TAUT_RECORD_LIB")
    frameworks.main(why)
