# SPDX-License-Identifier: Apache-2.0
"""include/taut/coll.h and include/taut/sync.h by ctypes, for arrays of any framework:
memory is given by its address. Calls release the GIL. The structures and the table
here are those of all modules: a foreign function has one declaration in a process."""

import contextlib
import ctypes
import threading
import time

from . import _lib, _options, _sched

WAIT_NS = 200_000_000  # after which Python looks for signals
ALLREDUCE, ALLGATHER, BROADCAST = 0, 2, 3  # enum taut_coll_verb
VERBS = {ALLREDUCE: "an allreduce", ALLGATHER: "an allgather", BROADCAST: "a broadcast"}
REDUCTIONS = {"sum": 0, "product": 1, "min": 2, "max": 3}
TYPES = {  # enum taut_type, by what NumPy calls them
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "bfloat16": 3,
    "int8": 4,
    "uint8": 5,
    "int32": 6,
    "int64": 7,
    "uint64": 8,
}
BYTES = {  # of an element
    "float32": 4,
    "float64": 8,
    "float16": 2,
    "bfloat16": 2,
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "int64": 8,
    "uint64": 8,
}
MXINT8 = 9  # of enum taut_type: blocks of numbers, for the wire alone
# As what float32 is summed, by the words of TAUT_RUN_COMPRESS: the type, how many of its
# numbers go together, and in how many bytes.
WIRES = {
    "none": (TYPES["float32"], 1, 4),
    "fp16": (TYPES["float16"], 1, 2),
    "bf16": (TYPES["bfloat16"], 1, 2),
    "mxint8": (MXINT8, 32, 33),
}
FLOATS = ("float32", "float64", "float16", "bfloat16")

_pointer, _u32, _u64, _i64, _error = _lib.pointer, _lib.u32, _lib.u64, _lib.i64, _lib.error


class CommOptions(ctypes.Structure):
    """struct taut_comm_options"""

    _fields_ = [
        ("rank", _u32),
        ("n_ranks", _u32),
        ("meet", ctypes.c_char_p),
        ("secret", ctypes.c_char_p),
        ("engine", ctypes.c_char_p),
        ("table", ctypes.c_char_p),
        ("meet_within_ns", _i64),
        ("lost_after_ns", _i64),
        ("call_within_ns", _i64),
    ]


class SyncOptions(ctypes.Structure):
    """struct taut_sync_options"""

    _fields_ = [
        ("order", ctypes.c_int),
        ("piece_bytes", _u64),
        ("credit_bytes", _u64),
        ("fuse_bytes", _u64),
        ("halves", ctypes.c_bool),
        ("ordered", ctypes.c_bool),
        ("wire", ctypes.c_int),
    ]


class Call(ctypes.Structure):
    """struct taut_coll_call"""

    _fields_ = [
        ("verb", ctypes.c_int),
        ("type", ctypes.c_int),
        ("input", _pointer),
        ("output", _pointer),
        ("count", _u64),
        ("reduction", ctypes.c_int),
        ("root", _u32),
        ("way", ctypes.c_int),
        ("pass_bytes", _u64),
        ("passes_at_once", _u32),
        ("ordered", ctypes.c_bool),
    ]


class Counts(ctypes.Structure):
    """struct taut_sync_counts"""

    _fields_ = [
        ("sched", _sched.Counts),
        ("busy_ns", _i64),
        ("waited_ns", _i64),
        ("bytes", _u64),
        ("messages", _u64),
        ("copied_bytes", _u64),
        ("sleeps", _u64),
        ("wakes", _u64),
        ("cast_bytes", _u64),
    ]


class Piece(ctypes.Structure):
    """struct taut_sync_piece"""

    _fields_ = [
        ("message", _u64),
        ("task", _u32),
        ("first_byte", _u64),
        ("bytes", _u64),
        ("start_ns", _i64),
        ("end_ns", _i64),
    ]


