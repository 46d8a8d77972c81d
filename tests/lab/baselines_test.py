# SPDX-License-Identifier: Apache-2.0
"""The published ways of predicting that bench/accuracy.py compares with, on a
step that was worked out by hand, and the matrix of what is compared."""

import gzip
import json
import os
import pathlib
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "lab")]
import baselines
import matrix

ELEMENTS = 1_250_000  # 5 MB: 40 ms of a link of 1 Gbit/s
BATCH_OF = {"vgg": 24, "resnet": 16, "gpt": 6, "rnn": 12}


def event(name, begin_ms, end_ms, tid=1, **args):
    times = {"ts": begin_ms * 1e3, "dur": (end_ms - begin_ms) * 1e3}
    return {"ph": "X", "name": name, "pid": 1, "tid": tid, "args": args, **times}


def step(number, at):
    """100 ms: forward 20, backward 40 with its bucket ready in the middle, which
    takes 40 on the link; 20 behind that."""
    backward = "autograd::engine::evaluate_function: MmBackward0"
    return [
        event(f"ProfilerStep#{number}", at, at + 100),
        event("aten::mm", at, at + 20),
        event(backward, at + 20, at + 40),
        event("c10d::allreduce_", at + 40, at + 40.5, **{"Input Dims": [[[ELEMENTS]], []]}),
        event(backward, at + 40.5, at + 60),
        event("aten::as_strided", at + 80, at + 81),
        event("Optimizer.step#SGD.step", at + 81, at + 100),
        event(
            "gloo:all_reduce",
            at + 40,
            at + 80,
            tid=2,
            **{"Input Dims": [[ELEMENTS]], "Input type": ["float"]},
        ),
    ]


class BaselinesTest(unittest.TestCase):
    def setUp(self):
        with tempfile.TemporaryDirectory() as run:
            for rank in range(2):
                folder = os.path.join(run, f"rank{rank}")
                os.mkdir(folder)
                path = os.path.join(folder, "torch.pt.trace.json.gz")
                with gzip.open(path, "wt", encoding="utf-8") as file:
                    json.dump({"traceEvents": step(1, 1000) + step(2, 1100)}, file)
            self.recording = baselines.Recording(run)

    def check(self, daydream, dpro, **fields):
        config = matrix.Config("vgg", **fields)
        got = baselines.daydream(self.recording, config, BATCH_OF)
        self.assertAlmostEqual(got, daydream, 6)
        got = baselines.dpro(self.recording, config, BATCH_OF, matrix.MBIT)
        self.assertAlmostEqual(got, dpro, 6)

    def test_as_recorded(self):
        self.check(100, 100)

    def test_link_and_ranks(self):
        self.check(140, 140, mbit=500)
        self.check(80, 80, mbit=4000)  # the backward pass is longer now
        self.check(120, 120, ranks=4)

    def test_job(self):
        self.check(140, 140, job={"batch": 48})
        self.check(80, 80, job={"compress": "fp16"})
        self.check(160, 160, job={"accumulate": 2})

    def test_buckets(self):
        # Of 5 MB, 4 MiB are ready after 16.8 of the first 20 ms of the backward pass.
        first = 4 * baselines.MIB / 5e6
        end = max(20 + 20 * first + 40 * first, 40) + 40 * (1 - first) + 20
        self.check(end, end, job={"bucket_mb": 4.0})

    def test_only_dpro_knows_other_ranks(self):
        self.check(100, 130, job={"slow_rank": 1, "slow_ms": 30.0})


class MatrixTest(unittest.TestCase):
    def test_covers_what_is_claimed(self):
        found = matrix.configs(BATCH_OF)
        changes = [c for c in found if c.change]
        self.assertGreaterEqual(len(changes), 40)
        self.assertEqual({c.model for c in changes}, set(matrix.BASE))
        self.assertEqual({c.mbit for c in changes}, {250, 500, 1000, 2000, 4000})
        self.assertEqual({c.ranks for c in changes}, {2, 3, 4})
        for config in found:
            if not config.change:
                self.assertEqual((config.job, config.ranks, config.mbit), ({}, 2, 1000))


if __name__ == "__main__":
    unittest.main()
