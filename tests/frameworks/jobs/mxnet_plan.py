# SPDX-License-Identifier: Apache-2.0
"""One rank of an MXNet job that knows nothing of plans: dense layers of gluon. Arguments:
how wide they are, how many there are, how many steps. Rank 0 prints the last losses."""

import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

import taut.mxnet as hvd

BATCH = 32


def main(width, layers, steps):
    hvd.init()
    mx.random.seed(1)
    net = gluon.nn.HybridSequential()
    for _ in range(layers):
        net.add(gluon.nn.Dense(width, activation="relu"))
    net.add(gluon.nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, width)))
    hvd.broadcast_parameters(net.collect_params())
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    numbers = np.random.default_rng(7 + hvd.rank())
    losses = []
    for _ in range(steps):
        x = mx.nd.array(numbers.standard_normal((BATCH, width), np.float32))
        y = mx.nd.array(numbers.integers(0, 10, BATCH))
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(BATCH)
        losses.append(loss.mean().asscalar())
    if hvd.rank() == 0:
        print("losses", " ".join("%.9g" % loss for loss in losses[-5:]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
