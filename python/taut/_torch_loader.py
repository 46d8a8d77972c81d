# SPDX-License-Identifier: Apache-2.0
"""Times of DataLoaders: what the main thread waits for a batch, and how long a
worker takes to make one.

A worker is a process of its own. It learns of the window from a small file
beside that of its parent, RUN/processes/.HOST-PID.window, which both map; it
keeps the times of its last batches in memory and opens a log only when there is
a window. A batch that was made before the window and used in it counts."""

import functools
import inspect
import mmap
import os
import struct
import sys
import threading
import time
from collections import deque

from . import _log
from ._process import host_name

_WINDOW = struct.Struct("<qqiii")  # from, to (0: not yet), rank, world, local
_BATCHES_BEFORE = 64  # of a worker, that are kept until there is a window
_LOG_RECORDS = 8192


def _window_path(run, pid):
    return os.path.join(run, "processes", ".%s-%d.window" % (host_name(), pid))


class Window:
    """The file, mapped."""

    def __init__(self, path, create=False):
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
        try:
            if create:
                os.ftruncate(fd, _WINDOW.size)
            self.map = mmap.mmap(fd, _WINDOW.size)
        finally:
            os.close(fd)
        self.path = path

    def get(self):
        return _WINDOW.unpack_from(self.map, 0)

    def set(self, start_ns, end_ns, ranks):
        ranks = [-1 if n is None else n for n in ranks or (None,) * 3]
        _WINDOW.pack_into(self.map, 0, start_ns, end_ns, *ranks)


class Loader:
    """The side of the process that trains."""

    def __init__(self):
        self.window = None
        self.job = None
        self.undo = []
        self.is_discarded = False
        self.start_ns = 0

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

    # --- the window -------------------------------------------------------

    def begin(self, job, discard):
        self.job = job
        self.is_discarded = discard
        if self.window is None:
            try:
                path = _window_path(job.run, job.pid)
                self.window = Window(path, create=True)
            except (OSError, ValueError):
                self.window = None
        if discard:
            return
        self.start_ns = time.time_ns()
        if self.window:
            self.window.set(self.start_ns, 0, job.ranks)
        self.watch_waits(job.log)

    def end(self, folder):
        while self.undo:
            cls, name, original, ours = self.undo.pop()
            if getattr(cls, name) is ours:
                setattr(cls, name, original)
        if self.window and not self.is_discarded:
            end_ns = time.time_ns() if folder else self.start_ns
            self.window.set(self.start_ns, end_ns, self.job.ranks)

    def close(self):
        """At the end of the process."""
        window, self.window = self.window, None
        if window:
            try:
                os.unlink(window.path)
            except OSError:
                pass

    def watch_waits(self, log):
        if not log:
            return
        module = sys.modules.get("torch.utils.data.dataloader")
        for name in ("_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"):
            cls = getattr(module, name, None)
            if hasattr(cls, "_next_data"):
                self.undo.append((cls, "_next_data") + _timed_next(cls, log))


def _timed_next(cls, log):
    original = cls._next_data

    @functools.wraps(original)
    def _next_data(self):
        start_ns = time.time_ns()
        data = original(self)
        end_ns = time.time_ns()
        log.span(
            "wait for batch",
            _log.KIND_LOAD_WAIT,
            threading.get_native_id(),
            start_ns,
            end_ns,
            _taken(self),
        )
        return data

    cls._next_data = _next_data
    return original, _next_data


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
    """Times of the batches of this worker. Nothing in it raises."""

    def __init__(self):
        import multiprocessing

        parent = multiprocessing.parent_process()
        self.run = os.environ.get("TAUT_RECORD")
        self.parent = parent.pid if parent else os.getppid()
        self.window = None
        self.batches = deque(maxlen=_BATCHES_BEFORE)
        self.started = None
        self.log = None
        self.is_done = not self.run

    def begin(self, task):
        """A task was taken: (number, indices), or something to be told."""
        self.look()
        self.started = None
        if isinstance(task, tuple) and len(task) == 2 and isinstance(task[0], int):
            self.started = task[0], time.time_ns()

    def made(self, item):
        if self.started is None or self.is_done:
            return
        (number, start_ns), self.started = self.started, None
        if isinstance(item, tuple) and item and item[0] == number:
            self.batches.append((start_ns, time.time_ns(), number))
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
            path = _window_path(self.run, self.parent)
            if not os.path.exists(path):
                return
            self.window = Window(path)
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
            start, end, number = self.batches.popleft()
            if not end_ns or start < end_ns:
                self.log.span("batch", _log.KIND_LOAD, lane, start, end, number + 1)

    def open(self, ranks):
        folder = os.path.join(self.run, "rank%d" % (ranks[0] or 0))
        name = "loader-%d.tautlog" % os.getpid()
        if ranks[0] is None:
            folder = os.path.join(self.run, "processes")
            name = "loader-%s-%d.tautlog" % (host_name(), os.getpid())
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
        if self.log:
            self.log.close()
        self.log = None
        self.batches.clear()
