# SPDX-License-Identifier: Apache-2.0
"""A rank of bench/server_compare.py in TensorFlow: steps of a function whose gradients
Taut sums, told and answered as blocks.py has it. TAUT_RANK, TAUT_RANKS, TAUT_MEET say
where it stands."""

import os

import blocks
import taut.tensorflow as hvd
import tensorflow as tf
import tf_model


def stepper(tape_of):
    pieces = tf_model.variables()
    kept = tf_model.speeds(pieces)

    @tf.function
    def step():
        loss, found, flat = tf_model.gradients(tape_of, pieces)
        tf_model.apply(flat, found, kept)
        return loss

    return lambda: step().numpy()


def main():
    hvd.init()
    local, summed = stepper(lambda tape: tape), stepper(hvd.DistributedGradientTape)
    local()
    summed()
    floats = sum(tf.TensorShape(shape).num_elements() for shape in tf_model.shapes())
    blocks.tell(gradient_bytes=4 * floats, engine=type(hvd._sums[0].job.sums).__module__)
    blocks.run(hvd.barrier, summed, local)
    os._exit(0)


if __name__ == "__main__":
    main()
