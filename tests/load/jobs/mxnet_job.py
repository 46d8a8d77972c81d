# SPDX-License-Identifier: Apache-2.0
"""taut.load with MXNet: arrays, a DataIter, Module.fit, two ranks.
usage: mxnet_job.py PROGRAM..."""

import ctypes
import sys

import mxnet as mx
import numpy as np
import raw

import taut.mxnet as hvd

path = raw.folder()


def is_lent(array, loader):
    address, size = loader.memory()
    at = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(at)))
    return address <= at.value < address + size


def items_of(batch):
    """Of a DataBatch without its padding, which is samples of its own again."""
    n = len(batch.index)
    data, labels = batch.data[0].asnumpy(), batch.label[0].asnumpy()
    assert len(data) == len(labels) == n + batch.pad
    for i in range(n, len(data)):
        assert (data[i] == data[i - n]).all() and labels[i] == labels[i - n]
    return raw.check(data[:n], labels[:n], batch.index)


def arrays():
    loader = raw.loader(path, batch_size=8, shuffle=True, arrays="mxnet")
    items, lent = [], 0
    for data, labels, of in loader:
        lent += is_lent(data, loader) and is_lent(labels, loader)
        items += raw.check(data.asnumpy(), labels.asnumpy(), of)
        del data, labels
    assert sorted(items) == list(range(raw.N)) and lent >= 4, lent
    kept = list(loader)
    items = [raw.check(d.asnumpy(), t.asnumpy(), of) for d, t, of in kept]
    assert sorted(sum(items, [])) == list(range(raw.N))


def iterator():
    loader = raw.loader(path, batch_size=8, shuffle=True)
    made = hvd.DataIter(loader)
    (data,), (label,) = made.provide_data, made.provide_label
    assert (data.name, data.shape, data.dtype) == ("data", (8, raw.SIDE, raw.SIDE, 3), np.uint8)
    assert (label.name, label.shape, label.dtype) == ("softmax_label", (8,), np.float32)
    assert data.layout == "NHWC"
    orders = []
    for _ in range(3):
        made.reset()  # as fit() does it, before the first epoch too
        batches = [(items_of(batch), batch.pad) for batch in made]
        assert [pad for _, pad in batches] == [0] * 6 + [6]
        orders.append(sum((items for items, _ in batches), []))
        assert sorted(orders[-1]) == list(range(raw.N))
    assert orders[0] != orders[1]
    assert loader.state_dict()["epoch"] == 3
    assert next(iter(made), None) is None  # without a reset
    made.reset()
    next(made)
    made.reset()  # in the middle: the next epoch
    assert made.iter_next() and made.getpad() == 0 and made.getdata()[0].shape == data.shape
    assert len(list(made)) == 6
    # A batch of two, four times in one of eight.
    few = hvd.DataIter(raw.loader(path, batch_size=48))
    assert [batch.pad for batch in few] == [0, 46]
    few.reset()
    next(few)
    assert items_of(next(few)) == [48, 49]


def fit():
    """Dark and bright are told apart."""
    mx.random.seed(1)
    image = {"type": "float32", "layout": "CHW"}
    made = hvd.DataIter(raw.loader(path, batch_size=8, shuffle=True, image=image))
    net = mx.sym.Flatten(mx.sym.Variable("data"))
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=2), name="softmax")
    module = mx.mod.Module(net)
    module.fit(made, num_epoch=8, optimizer="sgd", initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 2.0})  # fmt: skip
    assert dict(module.score(made, "acc"))["accuracy"] > 0.9


def ranks():
    hvd.init()
    loader = raw.loader(path, batch_size=4, shuffle=True, seed=2)
    items = sum((items_of(batch) for batch in hvd.DataIter(loader)), [])
    assert len(items) == raw.N // hvd.size()
    everybody = hvd.allgather_object(items)
    assert sorted(sum(everybody, [])) == list(range(raw.N))
    hvd.shutdown()


for program in sys.argv[1:]:
    globals()[program]()
    print("ok", program, flush=True)
