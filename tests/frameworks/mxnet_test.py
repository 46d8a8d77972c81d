#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MXNet jobs with Taut's distributed optimizer and trainer, of 2 and 3 ranks: their
results against plain loops, and how they end."""

import json
import os
import pathlib
import tempfile
import unittest

import ends
import world

PYTHON = world.find_python("mxnet")
JOB = world.JOBS / "mxnet_job.py"
PROGRAMS = (
    "collectives begin order trainer clipped unlike module fit two states half numpy_arrays "
    "convolution behind crosses forks refused again"
).split()


class Results(unittest.TestCase):
    def holds(self, n_ranks, programs, **more):
        ended = world.end(world.start([PYTHON, JOB, *programs], n_ranks, **more))
        for rank, found in enumerate(world.said(ended)):
            self.assertEqual(found, programs, "rank %d" % rank)

    def test_two_ranks(self):
        self.holds(2, PROGRAMS)

    def test_two_ranks_one_operation_after_another(self):
        self.holds(2, ["trainer", "module"], MXNET_ENGINE_TYPE="NaiveEngine")

    def test_three_ranks_in_pieces(self):
        self.holds(3, PROGRAMS, TAUT_RUN_PIECE="64", TAUT_RUN_CREDIT="256", TAUT_RUN_FUSE="0")


class Ends(ends.Ends, unittest.TestCase):
    python, job = PYTHON, world.JOBS / "mxnet_ends.py"
    killed_among = 3

    def test_rank_leaves(self):
        ended = self.ranks("leaves")
        self.assertEqual(ended[1][0], 0, ended[1][2][-2000:])
        self.raised_on_others(ended, "rank 1")

    def test_gradient_cannot_be_computed(self):
        """On rank 1, which hears of it in its next step, and reads nothing."""
        ended = self.ranks("breaks")
        self.assertEqual(ended[1][0], 0, ended[1][2][-2000:])
        self.assertIn("raised", ended[1][1])
        self.raised_on_others(ended, "rank 1")


class Plans(unittest.TestCase):
    """MXNet's jobs can be given the heap, and nothing of the exchange."""

    taut, job = os.environ.get("TAUT", "build/taut"), world.JOBS / "mxnet_plan.py"

    def ranks(self, *before, **more):
        return world.end(world.start([*before, PYTHON, self.job, "64", "2", "40"], 2, **more))

    def test_heap_is_kept_and_steps_are_measured(self):
        plain = self.ranks()
        with tempfile.TemporaryDirectory() as folder:
            places = [pathlib.Path(folder) / str(rank) for rank in range(2)]
            for place in places:
                place.mkdir()
            ended = self.ranks(self.taut, "run", "--heap", "keep", "--measure", places[0], "--")
            told = [json.loads((places[0] / ("rank-%d.json" % r)).read_text()) for r in range(2)]
        for (status, out, err), (_, plainly, _) in zip(ended, plain):
            self.assertEqual(status, 0, err[-2000:])
            self.assertEqual(out, plainly)
        for rank, its in enumerate(told):
            self.assertEqual((its["rank"], its["world"], its["steps"]), (rank, 2, 20))
            self.assertEqual(its["applied"], ["heap=keep"])

    def test_fewer_bits(self):
        """Of the exchange's own, as in other jobs."""
        losses = []
        for word in ("none", "fp16", "mxint8"):
            status, out, err = self.ranks(TAUT_RUN_COMPRESS=word)[0]
            self.assertEqual(status, 0, err[-2000:])
            losses.append([float(x) for x in out.split("losses ")[1].split()])
        plain, *others = losses
        for found in others:
            self.assertNotEqual(found, plain)
            for a, b in zip(found, plain):
                self.assertAlmostEqual(a, b, delta=0.02 * b)

    def test_refused(self):
        planned = {"framework": "mxnet", "ranks": 2, "hosts": 1, "gradients": []}
        for changes, job, line in (
            (["algorithm=ring"], {}, "it is one of mxnet, of which this is not made"),
            ([], {"ranks": 3}, "the plan is for 3 ranks, this job has 2"),
            ([], {"framework": "tensorflow"}, "the plan is for a job of tensorflow, this is one "),
            ([], {"gradients": [[44, 6]]}, "the plan's largest gradient is 44 bytes, this job's "),
        ):
            decisions = [{"change": c, "numerics": "exact"} for c in changes]
            text = {"taut_plan": 1, "job": {**planned, **job}, "allow": "exact"}
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump({**text, "decisions": decisions}, file)
                file.flush()
                ended = self.ranks(self.taut, "run", "--plan", file.name, "--")
            self.assertTrue(all(status for status, _, _ in ended))
            self.assertIn(line, ended[0][2])
        groups = self.ranks(TAUT_RUN_FUSE="64+64")
        for status, _, err in groups:
            self.assertEqual(status, 1)
            self.assertIn("TAUT_RUN_FUSE: MXNet gives gradients one by one", err)


if __name__ == "__main__":
    world.main("mxnet", PYTHON)
