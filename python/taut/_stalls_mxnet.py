# SPDX-License-Identifier: Apache-2.0
"""MXNet for `taut stalls`: loops over a DataIter (Module.fit has one) and over gluon's
DataLoader. Of the latter, items are chosen; an iterator gives what it gives after reset(),
which is the same again only if it does not shuffle.

Who calls next() of an iterator by hand is not seen. Computation is asked for and not waited
for, on the host too: so at both ends of what is measured all of it is."""

import copy
import functools

from . import _stalls_phases as phases
from ._stalls import watch
from ._stalls_measured import cores


def install(mxnet):
    _watch_updates(mxnet.gluon.Trainer, "step")
    _watch_updates(mxnet.mod.Module, "update")
    _install(mxnet.io.DataIter, functools.partial(_IterSource, mxnet))
    if hasattr(mxnet.gluon.data.DataLoader, "_prefetch_iter"):
        _install(mxnet.gluon.data.DataLoader, functools.partial(_LoaderSource, mxnet))


def _watch_updates(cls, name):
    original = getattr(cls, name)

    @functools.wraps(original)
    def update(*args, **kwargs):
        watch.steps += 1
        return original(*args, **kwargs)

    setattr(cls, name, update)


def _install(cls, make_source):
    original = cls.__iter__

    @functools.wraps(original)
    def __iter__(self):
        watch.began()
        is_taken = watch.is_taken(self)
        return _Given(self, None if is_taken else original(self), make_source)

    cls.__iter__ = __iter__


class _Given:
    """An epoch, as the job takes it."""

    def __init__(self, loader, batches, make_source):
        self._loader, self._batches, self._make = loader, batches, make_source

    def __iter__(self):
        return self

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def __next__(self):
        return watch.next(self._loader, True, self._take, lambda: next(self._batches))

    next = __next__

    def _take(self):
        is_taken = watch.take(self._loader, lambda: self._make(self._loader))
        if is_taken and hasattr(self._batches, "close"):
            self._batches.close()


class _Source(phases.Source):
    loader = "mxnet"

    def __init__(self, mxnet):
        self.mxnet = mxnet

    def ahead(self):
        return self.depth + 1  # one more is asked for before one is taken

    def has_device(self):
        return self.mxnet.context.num_gpus() > 0

    def sync(self):
        self.mxnet.nd.waitall()

    def is_array(self, part):
        return isinstance(part, self.mxnet.nd.NDArray)

    def copied(self, part):
        return part.copy() if self.is_array(part) else part

    def half(self, batch, samples):
        return phases.half_of(batch, samples, self.is_array)


class _IterSource(_Source):
    """Of those made in C++, threads prepare. Memory of a batch is the iterator's."""

    unit = "item"
    depth = 2

    def __init__(self, mxnet, iterator):
        super().__init__(mxnet)
        self.iterator = iterator
        is_native = isinstance(iterator, mxnet.io.MXDataIter)
        self.workers, self.depth = (cores(), self.depth) if is_native else (0, 0)

    def open(self):
        self.iterator.reset()
        return self._batches()

    def _batches(self):
        while True:
            try:
                batch = self.iterator.next()
            except StopIteration:
                return
            yield batch, int(batch.data[0].shape[0]) - (batch.pad or 0)

    def keep(self, batch):
        return phases.Kept(self._changed(batch, self.copied))

    def half(self, batch, samples):
        n = samples // 2
        return self._changed(batch, lambda part: part[:n])

    def _changed(self, batch, change):
        new = copy.copy(batch)
        new.data, new.label = (
            [change(part) for part in found or ()] for found in (batch.data, batch.label)
        )
        new.pad = 0
        return new


class _LoaderSource(_Source):
    def __init__(self, mxnet, loader):
        super().__init__(mxnet)
        self.real, self.lent = loader, copy.copy(loader)  # kept: its end would end the pool
        self.workers = loader._num_workers
        self.group = max(1, self.workers)
        self.has_processes = self.workers > 0 and not loader._thread_pool
        self.depth = loader._prefetch if self.workers else 0
        self.items = len(loader._dataset)
        self.order = phases.again_and_again(loader._batch_sampler)
        self.indices = self.iterator = None

    def begin(self, n):
        self.indices = [next(self.order) for _ in range(n)]
        self.lent._batch_sampler = self.indices

    def open(self):
        self.iterator = self.lent._prefetch_iter()
        return self._batches(self.iterator)

    def _batches(self, iterator):
        for index in self.indices:
            yield next(iterator), len(index)

    def close(self):
        """The workers stay; what they were asked for is done before the next phase."""
        iterator, self.iterator = self.iterator, None
        for result in getattr(iterator, "_data_buffer", {}).values():
            result.wait()

    def processes(self):
        pool = self.real._worker_pool._pool if self.has_processes else ()
        return [worker.pid for worker in pool]

    def peek(self):
        at = self.iterator
        if at is None or not self.workers:
            return None
        result = at._data_buffer.get(at._rcvd_idx)
        return True if result is not None and result.ready() else None

    def keep(self, batch):
        return phases.Kept(phases.rebuilt(batch, self.copied))
