# SPDX-License-Identifier: Apache-2.0
"""taut.load's Loader for `taut stalls`. A phase has a loader of its own with the same
options, but for the memory that it would share with other processes: what they keep would
hide storage. Which items it loads is the epoch it begins with."""

import copy
import functools
import sys

from . import _imports
from . import _stalls_phases as phases
from ._stalls import watch


_READS = 64  # items at a time, where the job does not say


def install(_):
    for name in _imports.LOADERS:
        _imports.when_imported(name, _install)


def _install(module):
    loader = module.Loader
    if not hasattr(loader.__iter__, "_taut_stalls"):
        loader.__iter__ = _iter_of(loader.__iter__)


def _iter_of(original):
    @functools.wraps(original)
    def __iter__(self):
        watch.began()
        return _Given(self, original)

    __iter__._taut_stalls = True
    return __iter__


def _torch():
    return sys.modules.get("torch")


class _Given:
    """An epoch, as the job takes it."""

    def __init__(self, loader, iterate):
        self.loader, self.iterate = loader, iterate
        self.batches = iter(()) if watch.is_taken(loader) else iterate(loader)

    def __iter__(self):
        return self

    def __next__(self):
        is_training = _torch().is_grad_enabled() if _torch() else True
        return watch.next(
            self.loader, is_training, self.take, lambda: next(self.batches)
        )

    def take(self):
        if watch.take(self.loader, lambda: _Source(self.loader, self.iterate)):
            self.batches = iter(())


def _lend(loader):
    """A loader like it, that shares nothing, and begins when it is told where."""
    lent = copy.copy(loader)
    lent._load = lent._pinned = lent._peers = None
    lent._options = options = type(loader._options).from_buffer_copy(loader._options)
    options.cache_bytes = options.share_bytes = 0
    options.wait = True
    if hasattr(options, "remote"):
        options.remote = None
    return lent


class _Source(phases.Source):
    loader = "taut"
    unit = "item"

    def __init__(self, loader, iterate):
        self.iterate, self.real, self.lent = iterate, loader, _lend(loader)
        self.depth = loader._options.depth - 1
        self.workers = loader.counts()["n_workers"]
        self.items = len(loader.set)
        self.epoch = self.next_epoch = 0

    def run_up(self):
        return self.depth + 2

    def ahead(self):
        """Reads go further than preparation."""
        options = self.lent._options
        return self.depth + 1 + (options.n_reads or _READS) // options.batch

    def begin(self, n):
        """Epochs that no round had yet."""
        self.epoch = self.next_epoch
        self.next_epoch += -(-n // max(1, len(self.real)))
        if self.real._sampler is not None:
            self.lent._sampler = list(self.real._sampler)

    def open(self):
        self.lent._open()
        self.lent.set_epoch(self.epoch)
        return self._batches()

    def _batches(self):
        while True:
            n = 0
            for batch in self.iterate(self.lent):
                n += 1
                yield batch, phases.samples_of(batch)
            if not n:
                return

    def close(self):
        self.lent.close()

    def has_device(self):
        return bool(self._device())

    def sync(self):
        device = self._device()
        if device:
            device.synchronize()

    def _device(self):
        from . import _stalls_torch

        return _torch() and _stalls_torch.device_of(_torch())

    def keep(self, batch):
        """A copy: the loader's memory is its own."""
        batch = phases.rebuilt(batch, self._copied)
        if _torch() and any(map(_torch().is_tensor, phases.parts(batch))):
            from . import _stalls_torch

            return _stalls_torch.Kept(batch, _torch())
        return phases.Kept(batch)

    def _copied(self, part):
        return self.real._arrays.copy(part) if hasattr(part, "shape") else part

    def half(self, batch, samples):
        return phases.half_of(batch, samples, lambda part: hasattr(part, "shape"))
