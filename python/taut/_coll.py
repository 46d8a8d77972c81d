# SPDX-License-Identifier: Apache-2.0
"""include/taut/coll.h and include/taut/sync.h by ctypes, for arrays of any framework:
memory is given by its address. Calls release the GIL."""

import ctypes

from . import _lib, _sched

NEEDS = ("taut_comm_create", "taut_sync_create", "taut_sync_run")
ALLREDUCE, ALLGATHER, BROADCAST = 0, 2, 3  # enum taut_coll_verb
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
FLOATS = ("float32", "float64", "float16", "bfloat16")

_pointer, _u32, _u64, _i64 = (
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_int64,
)


class _CommOptions(ctypes.Structure):
    _fields_ = [
        ("rank", _u32),
        ("n_ranks", _u32),
        ("meet", ctypes.c_char_p),
        ("secret", ctypes.c_char_p),
        ("engine", ctypes.c_char_p),
        ("table", ctypes.c_char_p),
        ("meet_within_ns", _i64),
        ("lost_after_ns", _i64),
    ]


class _SyncOptions(ctypes.Structure):
    _fields_ = [
        ("order", ctypes.c_int),
        ("piece_bytes", _u64),
        ("credit_bytes", _u64),
        ("fuse_bytes", _u64),
        ("halves", ctypes.c_bool),
        ("ordered", ctypes.c_bool),
    ]


class _Call(ctypes.Structure):
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


class _Counts(ctypes.Structure):
    _fields_ = [
        ("sched", _sched.Counts),
        ("busy_ns", _i64),
        ("waited_ns", _i64),
        ("bytes", _u64),
        ("messages", _u64),
        ("copied_bytes", _u64),
        ("sleeps", _u64),
        ("wakes", _u64),
    ]


_error = ctypes.POINTER(_lib.Error)
_made = ctypes.POINTER(_pointer)
_TABLE = (
    ("taut_comm_create", ctypes.c_int, [ctypes.POINTER(_CommOptions), _made, _error]),
    ("taut_comm_destroy", None, [_pointer]),
    ("taut_comm_engine", ctypes.c_char_p, [_pointer]),
    ("taut_comm_barrier", ctypes.c_int, [_pointer, _error]),
    (
        "taut_sync_create",
        ctypes.c_int,
        [_pointer, ctypes.POINTER(_SyncOptions), _made, _error],
    ),
    ("taut_sync_destroy", None, [_pointer]),
    (
        "taut_sync_declare",
        ctypes.c_int,
        [_pointer, ctypes.c_int, _u64, _i64, ctypes.c_double]
        + [ctypes.POINTER(_u32), _error],
    ),
    ("taut_sync_ready", ctypes.c_int, [_pointer, _u32, _pointer, _error]),
    ("taut_sync_wait", ctypes.c_int, [_pointer, _u32, _i64, _error]),
    ("taut_sync_next", ctypes.c_int, [_pointer, _i64, ctypes.POINTER(_u32), _error]),
    ("taut_sync_run", ctypes.c_int, [_pointer, ctypes.POINTER(_Call), _error]),
    ("taut_sync_fail", None, [_pointer, ctypes.c_int, ctypes.c_char_p]),
    ("taut_sync_counts", None, [_pointer, ctypes.POINTER(_Counts)]),
)


def _checked(function, *arguments):
    error = _lib.Error()
    _lib.check(function(*arguments, ctypes.byref(error)), error)


class Comm:
    """A communicator. Returns when all ranks are there; _lib.Failed: they are not."""

    def __init__(self, rank, n_ranks, meet, secret, lost_after_ns):
        self.lib = _lib.declare(_TABLE)
        self.handle = _pointer()
        options = _CommOptions(rank=rank, n_ranks=n_ranks, lost_after_ns=lost_after_ns)
        options.meet = meet.encode() if meet else None
        options.secret = secret.encode() if secret else None
        _checked(
            self.lib.taut_comm_create, ctypes.byref(options), ctypes.byref(self.handle)
        )

    def engine(self):
        return self.lib.taut_comm_engine(self.handle).decode()

    def barrier(self):
        """Of a communicator that no Sync uses."""
        _checked(self.lib.taut_comm_barrier, self.handle)

    def close(self):
        handle, self.handle = self.handle, None
        if handle:
            self.lib.taut_comm_destroy(handle)


class Sync:
    """Sums of gradients, over a Comm. limits: _options.Limits."""

    def __init__(self, comm, limits):
        self.lib, self.handle = comm.lib, _pointer()
        self.ordered = limits.ordered
        options = _SyncOptions(
            order=_lib.ORDERS[limits.order],
            piece_bytes=limits.piece,
            credit_bytes=limits.credit,
            fuse_bytes=limits.fuse,
            halves=limits.halves,
            ordered=limits.ordered,
        )
        _checked(
            self.lib.taut_sync_create,
            comm.handle,
            ctypes.byref(options),
            ctypes.byref(self.handle),
        )

    def declare(self, kind, count, priority, factor):
        task = _u32()
        _checked(
            self.lib.taut_sync_declare,
            self.handle,
            TYPES[kind],
            count,
            priority,
            factor,
            ctypes.byref(task),
        )
        return task.value

    def ready(self, task, address):
        _checked(self.lib.taut_sync_ready, self.handle, task, address)

    def wait(self, task):
        _checked(self.lib.taut_sync_wait, self.handle, task, -1)

    def next(self, seconds):
        """A task that is done; None: none in time."""
        error, task = _lib.Error(), _u32()
        status = self.lib.taut_sync_next(
            self.handle, int(seconds * 1e9), ctypes.byref(task), ctypes.byref(error)
        )
        if status == _lib.EAGAIN:
            return None
        _lib.check(status, error)
        return task.value

    def run(self, verb, kind, address, count, reduction="sum", root=0):
        """In place."""
        call = _Call(verb=verb, type=TYPES[kind], output=address, count=count, root=root)
        call.reduction, call.ordered = REDUCTIONS[reduction], self.ordered
        _checked(self.lib.taut_sync_run, self.handle, ctypes.byref(call))

    def fail(self, why):
        self.lib.taut_sync_fail(self.handle, _lib.EIO, why.encode())

    def counts(self):
        counts = _Counts()
        self.lib.taut_sync_counts(self.handle, ctypes.byref(counts))
        found = {name: getattr(counts.sched, name) for name, _ in _sched.Counts._fields_}
        for name, _ in _Counts._fields_[1:]:
            found[name] = getattr(counts, name)
        return found

    def close(self):
        handle, self.handle = self.handle, None
        if handle:
            self.lib.taut_sync_destroy(handle)
