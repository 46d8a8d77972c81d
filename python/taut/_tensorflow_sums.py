# SPDX-License-Identifier: Apache-2.0
"""Gradients of TensorFlow summed by Taut: eagerly, and by operations of a function.

A function gets, for each gradient, or for some small ones that follow each other
(TAUT_RUN_FUSE bytes), a ready operation, which copies them, hands them to the
scheduler's thread and returns; it depends on its gradients alone, so it runs while
the rest of the backward pass does. Then wait operations, each for some of the
gradients.

No rank blocks where another needs it: a wait begins when all ready operations of its
gradients' call have run, and each operation that blocks, of whatever call, begins
when those before it in the program are over. So there is at most one of them at a
time, and it waits for what no thread of TensorFlow's must do here: a pool of a single
thread is enough. The order is kept by writes of one variable, `turn`, which
TensorFlow orders as the program has them, also across the functions that a
function calls. Calls of Python release its lock while they wait.

Ready operations have no state, in TensorFlow's words: those with state would run
one after another. They read the variable `still`, so that none is computed
beforehand, and the waits read what they give, so that none is left out."""

import collections
import functools
import sys

import numpy as np
import tensorflow as tf

from . import _coll, _options

# A range of TensorFlow's profile, where there is one. What it tells of the exchange is read
# back by src/trace/formats/xplane_sums.c.
_recorded = tf.profiler.experimental.Trace

WAITS = 8  # of one call, at most: updates begin while the last gradients are summed
ALIGNMENT = 64  # of memory that TensorFlow takes without a copy


def _aligned(shape, dtype):
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    first = -raw.ctypes.data % ALIGNMENT
    return raw[first : first + size].view(dtype).reshape(shape)


def _references(rows):
    """Of the memory of each row, with those of the row and of the question itself."""
    return [sys.getrefcount(buffer) for buffer, _ in rows]


class _Buffers:
    """Memory of sums, which tensors share. It is used again when no tensor, and
    nobody else, holds it."""

    FREE = _references([(object(), 0)])[0]  # what Pythons count differs

    def __init__(self):
        self.made = {}  # by task: rows of memory and its address

    def take(self, task, shape, dtype):
        made = self.made.setdefault(task, [])
        for (buffer, address), references in zip(made, _references(made)):
            if references <= self.FREE:
                return buffer, address
        buffer = _aligned(shape, dtype)
        made.append((buffer, buffer.ctypes.data))
        return made[-1]


class Part:
    """A gradient of one call: its tensor, as it is sent, and what it is of."""

    def __init__(self, key, tensor, shape):
        self.key, self.tensor, self.shape = key, tensor, tuple(shape)
        self.dtype = np.dtype(tensor.dtype.as_numpy_dtype)
        self.count = int(np.prod(self.shape, dtype=np.int64))
        self.task = None

    def place(self):
        """All but the tensor, which an operation must not keep."""
        return self.task, self.shape, self.dtype


def _runs(parts, most_bytes):
    """Parts one after another, so many that their bytes are at most that, or one."""
    runs, size = [], 0
    for part in parts:
        own = part.count * part.dtype.itemsize
        if not runs or size + own > most_bytes:
            runs.append([])
            size = 0
        runs[-1].append(part)
        size += own
    return runs


def _function(graph):
    """The outermost function that graph is a part of."""
    while getattr(graph, "outer_graph", None) is not None and hasattr(
        graph.outer_graph, "outer_graph"
    ):
        graph = graph.outer_graph
    return graph


def _uses():
    """By variable, how often its gradient was asked for in the function that is traced:
    each time has a task of its own. Eagerly, in one call, which ends before the next
    begins."""
    if tf.executing_eagerly():
        return collections.Counter()
    function = _function(tf.compat.v1.get_default_graph())
    uses = getattr(function, "_taut_uses", collections.Counter())
    function._taut_uses = uses
    return uses


def _array(tensor):
    """A view of an eager tensor, or a copy where there is none."""
    try:
        return np.from_dlpack(tensor)
    except (TypeError, ValueError, RuntimeError, BufferError, tf.errors.OpError):
        return tensor.numpy()


def _tensor(buffer):
    """Over the same memory where DLPack knows the type."""
    try:
        return tf.experimental.dlpack.from_dlpack(buffer.__dlpack__())
    except (TypeError, ValueError, RuntimeError, BufferError, tf.errors.OpError):
        return tf.convert_to_tensor(buffer)


