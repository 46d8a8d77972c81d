# SPDX-License-Identifier: Apache-2.0
"""What bench/hand_over.py counts for whom, by a clock that is told."""

import pathlib
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import hand_over
import inside


class Clock:
    """Each look at it takes a nanosecond; work() as much as it says."""

    def __init__(self):
        self.now = 0

    def look(self):
        self.now += 1
        return self.now

    def work(self, ns):
        self.now += ns


class Counts(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        patch = mock.patch("time.thread_time_ns", self.clock.look)
        patch.start()
        self.addCleanup(patch.stop)
        self.spent = hand_over.Spent()

    def test_inner_calls_are_their_own(self):
        inner = self.spent.watch(lambda: self.clock.work(30), "inner")

        def outer():
            self.clock.work(100)
            inner()
            inner()

        self.spent.watch(outer, "outer")()
        # Of each inner call its first look at the clock is the outer one's.
        self.assertEqual(self.spent.ns, {"inner": 60, "outer": 102})
        self.assertEqual(self.spent.calls, {"inner": 2, "outer": 1})

    def test_what_fails_counts(self):
        def fails():
            self.clock.work(7)
            raise ValueError

        with self.assertRaises(ValueError):
            self.spent.watch(fails, "fails")()
        self.assertEqual(self.spent.ns["fails"], 7)
        self.spent.watch(lambda: self.clock.work(5), "next")()
        self.assertEqual(self.spent.ns["next"], 5)

    def test_what_jobs_say(self):
        said = 'taut: says something\nhand_over: {"gradients": 3, "us": {}}\n'
        self.assertEqual(inside.told(said, hand_over.SAID), [{"gradients": 3, "us": {}}])


if __name__ == "__main__":
    unittest.main()
