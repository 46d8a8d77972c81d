# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader for `taut stalls`. Everything that calls DataLoader.__iter__ and
next() of what that gave is seen: loops, subclasses, Lightning, Accelerate, Trainer.

A phase has an iterator of its own, made by the job's loader itself (workers, collation,
pinning, seeds as the job has them); only which items it loads is chosen here."""

import functools
import sys

from . import _stalls_phases as phases
from ._stalls import watch

_OWNER = "_taut_stalls_loader"


def install(torch):
    module = sys.modules["torch.utils.data.dataloader"]
    _watch_optimizers()
    loader, iterator = module.DataLoader, module._BaseDataLoaderIter
    loader.__iter__ = _iter_of(loader.__iter__)
    iterator.__next__ = _next_of(iterator.__next__, torch)


def _watch_optimizers():
    def stepped(*_):
        watch.stepped()

    sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(stepped)


def _iter_of(original):
    @functools.wraps(original)
    def __iter__(self):
        if watch.is_taken(self) and not watch.is_off:
            watch.began()
            return watch.shell
        watch.began()
        iterator = original(self)
        setattr(iterator, _OWNER, self)
        return iterator

    return __iter__


def _next_of(original, torch):
    in_worker = torch.utils.data.get_worker_info

    @functools.wraps(original)
    def __next__(self):
        loader = getattr(self, _OWNER, None)
        if loader is None or watch.is_off or in_worker() is not None:
            return original(self)
        return watch.next(
            loader,
            torch.is_grad_enabled(),
            lambda: _take(loader, self, torch),
            lambda: original(self),
        )

    return __next__


def _take(loader, iterator, torch):
    """The iterator stays what the job holds; its workers end."""
    if watch.take(loader, lambda: _Source(loader, torch)):
        watch.shell = iterator
        _end(iterator)


def _end(iterator):
    shutdown = getattr(iterator, "_shutdown_workers", None)
    if shutdown:
        shutdown()


def _lend(loader):
    """A loader like it, but for the items: _index_sampler is ours to set."""

    class Lent(type(loader)):
        _index_sampler = ()

    lent = object.__new__(Lent)
    lent.__dict__.update(loader.__dict__)
    lent.__dict__["_iterator"] = None
    return lent


class _Source(phases.Source):
    loader = "torch"

    def __init__(self, loader, torch):
        self.torch, self.real, self.lent = torch, loader, _lend(loader)
        self.workers = loader.num_workers
        self.has_processes = self.workers > 0
        self.group = max(1, self.workers)
        self.depth = self.workers * (loader.prefetch_factor or 0)
        self.is_stream = isinstance(loader.dataset, torch.utils.data.IterableDataset)
        self.items = _length(loader.dataset)
        self.indices = self.iterator = None
        if self.is_stream:
            self.lent._index_sampler = loader._index_sampler
        else:
            self.order = phases.again_and_again(loader._index_sampler)

    def epoch_items(self, samples):
        """The sampler says it, not the set: it may take a part of that, or some twice. An
        item without a batch size may be a batch itself."""
        if self.is_stream:
            return -1
        sampler = self.real._index_sampler
        batches = _length(sampler)
        if type(sampler) is self.torch.utils.data.BatchSampler and not sampler.drop_last:
            return _length(sampler.sampler)
        return batches * samples if batches > 0 else -1

    # --- batches ------------------------------------------------------------------------

    def begin(self, n):
        if not self.is_stream:
            self.indices = [next(self.order) for _ in range(n)]
            self.lent._index_sampler = self.indices

    def open(self):
        self.iterator = self.lent._get_iterator()
        return self._batches(self.iterator)

    def _batches(self, iterator):
        if self.indices is None:
            for batch in iterator:
                yield batch, phases.samples_of(batch, self.real.batch_size or 1)
            return
        for index in self.indices:
            batch = next(iterator)
            if isinstance(index, (list, tuple)):
                yield batch, len(index)
            else:
                yield batch, phases.samples_of(batch)

    def close(self):
        iterator, self.iterator = self.iterator, None
        if iterator is not None:
            _end(iterator)

    def processes(self):
        return [worker.pid for worker in getattr(self.iterator, "_workers", ())]

    # --- whether one was there ----------------------------------------------------------

    def peek(self):
        """How many of those that wait for an earlier one are there; True: the next is."""
        at = self.iterator
        if at is None or not self.workers:
            return None
        try:
            if len(at._task_info.get(at._rcvd_idx, ())) == 2:
                return True
            return None if at._data_queue.empty() else self._early()
        except (AttributeError, NotImplementedError, OSError):
            return None

    def _early(self):
        return sum(len(info) == 2 for info in self.iterator._task_info.values())

    def taken(self, peeked):
        """One that is in the queue may be another than the next."""
        if peeked is None or self.iterator is None:
            return False
        return peeked is True or self._early() <= peeked

    # --- devices, and batches in place --------------------------------------------------

    def has_device(self):
        return device_of(self.torch) is not None

    def sync(self):
        device = device_of(self.torch)
        if device:
            device.synchronize()

    def keep(self, batch):
        return Kept(batch, self.torch)

    def half(self, batch, samples):
        return phases.half_of(batch, samples, self.torch.is_tensor)


def device_of(torch):
    """The module of the devices that the job uses; None: it computes on the host."""
    for name in ("cuda", "xpu"):
        module = getattr(torch, name, None)
        if module and module.is_initialized():
            return module
    return None


class Kept(phases.Kept):
    """A batch with copies of its tensors: who writes into one raises its version."""

    def __init__(self, batch, torch):
        self.torch = torch
        self.batch = phases.rebuilt(batch, self._leaf)
        self.tensors = [part for part in phases.parts(self.batch) if torch.is_tensor(part)]
        self.clean = [tensor.clone() for tensor in self.tensors]
        self._note()

    def _leaf(self, part):
        return part.detach() if self.torch.is_tensor(part) else part

    def _versions(self):
        return [0 if t.is_inference() else t._version for t in self.tensors]

    def _note(self):
        self.versions = self._versions()

    def give(self):
        return phases.rebuilt(self.batch, self._leaf)

    def is_written(self):
        return self.versions != self._versions()

    def restore(self):
        for tensor, clean in zip(self.tensors, self.clean):
            tensor.copy_(clean)
        self._note()


def _length(dataset):
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return -1