class Sums:
    def __init__(self, job):
        self.job, self.tasks, self.buffers = job, {}, _Buffers()

    # Made when they are needed: behind the first variable of a process TensorFlow refuses
    # settings of devices and threads, which jobs make after init().

    @functools.cached_property
    def still(self):
        with tf.init_scope(), tf.device("CPU:0"):
            return tf.Variable(0, trainable=False, name="taut_still")

    @functools.cached_property
    def turn(self):
        with tf.init_scope(), tf.device("CPU:0"):
            return tf.Variable(0, trainable=False, dtype=tf.int64, name="taut_turn")

    def sum(self, parts, factor, after):
        """Tensors of the sums of the parts. factor, after: _reductions.factors()."""
        self._find_tasks(parts, factor)
        # The last layer's gradient is there first, and nothing can be gained by
        # another order: the next forward pass begins when all are applied.
        order = parts[::-1]
        results = (self._eagerly if tf.executing_eagerly() else self._traced)(order, after)
        return results[::-1]

    def _find_tasks(self, parts, factor):
        new, uses = [], _uses()
        for part in parts:
            use, uses[part.key] = uses[part.key], uses[part.key] + 1
            part.key = (part.key, use, part.dtype.name, part.count, factor)
            if part.key not in self.tasks:
                new.append(part)
        new.reverse()
        if new:
            first = len(self.job.rows)
            rows = [
                (part.dtype.name, part.count, first + i, factor)
                for i, part in enumerate(new)
            ]
            again = {i for i, part in enumerate(new) if part.key[1]}
            for part, task in zip(new, self.job.declare(rows, again)):
                self.tasks[part.key] = task
        for part in parts:
            part.task = self.tasks[part.key]
        self.job.check_whole([part.task for part in parts])

    def _begin(self, place, array):
        buffer, address = self.buffers.take(*place)
        np.copyto(buffer, array)
        with _recorded("taut_sync_ready", taut_task=place[0]):
            self.job.ready(place[0], address, buffer)

    def _end(self, task, after):
        with _recorded("taut_sync_wait", taut_task=task):
            buffer = self.job.wait(task)
        if after is not None:
            np.multiply(buffer, buffer.dtype.type(after), out=buffer)
        return buffer

    # --- eagerly -----------------------------------------------------------------------

    def _eagerly(self, parts, after):
        for part in parts:
            self._begin(part.place(), _array(part.tensor))
        return [_tensor(self._end(part.task, after)) for part in parts]

    # --- in a function -------------------------------------------------------------------

    def _traced(self, parts, after):
        still = self.still.read_value()
        # Groups that are fixed are made by libtaut; operations are shared as ever.
        groups = self.job.limits.groups
        together = _runs(parts, _options.BYTES["FUSE"] if groups else self.job.limits.fuse)
        ready = [self._ready_operation(some, still) for some in together]
        all_ready = tf.add_n(ready)
        with tf.control_dependencies([all_ready]):
            before = self.turn.assign_add(1, read_value=False)
        n = -(-len(parts) // WAITS)
        results = []
        for first in range(0, len(parts), n):
            some = parts[first : first + n]
            with tf.control_dependencies([before]):
                results += self._wait_operation(some, after, all_ready)
        with tf.control_dependencies(results):
            self.turn.assign_add(1, read_value=False)
        return results

    def _ready_operation(self, parts, still):
        begin, places = self._begin, [part.place() for part in parts]

        def ready(_, *arrays):
            for place, array in zip(places, arrays):
                begin(place, array)
            return np.int32(0)

        tensors = [part.tensor for part in parts]
        return tf.numpy_function(
            ready, [still, *tensors], tf.int32, stateful=False, name="taut_ready"
        )

    def _wait_operation(self, parts, after, all_ready):
        tasks, end = [part.task for part in parts], self._end

        def wait(_):
            return [end(task, after) for task in tasks]

        kinds = [part.tensor.dtype for part in parts]
        results = tf.numpy_function(wait, [all_ready], kinds, name="taut_wait")
        for part, result in zip(parts, results):
            result.set_shape(part.shape)
        return list(results)

    # --- other collectives ------------------------------------------------------------------

    def collective(self, function, tensors, kinds):
        """function of NumPy arrays, which blocks, gives arrays of those kinds."""
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
        if tf.executing_eagerly():
            arrays = function(*[np.array(tensor.numpy(), order="C") for tensor in tensors])
            return [tf.convert_to_tensor(array) for array in arrays]
        before = self.turn.assign_add(1, read_value=False)
        with tf.control_dependencies([before]):
            results = tf.numpy_function(
                lambda *arrays: function(*[np.array(a, order="C") for a in arrays]),
                tensors,
                list(kinds),
                name="taut_collective",
            )
        with tf.control_dependencies(results):
            self.turn.assign_add(1, read_value=False)
        return list(results)


def check_kind(kind):
    if kind not in _coll.FLOATS:
        raise TypeError("there are no sums of gradients of %s" % kind)
