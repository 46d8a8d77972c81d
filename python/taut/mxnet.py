# SPDX-License-Identifier: Apache-2.0
"""MXNet 1.9 jobs whose gradients Taut sums, in the form that Horovod's users know:

    import taut.mxnet as hvd

    hvd.init()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

docs/frameworks.md has what is there, and what is not."""

import itertools
import os
import types

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call

from . import _job, _mxnet_engine, _reductions
from ._job import counts, local_rank, local_size, rank, size  # noqa: F401
from ._mxnet_load import DataIter  # noqa: F401
from ._reductions import Average, Max, Min, Product, Sum  # noqa: F401

_engines = []  # of the job of this process
_groups = itertools.count()  # one for each optimizer or trainer


class Compression:
    """What gradients of 32 and 64 bits are summed as."""

    none, fp16 = None, "float16"


def init(lost_after=10.0):
    """Meets the other ranks, as the launcher's environment says; docs/frameworks.md
    has how. lost_after: seconds after which a rank that says nothing is lost."""
    job = _job.start(lost_after, "mxnet")
    if not _engines or _engines[0].job is not job:
        _engines[:] = [_mxnet_engine.Engine(job)]


def shutdown():
    """Ends this rank's part, when what is under way is done. At exit it is done anyhow."""
    _job.stop()
    _engines.clear()


def _before_fork():
    """MXNet stops its threads before a fork, and whoever forks holds Python's lock, which
    operations of ours need to begin: there must be none."""
    if _engines and _engines[0].job.pid == os.getpid():
        _engines[0].leave()


os.register_at_fork(before=_before_fork)


def is_initialized():
    return bool(_engines) and _job.has_started()


def _engine():
    job = _job.get()
    if not _engines or _engines[0].job is not job:
        init()  # the job is another framework's
    return _engines[0]


# --- gradients --------------------------------------------------------------------------


class _Gradients:
    """Of one optimizer or trainer, by number."""

    def __init__(self, compression, predivide, op=Average):
        self.group, self.compression = next(_groups), compression
        self.op, self.predivide = op, predivide
        self.first = None
        if compression not in (None, "float16"):
            raise ValueError("compression: expected Compression.none or Compression.fp16")
        _reductions.factors(op, predivide, 1)

    def common(self, value):
        """Rank 0's first value, which all ranks divide by or multiply with: sums are the
        same on all, and so must be what is made of them. What a rank's own is beside it
        is a matter of its gradients, before they are summed."""
        if self.first is None:
            job = _engine().job
            self.first = job.broadcast_object(value, 0) if job.size > 1 else value
        return self.first or value

    def sum(self, indices, arrays, share=1.0):
        """Each becomes the sum of all ranks', some time; the engine knows when. share:
        what this rank's are multiplied by."""
        engine = _engine()
        engine.check()
        if engine.job.size == 1:
            return
        factor, after = _reductions.factors(self.op, self.predivide, engine.job.size)
        arrays = [array.as_nd_ndarray() for array in arrays]  # of mx.np: the same memory
        if share != 1.0:
            for array in arrays:
                array *= share
        sent = [self.compressed(index, array) for index, array in zip(indices, arrays)]
        keys = [(self.group, index) for index in indices]
        tasks = engine.find_tasks([(k, a, factor) for k, a in zip(keys, sent)])
        for index, task, small, array in zip(indices, tasks, sent, arrays):
            engine.sum(task, small, -_order(index))
            if small is not array:
                small.astype(array.dtype).copyto(array)
            if after is not None:
                array *= after

    def compressed(self, index, array):
        if array.stype != "default":
            raise ValueError(
                "gradient %s is sparse (%s): it must be dense to be summed" % (index, array.stype)
            )
        if array.context.device_type not in ("cpu", "cpu_pinned", "cpu_shared"):
            raise ValueError("gradient %s lies on %s, not in the host's memory" % (index, array.context))
        if self.compression and array.dtype in (np.float32, np.float64):
            return array.astype(self.compression)
        if array.dtype not in (np.float32, np.float64, np.float16):
            raise TypeError("there are no sums of gradients of %s" % np.dtype(array.dtype).name)
        return array


