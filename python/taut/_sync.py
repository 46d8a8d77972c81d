# SPDX-License-Identifier: Apache-2.0
"""include/taut/sync.h by ctypes: gradients summed by libtaut's own collectives. The
same two classes as _group.py has."""

import ctypes
import os

import torch
import torch.distributed as dist

from . import _lib, _place, _sched

NEEDS = ("taut_comm_create", "taut_sync_create")
TYPES = {  # enum taut_type
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.int32: 6,
}


class _CommOptions(ctypes.Structure):
    _fields_ = [
        ("rank", ctypes.c_uint32),
        ("n_ranks", ctypes.c_uint32),
        ("meet", ctypes.c_char_p),
        ("secret", ctypes.c_char_p),
        ("engine", ctypes.c_char_p),
        ("table", ctypes.c_char_p),
        ("meet_within_ns", ctypes.c_int64),
        ("lost_after_ns", ctypes.c_int64),
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        ("order", ctypes.c_int),
        ("piece_bytes", ctypes.c_uint64),
        ("credit_bytes", ctypes.c_uint64),
        ("fuse_bytes", ctypes.c_uint64),
        ("halves", ctypes.c_bool),
        ("ordered", ctypes.c_bool),
    ]


class _Counts(ctypes.Structure):
    _fields_ = [
        ("sched", _sched.Counts),
        ("busy_ns", ctypes.c_int64),
        ("waited_ns", ctypes.c_int64),
        ("bytes", ctypes.c_uint64),
        ("messages", ctypes.c_uint64),
        ("copied_bytes", ctypes.c_uint64),
        ("sleeps", ctypes.c_uint64),
        ("wakes", ctypes.c_uint64),
    ]


_pointer, _u32, _u64, _i64, _error = _lib.pointer, _lib.u32, _lib.u64, _lib.i64, _lib.error
_TABLE = (
    (
        "taut_comm_create",
        ctypes.c_int,
        [ctypes.POINTER(_CommOptions), ctypes.POINTER(_pointer), _error],
    ),
    ("taut_comm_destroy", None, [_pointer]),
    ("taut_comm_engine", ctypes.c_char_p, [_pointer]),
    (
        "taut_sync_create",
        ctypes.c_int,
        [_pointer, ctypes.POINTER(_Options), ctypes.POINTER(_pointer), _error],
    ),
    ("taut_sync_destroy", None, [_pointer]),
    (
        "taut_sync_declare",
        ctypes.c_int,
        [_pointer, ctypes.c_int, _u64, _i64, ctypes.c_double]
        + [ctypes.POINTER(_u32), _error],
    ),
    ("taut_sync_ready", ctypes.c_int, [_pointer, _u32, _pointer, _error]),
    ("taut_sync_next", ctypes.c_int, [_pointer, _i64, ctypes.POINTER(_u32), _error]),
    ("taut_sync_counts", None, [_pointer, ctypes.POINTER(_Counts)]),
)


class _Bound(ctypes.Structure):
    _fields_ = [
        ("overlapped_ns", ctypes.c_int64),
        ("crossed_ns", ctypes.c_int64),
        ("most_gain", ctypes.c_double),
    ]


def most_gain(forward_ns, backward_ns, communication_ns):
    """taut_sync_bound()"""
    lib = _lib.declare([("taut_sync_bound", _Bound, [_i64] * 3)])
    return lib.taut_sync_bound(int(forward_ns), int(backward_ns), int(communication_ns)).most_gain


class Engine:
    """A communicator of the ranks of a process group."""

    lingers = False  # what leaves in peace takes nothing from the others

    def __init__(self, process_group):
        self.lib = _lib.declare(_TABLE)
        self.rank, self.n_ranks = dist.get_rank(process_group), process_group.size()
        address = _place.addresses(process_group)[0]
        with _place.Port(address if self.rank == 0 else None) as port:
            meet, secret = self._agree(process_group, port)
            options = _CommOptions(
                rank=self.rank, n_ranks=self.n_ranks, meet=meet.encode(), secret=secret.encode()
            )
            comm = _pointer()
            _lib.call(self.lib.taut_comm_create, ctypes.byref(options), ctypes.byref(comm))
        self.comm = comm
        self.name = "coll over " + self.lib.taut_comm_engine(comm).decode()

    def _agree(self, process_group, port):
        """Where rank 0 is met, and a secret that the job alone knows."""
        said = [port.where, os.urandom(32).hex() if port.where else port.why]
        source = dist.get_global_rank(process_group, 0)
        dist.broadcast_object_list(said, src=source, group=process_group)
        if said[0] is None:
            raise OSError("rank 0 cannot be met: %s" % said[1])
        return said

    def exchange(self, limits):
        return Exchange(self, limits)

    def close(self, seconds=0):
        comm, self.comm = self.comm, None
        if comm:
            self.lib.taut_comm_destroy(comm)

    def forked(self):
        """In a child made by fork, which has no part in it."""
        self.comm = None


class Exchange:
    def __init__(self, engine, limits):
        self.lib, self.sync = engine.lib, _pointer()
        options = _Options(
            order=_lib.ORDERS[limits.order],
            piece_bytes=limits.piece,
            credit_bytes=limits.credit,
            fuse_bytes=limits.fuse,
            halves=limits.halves,
            ordered=limits.ordered,
        )
        self._call(
            "create", engine.comm, ctypes.byref(options), ctypes.byref(self.sync)
        )
        self.tensors = []  # of each task, kept while they are summed

    def _call(self, name, *arguments, passes=()):
        return _lib.call(getattr(self.lib, "taut_sync_" + name), *arguments, passes=passes)

    def declare(self, like, priority, factor):
        task = _u32()
        kind, count = TYPES[like.dtype], like.numel()
        self._call(
            "declare", self.sync, kind, count, priority, factor, ctypes.byref(task)
        )
        self.tensors.append(None)
        return task.value

    def ready(self, task, tensor):
        self.tensors[task] = tensor
        self._call("ready", self.sync, task, tensor.data_ptr())

    def next(self, seconds):
        task = _u32()  # of this call: several threads may be in here
        timeout_ns = int(seconds * 1e9)
        if self._call(
            "next", self.sync, timeout_ns, ctypes.byref(task), passes=(_lib.EAGAIN,)
        ):
            return None
        self.tensors[task.value] = None
        return task.value

    def _counts(self):
        counts = _Counts()
        self.lib.taut_sync_counts(self.sync, ctypes.byref(counts))
        return counts

    def busy_ns(self):
        return self._counts().busy_ns

    def counts(self):
        counts = self._counts()
        found = {name: getattr(counts.sched, name) for name, _ in _sched.Counts._fields_}
        for name, _ in _Counts._fields_[1:]:
            found[name] = getattr(counts, name)
        return found

    def close(self):
        sync, self.sync = self.sync, None
        if sync:
            self.lib.taut_sync_destroy(sync)
