#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TensorFlow jobs with Taut's distributed optimizer, of 2 and 3 ranks: their results
against plain loops, and how they end."""

import os
import unittest

import ends
import world

PYTHON = world.find_python("tensorflow")
JOB = world.JOBS / "tensorflow_job.py"
# The first of each counts what was summed before.
ON_TWO = (
    "none_and_constant collectives begin eager function tape_in_function fit unbuilt restored seeds "
    "exact two_optimizers other_order sparse half loss_scale shapes saved kinds "
    "twice refused again broken_off"
).split()
ON_THREE = "overlap eager function two_optimizers loss_scale".split()


class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ready = world.tensorflow_ready(PYTHON, 3)

    def holds(self, n_ranks, programs, **more):
        ended = world.end(world.start([self.ready, JOB, *programs], n_ranks, **more))
        for rank, found in enumerate(world.said(ended)):
            self.assertEqual(found, programs, "rank %d" % rank)

    def test_two_ranks_with_one_thread(self):
        self.holds(2, ON_TWO, TAUT_TEST_THREADS="1")

    def test_optimizers_of_other_rates(self):
        """In a plan's job: one is not missing while the other goes on."""
        self.holds(2, ["rates"], TAUT_RUN_JOB="framework=tensorflow ranks=2 gradients=8,4")

    def test_two_ranks_by_servers(self):
        """Gradients that come later have servers of their own."""
        servers = {"TAUT_RUN_SERVERS": "2", "TAUT_RUN_COMMAND": os.environ.get("TAUT", "")}
        programs = "begin eager function two_optimizers loss_scale again".split()
        self.holds(2, programs, **servers)

    def test_three_ranks_in_pieces(self):
        limits = {"TAUT_RUN_PIECE": "64", "TAUT_RUN_CREDIT": "256", "TAUT_RUN_FUSE": "0"}
        self.holds(3, ON_THREE, TAUT_TEST_THREADS="4", **limits)


class Ends(ends.Ends, unittest.TestCase):
    python, job = PYTHON, world.JOBS / "tensorflow_ends.py"


if __name__ == "__main__":
    world.main("tensorflow", PYTHON)