def _order(index):
    return index if isinstance(index, int) else 0


class DistributedOptimizer(mx.optimizer.Optimizer):
    """An optimizer for Module, or for a plain gluon.Trainer: what it updates with are
    sums over all ranks. All else is the optimizer's own, which gets what is set."""

    _own = ("_optimizer", "_gradients")

    def __init__(
        self, optimizer, gradient_predivide_factor=1.0, num_groups=0, compression=Compression.none
    ):
        if num_groups:
            raise ValueError("num_groups: expected 0; what is fused is TAUT_RUN_FUSE's")
        self._optimizer = optimizer
        self._gradients = _Gradients(compression, gradient_predivide_factor)

    def __getattr__(self, name):
        if name in self._own:
            raise AttributeError(name)  # of a copy that is being made
        return getattr(self._optimizer, name)

    def __setattr__(self, name, value):
        if name in self._own:
            object.__setattr__(self, name, value)
        else:
            setattr(self._optimizer, name, value)

    def __reduce__(self):
        """As a trainer's saved states have it: what is loaded sums, too."""
        how = self._gradients
        return DistributedOptimizer, (self._optimizer, how.predivide, 0, how.compression)

    def _sum_and(self, update, index, weight, grad, state):
        own = self._optimizer.rescale_grad
        common = self._gradients.common(own)
        many = isinstance(index, (list, tuple))
        self._gradients.sum(
            list(index) if many else [index], list(grad) if many else [grad], own / common
        )
        self._optimizer.rescale_grad = common
        try:
            update(index, weight, grad, state)
        finally:
            self._optimizer.rescale_grad = own

    def update(self, index, weight, grad, state):
        self._sum_and(self._optimizer.update, index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        self._sum_and(self._optimizer.update_multi_precision, index, weight, grad, state)

    # The base class has these, so __getattr__ is not asked.
    def create_state(self, index, weight):
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index, weight):
        return self._optimizer.create_state_multi_precision(index, weight)

    def set_learning_rate(self, lr):
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult):
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        self._optimizer.set_wd_mult(args_wd_mult)

    @property
    def learning_rate(self):
        return self._optimizer.learning_rate


def _in_order(params):
    """The parameters, one after another alike on all ranks."""
    if isinstance(params, mx.gluon.ParameterDict):
        return list(params.values())  # as they were made
    if isinstance(params, dict):
        return [params[name] for name in sorted(params)]
    return params


class DistributedTrainer(mx.gluon.Trainer):
    """A gluon.Trainer whose step() sums gradients over all ranks. Parameters of rank 0
    are everybody's from the first step on. They are numbered as they were made: gluon's
    names count the layers of a process, and may differ between ranks. Batches may be of
    unlike sizes: step() is one with the mean of the ranks' means."""

    _share = 1.0

    def __init__(
        self,
        params,
        optimizer,
        optimizer_params=None,
        compression=Compression.none,
        gradient_predivide_factor=1.0,
        prefix=None,
        num_groups=0,
    ):
        if num_groups:
            raise ValueError("num_groups: expected 0; what is fused is TAUT_RUN_FUSE's")
        if isinstance(optimizer, DistributedOptimizer):
            raise ValueError("expected a plain optimizer: the trainer sums the gradients")
        self._taut = _Gradients(compression, gradient_predivide_factor)
        super().__init__(_in_order(params), optimizer, optimizer_params, kvstore=None)

    def _check_contexts(self):
        contexts = super()._check_contexts()
        if len(contexts) != 1:
            raise ValueError("expected one device for each rank, found %s" % (contexts,))
        return contexts

    def _init_params(self):
        later = []
        for param in self._params_to_init:
            if param._deferred_init:
                later.append(param)
            else:
                broadcast_(param.list_data()[0], 0)
        self._params_to_init = later

    def step(self, batch_size, ignore_stale_grad=False):
        common = self._taut.common(batch_size)
        self._share = common / batch_size
        try:
            super().step(common, ignore_stale_grad)
        finally:
            self._share = 1.0

    def update(self, batch_size, ignore_stale_grad=False):
        """After allreduce_grads(), which knew no sizes: a step with the mean of samples."""
        sizes = _engine().job.allgather_object(batch_size)
        if any(size != batch_size for size in sizes):
            batch_size = sum(sizes) / len(sizes)
        super().update(batch_size, ignore_stale_grad)

    def _allreduce_grads(self):
        mine = [(i, p) for i, p in enumerate(self._params) if p.grad_req != "null"]
        self._taut.sum([i for i, _ in mine], [p.list_grad()[0] for _, p in mine], self._share)


