#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Taut's loader feeding TensorFlow: eager tensors, tf.data, Keras, two ranks."""

import unittest

import load_world

PYTHON = load_world.find_python("tensorflow")
JOB = load_world.JOBS / "tensorflow_job.py"


class Tensorflow(load_world.Feeds, unittest.TestCase):
    python, job, alone = PYTHON, JOB, "eager data_set types state fit".split()


if __name__ == "__main__":
    load_world.main("tensorflow", PYTHON)
