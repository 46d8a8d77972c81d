#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which repeats bench/accuracy.py measures anew, in which order, and which
recording predicts, on made-up measurements."""

import os
import sys
import tempfile
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.dont_write_bytecode = True
import accuracy
import matrix


class DisturbedTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.a = types.SimpleNamespace(out=self.folder.name, repeats=3)
        self.configs = [
            matrix.Config("vgg", name, "link=2x", ranks=ranks)
            for ranks, names in ((2, "abc"), (4, "de"))
            for name in names
        ]

    def keep(self, config, turn, before, after):
        """Milliseconds of the fixed work, by rank."""
        speed = [list(ends) for ends in zip(before, after)]
        path = accuracy.kept(self.a, config, "measured", f".{turn}.json")
        accuracy.save(path, {"seconds": [[0.1] * 12] * len(speed), "speed": speed, "turn": turn})

    def keep_all(self):
        for config in self.configs:
            ms = 10.0 if config.ranks == 2 else 13.0
            for turn in range(3):
                self.keep(config, turn, [ms] * config.ranks, [ms] * config.ranks)

    def names(self):
        return [(c.name, turn) for c, turn in accuracy.disturbed(self.a, self.configs)]

    def test_none(self):
        self.keep_all()
        self.assertEqual(self.names(), [])
        self.assertEqual(accuracy.usual_work_ms(self.a, self.configs), {2: 10.0, 4: 13.0})

    def test_slow_before_or_after(self):
        self.keep_all()
        self.keep(self.configs[0], 1, [13.0, 13.0], [10.0, 10.0])
        self.keep(self.configs[3], 2, [13.0] * 4, [17.0] * 4)
        self.assertEqual(self.names(), [("a", 1), ("d", 2)])

    def test_a_little_slower_or_faster_is_usual(self):
        self.keep_all()
        self.keep(self.configs[1], 0, [12.0, 12.0], [9.0, 9.0])
        self.assertEqual(self.names(), [])

    def test_a_recording_in_each_turn_before_what_it_predicts(self):
        told = []

        class Lab:
            def record(lab, config, run):
                told.append(("record", config.model))
                return [[0.1]]

            def block(lab, config, steps):
                told.append((config.name, config.model))
                return [{"seconds": [0.1] * steps, "speed": [10.0, 10.0]}] * config.ranks

        accuracy.say = lambda text: None
        self.a.block_s, self.a.repeats = 1, 2
        models = ("vgg", "rnn")
        configs = [matrix.Config(m) for m in models]
        configs += [matrix.Config(m, "a", "link=2x") for m in models]
        accuracy.measure_all(self.a, Lab(), configs, accuracy.time.monotonic() + 60)
        turn = [(what, m) for m in models for what in ("record", "baseline", "a")]
        self.assertEqual(told, turn * 2)

    def test_median_recording(self):
        config = matrix.Config("vgg")
        steps = {}
        for turn, ms in enumerate((90.0, 130.0, 100.0)):
            run, done = accuracy.recording_of(self.a, config, turn)
            accuracy.save(done, {})
            steps[run] = ms
        asked, accuracy.ask_taut = accuracy.ask_taut, lambda a, verb, run: (
            {"steady_step_ms": steps[run]},
            None,
        )
        self.addCleanup(setattr, accuracy, "ask_taut", asked)
        run, apart = accuracy.median_recording(self.a, config)
        self.assertEqual(steps[run], 100.0)
        self.assertAlmostEqual(apart, 0.2)
        self.assertIsNone(accuracy.median_recording(self.a, matrix.Config("rnn")))

    def test_anew_until_it_is_not(self):
        """The lab's first answer is slow for one configuration, its second is not."""
        slow = [self.configs[1]]

        class Lab:
            def block(lab, config, steps):
                ms = 20.0 if config in slow and slow.remove(config) is None else 10.0
                return [{"seconds": [0.1] * steps, "speed": [ms, ms]}] * config.ranks

        accuracy.say = lambda text: None
        self.a.block_s = 1
        end = accuracy.time.monotonic() + 60
        self.assertEqual(accuracy.measure_all(self.a, Lab(), self.configs, end), 1)
        self.assertEqual(self.names(), [])
        self.assertEqual(accuracy.work_ms(self.a, self.configs[1], 0), 10.0)


if __name__ == "__main__":
    unittest.main()
