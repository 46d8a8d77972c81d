# SPDX-License-Identifier: Apache-2.0
"""The backend "taut" of torch.distributed: a process group whose collectives are
libtaut's. docs/backend.md has what it does and what it refuses.

What libtaut has is called as it is: all-reduce, reduce-scatter, all-gather, broadcast,
barrier. The others are made of these. All but reductions are of bytes, and of any
type. What PyTorch calls from C++ is found by its name, in Python; so are the names
that older versions have."""

import functools
import sys

import torch
import torch.distributed as dist

from . import _channel
from ._backend_work import Work
from ._channel import ALLGATHER, ALLREDUCE, BROADCAST, REDUCE_SCATTER

BYTES = 5  # TAUT_UINT8
_KINDS = {  # enum taut_type, and elements of it in one of the tensor
    torch.float32: (0, 1),
    torch.float64: (1, 1),
    torch.float16: (2, 1),
    torch.bfloat16: (3, 1),
    torch.int8: (4, 1),
    torch.uint8: (5, 1),
    torch.int32: (6, 1),
    torch.int64: (7, 1),
    torch.uint64: (8, 1),
    torch.complex32: (2, 2),
    torch.complex64: (0, 2),
    torch.complex128: (1, 2),
}
_OPS = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")  # enum taut_reduction
_OF_BITS = _OPS[4:]
_OF_BOOL = {"SUM": 3, "PRODUCT": 2, "MIN": 2, "MAX": 3, "BAND": 2, "BOR": 3, "BXOR": 6}
_known = {}  # what _reduction() found


def _reduction(op, dtype):
    """(type, elements in one, reduction, whether it is divided by the number of ranks)"""
    key = (hash(op), dtype)
    found = _known.get(key)
    if found is None:
        found = _known[key] = _look_up(op, dtype)
    return found


def _look_up(op, dtype):
    names = [n for n in _OPS + ("AVG",) if op == getattr(dist.ReduceOp, n)]
    name = names[0] if names else str(op)
    if dtype is torch.bool and name in _OF_BOOL:
        return BYTES, 1, _OF_BOOL[name], False
    kind, many = _KINDS.get(dtype, (None, 1))
    is_float = dtype.is_floating_point or dtype.is_complex
    if kind is None or name not in _OPS + ("AVG",):
        raise TypeError("taut: there is no %s of %s" % (name, dtype))
    if name in (_OF_BITS if is_float else ("AVG",)):
        raise TypeError("taut: there is no %s of %s" % (name, dtype))
    if many == 2 and name not in ("SUM", "AVG"):
        raise TypeError("taut: there is no %s of %s" % (name, dtype))
    if name == "AVG":
        return kind, many, 0, True
    return kind, many, _OPS.index(name), False


def _look(*tensors):
    """What is summed by address lies in the host's memory, element by element."""
    for tensor in tensors:
        if not tensor.is_cpu:
            raise ValueError(
                "taut: a tensor is on %s: the backend is for tensors in the host's memory; "
                "dist.new_group(backend='nccl') has others" % tensor.device
            )
        if tensor.layout is not torch.strided:
            raise ValueError(
                "taut: a tensor is %s: the backend has none but torch.strided; "
                "dist.new_group(backend='gloo') has" % tensor.layout
            )


def _one(tensors):
    if len(tensors) != 1:
        raise ValueError("taut: %d tensors where one is expected" % len(tensors))
    return tensors[0]


def _same(what, bytes_, tensors):
    """All ranks must give the same number of bytes, and so one rank all of them."""
    for tensor in tensors:
        if tensor.nbytes != bytes_:
            raise ValueError(
                "taut: %s: a tensor has %d bytes where others have %d"
                % (what, tensor.nbytes, bytes_)
            )


def _same_type(what, tensor, output):
    """What is moved and summed by address is of one type."""
    if tensor.dtype != output.dtype:
        raise ValueError(
            "taut: %s: a tensor is of %s where others are of %s"
            % (what, output.dtype, tensor.dtype)
        )


def _lie_in_a_row(tensors, bytes_):
    """Where they begin, when they are one piece of memory; or None."""
    first = tensors[0].data_ptr()
    for i, tensor in enumerate(tensors):
        if not tensor.is_contiguous() or tensor.data_ptr() != first + i * bytes_:
            return None
    return first


