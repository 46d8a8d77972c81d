# SPDX-License-Identifier: Apache-2.0
"""A training job in one process, for the tests of recordings.

kinds: eager     a loop without tf.function, an optimiser of Keras
       function  two tf.functions that train and one that does not
       profiler  as function, and profiles itself
       crash     as function; the profiler crashes when it is to collect"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="function")
parser.add_argument("--steps", type=int, default=14)
parser.add_argument("--profile", default="")
options = parser.parse_args()

tf.random.set_seed(1)
w = tf.Variable(tf.random.normal((64, 64)))
x = tf.random.normal((32, 64))


def train(optimizer):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    return loss


first = tf.keras.optimizers.SGD(0.01)
second = tf.keras.optimizers.SGD(0.001)
first.build([w])
second.build([w])


@tf.function
def evaluate():
    return tf.reduce_mean(tf.matmul(x, w))


@tf.function
def function_step():
    return train(first)


@tf.function
def other_step():
    return train(second)


def crash(save=True):
    if save:
        os.abort()


if options.kind == "crash":
    from tensorflow.python.profiler import profiler_v2

    profiler_v2.stop = crash

for i in range(options.steps):
    if options.kind == "eager":
        loss = train(first)
        train(second)  # the second optimiser of the same step
    else:
        loss = function_step()
        other_step()
        evaluate()
    if options.kind == "profiler" and i == 9:
        tf.profiler.experimental.start(options.profile)
    if options.kind == "profiler" and i == 11:
        tf.profiler.experimental.stop()
print("loss %.6f" % float(loss))
