# SPDX-License-Identifier: Apache-2.0
"""One rank of an MXNet job: the programs that are named, one after another. What they
train is compared with a plain loop in this process, which computes the gradients of all
ranks and adds them in the order of the ranks."""

import ctypes
import os
import sys
import tempfile
import threading
import time

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

import taut.mxnet as hvd
from taut import _mxnet_engine

STEPS = 5
BATCH = 8


def net(seed=0, layers=(16, 8, 2), hybrid=True):
    made = gluon.nn.HybridSequential()
    for units in layers:
        made.add(gluon.nn.Dense(units, activation="tanh"))
    made.initialize()
    made(mx.nd.zeros((1, 6)))
    rng = np.random.default_rng(seed)
    for p in parameters(made):
        p.set_data(mx.nd.array(rng.standard_normal(p.shape) * 0.3))
    if hybrid:
        made.hybridize()
    return made


def parameters(made):
    return list(made.collect_params().values())


def batches(rank, steps=STEPS):
    rng = np.random.default_rng(100 + rank)
    x = rng.standard_normal((steps, BATCH, 6)).astype(np.float32)
    return x, rng.standard_normal((steps, BATCH, 2)).astype(np.float32)


def backward(made, x, y):
    with autograd.record():
        loss = mx.nd.square(made(mx.nd.array(x)) - mx.nd.array(y)).mean(axis=1)
    loss.backward()
    return loss


def added(parts, factor=None, after=None):
    """In the order of the ranks, each multiplied by the factor before."""
    factor = np.float32(1.0 / len(parts) if factor is None else factor)
    total = parts[0] * factor
    for part in parts[1:]:
        total = total + part * factor
    return total if after is None else total * np.float32(after)


def plain(made, trainer, combine=added):
    data = [batches(rank) for rank in range(hvd.size())]
    for step in range(STEPS):
        parts = []
        for x, y in data:
            backward(made, x[step], y[step])
            parts.append([p.grad().asnumpy() for p in parameters(made)])
        for i, p in enumerate(parameters(made)):
            p.grad()[:] = mx.nd.array(combine([part[i] for part in parts]))
        trainer.step(BATCH)


def on_all_ranks(arrays):
    own = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)
    assert all(other == own for other in hvd.allgather_object(own)), "ranks differ"


def same(ours, theirs):
    ours, theirs = ([p.data().asnumpy() for p in parameters(m)] for m in (ours, theirs))
    for a, b in zip(ours, theirs):
        assert np.array_equal(a, b), "%r\n%r" % (a, b)
    on_all_ranks(ours)


