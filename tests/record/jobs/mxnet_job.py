# SPDX-License-Identifier: Apache-2.0
"""A small training job on MXNet 1.x, as anybody would write it: nothing in it
knows of a recorder. usage: mxnet_job.py
gluon|module|alone|profiles|fails"""
import sys

import mxnet as mx
import numpy as np

STEPS = 14
BATCH, FEATURES, CLASSES = 64, 512, 10


def data():
    x = np.random.RandomState(1).rand(BATCH, FEATURES).astype("float32")
    y = np.arange(BATCH, dtype="float32") % CLASSES
    return mx.nd.array(x), mx.nd.array(y)


def gluon(store):
    net = mx.gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(256, activation="relu", in_units=FEATURES))
        net.add(mx.gluon.nn.Dense(256, activation="relu", in_units=256))
        net.add(mx.gluon.nn.Dense(CLASSES, in_units=256))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = mx.gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.01}, kvstore=store
    )
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = data()
    for step in range(STEPS):
        with mx.autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(BATCH)
        yield step, float(loss.mean().asscalar())
    mx.nd.waitall()


def module(store):
    out = mx.sym.Variable("data")
    out = mx.sym.FullyConnected(out, num_hidden=256, name="fc1")
    out = mx.sym.FullyConnected(out, num_hidden=CLASSES, name="fc2")
    model = mx.mod.Module(mx.sym.SoftmaxOutput(out, name="softmax"))
    x, y = data()
    batches = mx.io.NDArrayIter(x, y, BATCH, label_name="softmax_label")
    model.bind(batches.provide_data, batches.provide_label)
    model.init_params(mx.init.Xavier())
    model.init_optimizer(store, "sgd", {"learning_rate": 0.01})
    metric = mx.metric.CrossEntropy()
    for step in range(STEPS):
        batches.reset()
        batch = next(batches)
        metric.reset()
        model.forward(batch, is_train=True)
        model.update_metric(metric, batch.label)
        model.backward()
        model.update()
        yield step, metric.get()[1]
    mx.nd.waitall()


def main(how):
    mx.random.seed(7)
    np.random.seed(7)
    store = mx.kv.create("device" if how == "alone" else "dist_sync")
    if how == "profiles":
        mx.profiler.set_config(profile_all=True, filename="own-%d.json" % store.rank)
        mx.profiler.set_state("run")
    for step, loss in (module if how == "module" else gluon)(store):
        if store.rank == 0:
            print("step %d loss %.6f" % (step, loss), flush=True)
        if how == "fails" and step == 8:
            raise RuntimeError("as it was asked to")
    if how == "profiles":
        mx.profiler.set_state("stop")
        mx.profiler.dump()


if __name__ == "__main__":
    main(sys.argv[1])