class Group(dist.ProcessGroup):
    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._channel = _channel.Channel(store, rank, size, timeout.total_seconds())
        self._rank, self._size = rank, size
        self._name = self._desc = "undefined"
        self._together = None  # works between _start_coalescing() and its end

    def _begin(self, tensors, opts):
        _look(*tensors)
        timeout = opts.timeout.total_seconds() if opts is not None else 0
        return Work(self._channel, tensors, timeout if timeout > 0 else None)

    def _began(self, work, opts):
        """All of its runs are begun. Who would wait at once, waits here."""
        work.is_begun = True
        if self._together is not None:
            self._together.append(work)
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    # --- what libtaut has --------------------------------------------------------------

    def _reduce_one(self, work, tensor, op):
        kind, many, reduction, divides = _reduction(op, tensor.dtype)
        flat = work.in_place(tensor)
        at = flat.data_ptr()
        if divides:
            work.after.insert(0, lambda: self._divide(flat))
        if flat.numel():
            work.start(ALLREDUCE, kind, at, at, flat.numel() * many, reduction)

    def _divide(self, tensor):
        (torch.view_as_real(tensor) if tensor.is_complex() else tensor).div_(self._size)

    def allreduce(self, tensors, opts=None):
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        for tensor in tensors:
            _reduction(op, tensor.dtype)
        with self._begin(tensors, opts) as work:
            for tensor in tensors:
                self._reduce_one(work, tensor, op)
            return self._began(work, opts)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors, opts=None):
        root = 0 if opts is None else opts.rootRank
        with self._begin(tensors, opts) as work:
            for tensor in tensors:
                flat = work.in_place(tensor)
                if flat.numel():
                    at = flat.data_ptr()
                    work.start(BROADCAST, BYTES, at, at, flat.nbytes, 0, root)
            return self._began(work, opts)

    def _gather_to(self, work, at, tensor):
        """All ranks' tensors, to an address."""
        bytes_ = tensor.nbytes
        flat = work.source(tensor)
        if bytes_:
            mine = flat.data_ptr() - self._rank * bytes_
            work.start(ALLGATHER, BYTES, mine, at, self._size * bytes_)

    def _gather_list(self, work, outputs, tensor):
        if len(outputs) != self._size:
            raise ValueError(
                "taut: all_gather: %d tensors for %d ranks" % (len(outputs), self._size)
            )
        at = _lie_in_a_row(outputs, tensor.nbytes)
        if at is None:
            rows = work.scratch(self._size, tensor.numel(), dtype=tensor.dtype)
            at = rows.data_ptr()
            work.after.append(lambda: self._spread(rows, outputs))
        self._gather_to(work, at, tensor)

    @staticmethod
    def _spread(rows, outputs):
        for row, output in zip(rows, outputs):
            output.copy_(row.view(output.shape))

    def allgather(self, outputs, inputs, opts=None):
        outputs, tensor = _one(outputs), _one(inputs)
        _same("all_gather", tensor.nbytes, outputs)
        _look(*outputs)
        with self._begin(inputs, opts) as work:
            work.tensors = [outputs]
            self._gather_list(work, outputs, tensor)
            return self._began(work, opts)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        with self._begin(inputs, opts) as work:
            work.tensors = outputs
            for i, tensor in enumerate(inputs):
                self._gather_list(work, [row[i] for row in outputs], tensor)
            return self._began(work, opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        for output, tensor in zip(outputs, inputs):
            _same_type("all_gather_into_tensor", tensor, output)
            _same("all_gather_into_tensor", tensor.nbytes * self._size, [output])
        _look(*inputs)
        with self._begin(outputs, opts) as work:
            for output, tensor in zip(outputs, inputs):
                self._gather_to(work, work.in_place(output).data_ptr(), tensor)
            return self._began(work, opts)

    def all_gather_single(self, output, tensor, opts=None):
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def _scatter_sum(self, work, output, whole, op):
        """whole: all ranks' blocks, one after the other; it is written over."""
        kind, many, reduction, divides = _reduction(op, output.dtype)
        block = whole.view(self._size, whole.numel() // self._size)[self._rank]
        if divides:
            work.after.append(lambda: self._divide(block))
        work.after.append(lambda: output.copy_(block.view(output.shape)))
        at = whole.data_ptr()
        if whole.numel():
            work.start(REDUCE_SCATTER, kind, at, at, whole.numel() * many, reduction)

    def reduce_scatter(self, outputs, inputs, opts=None):
        output, tensors = _one(outputs), _one(inputs)
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        _reduction(op, output.dtype)
        if len(tensors) != self._size:
            raise ValueError(
                "taut: reduce_scatter: %d tensors for %d ranks" % (len(tensors), self._size)
            )
        _same("reduce_scatter", output.nbytes, tensors)
        _look(*tensors)
        with self._begin(outputs, opts) as work:
            whole = work.scratch(self._size, output.numel(), dtype=output.dtype)
            for row, tensor in zip(whole, tensors):
                row.view(tensor.shape).copy_(tensor.detach())
            self._scatter_sum(work, output, whole, op)
            return self._began(work, opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        for output, tensor in zip(outputs, inputs):
            _reduction(op, output.dtype)
            _same_type("reduce_scatter_tensor", tensor, output)
            _same("reduce_scatter_tensor", output.nbytes * self._size, [tensor])
        _look(*inputs)
        with self._begin(outputs, opts) as work:
            for output, tensor in zip(outputs, inputs):
                whole = work.scratch(tensor.numel(), dtype=tensor.dtype)
                whole.view(tensor.shape).copy_(tensor.detach())
                self._scatter_sum(work, output, whole, op)
            return self._began(work, opts)

    def reduce_scatter_single(self, output, tensor, opts=None):
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def barrier(self, opts=None):
        with self._begin([], opts) as work:
            work.start()
            return self._began(work, opts)

    # --- what is made of these -----------------------------------------------------------

    def reduce(self, tensors, opts=None):
        """An all-reduce of which the others keep nothing."""
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        root = 0 if opts is None else opts.rootRank
        tensor = _one(tensors)
        _reduction(op, tensor.dtype)
        with self._begin(tensors, opts) as work:
            if root != self._rank:
                copy = work.scratch(*tensor.shape, dtype=tensor.dtype)
                tensor = copy.copy_(tensor.detach())
            self._reduce_one(work, tensor, op)
            return self._began(work, opts)

    def gather(self, outputs, inputs, opts=None):
        """An all-gather of which the others keep nothing."""
        tensor = _one(inputs)
        is_root = self._rank == (0 if opts is None else opts.rootRank)
        if is_root:
            _same("gather", tensor.nbytes, _one(outputs))
            _look(*outputs[0])
        with self._begin(inputs, opts) as work:
            work.tensors = outputs
            if is_root:
                self._gather_list(work, outputs[0], tensor)
            else:
                rows = work.scratch(self._size, tensor.numel(), dtype=tensor.dtype)
                self._gather_to(work, rows.data_ptr(), tensor)
            return self._began(work, opts)

    def scatter(self, outputs, inputs, opts=None):
        """A broadcast of which each keeps its own."""
        output = _one(outputs)
        root = 0 if opts is None else opts.rootRank
        is_root = self._rank == root
        if is_root:
            if len(_one(inputs)) != self._size:
                raise ValueError(
                    "taut: scatter: %d tensors for %d ranks" % (len(inputs[0]), self._size)
                )
            _same("scatter", output.nbytes, inputs[0])
            _look(*inputs[0])
        with self._begin(outputs, opts) as work:
            rows = work.scratch(self._size, output.numel(), dtype=output.dtype)
            if is_root:
                for row, tensor in zip(rows, inputs[0]):
                    row.view(tensor.shape).copy_(tensor.detach())
            work.after.append(lambda: output.copy_(rows[self._rank].view(output.shape)))
            at = rows.data_ptr()
            if rows.numel():
                work.start(BROADCAST, BYTES, at, at, rows.nbytes, 0, root)
            return self._began(work, opts)

    def alltoall(self, outputs, inputs, opts=None):
        """An all-gather of everything, of which each keeps what is for it: n times the
        bytes that would do. How much is for whom goes around first."""
        _look(*outputs, *inputs)
        sizes = torch.tensor([t.numel() for t in inputs], dtype=torch.int64)
        if len(inputs) != self._size or len(outputs) != self._size:
            raise ValueError("taut: all_to_all: tensors for %d ranks are expected" % self._size)
        table = torch.empty(self._size, self._size, dtype=torch.int64)
        self.all_gather_single(table, sizes).wait()
        with self._begin(outputs, opts) as work:
            most = int(table.sum(1).max())
            dtype = outputs[0].dtype
            mine = work.scratch(most, dtype=dtype)
            rows = work.scratch(self._size, most, dtype=dtype)
            if most:
                whole = torch.cat([t.detach().reshape(-1) for t in inputs])
                mine[: whole.numel()].copy_(whole)
            work.after.append(lambda: self._take_mine(table, rows, outputs))
            self._gather_to(work, rows.data_ptr(), mine)
            return self._began(work, opts)

    def _take_mine(self, table, rows, outputs):
        for rank, (sizes, row, output) in enumerate(zip(table.tolist(), rows, outputs)):
            begin, size = sum(sizes[: self._rank]), sizes[self._rank]
            if output.numel() != size:
                raise ValueError(
                    "all_to_all: rank %d gives rank %d %d elements, which expects %d"
                    % (rank, self._rank, size, output.numel())
                )
            output.copy_(row[begin : begin + size].view(output.shape))

    def all_to_all_single(self, output, tensor, output_sizes, input_sizes, opts=None):
        def parts(of, sizes):
            n = of.shape[0] if of.dim() else 0
            return list(of.split(list(sizes) or [n // self._size] * self._size))

        return self.alltoall(parts(output, output_sizes), parts(tensor, input_sizes), opts)

    # --- what there is not -----------------------------------------------------------------

    def _refuse(self, what):
        raise NotImplementedError(
            "taut: the backend has no %s: a group of Gloo has, "
            "dist.new_group(backend='gloo')" % what
        )

    def send(self, tensors, rank, tag):
        self._refuse("send")

    def recv(self, tensors, rank, tag):
        self._refuse("recv")

    def recv_anysource(self, tensors, tag):
        self._refuse("recv")

    # --- what a process group is asked -------------------------------------------------------

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    def getBackendName(self):
        return "taut"

    def name(self):
        return "taut"

    _get_backend_name = name

    def _set_group_name(self, name):
        self._name = name

    def _set_group_desc(self, desc):
        self._desc = desc

    def getGroupName(self):
        return self._name

    def getGroupDesc(self):
        return self._desc

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self):
        return [torch.device("cpu")]

    def _get_backend(self, device):
        if torch.device(device).type != "cpu":
            raise RuntimeError("taut: the backend is for tensors in the host's memory")
        return self

    supports_splitting = supports_coalescing = supports_time_estimate = False

    def supports_tensor_alloc(self, device):
        return False

    def _set_default_timeout(self, timeout):
        self._channel.seconds = timeout.total_seconds()

    set_timeout = _set_default_timeout

    def _set_sequence_number_for_group(self):
        pass

    def _start_coalescing(self, device):
        self._together = []

    def _end_coalescing(self, device):
        works, self._together = self._together or [], None
        all_of_them = Work(self._channel, [t for w in works for t in w.tensors])
        all_of_them.after.append(lambda: [w.wait() for w in works])
        all_of_them.runs += [run for w in works for run in w.runs]
        return self._began(all_of_them, None)

    def shutdown(self):
        self._together = None
        self._channel.close(_channel.END_SECONDS)

    def abort(self):
        self._together = None
        self._channel.close(0)

    def __repr__(self):
        return "taut's group %s: rank %d of %d" % (self._name, self._rank, self._size)

    # Names until PyTorch 2.12.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


def register():
    """torch.distributed knows "taut" from here on."""
    if "taut" not in dist.Backend.backend_list:
        dist.Backend.register_backend("taut", Group, devices=["cpu"])


def _instead(backend):
    """What a job gets that asks for this. None is Gloo where there is no accelerator."""
    if backend is None:
        return None if torch.accelerator.is_available() else "taut"
    return {"gloo": "taut", "cpu:gloo": "cpu:taut"}.get(str(backend).lower(), backend)


def take_place_of_gloo():
    """In a job's init_process_group(), and so in groups that it makes of the same;
    one for which it asks by name is still Gloo's."""
    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(backend=None, *args, **kwargs):
        return original(_instead(backend), *args, **kwargs)

    for name in ("", ".distributed_c10d", ".device_mesh"):  # whoever has it by name
        module = sys.modules.get("torch.distributed" + name)
        if getattr(module, "init_process_group", None) is original:
            module.init_process_group = init_process_group
