# SPDX-License-Identifier: Apache-2.0
"""One rank of a job of which rank 1 does what argv[1] says in its third step."""

import os
import signal
import sys
import time

import keras
import tensorflow as tf

import taut.tensorflow as hvd


def forked():
    child = os.fork()
    if child == 0:
        try:
            hvd.barrier()
        except RuntimeError as why:
            os._exit(0 if "forked" in str(why) else 1)
        os._exit(2)
    if os.waitpid(child, 0)[1] == 0:
        print("ok forked", flush=True)


def main():
    what = sys.argv[1]
    hvd.init(lost_after=2.0)
    if what == "ends":
        forked()
    layers = [keras.layers.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)]
    net = keras.Sequential(layers)
    hvd.broadcast_variables(net.variables, root_rank=0)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))

    @tf.function
    def train(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(net(x))
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    for step in range(4):
        if hvd.rank() == 1 and step == 2:
            if what == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "raises":
                raise ValueError("of this rank's own")
            if what == "leaves":
                return
            if what == "late":
                time.sleep(4)
        try:
            train(tf.ones((2, 4)))
        except Exception as why:
            print("raised", type(why).__name__, str(why).replace("\n", " "), flush=True)
            return
    print("ok end", flush=True)


if __name__ == "__main__":
    main()