class Times(ctypes.Structure):
    """struct taut_sync_times"""

    _fields_ = [
        ("forward_ns", _i64),
        ("backward_ns", _i64),
        ("update_ns", _i64),
        ("communication_ns", _i64),
        ("exposed_ns", _i64),
        ("window_ns", _i64),
    ]


class Bound(ctypes.Structure):
    """struct taut_sync_bound"""

    _fields_ = [
        ("overlapped_ns", _i64),
        ("crossed_ns", _i64),
        ("most_gain", ctypes.c_double),
    ]


class Demand(ctypes.Structure):
    """struct taut_sync_demand"""

    _fields_ = [
        ("communication_ns", _i64),
        ("update_ns", _i64),
        ("need_ns", _i64),
        ("ready_ns", _i64),
    ]


class Window(ctypes.Structure):
    """struct taut_sync_window"""

    _fields_ = [
        ("bound_ns", _i64),
        ("ready_ns", _i64),
        ("due_ns", _i64),
        ("communication_ns", _i64),
    ]


_status, _made = ctypes.c_int, ctypes.POINTER(_pointer)
TABLE = (
    ("taut_comm_create", _status, [ctypes.POINTER(CommOptions), _made, _error]),
    ("taut_comm_destroy", None, [_pointer]),
    ("taut_comm_engine", ctypes.c_char_p, [_pointer]),
    ("taut_comm_barrier", _status, [_pointer, _error]),
    ("taut_sync_create", _status, [_pointer, ctypes.POINTER(SyncOptions), _made, _error]),
    ("taut_sync_destroy", None, [_pointer]),
    (
        "taut_sync_declare",
        _status,
        [_pointer, ctypes.c_int, _u64, _i64, ctypes.c_double]
        + [ctypes.POINTER(_u32), _error],
    ),
    ("taut_sync_join", _status, [_pointer, _error]),
    ("taut_sync_ready", _status, [_pointer, _u32, _pointer, _error]),
    ("taut_sync_ready_more", _status, [_pointer, _u32, _pointer, _error]),
    ("taut_sync_wait", _status, [_pointer, _u32, _i64, _error]),
    ("taut_sync_next", _status, [_pointer, _i64, ctypes.POINTER(_u32), _error]),
    ("taut_sync_ready_part", _status, [_pointer, _u32, _pointer, _u64, _error]),
    ("taut_sync_tune", _status, [_pointer, _u64, _u64, _u64, _error]),
    ("taut_sync_carry", _status, [_pointer, ctypes.c_int, _u64, _u32, _error]),
    (
        "taut_sync_start",
        _status,
        [_pointer, ctypes.POINTER(Call), ctypes.POINTER(_u64), _error],
    ),
    ("taut_sync_finish", _status, [_pointer, _u64, _i64, _error]),
    ("taut_sync_fail", None, [_pointer, ctypes.c_int, ctypes.c_char_p]),
    ("taut_sync_counts", None, [_pointer, ctypes.POINTER(Counts)]),
    ("taut_sync_watch", _status, [_pointer, _u32, _error]),
    ("taut_sync_watched", _u32, [_pointer, ctypes.POINTER(Piece), _u32]),
    ("taut_sync_bound", Bound, [ctypes.POINTER(Times)]),
    ("taut_sync_window", Window, [ctypes.POINTER(Demand), ctypes.c_size_t]),
    ("taut_sync_piece_bytes", _u64, [_u64, _i64]),
    ("taut_sync_takes_rows", ctypes.c_bool, [_u64, _u64]),
)
NEEDS = tuple(name for name, _, _ in TABLE)


def library():
    return _lib.declare(TABLE)


