#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Taut's loader feeding MXNet: arrays, a DataIter, Module, two ranks."""

import unittest

import load_world

PYTHON = load_world.find_python("mxnet")
JOB = load_world.JOBS / "mxnet_job.py"


class Mxnet(load_world.Feeds, unittest.TestCase):
    python, job, alone = PYTHON, JOB, "arrays iterator fit".split()


if __name__ == "__main__":
    load_world.main("mxnet", PYTHON)
