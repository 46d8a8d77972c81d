# SPDX-License-Identifier: Apache-2.0
"""Collectives of one process group: taut_sync_start() and what ends it, by ctypes.

    store: all ranks can take part; where rank 0 is met; a secret of the group
    taut_comm_create(), taut_sync_create(): the same ranks, of whom each has both

The library's thread moves what is under way, and knows nothing of Python. Whoever
waits does so in the library, without the interpreter's lock. A thread of Python's is
made when somebody asks for a future: it waits as any other, and has ended before the
interpreter does."""

import atexit
import collections
import ctypes
import datetime
import hashlib
import json
import os
import queue
import stat
import threading
import time

from . import _coll, _launcher, _lib, _options, _place

NEEDS = _coll.NEEDS
WAIT_SECONDS = 0.2  # after which Python looks for signals
_WAIT_NS = int(WAIT_SECONDS * 1e9)
END_SECONDS = 5  # what is under way when a group ends has this long
EXIT_SECONDS = 1  # the same at the end of the process

ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST = range(4)  # enum taut_coll_verb

_pointer, _u64 = _lib.pointer, _lib.u64

_open = []  # channels of this process, oldest first


class Channel:
    """A communicator of the ranks that share a store, and its thread."""

    def __init__(self, store, rank, size, seconds):
        self.rank, self.size, self.seconds = rank, size, seconds
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.alive = collections.deque()  # works whose memory may be in use
        self.inside = set()  # threads that are in the library
        self.watchers = []  # the first for the job's threads, each other for the one before
        self.sync = self.comm = None
        self.failed = []
        self.is_leaving = self.is_closing = False
        said = _Said(store, rank, size)
        self.ordered = said.agree() == "on"
        address = said.address() if size > 1 else None
        with _place.Port(address if rank == 0 else None) as port:
            self._meet(said, port)
        said.forget()
        if not _open:
            atexit.register(_close_all)
        _open.append(self)

    def _meet(self, said, port):
        """Where rank 0 is met, and a secret of the group; it alone has both."""
        if self.size == 1:
            return self._connect(None, None)
        said.check(port.why)
        where, secret = said.gather([port.where, os.urandom(32).hex()])[0]
        if where is None:
            raise RuntimeError(_NO_GROUP + "rank 0 has given up")
        try:
            self._connect(where.encode(), said.mixed(secret).encode())
        except BaseException:
            said.take_back([None, None])
            raise

    def _connect(self, meet, secret):
        self.lib = _coll.library()
        self.comm, self.sync = _pointer(), _pointer()
        options = _coll.CommOptions(
            rank=self.rank, n_ranks=self.size, meet=meet, secret=secret
        )
        _lib.call(self.lib.taut_comm_create, ctypes.byref(options), ctypes.byref(self.comm))
        try:
            plain = ctypes.byref(_coll.SyncOptions())
            _lib.call(self.lib.taut_sync_create, self.comm, plain, ctypes.byref(self.sync))
        except _lib.Failed:
            self.lib.taut_comm_destroy(self.comm)
            raise

    # --- calls ---------------------------------------------------------------------

    def keep(self, work):
        """Memory of a call that is not over stays, whoever else drops it."""
        with self.lock:
            while self.alive and self.alive[0].settle(0):
                pass
            self.alive.append(work)

    def let_go(self, work):
        """With the lock. The library may have memory of what failed until the end."""
        if work in self.alive:
            self.alive.remove(work)
        if work.error is not None:
            self.failed.append(work)

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
                _coll.Call(verb, kind, input, output, count, reduction, root, 0, 0, 0, self.ordered)
            )
        run = _u64()
        me = self._enter()
        try:
            _lib.call(self.lib.taut_sync_start, self.sync, call, ctypes.byref(run))
        finally:
            self.inside.discard(me)
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
            _lib.call(self.lib.taut_sync_finish, self.sync, run, 0)  # for its line
            return True
        finally:
            self.inside.discard(me)

    def watch(self, work):
        """work.complete() is called when it is over. What a then() asks for has another
        thread than the one that is in that then(), which may wait for it there."""
        with self.lock:
            threads = [watcher.thread for watcher in self.watchers]
            me = threading.current_thread()
            place = threads.index(me) + 1 if me in threads else 0
            if place == len(threads):
                self.watchers.append(_Watcher())
            watcher = self.watchers[place]
        watcher.works.put(work)

    # --- the end ----------------------------------------------------------------------

    def close(self, seconds):
        """What is under way has some seconds; what is not over then fails, here and on
        the other ranks."""
        if self.pid != os.getpid():
            self._leave_to_parent()
            return
        with self.lock:
            if self.is_leaving:
                return
            self.is_leaving = True
        if self in _open:
            _open.remove(self)
        self._drain(time.monotonic() + seconds)
        self.is_closing = True
        for watcher in self.watchers:
            watcher.end()
        while self.inside - {threading.get_ident()}:
            time.sleep(0.001)
        self.lib.taut_sync_destroy(self.sync)
        self.lib.taut_comm_destroy(self.comm)
        self.alive.clear()
        self.failed.clear()

    def _leave_to_parent(self):
        """A child of fork() has no thread in the library."""
        self.is_leaving = self.is_closing = True
        if self in _open:
            _open.remove(self)

    def _drain(self, end):
        for work in list(self.alive):
            while work.is_begun and not work.settle(WAIT_SECONDS):
                if time.monotonic() >= end:
                    return


