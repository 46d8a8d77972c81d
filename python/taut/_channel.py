# SPDX-License-Identifier: Apache-2.0
"""Collectives of one process group: taut_sync_start() and what ends it, by ctypes.

    rank k -- "k": ready, or why not ------> store     each rank
    rank 0 -- "meet": address and secret --> store     when all are ready
    taut_comm_create(), taut_sync_create()             on all ranks

The library's thread moves what is under way, and knows nothing of Python. Whoever
waits does so in the library, without the interpreter's lock. A thread of Python's is
made when somebody asks for a future: it waits as any other, and has ended before the
interpreter does."""

import atexit
import collections
import ctypes
import os
import queue
import threading
import time

from . import _lib, _options, _rounds, _sync

NEEDS = _sync.NEEDS + ("taut_sync_start", "taut_sync_finish")
WAIT_SECONDS = 0.2  # after which Python looks for signals
_WAIT_NS = int(WAIT_SECONDS * 1e9)
END_SECONDS = 5  # what is under way when a group ends has this long
EXIT_SECONDS = 1  # the same at the end of the process
KEPT = 8  # calls that may be over and not yet forgotten

ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST = range(4)  # enum taut_coll_verb


class _Call(ctypes.Structure):
    """struct taut_coll_call"""

    _fields_ = [
        ("verb", ctypes.c_int),
        ("type", ctypes.c_int),
        ("input", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("reduction", ctypes.c_int),
        ("root", ctypes.c_uint32),
        ("way", ctypes.c_int),
        ("pass_bytes", ctypes.c_uint64),
        ("passes_at_once", ctypes.c_uint32),
        ("ordered", ctypes.c_bool),
    ]


_pointer, _u64, _i64 = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64
_TABLE = _sync._TABLE + (
    ("taut_sync_start", ctypes.c_int, [_pointer] * 4),
    ("taut_sync_finish", ctypes.c_int, [_pointer, _u64, _i64, _pointer]),
)

_open = []  # channels of this process, oldest first


class Channel:
    """A communicator of the ranks that share a store, and its thread."""

    def __init__(self, store, rank, size, seconds):
        self.rank, self.size, self.seconds = rank, size, seconds
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.alive = collections.deque()  # works whose memory may be in use
        self.inside = set()  # threads that are in the library
        self.watcher = self.sync = self.comm = None
        self.failed = []  # works whose memory the library may have until the end
        self.is_leaving = self.is_closing = False
        self.ordered = _options.Options().ordered == "on"
        meet, secret = _agree(store, rank, size)
        self._connect(meet, secret)
        if rank == 0:
            _forget(store, size)
        if not _open:
            atexit.register(_close_all)
        _open.append(self)

    def _connect(self, meet, secret):
        self.lib = _lib.declare(_TABLE)
        error, self.comm, self.sync = _lib.Error(), _pointer(), _pointer()
        options = _sync._CommOptions(
            rank=self.rank, n_ranks=self.size, meet=meet, secret=secret
        )
        status = self.lib.taut_comm_create(
            ctypes.byref(options), ctypes.byref(self.comm), ctypes.byref(error)
        )
        _lib.check(status, error)
        status = self.lib.taut_sync_create(
            self.comm, ctypes.byref(_sync._Options()), ctypes.byref(self.sync), ctypes.byref(error)
        )
        if status != _lib.OK:
            self.lib.taut_comm_destroy(self.comm)
        _lib.check(status, error)

    # --- calls ---------------------------------------------------------------------

    def keep(self, work):
        """Memory of a call that is not over stays, whoever else drops it."""
        with self.lock:
            alive = self.alive
            while alive and alive[0].is_over:
                alive.popleft()
            if len(alive) > KEPT:
                alive[0].settle(0)
            alive.append(work)

    def _enter(self):
        """While a thread is in the library, nothing there is freed."""
        me = threading.get_ident()
        self.inside.add(me)
        if self.is_closing:
            self.inside.discard(me)
            raise _lib.Failed(_lib.EIO, "the process group was destroyed")
        return me

    def start(self, verb=0, kind=0, input=0, output=0, count=0, reduction=0, root=0):
        """Addresses and elements; without elements, a barrier. The run's number."""
        call = None
        if count:
            call = ctypes.byref(
                _Call(verb, kind, input, output, count, reduction, root, 0, 0, 0, self.ordered)
            )
        error, run = _lib.Error(), _u64()
        me = self._enter()
        try:
            status = self.lib.taut_sync_start(
                self.sync, call, ctypes.byref(run), ctypes.byref(error)
            )
        finally:
            self.inside.discard(me)
        _lib.check(status, error)
        return run.value

    def finish(self, run, timeout_ns):
        """Whether the run is over, well; not later than after WAIT_SECONDS. Failed: it
        will never be."""
        me = self._enter()
        try:
            status = self.lib.taut_sync_finish(self.sync, run, timeout_ns, None)
            if status == _lib.OK:
                return True
            if status == _lib.EAGAIN:
                return False
            error = _lib.Error()
            self.lib.taut_sync_finish(self.sync, run, 0, ctypes.byref(error))
        finally:
            self.inside.discard(me)
        _lib.check(status, error)

    def watch(self, work):
        """work.complete() is called when it is over."""
        with self.lock:
            if self.watcher is None:
                self.watcher = _Watcher()
        self.watcher.works.put(work)

    # --- the end ----------------------------------------------------------------------

    def close(self, seconds):
        """What is under way has some seconds; what is not over then fails, here and on
        the other ranks."""
        with self.lock:
            if self.is_leaving:
                return
            self.is_leaving = True
        if self in _open:
            _open.remove(self)
        if self.pid != os.getpid():
            self.is_closing = True  # a child of fork() has no thread in the library
            return
        self._drain(time.monotonic() + seconds)
        self.is_closing = True
        if self.watcher:
            self.watcher.end()
        while self.inside - {threading.get_ident()}:
            time.sleep(0.001)
        self.lib.taut_sync_destroy(self.sync)
        self.lib.taut_comm_destroy(self.comm)
        self.alive.clear()
        self.failed.clear()

    def _drain(self, end):
        for work in list(self.alive):
            while not work.settle(WAIT_SECONDS):
                if time.monotonic() >= end:
                    return


class _Watcher:
    """A thread that completes works whose futures somebody asked for, in the order in
    which they did. It has no reference to a channel."""

    def __init__(self):
        self.works = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="taut futures", daemon=True)
        self.thread.start()

    def _run(self):
        work = self.works.get()
        while work is not None:
            work.complete()
            work = None  # its memory must not wait for the next
            work = self.works.get()

    def end(self):
        self.works.put(None)
        if self.thread is threading.current_thread():
            return
        self.thread.join()
        while not self.works.empty():
            (self.works.get() or self).complete()

    def complete(self):
        pass


