# SPDX-License-Identifier: Apache-2.0
"""tf.data for `taut stalls`: loops over a Dataset in Python, and Keras' fit() of one.

A pipeline gives what it gives: its items cannot be chosen. What later phases of a round
load is the same as the first by the state of its iterator, written before its first batch:
with it a shuffle comes to the same order.

fit() takes batches inside of a function of TensorFlow. It gets another iterator of the
same kind for each phase; how long it waits in it cannot be told, and its batches are taken
to be full."""

import functools
import os
import shutil

from . import _imports, _options
from . import _stalls_phases as phases
from ._stalls import watch
from ._stalls_measured import cores

_OWNER = "_taut_stalls_dataset"
_PIPES_RUN_UP = 8  # batches: the pipeline finds how many threads it wants
_UNKNOWN_DEPTH = 2


def install(tf):
    from tensorflow.python.data.ops import dataset_ops, iterator_ops
    from tensorflow.python.eager import backprop

    _watch_tapes(backprop.GradientTape)
    tools = _Tools(tf, dataset_ops.DatasetV2)
    dataset_ops.DatasetV2.__iter__ = _iter_of(tools)
    for name in ("__next__", "get_next"):
        original = getattr(iterator_ops.OwnedIterator, name)
        setattr(iterator_ops.OwnedIterator, name, _next_of(original, tools))
    _imports.when_imported(
        "keras.src.backend.tensorflow.trainer", lambda module: _watch_fit(module, tools)
    )


class _Tools:
    """TensorFlow, and what it was before."""

    def __init__(self, tf, dataset):
        self.tf, self.dataset, self.iterate = tf, dataset, dataset.__iter__


def _watch_tapes(tape):
    """Who asks for gradients trains."""
    original = tape.__enter__

    @functools.wraps(original)
    def __enter__(self):
        watch.steps += 1
        return original(self)

    tape.__enter__ = __enter__


def _iter_of(tools):
    @functools.wraps(tools.iterate)
    def __iter__(self):
        iterator = tools.iterate(self)
        if tools.tf.executing_eagerly():
            watch.began()
            setattr(iterator, _OWNER, self)
        return iterator

    return __iter__


def _next_of(original, tools):
    @functools.wraps(original)
    def following(self, *args, **kwargs):
        dataset = getattr(self, _OWNER, None)
        if dataset is None or not tools.tf.executing_eagerly():
            return original(self, *args, **kwargs)
        return watch.next(
            dataset,
            True,
            lambda: watch.take(dataset, lambda: _Source(dataset, tools)),
            lambda: original(self, *args, **kwargs),
        )

    return following


# --- Keras --------------------------------------------------------------------------------


def _watch_fit(module, tools):
    trainer, iterator = module.TensorFlowTrainer, module.TFEpochIterator
    for name in ("evaluate", "predict"):
        setattr(trainer, name, _without(getattr(trainer, name)))
    iterator.__next__ = _fit_next(iterator.__next__, tools)


_others = []  # calls under way that do not train


def _without(original):
    @functools.wraps(original)
    def call(*args, **kwargs):
        watch.began()
        _others.append(None)
        try:
            return original(*args, **kwargs)
        finally:
            _others.pop()

    return call


def _fit_next(original, tools):
    @functools.wraps(original)
    def __next__(self):
        dataset = self._distributed_dataset
        if _others or not isinstance(dataset, tools.dataset):
            return original(self)
        watch.steps += 1
        found = watch.next(
            self,
            True,
            lambda: watch.take(self, lambda: _FitSource(self, tools)),
            lambda: original(self),
        )
        if isinstance(found, tuple):
            return found
        begin = getattr(self, "_taut_step", 0)
        self._taut_step = begin + self.steps_per_execution
        return begin, self._taut_step - 1, found

    return __next__


# --- what phases need ---------------------------------------------------------------------


