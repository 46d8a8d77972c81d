# SPDX-License-Identifier: Apache-2.0
"""include/taut/server.h by ctypes: gradients summed, or applied, by parameter servers
(`taut server`). Worker is over anything that has an address; _torch_server.py makes an
engine of taut.torch of it."""

import ctypes

from . import _lib, _sched

NEEDS = ("taut_server_join",)
PUSH_PULL, PUSH, PULL, FIRST = range(4)  # enum taut_server_verb
ANY, SUMS, TRAINS, ADDS_ASYNC, TRAINS_ASYNC = range(5)  # enum taut_server_mode
FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, UINT8, INT32, INT64, UINT64 = range(9)


class Options(ctypes.Structure):
    _fields_ = [
        ("worker", ctypes.c_uint32),
        ("n_workers", ctypes.c_uint32),
        ("servers", ctypes.c_char_p),
        ("secret", ctypes.c_char_p),
        ("part_bytes", ctypes.c_uint64),
        ("credit_bytes", ctypes.c_uint64),
        ("meet_within_ns", ctypes.c_int64),
        ("lost_after_ns", ctypes.c_int64),
        ("mode", ctypes.c_int),
        ("listening", ctypes.c_bool),
    ]


class Key(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("count", ctypes.c_uint64),
    ]


class _Counts(ctypes.Structure):
    _fields_ = [
        ("sched", _sched.Counts),
        ("pushed_bytes", ctypes.c_uint64),
        ("pulled_bytes", ctypes.c_uint64),
        ("busy_ns", ctypes.c_int64),
        ("waited_ns", ctypes.c_int64),
        ("sleeps", ctypes.c_uint64),
    ]


_pointer, _u32, _i64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64
_error = ctypes.POINTER(_lib.Error)
_TABLE = (
    (
        "taut_server_join",
        ctypes.c_int,
        [ctypes.POINTER(Options), ctypes.POINTER(_pointer), _error],
    ),
    (
        "taut_server_declare",
        ctypes.c_int,
        [_pointer, ctypes.POINTER(Key), _i64, ctypes.c_double]
        + [ctypes.POINTER(_u32), _error],
    ),
    (
        "taut_server_start",
        ctypes.c_int,
        [_pointer, _u32, ctypes.c_int, _pointer, _error],
    ),
    ("taut_server_wait", ctypes.c_int, [_pointer, _u32, _i64, _error]),
    ("taut_server_next", ctypes.c_int, [_pointer, _i64, ctypes.POINTER(_u32), _error]),
    ("taut_server_prioritize", ctypes.c_int, [_pointer, _u32, _i64, _error]),
    ("taut_server_tune", ctypes.c_int, [_pointer, ctypes.c_uint64, _error]),
    ("taut_server_mode_of", ctypes.c_int, [_pointer]),
    ("taut_server_contributors", _u32, [_pointer, _u32]),
    ("taut_server_fail", None, [_pointer, ctypes.c_int, ctypes.c_char_p]),
    ("taut_server_leave", None, [_pointer]),
    ("taut_server_worker_counts", None, [_pointer, ctypes.POINTER(_Counts)]),
)


def library():
    return _lib.declare(_TABLE)


def counts_of(lib, worker):
    """struct taut_server_worker_counts, by name"""
    counts = _Counts()
    lib.taut_server_worker_counts(worker, ctypes.byref(counts))
    found = {name: getattr(counts.sched, name) for name, _ in _sched.Counts._fields_}
    for name, _ in _Counts._fields_[1:]:
        found[name] = getattr(counts, name)
    return found


class Worker:
    """One worker of a job. servers: "HOST:PORT,HOST:PORT". What is handed to start()
    is an address; who calls keeps the memory until the key is done."""

    def __init__(self, rank, n_workers, servers, secret=None, **limits):
        """limits: part_bytes, credit_bytes, meet_within_ns, lost_after_ns; mode: what
        the servers must be; listening: they are there, or gone."""
        self.worker, self.given = None, _lib.Given()
        self.lib = library()
        options = Options(
            worker=rank,
            n_workers=n_workers,
            servers=servers.encode(),
            secret=secret.encode() if secret else None,
            **limits,
        )
        worker = _pointer()
        self._call("join", ctypes.byref(options), ctypes.byref(worker))
        self.worker = worker

    def _call(self, name, *arguments, passes=()):
        return _lib.call(getattr(self.lib, "taut_server_" + name), *arguments, passes=passes)

    def declare(self, name, kind, count, priority=0, factor=0):
        key, number = Key(name.encode(), kind, count), _u32()
        self._call(
            "declare", self.worker, ctypes.byref(key), priority, factor, ctypes.byref(number)
        )
        return number.value

    def prioritize(self, key, priority):
        """Nothing is under way, as for tune()."""
        self._call("prioritize", self.worker, key, priority)

    def tune(self, credit_bytes):
        self._call("tune", self.worker, credit_bytes)

    def mode(self):
        """What the servers are: SUMS, TRAINS, ..."""
        return self.lib.taut_server_mode_of(self.worker)

    def start(self, key, address, verb=PUSH_PULL):
        self._call("start", self.worker, key, verb, address)

    def wait(self, key=_lib.NONE, seconds=None):
        self._call("wait", self.worker, key, -1 if seconds is None else int(seconds * 1e9))

    def next(self, seconds):
        """A key that is done; None: not in time."""
        timeout_ns, passes = int(seconds * 1e9), (_lib.EAGAIN,)
        return self.given.take(
            lambda place: self._call("next", self.worker, timeout_ns, place, passes=passes)
        )

    def contributors(self, key):
        return self.lib.taut_server_contributors(self.worker, key)

    def fail(self, why):
        self.lib.taut_server_fail(self.worker, _lib.EIO, why.encode("utf-8", "replace"))

    def counts(self):
        return counts_of(self.lib, self.worker)

    def leave(self):
        worker, self.worker = self.worker, None
        if worker:
            self.lib.taut_server_leave(worker)
