# SPDX-License-Identifier: Apache-2.0
"""One rank of a job of which rank 1 does what argv[1] says in its third step. Nothing
waits for the engine but the losses that are read."""

import os
import signal
import sys
import time

import mxnet as mx
from mxnet import autograd, gluon

import taut.mxnet as hvd


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
    net = gluon.nn.Dense(8, in_units=4)
    net.initialize()
    hvd.broadcast_parameters(net.collect_params())
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
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
            with autograd.record():
                loss = net(mx.nd.ones((2, 4))).mean()
            loss.backward()
            breaks = what == "breaks" and hvd.rank() == 1
            if breaks and step == 2:  # an operation that fails when it is computed
                net.weight.grad()[:] = mx.nd.random.normal(0, -1, net.weight.shape)
            trainer.step(2)
            if what != "ends" and not breaks:
                net.weight.data().asnumpy()
        except Exception as why:
            print("raised", type(why).__name__, str(why).replace("\n", " "), flush=True)
            return
    print("ok end", flush=True)


if __name__ == "__main__":
    main()
