# SPDX-License-Identifier: Apache-2.0
"""A training loop of gluon, or Module.fit, that knows nothing of what it is run by. An item
is a file and takes ITEM ms of sleep, a step STEP ms."""

import argparse
import os
import time

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--module", action="store_true")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--item", type=float, default=0)
parser.add_argument("--step", type=float, default=5)
job = parser.parse_args()
PATHS = sorted(os.path.join(job.data, name) for name in os.listdir(job.data))


def load(path):
    with open(path, "rb") as f:
        found = len(f.read())
    time.sleep(job.item / 1000)
    return np.full(8, found / 1e6, dtype="float32")


class Files(gluon.data.Dataset):
    def __len__(self):
        return len(PATHS)

    def __getitem__(self, i):
        return load(PATHS[i])


class Batches(mx.io.DataIter):
    def __init__(self):
        super().__init__(4)
        self.at = 0
        self.provide_data = [mx.io.DataDesc("data", (4, 8))]
        self.provide_label = [mx.io.DataDesc("label", (4,))]

    def reset(self):
        self.at = 0

    def next(self):
        if self.at + 4 > len(PATHS):
            raise StopIteration
        items = [load(path) for path in PATHS[self.at : self.at + 4]]
        self.at += 4
        return mx.io.DataBatch([mx.nd.array(np.stack(items))], [mx.nd.zeros(4)], pad=0)


def train_by_gluon():
    loader = gluon.data.DataLoader(
        Files(), batch_size=4, shuffle=True, num_workers=job.workers
    )
    net = gluon.nn.Dense(1)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-6})
    for _ in range(50):
        for batch in loader:
            with autograd.record():
                loss = net(batch).sum()
            loss.backward()
            trainer.step(4)
            time.sleep(job.step / 1000)


def train_by_module():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1)
    net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("label"))
    module = mx.mod.Module(net, label_names=["label"])
    module.fit(
        Batches(),
        num_epoch=50,
        eval_metric="mse",
        batch_end_callback=lambda _: time.sleep(job.step / 1000),
    )


train_by_module() if job.module else train_by_gluon()
print("went to its end", flush=True)
