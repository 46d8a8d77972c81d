# SPDX-License-Identifier: Apache-2.0
"""A rank of bench/server_compare.py in TensorFlow: steps of a function whose gradients
Taut sums, told and answered as those of torch_rank.py. TAUT_RANK, TAUT_RANKS, TAUT_MEET
say where it stands."""

import json
import os
import sys
import time

import taut.tensorflow as hvd
import tensorflow as tf
import tf_model


def tell(**what):
    print(json.dumps(what), flush=True)


def stepper(tape_of):
    pieces = tf_model.variables()
    kept = tf_model.speeds(pieces)

    @tf.function
    def step():
        loss, found, flat = tf_model.gradients(tape_of, pieces)
        tf_model.apply(flat, found, kept)
        return loss

    return step


def main():
    hvd.init()
    local, summed = stepper(lambda tape: tape), stepper(hvd.DistributedGradientTape)
    local()
    summed()
    floats = sum(tf.TensorShape(shape).num_elements() for shape in tf_model.shapes())
    tell(gradient_bytes=4 * floats, engine=type(hvd._sums[0].job.sums).__module__)
    for line in sys.stdin:
        block = json.loads(line)
        step = local if block["local"] else summed
        hvd.barrier()
        seconds = []
        for _ in range(block["steps"]):
            begin = time.perf_counter()
            step().numpy()
            seconds.append(time.perf_counter() - begin)
        tell(seconds=seconds)
    os._exit(0)


if __name__ == "__main__":
    main()
