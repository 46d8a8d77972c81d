# SPDX-License-Identifier: Apache-2.0
"""This process's part of a job: what tensorflow.py and mxnet.py share. One communicator,
and over it the sums of gradients; arrays are NumPy's, or addresses.

Tasks, one for each gradient, are numbered in the order in which they are declared,
which must be the same on all ranks. Some more may be declared at any time at which
nothing is under way: the sums are then opened anew."""

import atexit
import hashlib
import os
import pickle
import sys
import threading
import zlib

import numpy as np

from . import _clocks, _coll, _job_plan, _job_server, _launcher, _lib, _options

_started = []  # the Job of this process, at most one


class Job:
    def __init__(self, place, lost_after, framework):
        if not _lib.has(*_coll.NEEDS):
            raise RuntimeError("there is no libtaut: TAUT_LIB names it")
        _options.was_seen()
        self.plan = _job_plan.begin(framework, place)
        options = _options.Options()
        _job_server.check(options)
        self.options = options
        self.limits = options.limits(options.order)
        self.patience = _coll.Patience(place.rank, options.say_after)
        self.rank, self.size, self.pid = place.rank, place.size, os.getpid()
        self.lock = threading.RLock()
        self.rows = []  # of each task: kind, count, priority, factor
        self.joined = []  # of each task: whether it goes with the one before it
        self.kept = {}  # memory of tasks that are under way
        self.sync = None  # all collectives
        self.sums = None  # of gradients: the same, or by servers
        self.meet, self.lost_after_ns = place.meet, int(lost_after * 1e9)
        self.comm = _coll.Comm(
            place.rank, place.size, place.meet, _launcher.secret(place), self.lost_after_ns
        )
        self.before_close = []  # called first
        try:
            self.sync = self.sums = self._new_sync()
            self.local_rank, self.local_size = self._local(place)
            self._check_alike()
        except BaseException:
            self.close()
            raise

    def _local(self, place):
        """The rank among those of this host, and their number."""
        if place.local_rank is not None and place.local_size is not None:
            return place.local_rank, place.local_size
        name = hashlib.sha256(_clocks._identity().encode()).digest()[:8]
        hosts = self.allgather(np.frombuffer(name, np.int64))
        mine = hosts == hosts[self.rank]
        return int(mine[: self.rank].sum()), int(mine.sum())

    def _check_alike(self):
        """Ranks that want other sums would wait for each other in vain. ValueError, on
        all of them."""
        said = self.allgather_object(vars(self.options))
        for rank, theirs in enumerate(said):
            names = [name for name in said[0] if theirs.get(name) != said[0][name]]
            if names:
                raise ValueError(
                    "rank %d has other options than rank 0: %s"
                    % (rank, ", ".join("TAUT_RUN_" + name.upper() for name in names))
                )

    def _mine(self):
        if os.getpid() != self.pid:
            raise RuntimeError("this process was forked: the job is its parent's")
        sync = self.sync
        if sync is None or not sync.is_open():
            raise RuntimeError("the job is over")
        return sync

    # --- gradients ----------------------------------------------------------------------

    def declare(self, rows, again=()):
        """rows: (kind, count, priority, factor); their tasks. At the same place of the
        program on every rank, nothing under way. again: those of gradients that another
        row has, too: the program may use the one or the other."""
        with self.lock:
            sync = self._mine()
            if self.kept:
                raise RuntimeError("gradients are declared while others are under way")
            if sync.running:
                raise RuntimeError("gradients are declared while a collective is under way")
            first = len(self.rows)
            self.rows.extend(rows)
            # Those of one declaration are asked for together; others never wait for them.
            sizes = (count * _coll.BYTES[kind] for kind, count, *_ in rows)
            self.joined += _options.joining(sizes, self.limits.groups)
            self.plan.declared(row for i, row in enumerate(rows) if i not in again)
            if self.options.engine == "server" and self.size > 1:
                self.sums = _job_server.open_sums(self, self.options)
            else:
                self._open_sync(sync)
            return list(range(first, len(self.rows)))

    def _new_sync(self):
        return _coll.Sync(self.comm, self.limits, self.options.compress, self.patience)

    def check_whole(self, tasks):
        """That no task of these has to wait for another of its group, which the program
        does not give now. ValueError."""
        if not self.limits.groups:
            return
        given = set(tasks)
        for task in range(1, len(self.rows)):
            if self.joined[task] and (task in given) != (task - 1 in given):
                raise ValueError(
                    "TAUT_RUN_FUSE: gradients %d and %d go together, and this step has one of "
                    "them alone" % (task - 1, task)
                )

    def _open_sync(self, sync):
        sync.close()  # stays ours: what fails now is the end of the job
        # What a rank sends over the new one must not come to another's old one.
        self.comm.barrier()
        sync = self._new_sync()
        self.sync = self.sums = sync
        for row, goes_along in zip(self.rows, self.joined):
            sync.declare(*row)
            if goes_along:
                sync.join()

    def _my_sums(self):
        self._mine()
        return self.sums

    def ready(self, task, address, memory):
        """memory is kept until the task is done: what is at address is its own."""
        sums = self._my_sums()
        why = self.plan.begins(task, self.rows[task])
        if why:
            self.fail(why)
            raise RuntimeError(why)
        with self.lock:
            is_open = task in self.kept
            if not is_open:
                self.kept[task] = memory
        if is_open:  # another step's part would be added to the others'
            why = "gradient %d of rank %d is there again, and its last sum was not taken" % (
                task,
                self.rank,
            )
            self.fail(why + ": a step was broken off")
            raise RuntimeError(why)
        sums.ready(task, address)

    def wait(self, task):
        """Until it is done. What was given as memory."""
        self._my_sums().wait(task)
        return self.done(task)

    def done(self, task):
        with self.lock:
            return self.kept.pop(task)

    def next(self, seconds):
        return self._my_sums().next(seconds)

    def fail(self, why):
        """At any moment: the others hear it."""
        for its in {id(its): its for its in (self.sums, self.sync) if its}.values():
            its.fail(why)

    # --- other collectives ------------------------------------------------------------------
    # Arrays are contiguous, and changed in place where nothing else is said.

    def allreduce(self, array, reduction="sum"):
        kind = array.dtype.name
        if kind not in _coll.TYPES:
            raise TypeError("there are no sums of %s" % kind)
        if array.size:
            self._mine().run(
                _coll.ALLREDUCE, kind, array.ctypes.data, array, array.size, reduction
            )
        return array

    def broadcast(self, array, root):
        _check_bytes(array, "broadcast")
        self._check_root(root)
        if array.nbytes:
            self._mine().run(
                _coll.BROADCAST, "uint8", array.ctypes.data, array, array.nbytes, root=root
            )
        return array

    def allgather(self, array):
        """All ranks' arrays, one after another; they differ in their first dimension
        at most."""
        array = np.ascontiguousarray(array)
        _check_bytes(array, "allgather")
        if array.ndim == 0:
            raise ValueError("expected at least one dimension")
        told = np.zeros((2, self.size), np.int64)
        like = "%s %r" % (array.dtype.name, array.shape[1:])
        told[0, self.rank], told[1, self.rank] = len(array), zlib.crc32(like.encode())
        self.allreduce(told)
        for rank in range(self.size):
            if told[1, rank] != told[1, 0]:
                raise ValueError(
                    "rank %d gathers elements of another type or shape than rank 0" % rank
                )
        row = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
        most = int(told[0].max()) * row
        blocks = np.zeros((self.size, most), np.uint8)
        blocks[self.rank, : array.nbytes] = array.reshape(-1).view(np.uint8)
        if most:
            self._mine().run(
                _coll.ALLGATHER, "uint8", blocks.ctypes.data, blocks, blocks.size
            )
        parts = [blocks[rank, : int(told[0, rank]) * row] for rank in range(self.size)]
        flat = np.concatenate(parts).view(array.dtype)
        return flat.reshape((int(told[0].sum()),) + array.shape[1:])

    def broadcast_object(self, value, root):
        self._check_root(root)
        text = pickle.dumps(value) if self.rank == root else b""
        size = np.array([len(text)], np.int64)
        self.broadcast(size, root)
        data = np.zeros(int(size[0]), np.uint8)
        if self.rank == root:
            data[:] = np.frombuffer(text, np.uint8)
        self.broadcast(data, root)
        return value if self.rank == root else pickle.loads(data.tobytes())

    def allgather_object(self, value):
        data = np.frombuffer(pickle.dumps(value), np.uint8)
        sizes = self.allgather(np.array([len(data)], np.int64))
        ends = np.cumsum(sizes)
        everything = self.allgather(data)
        return [
            pickle.loads(everything[end - size : end].tobytes())
            for end, size in zip(ends, sizes)
        ]

    def barrier(self):
        self.allreduce(np.zeros(1, np.int32))

    def _check_root(self, root):
        if not 0 <= root < self.size:
            raise ValueError("there is no rank %r of %d" % (root, self.size))

    # --- the end ------------------------------------------------------------------------------

    def close(self):
        """At any moment; the others hear of what they will wait for in vain."""
        if os.getpid() != self.pid:
            return
        for call in getattr(self, "before_close", ()):
            call()
        self.plan.ends()
        if self.sums and self.sums is not self.sync:
            self.sums.close()
        if self.sync:
            self.sync.close()
        with self.lock:  # another thread may be about to open new sums
            sync, self.sync = self.sync, None
            if sync:
                sync.close()
            self.comm.close()


