# SPDX-License-Identifier: Apache-2.0
"""Times of DataLoaders: what the main thread waits for a batch, how long whoever
makes one takes, and what of that it was on a core, or read.

A worker is a process of its own. It learns of the window from its parent's file
(_window.py); it keeps the times of its last batches in memory and opens a log
only when there is a window. A batch that was made before the window and used in it counts."""

import functools
import inspect
import os
import sys
import threading
import time
import weakref
from collections import deque

from . import _imports, _log, _spent, _window
from ._process import process_name

_BATCHES_BEFORE = 64  # of a worker, that are kept until there is a window
_LOG_RECORDS = 8192
_ITERATORS = "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"


class Loader:
    """The side of the process that trains."""

    def __init__(self):
        self.job = None
        self.undo = []
        self.taken = weakref.WeakKeyDictionary()  # batches, by iterator
        self.meters = {}  # by thread
        self.batch = None, None  # when the last one was there, in which thread

    def watch_workers(self):
        """Workers get their times taken, and a window file to look at."""
        worker = sys.modules.get("torch.utils.data._utils.worker")
        loader = sys.modules.get("torch.utils.data.dataloader")
        loop = getattr(worker, "_worker_loop", None)
        many = getattr(loader, "_MultiProcessingDataLoaderIter", None)
        if loop is None or many is None:
            return
        names = list(inspect.signature(loop).parameters)
        if "index_queue" not in names or "data_queue" not in names:
            return
        worker._worker_loop = _timed_loop(loop, names)

    def watch_batches(self):
        """Outside of the window too, where a batch is worth a look at the clock."""
        module = sys.modules.get("torch.utils.data.dataloader")
        for name in _ITERATORS:
            cls = getattr(module, name, None)
            if hasattr(cls, "_next_data"):
                cls._next_data = _noted_next(cls._next_data, self)
                cls.__init__ = _noted_init(cls.__init__)
        for name in _imports.LOADERS:
            _imports.when_imported(name, self._watch_ours)

    def _watch_ours(self, module):
        module.Loader._take = _noted_next(module.Loader._take, self)

    # --- the window -------------------------------------------------------

    def begin(self, job, discard):
        self.job = job
        if not discard:
            self.taken.clear()
            self.watch_waits(job.log)

    def end(self, folder):
        while self.undo:
            cls, name, original, ours = self.undo.pop()
            if getattr(cls, name) is ours:
                setattr(cls, name, original)
        while self.meters:
            self.meters.popitem()[1].close()
        if folder and self.job.log and self.taken:
            self.tell(max(self.taken, key=self.taken.get))

    def tell(self, iterator):
        """Of that with most batches; one rank tells what holds for all."""
        _tell_dataset(self.job.log, iterator)
        loader = getattr(iterator, "_taut_loader", lambda: None)()
        if loader is not None and not (self.job.ranks and self.job.ranks[0]):
            _tell_probe(self.job.log, loader)

    def watch_waits(self, log):
        if not log:
            return
        module = sys.modules.get("torch.utils.data.dataloader")
        for name, way in zip(_ITERATORS, (self.wait, self.make)):
            cls = getattr(module, name, None)
            if hasattr(cls, "_next_data"):
                self.undo.append((cls, "_next_data") + _timed(cls, "_next_data", way, log))
        for name in _imports.LOADERS:
            ours = getattr(sys.modules.get(name), "Loader", None)
            if ours:
                self.undo.append((ours, "_take") + _timed(ours, "_take", self.wait_ours, log))

    def wait(self, log, original, iterator):
        """The batch that workers make."""
        start_ns = time.time_ns()
        data = original(iterator)
        end_ns = time.time_ns()
        lane = threading.get_native_id()
        number = _taken(iterator)
        log.span("wait for batch", _log.KIND_LOAD_WAIT, lane, start_ns, end_ns, number)
        self.count(iterator)
        return data

    def make(self, log, original, iterator):
        """The batch that this thread makes."""
        lane = threading.get_native_id()
        meter = self.meters.get(lane)
        if meter is None:
            meter = self.meters[lane] = _spent.Meter()
        start_ns, before = meter.begin()
        data = original(iterator)
        end_ns, after = meter.end()
        spent = _spent.load(before, after, _samples_of(iterator))
        log.load("wait for batch", _log.KIND_LOAD_WAIT, lane, start_ns, end_ns, 0, spent)
        self.count(iterator)
        return data

    def wait_ours(self, log, original, loader):
        """The batch that threads of Taut's loader make."""
        start_ns = time.time_ns()
        batch = original(loader)
        end_ns = time.time_ns()
        if batch is not None:  # the end of an epoch is none
            lane = threading.get_native_id()
            log.span("wait for batch", _log.KIND_LOAD_WAIT, lane, start_ns, end_ns, 0)
        return batch

    def count(self, iterator):
        self.taken[iterator] = self.taken.get(iterator, 0) + 1
        self.job.look()


def _noted_next(original, loader):
    clock, thread = time.perf_counter, threading.get_ident

    @functools.wraps(original)
    def noted(self):
        data = original(self)
        loader.batch = clock(), thread()
        return data

    return noted


def _noted_init(original):
    """An iterator knows its DataLoader, as long as that is there."""

    @functools.wraps(original)
    def noted(self, loader, *args, **kwargs):
        self._taut_loader = weakref.ref(loader)
        return original(self, loader, *args, **kwargs)

    return noted


def _timed(cls, name, way, log):
    original = getattr(cls, name)

    @functools.wraps(original)
    def timed(self):
        return way(log, original, self)

    setattr(cls, name, timed)
    return original, timed


