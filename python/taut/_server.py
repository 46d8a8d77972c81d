# SPDX-License-Identifier: Apache-2.0
"""include/taut/server.h by ctypes: gradients summed, or applied, by parameter servers
(`taut server`). Worker is the plain face, over anything that has an address; Engine
and Exchange are made after those of _sync.py and _group.py, over a Worker. `taut run`
uses neither: see Engine."""

import ctypes

from . import _lib, _sched

NEEDS = ("taut_server_join",)
PUSH_PULL, PUSH, PULL, FIRST = range(4)  # enum taut_server_verb
FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, UINT8, INT32, INT64, UINT64 = range(9)


class _Options(ctypes.Structure):
    _fields_ = [
        ("worker", ctypes.c_uint32),
        ("n_workers", ctypes.c_uint32),
        ("servers", ctypes.c_char_p),
        ("secret", ctypes.c_char_p),
        ("part_bytes", ctypes.c_uint64),
        ("credit_bytes", ctypes.c_uint64),
        ("meet_within_ns", ctypes.c_int64),
        ("lost_after_ns", ctypes.c_int64),
    ]


class _Key(ctypes.Structure):
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
        [ctypes.POINTER(_Options), ctypes.POINTER(_pointer), _error],
    ),
    (
        "taut_server_declare",
        ctypes.c_int,
        [_pointer, ctypes.POINTER(_Key), _i64, ctypes.c_double]
        + [ctypes.POINTER(_u32), _error],
    ),
    (
        "taut_server_start",
        ctypes.c_int,
        [_pointer, _u32, ctypes.c_int, _pointer, _error],
    ),
    ("taut_server_wait", ctypes.c_int, [_pointer, _u32, _i64, _error]),
    ("taut_server_next", ctypes.c_int, [_pointer, _i64, ctypes.POINTER(_u32), _error]),
    ("taut_server_contributors", _u32, [_pointer, _u32]),
    ("taut_server_fail", None, [_pointer, ctypes.c_int, ctypes.c_char_p]),
    ("taut_server_leave", None, [_pointer]),
    ("taut_server_worker_counts", None, [_pointer, ctypes.POINTER(_Counts)]),
)


class Worker:
    """One worker of a job. servers: "HOST:PORT,HOST:PORT". What is handed to start()
    is an address; who calls keeps the memory until the key is done."""

    def __init__(self, rank, n_workers, servers, secret=None, **limits):
        """limits: part_bytes, credit_bytes, meet_within_ns, lost_after_ns."""
        self.worker = None
        self.lib = _lib.declare(_TABLE)
        options = _Options(
            worker=rank,
            n_workers=n_workers,
            servers=servers.encode(),
            secret=secret.encode() if secret else None,
            **limits,
        )
        worker = _pointer()
        self._call("join", ctypes.byref(options), ctypes.byref(worker))
        self.worker = worker

    def _call(self, name, *arguments):
        error = _lib.Error()
        function = getattr(self.lib, "taut_server_" + name)
        _lib.check(function(*arguments, ctypes.byref(error)), error)

    def declare(self, name, kind, count, priority=0, factor=0):
        key, number = _Key(name.encode(), kind, count), _u32()
        self._call(
            "declare", self.worker, ctypes.byref(key), priority, factor, ctypes.byref(number)
        )
        return number.value

    def start(self, key, address, verb=PUSH_PULL):
        self._call("start", self.worker, key, verb, address)

    def wait(self, key=_lib.NONE, seconds=None):
        self._call("wait", self.worker, key, -1 if seconds is None else int(seconds * 1e9))

    def next(self, seconds):
        """A key that is done; None: not in time."""
        key, error = _u32(), _lib.Error()
        status = self.lib.taut_server_next(
            self.worker, int(seconds * 1e9), ctypes.byref(key), ctypes.byref(error)
        )
        if status == _lib.EAGAIN:
            return None
        _lib.check(status, error)
        return key.value

    def contributors(self, key):
        return self.lib.taut_server_contributors(self.worker, key)

    def fail(self, why):
        self.lib.taut_server_fail(self.worker, _lib.EIO, why.encode("utf-8", "replace"))

    def counts(self):
        counts = _Counts()
        self.lib.taut_server_worker_counts(self.worker, ctypes.byref(counts))
        found = {name: getattr(counts.sched, name) for name, _ in _sched.Counts._fields_}
        for name, _ in _Counts._fields_[1:]:
            found[name] = getattr(counts, name)
        return found

    def leave(self):
        worker, self.worker = self.worker, None
        if worker:
            self.lib.taut_server_leave(worker)


class Engine:
    """The workers of a job whose tensors its servers sum. types: by the framework's
    name of a type, one of the numbers above. A job joins once: its keys are those of
    its one exchange, so limits are not changed after it. Not an engine of taut.torch,
    which opens a second exchange when a gate or a search has measured, tunes it, asks
    whether an engine lingers and tells it of a fork: nothing of that is here."""

    def __init__(self, rank, n_ranks, servers, types, secret=None, part_bytes=0):
        self.rank, self.n_ranks, self.types = rank, n_ranks, types
        self.where = (rank, n_ranks, servers, secret)
        self.part_bytes = part_bytes
        self.taken = False
        self.name = "server at " + servers

    def exchange(self, limits):
        if self.taken:
            raise RuntimeError("a job of parameter servers declares its tensors once")
        self.taken = True
        rank, n_ranks, servers, secret = self.where
        return Exchange(
            Worker(
                rank,
                n_ranks,
                servers,
                secret,
                part_bytes=limits.piece or self.part_bytes,
                credit_bytes=limits.credit,
            ),
            self.types,
        )

    def close(self, seconds=0):
        pass  # the exchange has all there is


class Exchange:
    def __init__(self, worker, types):
        self.worker, self.types = worker, types
        self.tensors = []  # of each task, kept while they are summed

    def declare(self, like, priority, factor):
        self.tensors.append(None)
        return self.worker.declare(
            "task%d" % (len(self.tensors) - 1),
            self.types[like.dtype],
            like.numel(),
            priority,
            factor,
        )

    def ready(self, task, tensor):
        self.tensors[task] = tensor
        self.worker.start(task, tensor.data_ptr())

    def next(self, seconds):
        task = self.worker.next(seconds)
        if task is not None:
            self.tensors[task] = None
        return task

    def busy_ns(self):
        return self.worker.counts()["busy_ns"]

    def counts(self):
        return self.worker.counts()

    def close(self):
        self.worker.leave()
