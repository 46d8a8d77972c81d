# SPDX-License-Identifier: Apache-2.0
"""What tests of the loaders under `taut stalls` share: a folder as the command makes it, a
job in it, and what its ranks wrote."""

import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from frameworks import INJECT, ROOT

JOBS = ROOT / "tests" / "stalls" / "jobs"
LOADED = "cold", "cached", "part"
MS = 1_000_000
_SUMS = (
    "steps samples wall_ns wait_ns cpu_ns rchar read_bytes opened opened_bytes own_cpu_ns"
).split()


def find_missing(python, framework):
    """Why the tests cannot run; None: they can."""
    if python is None:
        return "no %s: tools/ensure-python %s makes an environment" % (framework, framework)
    for name in ("TAUT_STALLS_LIB", "TAUT_LIB"):
        if not os.environ.get(name):
            return "no %s: not built, or with a sanitizer" % name
    return None


class Phase:
    def __init__(self, words):
        self.number, self.name = int(words[0]), words[1]
        for key, word in zip(_SUMS, words[2:]):
            setattr(self, key, int(word))
        self.has_own = len(words) == 2 + len(_SUMS)
        self.lines = []  # of steps: (wall, wait, take)
        self.faults = None  # of the rank's process, of its workers

    def step_ms(self):
        return self.wall_ns / self.steps / MS


class Rank:
    """FOLDER/rank-R.stalls"""

    def __init__(self, path):
        self.told, self.phases, self.has_ended, self.starts = {}, [], False, []
        for line in path.read_text().splitlines():
            key, _, rest = line.partition(" ")
            words = rest.split()
            if key == "phase":
                self.phases.append(Phase(words))
            elif key == "step":
                self.phases[-1].lines.append(tuple(map(int, words[2:])))
            elif key == "faults":
                self.phases[-1].faults = tuple(map(int, words[2:]))
            elif key == "start":
                self.starts.append(words)
            elif key == "end":
                self.has_ended = True
            else:
                self.told[key] = rest

    def named(self, name):
        return [phase for phase in self.phases if phase.name == name]

    def best_ms(self, name):
        """Of a step, in the round that others on the machine disturbed least."""
        return min(phase.step_ms() for phase in self.named(name))

    def share(self, name):
        """Of the bytes of files that were opened, those that came from storage."""
        of = self.named(name)
        return sum(p.read_bytes for p in of) / sum(p.opened_bytes for p in of)


class Case(unittest.TestCase):
    """Each test has a folder with data, and one for what is measured; where the build is,
    for that is a file system on storage."""

    n_files = 96
    file_bytes = 64 * 104 * 3

    def setUp(self):
        where = os.path.dirname(os.environ["TAUT_STALLS_LIB"])
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="taut-stalls-", dir=where))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = self.make_data(self.folder / "data")

    def make_measured(self):
        """As the command makes it."""
        self.measured = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (self.measured / "files").touch()
        page = bytearray(4096)
        struct.pack_into("<8sI", page, 0, b"tautcold", 1)
        struct.pack_into("<I", page, 52, 1)
        (self.measured / "control").write_bytes(page)

    def make_data(self, folder):
        """Files that are in no cache."""
        folder.mkdir()
        paths = [folder / ("%03d.raw" % i) for i in range(self.n_files)]
        for path in paths:
            path.write_bytes(os.urandom(self.file_bytes))
        os.sync()
        for path in paths:
            with open(path, "rb") as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return folder

    def environment(self, rounds, steps):
        own = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_STALLS")}
        own.pop("PYTHONPATH", None)
        return dict(
            own,
            PYTHONPATH=str(INJECT),
            PYTHONDONTWRITEBYTECODE="1",
            OMP_NUM_THREADS="1",
            TF_CPP_MIN_LOG_LEVEL="3",
            LD_PRELOAD=os.environ["TAUT_STALLS_LIB"],
            TAUT_STALLS=str(self.measured),
            TAUT_STALLS_ROUNDS=str(rounds),
            TAUT_STALLS_STEPS=str(steps),
        )

    def run_job(self, command, rounds=3, steps=8, status=0):
        """All processes that it made must have ended soon after it."""
        self.make_measured()
        job = subprocess.Popen(
            command,
            env=self.environment(rounds, steps),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self.out, self.err = job.communicate(timeout=120)
            self.assertEqual(job.returncode, status, self.err)
            self.assertTrue(self.is_gone(job.pid), "processes of the job are left")
        finally:
            self.end_group(job.pid)

    def end_group(self, group):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def is_gone(self, group):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.05)
        return False

    def rank(self, number=0):
        return Rank(self.measured / ("rank-%d.stalls" % number))

    # --- what holds of any rank ---------------------------------------------------------

    def check_order(self, rank, rounds, with_half=True):
        """place, cold, cached, part, round after round, and then half."""
        turns = [(n, name) for n in range(rounds) for name in ("place", *LOADED)]
        turns += [(n, "half") for n in range(rounds) if with_half]
        self.assertEqual([(p.number, p.name) for p in rank.phases], turns)
        self.assertTrue(rank.has_ended)
        self.assertNotIn("others", rank.told)

    def check_step(self, rank, name, expected_ms):
        """Not faster than can be; of the best of the rounds, not much slower either, on a
        machine that others may use."""
        found = rank.best_ms(name)
        self.assertGreater(found, 0.95 * expected_ms, name)
        self.assertLess(found, 3 * expected_ms, name)

    def check_sums(self, rank, batch):
        for phase in rank.phases:
            with self.subTest(phase=phase.name, number=phase.number):
                size = batch // 2 if phase.name == "half" else batch
                self.assertEqual(phase.samples, phase.steps * size)
                self.assertEqual(len(phase.lines), phase.steps)
                self.assertEqual(sum(line[0] for line in phase.lines), phase.wall_ns)
                self.assertEqual(sum(line[1] for line in phase.lines), phase.wait_ns)
                for wall, wait, take in phase.lines:
                    self.assertLessEqual(wait, wall)
                    self.assertIn(take, (-1, wait))

    def check_reads(self, rank, files=None):
        """Nothing is opened in place. What is loaded is what was written, from where it
        should come: where the file system tells. Batches are made ahead, so that at both
        ends of a window a few files more or less are in it. Of the FILES that the job reads
        (all), part has half by chance, whose inodes say which: as many as six sigmas allow."""
        for phase in rank.named("place") + rank.named("half"):
            self.assertEqual((phase.opened, phase.rchar), (0, 0))
        for phase in (p for name in LOADED for p in rank.named(name)):
            self.assertEqual(phase.opened_bytes, phase.opened * self.file_bytes)
            self.assertLess(abs(phase.opened - phase.samples), 0.5 * phase.samples)
            self.assertGreater(phase.rchar, 0.5 * phase.samples * self.file_bytes)
        if rank.named("cold")[0].read_bytes <= 0:
            return  # a file system in memory, or one that does not say
        self.assertGreater(rank.share("cold"), 0.8)
        self.assertLess(rank.share("cached"), 0.02)
        sigma = 0.5 / (files or self.n_files) ** 0.5
        self.assertLess(abs(rank.share("part") - 0.5), min(6 * sigma, 0.5))