def _check_bytes(array, verb):
    """That an element is its bytes, on every rank as many: addresses of Python's are of
    one process, and texts of NumPy's are as long as the longest."""
    if array.dtype.hasobject or array.dtype.kind in "SU":
        raise TypeError("there is no %s of strings: %s_object() has it" % (verb, verb))


def start(lost_after, framework):
    """The Job of this process, made if there is none."""
    if not _started or _started[0].sync is None:
        _started[:] = [Job(_launcher.find(), lost_after, framework)]
        atexit.register(_at_exit, _started[0])
    return _started[0]


def get():
    if not _started or _started[0].sync is None:
        raise RuntimeError("init() was not called, or shutdown() was")
    return _started[0]


def has_started():
    return bool(_started) and _started[0].sync is not None


def rank():
    return get().rank


def size():
    return get().size


def local_rank():
    """Among the ranks of this host."""
    return get().local_rank


def local_size():
    return get().local_size


def counts():
    """What was summed, as a dict; of the gradients known now."""
    return get().sums.counts()


def stop():
    if _started:
        job = _started.pop()
        atexit.unregister(_at_exit)
        job.close()


def _at_exit(job):
    """Nobody called shutdown(). A job that ends by an exception says so."""
    if job.sync and job.pid == os.getpid() and getattr(sys, "last_value", None) is not None:
        job.fail("rank %d ended by %s" % (job.rank, type(sys.last_value).__name__))
    job.close()
