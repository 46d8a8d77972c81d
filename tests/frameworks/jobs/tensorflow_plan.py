# SPDX-License-Identifier: Apache-2.0
"""One rank of a TensorFlow job that knows nothing of plans: dense layers, trained by Keras'
fit(). Arguments: how wide they are, how many there are, how many steps, and samples of
a step. Rank 0 prints the loss of each epoch, and a sum of the parameters."""

import os
import sys

import keras
import numpy as np
import tensorflow as tf

import taut.tensorflow as hvd

STEPS_AN_EPOCH = 10


def main(width, layers, steps, batch=32):
    keras.utils.set_random_seed(1)
    threads = int(os.environ.get("TAUT_TEST_THREADS", "1"))
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init()
    model = keras.Sequential([keras.layers.Dense(width, "relu") for _ in range(layers)])
    model.add(keras.layers.Dense(10))
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01, momentum=0.9))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)
    numbers = np.random.default_rng(7 + hvd.rank())
    x = numbers.standard_normal((batch * steps, width), np.float32)
    y = numbers.integers(0, 10, batch * steps)
    model.build((None, width))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
    history = model.fit(
        data.repeat(),
        epochs=-(-steps // STEPS_AN_EPOCH),
        steps_per_epoch=STEPS_AN_EPOCH,
        verbose=0,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
    )
    if hvd.rank() == 0:
        sums = [float(np.abs(v.numpy()).sum(dtype=np.float64)) for v in model.trainable_variables]
        print("losses", " ".join("%.9g" % loss for loss in history.history["loss"]))
        print("parameters %.12g" % sum(sums))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