def _close_all():
    """Before the interpreter ends: no thread of Python's is in the library then, and
    the other ranks know."""
    for channel in reversed(_open[:]):
        channel.close(EXIT_SECONDS)


# --- how ranks meet --------------------------------------------------------------------


def _why_not():
    try:
        missing = [name for name in NEEDS if not hasattr(_lib.library(), name)]
    except OSError as why:
        return "%s: TAUT_LIB names libtaut.so" % why
    return "libtaut.so is older: it has no %s" % missing[0] if missing else ""


def _agree(store, rank, size):
    """Where rank 0 is met, and a secret of the group. RuntimeError, on all ranks: one
    of them cannot take part."""
    why = _why_not()
    if size == 1:
        said = ["!rank 0: " + why if why else "alone"]
    elif rank == 0:
        said = [_rank_0_says(store, size, why)]
        store.set("meet", said[0])
    else:
        store.set(str(rank), "!rank %d: %s" % (rank, why) if why else "ready")
        said = [store.get("meet").decode()]
    if said[0].startswith("!"):
        raise RuntimeError("taut: there is no such process group: " + said[0][1:])
    meet, _, secret = said[0].encode().partition(b" ")
    return meet, secret


def _rank_0_says(store, size, why):
    others = [store.get(str(rank)).decode() for rank in range(1, size)]
    faults = ["!rank 0: " + why] if why else []
    faults += [text for text in others if text.startswith("!")]
    if faults:
        return faults[0]
    master = os.environ.get("MASTER_ADDR") or "192.0.2.1"  # the interface to any other host
    try:
        address = _rounds.own_address(master)
        return "%s:%d %s" % (address, _sync._free_port(), os.urandom(32).hex())
    except OSError as why:
        return "!rank 0 cannot be met: %s" % why


def _forget(store, size):
    """All have read it; the secret need not stay."""
    try:
        for key in ["meet"] + [str(rank) for rank in range(1, size)]:
            if size > 1:
                store.delete_key(key)
    except (RuntimeError, NotImplementedError):
        pass  # a store that keeps what it has