class _Source(phases.Source):
    loader = "tf.data"
    unit = "item"

    def __init__(self, dataset, tools):
        self.tf, self.iterate = tools.tf, tools.iterate
        self.dataset = dataset.repeat()
        self.workers, self.depth = _shape_of(dataset)
        self.items = _items_of(dataset)
        self.state = self.iterator = None

    def run_up(self):
        return self.depth + _PIPES_RUN_UP

    def ahead(self):
        return self.depth + _PIPES_RUN_UP

    def begin(self, n):
        self.state = None

    def open(self):
        self.iterator = self.iterate(self.dataset)
        if self.state is None:
            self.state = self._write()
        elif self.state:
            self.tf.train.Checkpoint(at=self.iterator).read(self.state).assert_consumed()
        return self._batches(self.iterator)

    def _write(self):
        """Where the iterator's state is; "": it has none that can be written."""
        try:
            checkpoint = self.tf.train.Checkpoint(at=self.iterator)
            return checkpoint.write(os.path.join(_state_folder(), "iterator"))
        except Exception as why:
            text = str(why).splitlines()[0] if str(why) else type(why).__name__
            _options.say("stalls: phases may load other items than those before: " + text)
            return ""

    def forget(self):
        """A shuffle's buffer is in it, which may be large."""
        shutil.rmtree(_state_folder(), ignore_errors=True)

    def _batches(self, iterator):
        for batch in iterator:
            yield batch, phases.samples_of(batch)

    def close(self):
        self.iterator = None

    def has_device(self):
        return bool(self.tf.config.list_logical_devices("GPU"))

    def sync(self):
        if self.has_device():
            self.tf.test.experimental.sync_devices()

    def keep(self, batch):
        return _Kept(batch)

    def half(self, batch, samples):
        return phases.half_of(batch, samples, self.tf.is_tensor)


class _Kept(phases.Kept):
    def give(self):
        return phases.rebuilt(self.batch, lambda part: part)


class _FitSource(_Source):
    """What is given is an iterator, which fit() asks."""

    knows_waits = False

    def __init__(self, epoch, tools):
        super().__init__(epoch._distributed_dataset, tools)
        self.per_step = epoch.steps_per_execution
        self.samples = 0

    def first(self):
        """Batches, to be kept."""
        for batch, samples in super()._batches(self.iterate(self.dataset)):
            self.samples = max(self.samples, samples)
            yield batch, samples

    def _batches(self, iterator):
        while True:
            yield iterator, self.per_step * self.samples

    def read_on(self, batches, n):
        super().read_on(self.iterator, n * self.per_step)

    def keep(self, batch):
        return _KeptIterator(batch, self)


class _KeptIterator(phases.Kept):
    """It looks to the function as that of the pipeline does: no dimension is known that
    was not known."""

    def __init__(self, batch, source):
        super().__init__(batch)
        same = source.tf.data.Dataset.from_tensors(batch).repeat()
        try:
            same = source.dataset.take(0).concatenate(same)
        except TypeError:
            pass  # half a batch, of a pipeline that has but whole ones
        self.iterator = source.iterate(same)

    def give(self):
        return self.iterator


def _shape_of(dataset):
    """(workers, batches made ahead), as far as the pipeline tells. Workers that it chooses
    itself are as many as there are cores."""
    workers, depth, has_batched = 0, 0, False
    for stage in _stages(dataset):
        kind, calls = type(stage).__name__, _value(stage, "_num_parallel_calls")
        if calls:
            workers = max(workers, cores() if calls < 0 else calls)
        has_batched = has_batched or "Batch" in kind
        ahead = _value(stage, "_buffer_size") if "Prefetch" in kind else None
        if ahead and not has_batched:
            depth = max(depth, _UNKNOWN_DEPTH if ahead < 0 else ahead)
        workers = max(workers, 1 if ahead else 0)
    return workers, depth


def _stages(dataset):
    """From the last to the first."""
    while True:
        yield dataset
        inputs = dataset._inputs()
        if not inputs:
            return
        dataset = inputs[0]


def _value(stage, name):
    value = getattr(stage, name, None)
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def _state_folder():
    return os.path.join(os.environ["TAUT_STALLS"], "state-%d" % os.getpid())


def _items_of(dataset):
    """Samples, which are what is batched; -1: it cannot be told."""
    for stage in _stages(dataset):
        if "Batch" in type(stage).__name__:
            return max(-1, int(stage._inputs()[0].cardinality())) or -1
    return -1

