# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 2: steps end with the function that trains, its own profiler
records them.

A step is one call of the outermost tf.function in which an optimiser was
traced (that of Keras' fit is such a function), or, in a loop that runs eagerly,
one step of the first optimiser. A job with parameter servers has neither in
its processes: _tensorflow_ps.py.

Written against 2.21 with Keras 3 and tf_keras."""

import functools
import glob
import json
import os
import shutil
import threading

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.profiler import profiler_v2

from . import _adapter, _process, _tensorflow_exchange, _tensorflow_stop
from ._imports import when_imported
from ._quiet import without_lines

# Calls of another function after which the one that counted is taken to have
# been given up: a warm-up's, or that of an earlier phase.
LEADER_IS_GONE = 64

# What the profiler logs of itself.
_OWN_LINES = rb"\] (Profiler session |Collecting XSpace |\w+ expects an? \w+ value)"

# Modules, and in them the classes of optimisers and the method by which each
# of their steps goes.
_OPTIMIZERS = (
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer", "apply"),
    ("keras.src.optimizers.optimizer", "_BaseOptimizer", "apply_gradients"),
    ("tf_keras.src.optimizers.optimizer", "_BaseOptimizer", "apply_gradients"),
    ("tf_keras.src.optimizers.legacy.optimizer_v2", "OptimizerV2", "apply_gradients"),
    ("tensorflow.python.training.optimizer", "Optimizer", "apply_gradients"),
)


class Steps:
    """Finds the end of each step."""

    def __init__(self, ended):
        self.ended = ended
        self.leader = None
        self.others = 0
        self.thread = threading.local()  # depth: calls that are open
        self.active = []  # outermost functions that are being called

    def watch(self):
        steps = self
        call = polymorphic_function.Function.__call__

        @functools.wraps(call)
        def __call__(self, *args, **kwargs):
            if getattr(steps.thread, "depth", 0):
                return call(self, *args, **kwargs)
            steps.thread.depth = 1
            steps.active.append(self)
            try:
                result = call(self, *args, **kwargs)
            finally:
                steps.active.remove(self)
                steps.thread.depth = 0
            if getattr(self, "_taut_trains", False):
                steps.count(self)
            return result

        polymorphic_function.Function.__call__ = __call__
        for module, name, method in _OPTIMIZERS:
            when_imported(module, functools.partial(self.watch_optimizer, name, method))

    def watch_optimizer(self, name, method, module):
        steps = self
        cls = getattr(module, name, None)
        apply = getattr(cls, method, None)
        if apply is None:
            return

        @functools.wraps(apply)
        def applied(self, *args, **kwargs):
            # Traced, perhaps by a thread of a replica: the call that is open
            # is a function that trains.
            for function in steps.active:
                function._taut_trains = True
            if steps.active or getattr(steps.thread, "depth", 0):
                return apply(self, *args, **kwargs)
            steps.thread.depth = 1
            try:
                result = apply(self, *args, **kwargs)
            finally:
                steps.thread.depth = 0
            if tf.executing_eagerly():
                steps.count(self)
            return result

        setattr(cls, method, applied)

    def count(self, what):
        if self.leader is not what:
            if self.leader is not None and self.others < LEADER_IS_GONE:
                self.others += 1
                return
            self.leader = what
        self.others = 0
        self.ended()


def cluster():
    """(type, index, {type: tasks}) of TF_CONFIG, or None."""
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        task = config["task"]
        tasks = {kind: len(names) for kind, names in config["cluster"].items()}
        return task["type"], int(task["index"]), tasks
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


# In the order of their ranks.
_TASKS = ("chief", "master", "worker", "ps")


def cluster_ranks(found):
    """(rank, world size, None): the chief, the workers, parameter servers."""
    kind, index, tasks = found
    if kind not in _TASKS:
        return None
    before = sum(tasks.get(t, 0) for t in _TASKS[: _TASKS.index(kind)])
    return before + index, sum(tasks.get(t, 0) for t in _TASKS), None


class Adapter(_adapter.Adapter):
    framework = "tensorflow"
    output = "tensorflow.xplane.pb"

    def __init__(self, job):
        super().__init__(job)
        self.cluster = cluster()
        self.part = None  # the folder that the profiler writes, while it runs
        self.mark = None
        self.marks_steps = True
        self.steps = Steps(self.step_ended)
        self.watch_profiler()
        if self.cluster and self.cluster[2].get("ps"):
            from . import _tensorflow_ps

            self.marks_steps = False
            _tensorflow_ps.attach(self)
        else:
            self.steps.watch()

    def watch_profiler(self):
        """When the job starts the profiler itself, it gets it."""
        adapter = self
        start = profiler_v2.start

        @functools.wraps(start)
        def started(*args, **kwargs):
            if adapter.part and adapter.job:
                adapter.job.give_up("the job uses TensorFlow's profiler itself")
            return start(*args, **kwargs)

        self.start_profiler = start
        profiler_v2.start = started
        tf.profiler.experimental.start = started

    # --- what the recorder asks ----------------------------------------------

    def ranks(self):
        if self.cluster:
            return cluster_ranks(self.cluster)
        return _adapter.launcher_ranks()

    def busy(self):
        if self.cluster and self.cluster[0] not in _TASKS:
            return "a task of type %s does not train" % self.cluster[0]
        if getattr(profiler_v2, "_profiler", None) is not None and not self.part:
            return "the job uses TensorFlow's profiler itself"
        return None

    # --- the window -------------------------------------------------------

    def start(self, discard):
        # A window that is not collected leaves its events behind, so
        # none is made for a window that nobody wants.
        if discard:
            return
        self.part = os.path.join(
            self.job.run, "processes", "%s.tensorflow.part" % self.job.file.name
        )
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
        )
        with without_lines(_OWN_LINES):
            self.start_profiler(self.part, options)
        self.tell_job()
        self.begin_mark()

    def begin_mark(self):
        if self.marks_steps:
            self.mark = tf.profiler.experimental.Trace(
                "train", step_num=self.job.steps_seen, _r=1, taut=1
            )
            self.mark.__enter__()

    def end_mark(self):
        mark, self.mark = self.mark, None
        if mark:
            mark.__exit__(None, None, None)

    def between_steps(self):
        self.end_mark()
        self.begin_mark()

    def stop(self, folder):
        self.end_mark()
        part, self.part = self.part, None
        if not part:
            return
        try:
            if getattr(profiler_v2, "_profiler", None) is not None:
                self.tell_exchange()
                with without_lines(_OWN_LINES):
                    _tensorflow_stop.stop(bool(folder))
            if folder:
                self.keep(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def keep(self, part, folder):
        found = glob.glob(os.path.join(part, "**", "*.xplane.pb"), recursive=True)
        if not found:
            raise RuntimeError("TensorFlow's profiler wrote nothing")
        name = self.output
        if not self.job.ranks:
            name = "%s.%s" % (self.job.file.name, name)
        _process.place(found[0], os.path.join(folder, name))

    # --- what no event says -----------------------------------------------

    def tell_job(self):
        rank, world, _ = self.job.ranks or (-1, -1, None)
        role = "%s %d" % self.cluster[:2] if self.cluster else "alone"
        say("taut_job", taut_rank=rank, taut_world_size=world, taut_role=role)
        try:
            _tensorflow_exchange.begin(say)
            for op, dtype, elements in collectives(self.steps.leader):
                say(
                    "taut_collective",
                    taut_op=op,
                    taut_dtype=dtype,
                    taut_elements=elements,
                )
        except Exception:
            pass  # sizes are good to know; the recording goes on without

    def tell_exchange(self):
        try:
            _tensorflow_exchange.end(say)
        except Exception:
            pass  # the recording goes on without what it sends

    def forked(self):
        # The child inherits a profiler that nobody will stop.
        self.part = self.mark = None


def say(event, **stats):
    with tf.profiler.experimental.Trace(event, **stats):
        pass


def collectives(function):
    """(operation, type, elements) of the collectives in a tf.function."""
    listed = getattr(function, "_list_all_concrete_functions", None)
    for concrete in listed() if listed else ():
        for op in concrete.graph.get_operations():
            if not op.type.startswith("Collective") or not op.inputs:
                continue
            elements = op.inputs[0].shape.num_elements()
            if elements is not None:
                yield op.name, op.inputs[0].dtype.name, elements