def _forked():
    """In the child, where who held a lock is not."""
    for channel in _open:
        channel.lock = threading.RLock()


os.register_at_fork(after_in_child=_forked)


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


_NO_GROUP = "taut: there is no such process group: "


class _Said:
    """What all ranks say by their store, one thing after the other. key: what only the
    user can read, where others can read the store; or None."""

    def __init__(self, store, rank, size):
        self.store, self._rank, self._size = store, rank, size
        self.n_gathered = 0
        self.key = None

    def rank(self):
        return self._rank

    def gather(self, mine):
        number = self.n_gathered
        self.n_gathered += 1
        self.store.set("%d.%d" % (number, self._rank), json.dumps(mine))
        keys = ["%d.%d" % (number, rank) for rank in range(self._size)]
        return [json.loads(self.store.get(key)) for key in keys]

    def refuse(self, why):
        """On all ranks. Rank 0, in whose process the store may be, goes last."""
        try:
            self.store.set("refused.%d" % self._rank, "1")
            if self._rank == 0:
                keys = ["refused.%d" % rank for rank in range(self._size)]
                self.store.wait(keys, datetime.timedelta(seconds=END_SECONDS))
        except RuntimeError:
            pass  # one has gone, with the store or without
        raise RuntimeError(_NO_GROUP + why)

    def check(self, why, *same):
        """Why this rank cannot take part, or nothing. same: (name, value) of what must
        be the same on all; no value is said where it differs."""
        said = self.gather([why, same])
        for rank, (words, _) in enumerate(said):
            if words:
                self.refuse("rank %d: %s" % (rank, words))
        for rank, (_, theirs) in enumerate(said):
            for (name, value), (_, first) in zip(theirs, said[0][1]):
                if value != first:
                    self.refuse("%s: rank %d has another than rank 0" % (name, rank))

    def agree(self):
        """TAUT_RUN_ORDERED of all ranks, which all can take part."""
        ordered, why = None, _why_not()
        try:
            ordered = _options.Options().ordered
            if self._size > 1 and _others_read(self.store):
                place = _launcher.Place(self._rank, self._size, None, None, "store")
                self.key = _launcher.secret(place)
        except ValueError as words:
            why = why or str(words)
        mark = self.key and hashlib.sha256(("mark " + self.key).encode()).hexdigest()
        self.check(why, ("TAUT_RUN_ORDERED", ordered), ("the user's secret", mark))
        return ordered

    def mixed(self, secret):
        """What the ranks meet with."""
        if self.key is None:
            return secret
        return hashlib.sha256(("%s %s" % (secret, self.key)).encode()).hexdigest()

    def take_back(self, instead):
        """What rank 0 said last, for those that have not read it."""
        try:
            if self._rank == 0:
                self.store.set("%d.0" % (self.n_gathered - 1), json.dumps(instead))
        except RuntimeError:
            pass

    def address(self):
        """Where rank 0 is met."""
        try:
            return _place.addresses(self, self.gather, self.store)[0]
        except ValueError as why:  # on all ranks
            return self.refuse(str(why))

    def forget(self):
        """All have read it; the secret need not stay."""
        try:
            for number in range(self.n_gathered):
                self.store.delete_key("%d.%d" % (number, self._rank))
        except (RuntimeError, NotImplementedError):
            pass  # a store that keeps what it has


def _others_read(store):
    """Whether it is a file, and other users can read that."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    path = getattr(store, "path", None)
    if path is None:
        return False
    try:
        path = os.path.realpath(path)
        if not stat.S_IMODE(os.stat(path).st_mode) & 0o044:
            return False
        while path != os.path.dirname(path):
            path = os.path.dirname(path)
            if not stat.S_IMODE(os.stat(path).st_mode) & 0o011:
                return False
    except OSError:
        pass
    return True


def _why_not():
    try:
        missing = [name for name in NEEDS if not hasattr(_lib.library(), name)]
    except OSError as why:
        return "%s: TAUT_LIB names libtaut.so" % why
    return "libtaut.so is older: it has no %s" % missing[0] if missing else ""
