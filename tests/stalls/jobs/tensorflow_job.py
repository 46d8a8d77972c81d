# SPDX-License-Identifier: Apache-2.0
"""A training loop over tf.data, in Python or by Keras, that knows nothing of what it is run
by. An item is a file and takes ITEM ms of sleep, a step STEP ms."""

import argparse
import os
import time

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--fit", action="store_true")
parser.add_argument("--item", type=float, default=0)
parser.add_argument("--step", type=float, default=5)
job = parser.parse_args()
PATHS = sorted(os.path.join(job.data, name) for name in os.listdir(job.data))


def sleep(n):
    time.sleep(job.item / 1000)
    return n


def load(path):
    n = tf.cast(tf.strings.length(tf.io.read_file(path)), tf.float32)
    n = tf.numpy_function(sleep, [n], tf.float32, stateful=False)
    return tf.ensure_shape(n, []) * tf.ones(8) / 1e6, tf.ones(1)


data = tf.data.Dataset.from_tensor_slices(PATHS).shuffle(len(PATHS))
data = data.map(load, num_parallel_calls=2).batch(4).prefetch(2)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(1e-6)


def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


class Slow(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(job.step / 1000)


if job.fit:
    model.compile(optimizer, "mse")
    model.evaluate(data.take(20), verbose=0)
    model.fit(data, epochs=20, callbacks=[Slow()], verbose=0, validation_data=data.take(2))
else:
    step = tf.function(train_step)
    for _ in range(20):
        for x, y in data:
            step(x, y)
            time.sleep(job.step / 1000)
print("went to its end", flush=True)
