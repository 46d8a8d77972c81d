#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job whose batches take longer than its steps: a recording of it tells what Taut's loader
would take, `taut plan` decides for it, and `taut run --plan` puts it in PyTorch's place."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import load_world
from undisturbed import undisturbed

PYTHON = load_world.find_python("torch")
JOB = str(load_world.JOBS / "plan_job.py")
N, SIZE = 96, (800, 600)


class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        own = tempfile.TemporaryDirectory()
        cls.addClassCleanup(own.cleanup)
        cls.folder = pathlib.Path(own.name)
        cls.images = str(cls.folder / "images")
        make = "import sys; sys.path.insert(0, %r); import pictures; pictures.make(%r, %d, 'jpg', %r)"
        made = make % (str(load_world.JOBS), cls.images, N, SIZE)
        subprocess.run([PYTHON, "-c", made], check=True)
        cls.plain = cls.job(cls, [])

    def taut(self, *words, status=0):
        own = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_RECORD")}
        command = [os.environ["TAUT"], *map(str, words)]
        ended = subprocess.run(command, env=own, capture_output=True, text=True, timeout=300)
        if ended.returncode != status:
            raise AssertionError("%s: %d: %s" % (words, ended.returncode, ended.stderr))
        return ended

    def job(self, verb, *own):
        """(whose batches, losses, the next random number) of the job under a verb."""
        command = [PYTHON, JOB, self.images, *own]
        if verb:
            ended = Plans.taut(self, *verb, "--", *command)
        else:
            ended = subprocess.run(command, capture_output=True, text=True, check=True)
        self.said = ended.stderr
        return json.loads(ended.stdout.splitlines()[-1])

    def record(self, name, *own):
        run = self.folder / name
        return run, self.job(["record", "--out", run, "--steps", "6:11"], *own)

    def test_planned(self):
        """What it decides for, it decides from how long making a batch took."""
        undisturbed(self.check_planned)

    def check_planned(self):
        run, recorded = self.record(tempfile.mkdtemp(dir=self.folder))
        self.assertEqual(recorded, self.plain)  # what was tried drew no number of the job's
        told = json.loads(self.taut("whatif", "--json", run, "loader=taut").stdout)
        self.assertLess(told["after_ms"], 0.8 * told["before_ms"])
        plan = self.folder / "plan.json"
        self.taut("plan", run, "--budget", "3s", "--without", "workers", "-o", plan)
        changes = [d["change"] for d in json.loads(plan.read_text())["decisions"]]
        self.assertIn("loader=taut", changes)
        whose, losses, then = self.job(["run", "--plan", plan])
        self.assertTrue(whose.endswith("_load_torch"), whose)
        self.assertNotIn("not made", self.said)
        self.assertIn("measured: ", self.said)
        self.assertEqual(then, self.plain[2])
        for ours, theirs in zip(losses, self.plain[1]):
            self.assertAlmostEqual(ours, theirs, delta=1e-4)

    def test_what_taut_has_not(self):
        run, _ = self.record("own", "own")
        why = "transform Lambda is not one that Taut has"
        ended = self.taut("whatif", run, "loader=taut", status=1)
        self.assertIn(why, ended.stderr)
        plan = self.folder / "own.json"
        told = self.taut("plan", run, "--budget", "1s", "-o", plan).stdout
        self.assertRegex(" ".join(told.split()), "loader: .*%s" % why)
        made = json.loads(plan.read_text())
        made["decisions"] = [{"change": "loader=taut", "numerics": "reordered"}]
        plan.write_text(json.dumps(made))
        self.job(["run", "--plan", plan], "own")
        self.assertIn("not made: loader=taut: " + why, self.said)


if __name__ == "__main__":
    load_world.main("torch", PYTHON, "PIL", "numpy")