def _samples_of(iterator):
    """Of a batch; -1: the job has a sampler of its own."""
    sampler = getattr(iterator, "_index_sampler", None)
    size = getattr(sampler, "batch_size", None if hasattr(sampler, "sampler") else 1)
    return size if isinstance(size, int) else -1


def _tell_dataset(log, iterator):
    """How many samples the dataset has, and how many of them are this rank's in
    an epoch, where PyTorch's own samplers know it."""
    try:
        found = _dataset_samples(iterator)
    except Exception:
        return
    for key, samples in zip(("loader.dataset_samples", "loader.epoch_samples"), found):
        log.fact(key, str(samples))


def _tell_probe(log, loader):
    try:
        from . import _loader_probe

        for key, text in _loader_probe.facts(loader):
            log.fact(key, text)
    except Exception:
        return


def _dataset_samples(iterator):
    data = sys.modules["torch.utils.data"]
    sampler = iterator._index_sampler
    if type(sampler) is data.BatchSampler:
        sampler = sampler.sampler
    if type(sampler) is data.DistributedSampler:
        return len(sampler.dataset), sampler.num_samples
    if type(sampler) is data.SequentialSampler:
        samples = len(sampler.data_source)
        return samples, samples
    if type(sampler) is data.RandomSampler and not sampler.replacement:
        return len(sampler.data_source), sampler.num_samples
    return ()


def _taken(iterator):
    """The number of the batch just taken, and one more: as its worker has it.
    0: there is no worker, or batches come in any order."""
    if not getattr(iterator, "_num_workers", 0) or not getattr(iterator, "_in_order", True):
        return 0
    return getattr(iterator, "_rcvd_idx", 0) & 0xFFFFFFFF


# --- in a worker ------------------------------------------------------------------


def _timed_loop(loop, names):
    @functools.wraps(loop)
    def _worker_loop(*args, **kwargs):
        times = None
        try:
            times = WorkerTimes()
            args = list(args)
            for name, wrap in (("index_queue", _Taking), ("data_queue", _Giving)):
                at = names.index(name)
                if at < len(args):
                    args[at] = wrap(args[at], times)
                elif name in kwargs:
                    kwargs[name] = wrap(kwargs[name], times)
        except Exception:
            pass
        try:
            return loop(*args, **kwargs)
        finally:
            if times:
                times.close()

    return _worker_loop


class _Queue:
    def __init__(self, queue, times):
        self._queue = queue
        self._times = times

    def __getattr__(self, name):
        return getattr(self._queue, name)


class _Taking(_Queue):
    def get(self, *args, **kwargs):
        try:
            task = self._queue.get(*args, **kwargs)
        except Exception:
            self._times.look()
            raise
        self._times.begin(task)
        return task


class _Giving(_Queue):
    def put(self, item, *args, **kwargs):
        self._times.made(item)
        return self._queue.put(item, *args, **kwargs)


class WorkerTimes:
    """Of the batches of this worker. Nothing in it raises."""

    def __init__(self):
        import multiprocessing

        parent = multiprocessing.parent_process()
        self.run = os.environ.get("TAUT_RECORD")
        self.parent = parent.pid if parent else os.getppid()
        self.window = None
        self.batches = deque(maxlen=_BATCHES_BEFORE)
        self.meter = _spent.Meter()
        self.started = None
        self.log = None
        self.is_done = not self.run

    def begin(self, task):
        """A task was taken: (number, indices), or something to be told."""
        self.look()
        self.started = None
        if self.is_done:
            return
        if isinstance(task, tuple) and len(task) == 2 and isinstance(task[0], int):
            samples = len(task[1]) if isinstance(task[1], (list, tuple)) else 1
            self.started = task[0], samples, *self.meter.begin()

    def made(self, item):
        if self.started is None or self.is_done:
            return
        (number, samples, start_ns, before), self.started = self.started, None
        if isinstance(item, tuple) and item and item[0] == number:
            end_ns, after = self.meter.end()
            self.batches.append((start_ns, end_ns, number, samples, before, after))
            self.look()

    def look(self):
        """Writes what belongs into a window, if there is one now."""
        if self.is_done:
            return
        try:
            self._look()
        except Exception:
            self.is_done = True

    def _look(self):
        if self.window is None:
            path = _window.path_of(self.run, self.parent)
            if not os.path.exists(path):
                return
            self.window = _window.Window(path)
        start_ns, end_ns, *ranks = self.window.get()
        if start_ns == 0:
            return
        if start_ns != end_ns:
            self.write(end_ns, [None if n < 0 else n for n in ranks])
        if end_ns:
            self.close()

    def write(self, end_ns, ranks):
        if not self.batches:
            return
        if self.log is None:
            self.open(ranks)
        lane = os.getpid()
        while self.batches:
            start, end, number, samples, before, after = self.batches.popleft()
            if not end_ns or start < end_ns:
                spent = _spent.load(before, after, samples)
                self.log.load("batch", _log.KIND_LOAD, lane, start, end, number + 1, spent)

    def open(self, ranks):
        folder = os.path.join(self.run, "rank%d" % (ranks[0] or 0))
        name = "loader-%d.tautlog" % os.getpid()
        if ranks[0] is None:
            folder = os.path.join(self.run, "processes")
            name = "loader-%s.tautlog" % process_name(os.getpid())
        path = os.path.join(folder, name)
        self.log = _log.Log(path, "loader", ranks, _LOG_RECORDS)
        self.log.lane(os.getpid(), "data loader worker")

    def close(self):
        """No window comes any more, or the process ends."""
        if not self.is_done:
            try:
                if self.window and self.window.get()[1] == 0:
                    self._look()
            except Exception:
                pass
        self.is_done = True
        self.meter.close()
        if self.log:
            self.log.close()
        self.log = None
        self.batches.clear()