# --- collectives ------------------------------------------------------------------------


def _settled(array):
    """The job, when nothing of the engine's changes or reads the array. (What waits so in
    MXNet's Python also takes its memory, which a kernel may have in an order of its own.)"""
    engine = _engine()
    engine.check()
    check_call(_LIB.MXNDArrayWaitToWrite(array.handle))
    return engine.job


def _like(tensor, values):
    """An array of the tensor's own kind: of mx.nd or, in jobs of npx.set_np(), of mx.np."""
    make = mx.np.array if isinstance(tensor, mx.np.ndarray) else mx.nd.array
    return make(values, dtype=tensor.dtype, ctx=tensor.context)


def _put(array, values):
    array[slice(None) if array.ndim else ()] = _like(array, values)
    array.wait_to_read()


def _reduced(tensor, op, before, after):
    job = _settled(tensor)
    array = tensor.asnumpy()
    scales = op is Average or before != 1.0 or after != 1.0
    if scales and not np.issubdtype(array.dtype, np.floating):
        raise TypeError("there is no %r and no factor of %s" % (op, array.dtype.name))
    scale = array.dtype.type
    if before != 1.0:
        array *= scale(before)
    job.allreduce(array, op.reduction)
    if op is Average:
        array /= scale(job.size)
    if after != 1.0:
        array *= scale(after)
    return array


def allreduce(
    tensor, average=None, name=None, priority=0, op=None, prescale_factor=1.0, postscale_factor=1.0
):
    """The mean of all ranks' tensors, or what op says, in a new array. Waits."""
    values = _reduced(tensor, _reductions.of(op, average), prescale_factor, postscale_factor)
    return _like(tensor, values)


def allreduce_(
    tensor, average=None, name=None, priority=0, op=None, prescale_factor=1.0, postscale_factor=1.0
):
    """The same, in place."""
    op = _reductions.of(op, average)
    _put(tensor, _reduced(tensor, op, prescale_factor, postscale_factor))
    return tensor


def allgather(tensor, name=None, priority=0):
    """All ranks' arrays, one after another; they may differ in their first size."""
    values = _settled(tensor).allgather(tensor.asnumpy())
    return _like(tensor, values)


def broadcast(tensor, root_rank, name=None, priority=0):
    values = _settled(tensor).broadcast(tensor.asnumpy(), root_rank)
    return _like(tensor, values)


def broadcast_(tensor, root_rank, name=None, priority=0):
    values = _settled(tensor).broadcast(tensor.asnumpy(), root_rank)
    _put(tensor, values)
    return tensor


def broadcast_object(obj, root_rank=0, name=None):
    """What root_rank gives, on every rank. It is pickled."""
    return _job.get().broadcast_object(obj, root_rank)


def allgather_object(obj, name=None):
    return _job.get().allgather_object(obj)


def barrier():
    """Until all ranks are here."""
    _job.get().barrier()


def _broadcast_when_made(param, root_rank):
    """Of a parameter whose shape the first forward pass finds."""
    make = param._init_impl

    def made(self, *arguments, **options):
        make(*arguments, **options)
        broadcast_(self.list_data()[0], root_rank)

    param._init_impl = types.MethodType(made, param)


def broadcast_parameters(params, root_rank=0, prefix=None):
    """params: of net.collect_params() or of module.get_params(). Each gets the value that
    it has on root_rank, at once or when it has one."""
    for param in _in_order(params):
        if not isinstance(param, mx.gluon.Parameter):
            broadcast_(param, root_rank)
        elif param._deferred_init:
            _broadcast_when_made(param, root_rank)
        else:
            for array in param.list_data():
                broadcast_(array, root_rank)
