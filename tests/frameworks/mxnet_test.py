#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MXNet jobs with Taut's distributed optimizer and trainer, of 2 and 3 ranks: their
results against plain loops, and how they end."""

import unittest

import ends
import world

PYTHON = world.find_python("mxnet")
JOB = world.JOBS / "mxnet_job.py"
PROGRAMS = (
    "collectives begin trainer clipped module fit two half convolution behind crosses forks refused again"
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


if __name__ == "__main__":
    world.main("mxnet", PYTHON)
