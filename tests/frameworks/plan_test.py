#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of TensorFlow jobs: recorded, planned, made in the same job, which is unchanged;
and what is refused, by name."""

import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import world

PYTHON = world.find_python("tensorflow")
JOB = world.JOBS / "tensorflow_plan.py"
TAUT = os.environ.get("TAUT", "build/taut")
SECONDS = 300
SMALL, STEPS = ("64", "3"), "40"
# bytes of the gradients of that job, and how many have so many
GRADIENTS = [[16384, 3], [2560, 1], [256, 3], [40, 1]]
EXCHANGE = "schedule=fifo,partition=16KiB,credit=64KiB,order=agreed"


@functools.cache
def ready():
    """An interpreter that starts with TensorFlow imported."""
    return world.tensorflow_ready(PYTHON)


def plan(changes, gradients=GRADIENTS, ranks=2, framework="tensorflow", after_ms=None):
    """The text of one."""
    made = {
        "taut_plan": 1,
        "job": {"framework": framework, "ranks": ranks, "hosts": 1, "gradients": gradients},
        "allow": "lossy",
        "decisions": [{"change": c, "numerics": "lossy"} for c in changes],
    }
    if after_ms:
        made["predicted"] = {"before_ms": 2 * after_ms, "after_ms": after_ms}
    return json.dumps(made)


class Plans(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = pathlib.Path(self.folder.name)

    def job(self, *before, size=SMALL, steps=STEPS, python=None):
        """Both ranks, each behind the words `before`."""
        command = [*before, python or ready(), JOB, *size, steps]
        return world.end(world.start(command, 2, TAUT_RUN_ORDERED="off"), SECONDS)

    def planned(self, text, *more, **job):
        path = self.at / "plan.json"
        path.write_text(text)
        return self.job(TAUT, "run", "--plan", path, *more, "--", **job)

    def losses(self, ended):
        for status, _, err in ended:
            self.assertEqual(status, 0, err[-3000:])
        found = re.search(r"^losses (.*)$", ended[0][1], re.M)
        return [float(loss) for loss in found[1].split()]

    def test_recorded_planned_and_made(self):
        run, path = self.at / "run", self.at / "found.json"
        record = [TAUT, "record", "--join", "--steps", "12:18", "-o", run, "--"]
        self.losses(self.job(*record, python=PYTHON))
        said = subprocess.run(
            [TAUT, "plan", run, "--allow", "lossy", "--budget", "5s", "-o", path],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        found = json.loads(path.read_text())
        self.assertEqual(found["job"]["framework"], "tensorflow")
        self.assertEqual(found["job"]["ranks"], 2)
        self.assertEqual(found["job"]["gradients"], GRADIENTS)
        kinds = "workers, loader, cache, recompute, microbatches, compile, amp, graphs, optimizer, rows"
        self.assertIn(f"{kinds}: 'taut run' does not make them of a job of tensorflow", " ".join(said.split()))
        predicted = self.whatif(run, "bucket=100MiB", EXCHANGE)
        self.assertRegex(predicted, "1 buckets a step instead of")
        self.assertRegex(self.whatif(run, "link=1x,between=ranks"), "A step of")
        ended = self.planned(path.read_text())
        self.losses(ended)
        self.assertRegex(ended[0][2], r"taut: predicted: [\d.]+ ms a step.*measured: [\d.]+ ms")

    def whatif(self, run, *changes):
        words = [TAUT, "whatif", run, *changes]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_same_bits(self):
        """Of two ranks a sum is the same in any pieces, groups and way."""
        plain = self.losses(self.job())
        for groups in ("bucket=16KiB", "bucket=40B+20000B+300B+70000B"):
            changes = ["heap=keep", groups, "algorithm=ring", EXCHANGE]
            ended = self.planned(plan(changes, after_ms=10.0))
            self.assertEqual(self.losses(ended), plain)
            line = r"taut: predicted: 10.0 ms a step, before 20.0; measured: [\d.]+ ms, the median"
            self.assertRegex(ended[0][2], line)
            self.assertNotIn("not made", ended[0][2])

    def test_fewer_bits(self):
        plain = self.losses(self.job())
        for word in ("fp16", "bf16", "mxint8"):
            changes = ["bucket=16KiB", "compress=%s,by=taut" % word, EXCHANGE]
            found = self.losses(self.planned(plan(changes)))
            self.assertNotEqual(found, plain)
            for a, b in zip(found, plain):
                self.assertAlmostEqual(a, b, delta=0.02 * b)

    def test_without_sitecustomize(self):
        """A program that finds Taut by itself does what it was told, and Taut saw it."""
        path = "PYTHONPATH=%s" % (world.ROOT / "python")
        ended = self.job(TAUT, "run", "--compress", "fp16", "--", "env", path)
        self.losses(ended)
        for _, _, err in ended:
            self.assertNotIn("no process on this host", err)

    def test_measured(self):
        folder = self.at / "measured"
        folder.mkdir()
        changes = ["heap=keep", "bucket=16KiB", "algorithm=flat", EXCHANGE]
        path = self.at / "plan.json"
        path.write_text(plan(changes))
        self.losses(self.job(TAUT, "run", "--plan", path, "--measure", folder, "--"))
        told = json.loads((folder / "rank-1.json").read_text())
        self.assertEqual((told["rank"], told["world"], told["warm"]), (1, 2, 20))
        self.assertEqual(told["steps"], int(STEPS) - 20)
        self.assertEqual(len(told["step_ns"]), told["steps"])
        applied = ["heap=keep", "bucket=16384+16384", "algorithm=flat"]
        self.assertEqual(told["applied"], applied + ["schedule,piece=16384,credit=65536"])
        self.assertEqual(told["not_applied"], {})

    def test_tuned(self):
        """Recorded, planned, run and verified by one command."""
        script = self.at / "both"
        meet = "127.0.0.1:%d" % world.free_port()
        command = " ".join(map(str, [ready(), JOB, *SMALL, STEPS]))
        script.write_text(
            "set -e\nexport TAUT_RANKS=2 TAUT_MEET=%s\nTAUT_RANK=1 %s &\nTAUT_RANK=0 %s\nwait $!\n"
            % (meet, command, command)
        )
        words = [TAUT, "tune", "--allow", "lossy", "--budget", "3s", "--whole"]
        words += ["-o", self.at / "tuned", "--", "sh", script]
        own = world.environment(TAUT_RUN_ORDERED="off", PYTHONPATH=str(world.ROOT / "python"))
        done = subprocess.run(
            words, env=own, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertRegex(done.stdout, r"the job as it is\s+[\d.]+\s+[\d.]+")
        found = json.loads((self.at / "tuned" / "tuned.json").read_text())
        self.assertEqual(found["job"]["framework"], "tensorflow")

    # --- refused ------------------------------------------------------------------------

    def refused(self, ended, line):
        """Rank 0 says why, and no step is made."""
        for _, out, err in ended:
            self.assertNotIn("losses", out)
        self.assertTrue(all(status for status, _, _ in ended))
        self.assertIn("taut: " + line, ended[0][2])

    def test_decisions_of_others(self):
        for change in ("workers=2", "amp=bf16"):
            ended = self.planned(plan([change]))
            self.refused(
                ended,
                "%s: a running job cannot be given this: it is one of tensorflow, of which this is "
                "not made" % change,
            )
        ended = self.job(TAUT, "run", "--workers", "2", "--")
        self.refused(ended, "workers=2: of a job of tensorflow this is not made")

    def test_other_jobs(self):
        changes = ["bucket=16KiB", EXCHANGE]
        self.refused(
            self.planned(plan(changes), size=("32", "3")),
            "the plan's largest gradient is 16384 bytes, this job's 4096",
        )
        # Others may yet come, until one has come 128 times.
        missing = {"size": ("64", "2"), "steps": "150"}
        self.refused(
            self.planned(plan(changes), **missing),
            "the plan's 3rd largest gradient is 16384 bytes, this job's 2560",
        )
        ended = self.planned(plan(changes), size=("64", "2"))
        self.losses(ended)
        self.assertIn("taut: the plan's 3rd largest gradient is 16384 bytes", ended[0][2])
        others = self.planned(plan(changes, ranks=3))
        self.refused(others, "the plan is for 3 ranks, this job has 2")
        self.refused(
            self.planned(plan(["heap=keep"], framework="mxnet")),
            "the plan is for a job of mxnet, this is one of tensorflow",
        )

    def test_servers_have_none_of_it(self):
        for more, line in (
            ({"TAUT_RUN_FUSE": "64+64"}, "servers have no groups of gradients"),
            ({"TAUT_RUN_COMPRESS": "fp16"}, "servers sum gradients as they are"),
        ):
            command = [ready(), JOB, *SMALL, STEPS]
            started = world.start(command, 2, TAUT_RUN_SERVERS="1", TAUT_RUN_ORDERED="off", **more)
            for status, _, err in world.end(started, SECONDS):
                self.assertEqual(status, 1)
                self.assertIn(line, err)


if __name__ == "__main__":
    world.main("tensorflow", PYTHON)
