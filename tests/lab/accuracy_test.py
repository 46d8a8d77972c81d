#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which repeats bench/accuracy.py measures anew, in which order, and what of the
recordings' predictions stands in its table, on made-up measurements."""

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
        self.a = types.SimpleNamespace(out=self.folder.name, repeats=3, turns=range(3))
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
        self.a.block_s, self.a.repeats, self.a.turns = 1, 2, range(2)
        models = ("vgg", "rnn")
        configs = [matrix.Config(m) for m in models]
        configs += [matrix.Config(m, "a", "link=2x") for m in models]
        accuracy.measure_all(self.a, Lab(), configs, accuracy.time.monotonic() + 60)
        turn = [(what, m) for m in models for what in ("record", "baseline", "a")]
        self.assertEqual(told, turn * 2)

    def made_up(self, predicted, measured):
        """A row of one configuration; a recording and a repeat each."""
        config = matrix.Config("vgg", "a", "link=2x")
        for model in (matrix.Config("vgg"), config):
            for turn, ms in enumerate(measured):
                path = accuracy.kept(self.a, model, "measured", f".{turn}.json")
                accuracy.save(path, {"seconds": [[ms / 1e3] * 12] * 2})
        told = {}
        for turn, ms in enumerate(predicted):
            run, done = accuracy.recording_of(self.a, config, turn)
            accuracy.save(done, {})
            told[run] = ms

        def ask(a, verb, run, *words):
            ms = told[run]
            if ms is None:
                return None, "no step is whole"
            return {"after_ms": ms, "low_ms": ms - 1, "high_ms": ms + 1, "before_ms": 1}, None

        stands_in = {
            "ask_taut": ask,
            "baselines": types.SimpleNamespace(
                Recording=lambda run: told[run],
                daydream=lambda recording, config, batch_of: recording * 2,
                dpro=lambda recording, config, batch_of, mbit: recording * 3,
            ),
        }
        for name, instead in stands_in.items():
            self.addCleanup(setattr, accuracy, name, getattr(accuracy, name))
            setattr(accuracy, name, instead)
        [row] = accuracy.rows_of(self.a, [config], {})
        return row

    def test_each_recording_predicts(self):
        row = self.made_up((90.0, 130.0, 100.0), (95.0, 200.0, 80.0))
        self.assertEqual((row.measured, row.repeats), (95.0, 3))
        self.assertEqual((row.low, row.taut, row.high), (99.0, 100.0, 101.0))
        self.assertEqual((row.daydream, row.dpro), (200.0, 300.0))
        self.assertEqual(row.apart, 20.0)
        self.assertIsNone(row.fault)

    def test_some_turns_alone(self):
        self.a.turns = range(1, 3)
        row = self.made_up((90.0, 130.0, 100.0), (95.0, 200.0, 80.0))
        self.assertEqual((row.measured, row.repeats, row.taut), (140.0, 2, 115.0))

    def test_what_a_recording_cannot_predict_is_said(self):
        config = matrix.Config("vgg", "a", "link=2x")
        path = accuracy.kept(self.a, config, "measured", ".0.json")
        accuracy.save(path, {"seconds": [[0.1] * 12]})
        tolds = [{"fault": "no step is whole"}, {"after_ms": 90.0, "low_ms": 80.0, "high_ms": 99.0}]
        row = accuracy.Row(self.a, config, tolds, [], {})
        self.assertEqual((row.fault, row.taut), ("no step is whole", 90.0))

    def test_no_recording_no_row(self):
        self.keep(matrix.Config("vgg", "a", "link=2x"), 0, [10.0], [10.0])
        self.assertEqual(accuracy.rows_of(self.a, [matrix.Config("vgg", "a", "link=2x")], {}), [])

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
