# SPDX-License-Identifier: Apache-2.0
"""include/taut/sync.h by ctypes: gradients summed by libtaut's own collectives. The
same two classes as _group.py has."""

import collections
import ctypes
import os

import torch
import torch.distributed as dist

from . import _coll, _lib, _place

NEEDS, bound = _coll.NEEDS, _coll.bound
window, piece_bytes, takes_rows = _coll.window, _coll.piece_bytes, _coll.takes_rows
_pointer, _u32, _u64 = _lib.pointer, _lib.u32, _lib.u64
TYPES = {  # enum taut_type
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.uint8: 5,
    torch.int32: 6,
}
BYTE = _coll.TYPES["uint8"]

_made = collections.Counter()  # engines, by their ranks: the same on all of them


class Engine:
    """A communicator of the ranks of a process group."""

    broadcasts = True  # an exchange has broadcast()
    lingers = False  # what leaves in peace takes nothing from the others
    compress = "none"  # as what float32 is summed, of TAUT_RUN_COMPRESS

    def __init__(self, process_group):
        self.lib = _coll.library()
        self.ranks = tuple(dist.get_process_group_ranks(process_group))
        self.rank, self.n_ranks = dist.get_rank(process_group), len(self.ranks)
        _made[self.ranks] += 1
        self.number, self.n_exchanges = _made[self.ranks], 0
        address = _place.addresses(process_group)[0]
        with _place.Port(address if self.rank == 0 else None) as port:
            meet, secret = self._agree(process_group, port)
            options = _coll.CommOptions(
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
        self.n_exchanges += 1
        made = Exchange(self, limits)
        # On all ranks the same, and no other exchange of theirs has it: of a recording.
        made.group = "taut %d.%d" % (self.number, self.n_exchanges)
        return made

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
        options = _coll.sync_options(limits, engine.compress)
        self._call(
            "create", engine.comm, ctypes.byref(options), ctypes.byref(self.sync)
        )
        self.carry(limits.way)
        self.ordered, self.given = limits.ordered, _lib.Given()
        self.tensors = []  # of each task, kept while they are summed
        self.lent = {}  # by run: its memory, kept until it is over

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

    def join(self):
        """The task that was declared last goes with the one before it."""
        self._call("join", self.sync)

    def ready(self, task, tensor, more=False):
        """more: another one follows soon, and may bring this one along."""
        self.tensors[task] = tensor
        self._call("ready_more" if more else "ready", self.sync, task, tensor.data_ptr())

    def ready_part(self, task, tensor):
        """These elements alone, the same ones on all ranks, are the task this time."""
        self.tensors[task] = tensor
        self._call("ready_part", self.sync, task, tensor.data_ptr(), tensor.numel())

    def next(self, seconds):
        timeout_ns, passes = int(seconds * 1e9), (_lib.EAGAIN,)
        task = self.given.take(
            lambda place: self._call("next", self.sync, timeout_ns, place, passes=passes)
        )
        if task is not None:
            self.tensors[task] = None
        return task

    def broadcast(self, tensor):
        """Rank 0's bytes, to all ranks: a Run."""
        return Run(self, tensor, _coll.BROADCAST)

    def all_reduce(self, tensor, reduction):
        """In place, in the order of other such calls on all ranks: a Run."""
        return Run(self, tensor, _coll.ALLREDUCE, reduction)

    def tune(self, piece, credit, fuse, way):
        """Other limits; nothing is under way, and all ranks do the same."""
        self._call("tune", self.sync, piece, credit, fuse)
        self.carry(way)

    def carry(self, way):
        self._call("carry", self.sync, _coll.way_number(way), 0, 0)

    def watch(self, most):
        """From here on so many pieces are kept that are carried; 0: none are."""
        self._call("watch", self.sync, most)

    def watched(self, most):
        """Those pieces, up to so many."""
        pieces = (_coll.Piece * most)()
        return pieces[: self.lib.taut_sync_watched(self.sync, pieces, most)]

    def busy_ns(self):
        return _coll.counts_of(self.lib, self.sync).busy_ns

    def counts(self):
        return _coll.counted(_coll.counts_of(self.lib, self.sync))

    def close(self):
        sync, self.sync = self.sync, None
        if sync:
            self.lib.taut_sync_destroy(sync)


class Run:
    """A collective besides the sums."""

    def __init__(self, exchange, tensor, verb, reduction="sum"):
        self.exchange, self.number = exchange, _u64()
        call = _coll.Call(verb=verb, type=BYTE, output=tensor.data_ptr())
        call.count = tensor.nbytes
        if verb == _coll.ALLREDUCE:
            call.type, call.count = TYPES[tensor.dtype], tensor.numel()
            call.reduction, call.ordered = _coll.REDUCTIONS[reduction], exchange.ordered
        exchange._call("start", exchange.sync, ctypes.byref(call), ctypes.byref(self.number))
        exchange.lent[self.number.value] = tensor

    def wait(self, seconds):
        """Whether it is over, within this time."""
        exchange, timeout_ns = self.exchange, int(seconds * 1e9)
        passes = (_lib.EAGAIN,)
        if exchange._call("finish", exchange.sync, self.number, timeout_ns, passes=passes):
            return False
        exchange.lent.pop(self.number.value, None)
        return True