def raises(kind, text, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as why:
        assert text in str(why), "%r is not in: %s" % (text, why)
        return
    raise AssertionError("nothing was raised")


ADAM = {"learning_rate": 0.05}
SGD = {"learning_rate": 0.1, "momentum": 0.9}


# --- programs -------------------------------------------------------------------------


def collectives():
    n, rank = hvd.size(), hvd.rank()
    assert (hvd.local_rank(), hvd.local_size()) == (rank, n)
    for kind in ("float32", "float64", "float16", "int32", "int64", "uint8"):
        mine = mx.nd.full((5,), rank + 1, dtype=kind)
        total = hvd.allreduce(mine, op=hvd.Sum)
        assert total.dtype == mine.dtype and total.asnumpy().tolist() == [n * (n + 1) / 2] * 5
        assert mine.asnumpy()[0] == rank + 1
    mean = hvd.allreduce_(mx.nd.array([rank]))
    assert mean.asscalar() == np.float32(n * (n - 1) / 2) / np.float32(n)
    raises(TypeError, "int32", hvd.allreduce, mx.nd.ones((2,), dtype="int32"))
    everything = hvd.allgather(mx.nd.full((rank + 1, 2), rank)).asnumpy()
    assert everything[:, 0].tolist() == np.repeat(np.arange(n), np.arange(n) + 1).tolist()
    assert hvd.broadcast(mx.nd.array([rank]), n - 1).asscalar() == n - 1
    assert hvd.broadcast_object({"rank": rank}, n - 1) == {"rank": n - 1}
    hvd.barrier()


def begin():
    made = net(seed=hvd.rank())
    hvd.broadcast_parameters(made.collect_params(), root_rank=hvd.size() - 1)
    same(made, net(seed=hvd.size() - 1))
    # a shape that the first forward pass finds
    mx.random.seed(hvd.rank())
    later = gluon.nn.Dense(3)
    later.initialize(mx.init.Normal())
    hvd.broadcast_parameters(later.collect_params())
    later(mx.nd.zeros((1, 4)))
    on_all_ranks([p.data().asnumpy() for p in parameters(later)])


def order():
    """Rank 0 made some layers before, so its names count on, and dense99 comes after
    dense100 there. Each layer's are its own on all ranks."""
    while hvd.rank() == 0 and gluon.nn.Dense(1).name not in ("dense98", "dense998"):
        pass
    made = gluon.nn.HybridSequential()
    for _ in range(4):
        made.add(gluon.nn.Dense(3, in_units=3, use_bias=False))
    made.initialize()

    def fill(arrays):
        for i, array in enumerate(arrays):
            array[:] = 10**i * (1 + hvd.rank())

    def first(arrays):
        return [array[0, 0].asscalar() for array in arrays]

    fill([p.data() for p in parameters(made)])
    hvd.broadcast_parameters(made.collect_params())
    assert first([p.data() for p in parameters(made)]) == [1, 10, 100, 1000]
    distributed = hvd.DistributedTrainer(made.collect_params(), "sgd", dict(SGD))
    fill([p.grad() for p in parameters(made)])
    distributed.allreduce_grads()
    mean = (hvd.size() + 1) / 2
    assert first([p.grad() for p in parameters(made)]) == [mean * 10**i for i in range(4)]


def trainer():
    for name, options, hybrid in (("sgd", SGD, True), ("adam", ADAM, False)):
        ours, theirs = net(hybrid=hybrid), net(hybrid=hybrid)
        distributed = hvd.DistributedTrainer(ours.collect_params(), name, dict(options))
        for x, y in zip(*batches(hvd.rank())):
            backward(ours, x, y)
            distributed.step(BATCH)
        alone = gluon.Trainer(theirs.collect_params(), name, dict(options), kvstore=None)
        plain(theirs, alone)
        same(ours, theirs)


def clipped():
    """Gradients that are read between sum and update, a factor before and after."""
    ours, theirs = net(), net()
    distributed = hvd.DistributedTrainer(
        ours.collect_params(), "sgd", dict(SGD), gradient_predivide_factor=4.0
    )
    for x, y in zip(*batches(hvd.rank())):
        backward(ours, x, y)
        distributed.allreduce_grads()
        gluon.utils.clip_global_norm([p.grad() for p in parameters(ours)], 0.5)
        distributed.update(BATCH)
    alone = gluon.Trainer(theirs.collect_params(), "sgd", dict(SGD), kvstore=None)
    step = alone.step

    def clip_and_step(size):
        gluon.utils.clip_global_norm([p.grad() for p in parameters(theirs)], 0.5)
        step(size)

    alone.step = clip_and_step
    plain(theirs, alone, lambda parts: added(parts, 1 / 4, 4 / hvd.size()))
    same(ours, theirs)


def unlike():
    """Batches of other sizes on each rank: a step with the mean of the ranks' means or,
    where the gradients are summed first, of the samples. All ranks have the same bits."""
    n, rank = hvd.size(), hvd.rank()
    first = 2.0
    for steps in (trained_at_once, trained_by_hand, trained_by_optimizer):
        made = gluon.nn.Dense(1, use_bias=False, in_units=1)
        made.initialize(mx.init.Constant(first))
        step, by_samples = steps(made), steps is trained_by_hand
        expected = first
        for i in range(3):
            sizes = [4 - (i + r) % 3 for r in range(n)]
            with autograd.record():
                loss = made(mx.nd.full((sizes[rank], 1), 1.0 + rank))
            loss.backward()
            step(sizes[rank])
            weights = [size if by_samples else 1 for size in sizes]
            total = sum(weight * (1.0 + r) for r, weight in enumerate(weights))
            expected -= 0.1 * total / sum(weights)
        value = made.weight.data().asnumpy()
        on_all_ranks([value])
        assert abs(value.item() - expected) < 1e-5, (steps, value, expected)


def trained_at_once(made):
    return hvd.DistributedTrainer(made.collect_params(), "sgd", {"learning_rate": 0.1}).step


def trained_by_hand(made):
    distributed = hvd.DistributedTrainer(made.collect_params(), "sgd", {"learning_rate": 0.1})

    def step(size):
        distributed.allreduce_grads()
        distributed.update(size)

    return step


def trained_by_optimizer(made):
    sgd = hvd.DistributedOptimizer(mx.optimizer.create("sgd", learning_rate=0.1))
    return gluon.Trainer(made.collect_params(), sgd, kvstore=None).step


def symbol():
    data = mx.sym.Variable("data")
    out = mx.sym.FullyConnected(data, num_hidden=16, name="one")
    out = mx.sym.Activation(out, act_type="tanh")
    out = mx.sym.FullyConnected(out, num_hidden=2, name="two")
    return mx.sym.LinearRegressionOutput(out, mx.sym.Variable("label"), name="out")


def module_of(optimizer):
    made = mx.mod.Module(symbol(), label_names=("label",))
    made.bind([("data", (BATCH, 6))], [("label", (BATCH, 2))])
    made.init_params()
    rng = np.random.default_rng(0)
    shapes = {name: a.shape for name, a in sorted(made.get_params()[0].items())}
    made.set_params(
        {n: mx.nd.array(rng.standard_normal(s) * 0.3) for n, s in shapes.items()}, {}
    )
    made.init_optimizer(kvstore=None, optimizer=optimizer)
    return made


def batch_of(x, y):
    return mx.io.DataBatch([mx.nd.array(x)], [mx.nd.array(y)])


def module():
    def optimizer():
        return mx.optimizer.create("sgd", rescale_grad=1 / BATCH, wd=0.01, **SGD)

    ours = module_of(hvd.DistributedOptimizer(optimizer()))
    for x, y in zip(*batches(hvd.rank())):
        ours.forward_backward(batch_of(x, y))
        ours.update()
    theirs, data = module_of(optimizer()), [batches(rank) for rank in range(hvd.size())]
    for step in range(STEPS):
        parts = []
        for x, y in data:
            theirs.forward_backward(batch_of(x[step], y[step]))
            parts.append([g[0].asnumpy() for g in theirs._exec_group.grad_arrays])
        for i, g in enumerate(theirs._exec_group.grad_arrays):
            g[0][:] = mx.nd.array(added([part[i] for part in parts]))
        theirs.update()
    ours, theirs = ours.get_params()[0], theirs.get_params()[0]
    for name in theirs:
        assert np.array_equal(ours[name].asnumpy(), theirs[name].asnumpy()), name
    on_all_ranks([ours[name].asnumpy() for name in sorted(ours)])


def fit():
    """Module's own loop; ranks begin alike by broadcast_parameters()."""
    x, y = (a.reshape(-1, a.shape[-1]) for a in batches(hvd.rank()))
    source = mx.io.NDArrayIter(x, y, BATCH, label_name="label")
    mx.random.seed(hvd.rank())
    made = mx.mod.Module(symbol(), label_names=("label",))
    made.bind(source.provide_data, source.provide_label)
    made.init_params(mx.init.Normal(0.3))
    weights, others = made.get_params()
    hvd.broadcast_parameters(weights)
    made.set_params(weights, others)
    optimizer = mx.optimizer.create("adam", rescale_grad=1 / BATCH)
    made.fit(
        source, optimizer=hvd.DistributedOptimizer(optimizer), num_epoch=2, eval_metric="mse"
    )
    on_all_ranks([a.asnumpy() for _, a in sorted(made.get_params()[0].items())])


def two():
    """Two models, two trainers, and a plain trainer with a distributed optimizer."""
    made, pairs = [net(1), net(2), net(3)], [net(1), net(2), net(3)]
    trainers = [
        hvd.DistributedTrainer(made[0].collect_params(), "sgd", dict(SGD)),
        hvd.DistributedTrainer(made[1].collect_params(), "adam", dict(ADAM)),
        gluon.Trainer(
            made[2].collect_params(),
            hvd.DistributedOptimizer(mx.optimizer.create("sgd", **SGD)),
            kvstore=None,
        ),
    ]
    for x, y in zip(*batches(hvd.rank())):
        for m in made:
            backward(m, x, y)
        for t in trainers:
            t.step(BATCH)
    for m, theirs, (name, options) in zip(made, pairs, (("sgd", SGD), ("adam", ADAM), ("sgd", SGD))):
        alone = gluon.Trainer(theirs.collect_params(), name, dict(options), kvstore=None)
        plain(theirs, alone)
        same(m, theirs)


def states():
    """What trainers save on the way and load again: they go on as those that did not."""
    for distributed in (True, False):
        made = [net(), net()]
        for saves, ours in enumerate(made):
            if distributed:
                trainer = hvd.DistributedTrainer(ours.collect_params(), "adam", dict(ADAM))
            else:
                adam = hvd.DistributedOptimizer(mx.optimizer.create("adam", **ADAM))
                trainer = gluon.Trainer(ours.collect_params(), adam, kvstore=None)
            for step, (x, y) in enumerate(zip(*batches(hvd.rank()))):
                if saves and step == 2:
                    with tempfile.TemporaryDirectory() as folder:
                        trainer.save_states(folder + "/states")
                        trainer.load_states(folder + "/states")
                backward(ours, x, y)
                trainer.step(BATCH)
        same(*made)


def numpy_arrays():
    """A job of npx.set_np(), whose arrays are of mx.np."""
    n, rank = hvd.size(), hvd.rank()

    def trained(compression, given):
        made = gluon.nn.Dense(2, in_units=3)
        made.initialize(mx.init.One())
        for p in parameters(made):
            p.set_data(p.data() + rank)
        hvd.broadcast_parameters(made.collect_params())
        options = {"compression": compression, "gradient_predivide_factor": 2.0}
        trainer = hvd.DistributedTrainer(made.collect_params(), "sgd", dict(SGD), **options)
        for x, _ in zip(*batches(rank)):
            with autograd.record():
                loss = made(given(x[:, :3])).sum()
            loss.backward()
            trainer.step(BATCH)
        return [p.data().asnumpy() for p in parameters(made)]

    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        plainly = trained(compression, mx.nd.array)
        mx.npx.set_np()
        try:
            found = trained(compression, mx.np.array)
            for value in (mx.np.array([1.0 + rank]), mx.np.array(1.0 + rank)):
                total = hvd.allreduce(value, op=hvd.Sum)
                assert type(total) is mx.np.ndarray and total.shape == value.shape
                assert total.item() == n * (n + 1) / 2
                assert hvd.broadcast(value, n - 1).item() == n
                assert hvd.broadcast_(value, n - 1).item() == n
            everything = hvd.allgather(mx.np.ones((1 + rank, 2)))
            assert type(everything) is mx.np.ndarray
            assert everything.shape == (n * (n + 1) // 2, 2)
        finally:
            mx.npx.reset_np()
        for a, b in zip(plainly, found):
            assert np.array_equal(a, b), "%r\n%r" % (a, b)
        on_all_ranks(found)


def half():
    ours, theirs = net(), net()
    distributed = hvd.DistributedTrainer(
        ours.collect_params(), "sgd", dict(SGD), compression=hvd.Compression.fp16
    )
    for x, y in zip(*batches(hvd.rank())):
        backward(ours, x, y)
        distributed.step(BATCH)

    def combine(parts):
        # 16-bit floats: each product and each sum is computed in 32, and rounded
        factor = np.float32(1 / hvd.size())
        scaled = [(np.float16(p).astype(np.float32) * factor).astype(np.float16) for p in parts]
        total = scaled[0]
        for part in scaled[1:]:
            total = (total.astype(np.float32) + part.astype(np.float32)).astype(np.float16)
        return total.astype(np.float32)

    alone = gluon.Trainer(theirs.collect_params(), "sgd", dict(SGD), kvstore=None)
    plain(theirs, alone, combine)
    same(ours, theirs)


def convolution():
    """Layers whose kernels may keep memory in an order of their own; accumulated over
    two backward passes."""
    made = gluon.nn.HybridSequential()
    made.add(gluon.nn.Conv2D(32, 3, in_channels=3), gluon.nn.BatchNorm(in_channels=32))
    made.add(gluon.nn.Conv2D(64, 3, in_channels=32), gluon.nn.Dense(2))
    mx.random.seed(3)
    made.initialize(mx.init.Normal(0.1))
    made.hybridize()
    rng = np.random.default_rng(hvd.rank())
    made(mx.nd.zeros((1, 3, 12, 12)))
    mx.nd.waitall()  # the kernels' weights are in such an order now
    hvd.broadcast_parameters(made.collect_params(), root_rank=0)
    for p in parameters(made):
        if p.grad_req != "null":
            p.grad_req = "add"
    distributed = hvd.DistributedTrainer(made.collect_params(), "sgd", dict(SGD))
    for _ in range(3):
        for _ in range(2):
            x = mx.nd.array(rng.standard_normal((4, 3, 12, 12)))
            with autograd.record():
                loss = mx.nd.square(made(x)).mean(axis=1)
            loss.backward()
        distributed.step(2 * 4)
        for p in parameters(made):
            p.zero_grad()
    on_all_ranks([p.data().asnumpy() for p in parameters(made) if p.grad_req != "null"])


def behind():
    """A program that runs ahead of the engine, a plain optimizer's options that change on
    the way, and nothing that waits until the end."""
    ours, theirs = net(layers=(64, 64, 64, 2)), net(layers=(64, 64, 64, 2))
    distributed = hvd.DistributedTrainer(ours.collect_params(), "sgd", dict(SGD))
    for step, (x, y) in enumerate(zip(*batches(hvd.rank()))):
        backward(ours, x, y)
        distributed.set_learning_rate(0.1 / (1 + step))
        distributed.step(BATCH)
    alone = gluon.Trainer(theirs.collect_params(), "sgd", dict(SGD), kvstore=None)
    step, made = alone.step, []

    def slower(size):
        alone.set_learning_rate(0.1 / (1 + len(made)))
        made.append(step(size))

    alone.step = slower
    plain(theirs, alone)
    same(ours, theirs)


class Held:
    """An array that the engine lets nobody have until go()."""

    def __init__(self, array):
        self.begun, self.completion = threading.Event(), None
        self.begin = _mxnet_engine._BEGIN(self._begin)
        context, kind = _mxnet_engine._Context(1, 0), ctypes.c_int(3)
        handles = (ctypes.c_void_p * 1)(array.handle)
        mx.base.check_call(
            mx.base._LIB.MXEnginePushAsyncND(
                self.begin, None, None, ctypes.byref(context), None, 0, handles, 1,
                ctypes.byref(kind), 0, b"held", ctypes.c_bool(False),
            )
        )  # fmt: skip
        self.begun.wait()

    def _begin(self, _, complete, number):
        kind = _mxnet_engine._Completion
        self.completion = kind.from_buffer_copy(ctypes.string_at(complete, ctypes.sizeof(kind)))
        self.begun.set()

    def go(self):
        call = _mxnet_engine._COMPLETE(self.completion.callback)
        call(self.completion.engine, self.completion.parameter, None)


def crosses():
    """The last layer's gradient does not come for now: the first layer's is summed, its
    update made, and its part of the next forward pass computed."""
    ours = net(hybrid=False)
    distributed = hvd.DistributedTrainer(ours.collect_params(), "sgd", dict(SGD))
    x, y = batches(hvd.rank())
    backward(ours, x[0], y[0])
    distributed.step(BATCH)
    before = ours[0].weight.data().asnumpy()
    backward(ours, x[1], y[1])
    mx.nd.waitall()
    held = Held(ours[2].weight.grad())
    distributed.step(BATCH)
    ours[0](mx.nd.array(x[2])).wait_to_read()
    assert not np.array_equal(ours[0].weight.data().asnumpy(), before)
    on_all_ranks([ours[0].weight.data().asnumpy()])
    held.go()
    on_all_ranks([p.data().asnumpy() for p in parameters(ours)])


def forks():
    """Processes that are made while sums are under way, as those of a DataLoader:
    MXNet's engine stops its threads for that, and they must not need this one, nor be in
    the middle of a hand-over whose sum is there."""
    job = hvd._engines[0].job
    ready = job.ready

    def slowly(*arguments):
        ready(*arguments)
        time.sleep(0.05)

    job.ready = slowly
    try:
        make_processes()
    finally:
        del job.ready


def make_processes():
    ours = net(layers=(256, 256, 2))
    distributed = hvd.DistributedTrainer(ours.collect_params(), "sgd", dict(SGD))
    for x, y in zip(*batches(hvd.rank())):
        backward(ours, x, y)
        distributed.step(BATCH)
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    on_all_ranks([p.data().asnumpy() for p in parameters(ours)])


def again():
    """Another job after the end of one."""
    hvd.shutdown()
    assert not hvd.is_initialized()
    raises(RuntimeError, "init()", hvd.rank)
    hvd.init()
    trainer()


def refused():
    made = net()
    sgd = hvd.DistributedOptimizer(mx.optimizer.create("sgd"))
    sgd.rescale_grad = 0.5
    assert sgd._optimizer.rescale_grad == 0.5
    raises(ValueError, "plain", hvd.DistributedTrainer, made.collect_params(), sgd)
    raises(ValueError, "num_groups", hvd.DistributedOptimizer, sgd, num_groups=2)
    two_devices = gluon.nn.Dense(2, in_units=2)
    two_devices.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    raises(ValueError, "one device", hvd.DistributedTrainer, two_devices.collect_params(), "sgd")
    rows = gluon.nn.Embedding(4, 2, sparse_grad=True)
    rows.initialize()
    trainer = hvd.DistributedTrainer(rows.collect_params(), "sgd")
    with autograd.record():
        loss = rows(mx.nd.array([1])).sum()
    loss.backward()
    raises(ValueError, "sparse", trainer.step, 1)


def main():
    hvd.init()
    for name in sys.argv[1:]:
        globals()[name]()
        print("ok", name, flush=True)


if __name__ == "__main__":
    main()