def sync_options(limits, compress="none"):
    """limits: _options.Limits, whose way is given by taut_sync_carry(). compress: a word
    of WIRES."""
    return SyncOptions(
        order=_lib.ORDERS[limits.order],
        piece_bytes=limits.piece,
        credit_bytes=limits.credit,
        fuse_bytes=limits.fuse,
        halves=limits.halves,
        ordered=limits.ordered,
        wire=WIRES[compress][0],
    )


def sent_bytes(compress, count):
    """Of so many float32, on the wire."""
    _, numbers, size = WIRES[compress]
    return -(-count // numbers) * size


def way_number(name):
    """enum taut_coll_way"""
    return _options.NAMES["WAY"].index(name)


def counts_of(lib, handle):
    """struct taut_sync_counts"""
    counts = Counts()
    lib.taut_sync_counts(handle, ctypes.byref(counts))
    return counts


def counted(counts):
    """By name."""
    found = {name: getattr(counts.sched, name) for name, _ in _sched.Counts._fields_}
    for name, _ in Counts._fields_[1:]:
        found[name] = getattr(counts, name)
    return found


def bound(**times):
    """taut_sync_bound()"""
    times = Times(**{name: int(ns) for name, ns in times.items()})
    return library().taut_sync_bound(ctypes.byref(times))


def window(demands):
    """taut_sync_window() of these, of which each is what a Demand is made of."""
    array = (Demand * len(demands))(*(tuple(map(int, demand)) for demand in demands))
    return library().taut_sync_window(array, len(demands))


def piece_bytes(n_bytes, communication_ns):
    """taut_sync_piece_bytes()"""
    return library().taut_sync_piece_bytes(n_bytes, int(communication_ns))


def takes_rows(n_looked_up, n_rows):
    """taut_sync_takes_rows()"""
    return library().taut_sync_takes_rows(n_looked_up, n_rows)


class Patience:
    """Says what a rank has waited for so many seconds, once in a job. 0: never."""

    def __init__(self, rank, seconds):
        self.rank, self.seconds = rank, seconds

    def waits(self, what, since):
        """since: of time.monotonic()."""
        if self.seconds and time.monotonic() - since >= self.seconds:
            _options.say(
                "rank %d has waited %d s for %s: do all ranks make as many steps, and the same "
                "calls?" % (self.rank, self.seconds, what)
            )
            self.seconds = 0


class _Handle:
    """What the library made, and frees when no thread uses it. Threads: any."""

    def __init__(self, lib, what, destroy):
        self.lib, self.handle, self.what, self.destroy = lib, _pointer(), what, destroy
        self.inside = set()  # threads that are in the library
        self.is_closing = False
        self.closing = threading.RLock()

    def is_open(self):
        return not self.is_closing

    @contextlib.contextmanager
    def _used(self):
        """While a thread is in here, nothing is freed. RuntimeError: too late."""
        me = threading.get_ident()
        try:
            self.inside.add(me)
            if self.is_closing:
                raise RuntimeError(self.what + " ended")
            yield self.handle
        finally:
            self.inside.discard(me)

    def _call(self, name, *arguments, passes=()):
        """Those in passes, as in _lib.call()."""
        with self._used() as handle:
            return _lib.call(getattr(self.lib, name), handle, *arguments, passes=passes)

    def _call_until(self, patience, what, name, *arguments):
        """What takes a time at its end, however long it takes: whoever is in there sees
        signals, and that another thread closes this. patience: hears of what."""
        passes, since = (_lib.EAGAIN,), time.monotonic()
        while self._call(name, *arguments, WAIT_NS, passes=passes) == _lib.EAGAIN:
            patience.waits(what, since)

    def close(self):
        """Waits for other threads that are inside; none stays there long but in
        Comm.barrier(). When it returns all is freed, whichever thread did it."""
        self.is_closing = True
        with self.closing:
            while self.inside - {threading.get_ident()}:
                time.sleep(0.001)
            handle, self.handle = self.handle, None
            if handle:
                getattr(self.lib, self.destroy)(handle)


class Comm(_Handle):
    """A communicator. Returns when all ranks are there; _lib.Failed: they are not."""

    def __init__(self, rank, n_ranks, meet, secret, lost_after_ns):
        super().__init__(library(), "the job", "taut_comm_destroy")
        options = CommOptions(rank=rank, n_ranks=n_ranks, lost_after_ns=lost_after_ns)
        options.meet = meet.encode() if meet else None
        options.secret = secret.encode() if secret else None
        create = self.lib.taut_comm_create
        _lib.call(create, ctypes.byref(options), ctypes.byref(self.handle))

    def engine(self):
        with self._used() as handle:
            return self.lib.taut_comm_engine(handle).decode()

    def barrier(self):
        """Of a communicator that no Sync uses."""
        self._call("taut_comm_barrier")


class Sync(_Handle):
    """Sums of gradients, over a Comm. limits: _options.Limits. compress: a word of WIRES."""

    def __init__(self, comm, limits, compress="none", patience=Patience(0, 0)):
        super().__init__(comm.lib, "the sums of the job", "taut_sync_destroy")
        self.ordered, self.given = limits.ordered, _lib.Given()
        self.patience = patience
        self.running = set()  # threads in run()
        self.left = []  # memory of runs that were broken off
        options, made = sync_options(limits, compress), ctypes.byref(self.handle)
        comm._call("taut_sync_create", ctypes.byref(options), made)
        try:
            self._call("taut_sync_carry", way_number(limits.way), 0, 0)
        except BaseException:
            self.close()
            raise

    def declare(self, kind, count, priority, factor):
        task = _u32()
        kind = TYPES[kind]
        self._call("taut_sync_declare", kind, count, priority, factor, ctypes.byref(task))
        return task.value

    def join(self):
        """The task that was declared last goes with the one before it."""
        self._call("taut_sync_join")

    def ready(self, task, address):
        self._call("taut_sync_ready", task, address)

    def wait(self, task):
        self._call_until(self.patience, "gradient %d" % task, "taut_sync_wait", task)

    def next(self, seconds):
        """A task that is done; None: none in time."""
        timeout_ns, passes = int(seconds * 1e9), (_lib.EAGAIN,)
        return self.given.take(
            lambda place: self._call("taut_sync_next", timeout_ns, place, passes=passes)
        )

    def run(self, verb, kind, address, memory, count, reduction="sum", root=0):
        """In place. memory, what is at address is its own: kept by a run that is broken
        off until this is closed, for it may be written yet."""
        me = threading.get_ident()
        try:
            self.running.add(me)
            self._run(verb, kind, address, count, reduction, root)
        except BaseException:
            self.left.append(memory)
            raise
        finally:
            self.running.discard(me)

    def _run(self, verb, kind, address, count, reduction, root):
        call, run = Call(verb=verb, type=TYPES[kind], output=address, count=count), _u64()
        call.reduction, call.root, call.ordered = REDUCTIONS[reduction], root, self.ordered
        self._call("taut_sync_start", ctypes.byref(call), ctypes.byref(run))
        what = "%s of %d %s" % (VERBS[verb], count, kind)
        self._call_until(self.patience, what, "taut_sync_finish", run)

    def close(self):
        super().close()
        self.left.clear()

    def fail(self, why):
        """At any moment; nothing when it was closed."""
        with contextlib.suppress(RuntimeError), self._used() as handle:
            self.lib.taut_sync_fail(handle, _lib.EIO, why.encode("utf-8", "replace"))

    def counts(self):
        with self._used() as handle:
            return counted(counts_of(self.lib, handle))

    def watch(self, most):
        """From here on so many pieces are kept that are carried; 0: none are."""
        self._call("taut_sync_watch", most)

    def watched(self, most):
        """Those pieces, up to so many."""
        pieces = (Piece * most)()
        with self._used() as handle:
            return pieces[: self.lib.taut_sync_watched(handle, pieces, most)]
