#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What phases ask of a loader, without a framework: one that reads as far ahead as it may
when items are cached, and not at all when they come from storage."""

import os
import pathlib
import signal
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from taut import _stalls as stalls
from taut import _stalls_measured as measured
from taut import _stalls_phases as phases


class Control:
    ppm = 0

    def cold(self, ppm):
        self.ppm = ppm

    def opened(self):
        return 0, 0

    def __init__(self):
        self.lists = [measured.OPENED]

    def list(self, what):
        if what != self.lists[-1]:
            self.lists.append(what)


class Source(phases.Source):
    depth = 3

    def __init__(self, control):
        self.control, self.read = control, {}

    def open(self):
        read = self.read.setdefault(self.control.ppm, set())
        ahead = 0 if self.control.ppm == measured.ALL_PPM else self.ahead()
        for n in range(1000):
            read.update(range(n + ahead + 1))
            yield n, 1


class PhasesTest(unittest.TestCase):
    def test_all_that_is_cached_was_read(self):
        control = Control()
        source = Source(control)
        with tempfile.TemporaryDirectory() as folder:
            file = measured.RankFile(folder, (0, 1))
            turns = phases.Phases(source, control, file, (0, 1), 1, 8)
            with mock.patch.object(turns, "_leave", file.end):
                self.assertGreater(sum(1 for _ in turns), 4 * 8)
            self.assertTrue(os.path.getsize(file.path))
        cold, part = source.read[measured.ALL_PPM], source.read[measured.ALL_PPM // 2]
        self.assertGreater(len(part), 8 + source.depth)
        self.assertLessEqual(part, cold)

    def test_what_is_listed(self):
        """What is opened while batches come is told from what else is, in the first round."""
        control = Control()
        with tempfile.TemporaryDirectory() as folder:
            file = measured.RankFile(folder, (0, 1))
            turns = phases.Phases(Source(control), control, file, (0, 1), 2, 8)
            with mock.patch.object(turns, "_leave", file.end):
                self.assertGreater(sum(1 for _ in turns), 8 * 8)
        loaded = [measured.OPENED, measured.LOADED] * 3
        self.assertEqual(control.lists, [*loaded, measured.OPENED, measured.NOTHING])

    def test_another_loader_is_told(self):
        """It gives two batches in each step; and goes through an epoch between two of them,
        which is none of the steps."""
        control = Control()
        with tempfile.TemporaryDirectory() as folder:
            file = measured.RankFile(folder, (0, 1))
            turns = phases.Phases(Source(control), control, file, (0, 1), 1, 8)
            with mock.patch.object(turns, "_leave", file.end):
                for _ in turns:
                    turns.other_gave()
                    turns.other_gave()
                    turns.pause()
                    turns.other_gave()
            lines = pathlib.Path(file.path).read_text().splitlines()
        others = [line for line in lines if line.startswith("others")]
        self.assertEqual(others, ["others 0 %s 16" % n for n in ("place", "cold", "cached", "part")])

    def test_updates_of_several_batches(self):
        """Each phase has as many updates as any other; workers take turns, too."""
        control = Control()
        source = Source(control)
        source.group = 4
        for steps, turn, expected in ((8, 1, (8, 8)), (20, 6, (24, 24)), (7, 5, (10, 20)), (8, 300, (8, 8))):
            turns = phases.Phases(source, control, None, (0, 1), 1, steps, turn)
            self.assertEqual((turns.steps, turns.loaded_steps), expected)

        class Loader:
            pass

        watch, loader, other = stalls.Watch(), Loader(), Loader()
        watch.gave(other)
        for batch in range(12):
            watch.gave(loader)
            if batch % 3 == 2:
                watch.stepped()
                watch.stepped()  # of a second optimizer
        self.assertEqual((watch.steps, watch.given[loader].turn), (8, 3))

    def test_cores_that_groups_leave(self):
        """Of both versions of control groups, and of those that the own one is in."""
        there = len(os.sched_getaffinity(0))
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder, "sys/fs/cgroup")
            own = pathlib.Path(folder, "proc/self/cgroup")
            own.parent.mkdir(parents=True)
            inner = root / "pod" / "job"
            inner.mkdir(parents=True)
            limit = root / "pod" / "cpu.max"

            def cores(text):
                own.write_text(text)
                return measured.cores(folder + "/")

            self.assertEqual(measured.cores(folder + "/"), there)
            self.assertEqual(cores("0::/pod/job\n"), there)
            (inner / "cpu.max").write_text("max 100000\n")
            for text, n in (("100000 100000\n", 1), ("50000 100000\n", 1), ("%d00000 100000\n" % (there + 1), there)):
                limit.write_text(text)
                self.assertEqual(cores("0::/pod/job\n"), n)
            limit.write_text("torn\n")
            self.assertEqual(cores("0::/pod/job\n"), there)
            limit.unlink()
            (root / "cpu.max").write_text("100000 100000\n")  # of a container's own root
            self.assertEqual(cores("0::/of/the/host\n"), 1)
            old = root / "cpu,cpuacct"
            old.mkdir()
            (old / "cpu.cfs_period_us").write_text("100000\n")
            for text, n in (("-1\n", there), ("100000\n", 1)):
                (old / "cpu.cfs_quota_us").write_text(text)
                self.assertEqual(cores("7:memory:/pod\n4:cpu,cpuacct:/pod\n"), n)

    def test_looking_reads_nothing(self):
        """What is read to count processes is none of what they read."""
        worker = os.fork()
        if not worker:
            signal.pause()
        self.addCleanup(os.waitpid, worker, 0)
        self.addCleanup(os.kill, worker, signal.SIGKILL)
        before = measured.Sums(Control(), [worker])
        text = pathlib.Path(__file__).read_bytes()
        after = measured.Sums(Control(), [worker], is_end=True)
        self.assertEqual(after.since(before)[2], len(text))
        before = measured.Sums(Control(), [worker])
        after = measured.Sums(Control(), [worker], is_end=True)
        self.assertEqual(after.since(before)[2], 0)


if __name__ == "__main__":
    unittest.main()
