# SPDX-License-Identifier: Apache-2.0
"""PyTorch: steps end with the optimiser's, its own profiler records them.

Written against 2.13; what is not the same in every release since 2.1 is looked
for before it is used."""

import contextlib
import ctypes
import functools
import gzip
import os
import shutil
import sys
import threading
import time
import weakref

import torch
from torch.autograd import profiler as autograd_profiler
from torch.profiler import ProfilerActivity, _KinetoProfile

from . import _adapter, _heap, _imports, _process, _sums_watch, _torch_facts
from . import _torch_loader, _torch_modules, _torch_rows

# Steps of another optimiser after which the one that counted is taken to have
# been given up: a warm-up's, or that of an earlier phase.
LEADER_IS_GONE = 64
UNKNOWN_STEPS = 8  # for which room is made when nobody says how many
# Begins the trace of which only the shapes count; src/trace/formats/shapes.c
# knows it.
SHAPES_MARK = b'{"tautShapes":1,'


def _never():
    return False


# Which backward pass this thread is in; -1: none.
_backward = getattr(torch._C, "_current_graph_task_id", lambda: -1)
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", _never)


def _is_capturing():
    """What the host does now is for a CUDA graph: nothing is computed, and whoever
    waits for the device, as a profiler does, breaks it."""
    try:
        return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
    except Exception:
        return False  # a device that is at fault is the job's to find


class Steps:
    """Finds the end of each step: the first optimiser instance has stepped."""

    def __init__(self, ended):
        self.ended = ended
        self.leader = None  # weak: it may go with its phase of the training
        self.others = 0
        self.depth = 0
        self.stepped = None
        self.zeroed = None, None  # when gradients were last, in which thread
        self.updates = None, None  # when a step() was called last, in which thread
        self.in_backward = False  # an optimizer has stepped in this backward pass
        self.backward = None  # torch.autograd.backward() as we have it
        self.unwatched = None  # base, zero_grad() as it is and as it was

    def watch(self):
        """Every class of optimisers, when an instance is made: what its step()
        is then, whoever wrapped or replaced it before. Instances that are older
        than this tell their steps by PyTorch's own hook."""
        watcher = self
        base = torch.optim.Optimizer
        patch = getattr(base, "_patch_step_function", None)
        if patch is not None:

            @functools.wraps(patch)
            def _patch_step_function(self):
                patch(self)
                try:
                    watcher.wrap(type(self))
                except Exception:
                    pass

            base._patch_step_function = _patch_step_function
        module = sys.modules.get("torch.optim.optimizer")
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register:
            register(self.hooked)
        self.watch_scaler()
        self.watch_zero_grad(base)
        _imports.when_imported("deepspeed.runtime.engine", self.watch_deepspeed)

    def watch_zero_grad(self, base):
        """Where the host begins with a step, in a job that takes no batch of a
        loader. What is compiled calls it as it is: PyTorch keeps its compiler
        from it."""
        original = getattr(base, "zero_grad", None)
        if original is None:
            return
        watcher, clock, thread = self, time.perf_counter, threading.get_ident

        @functools.wraps(original)
        def zero_grad(self, set_to_none=True):
            original(self, set_to_none)
            watcher.zeroed = clock(), thread()

        base.zero_grad = zero_grad
        self.unwatched = base, zero_grad, original

    def unwatch_zero_grad(self):
        (base, ours, original), self.unwatched = self.unwatched, None
        if base.__dict__.get("zero_grad") is ours:
            base.zero_grad = original
        self.zeroed = None, None

    def hooked(self, optimizer, args, kwargs):
        if not self.depth and not _is_compiling():
            self.count(optimizer)

    def wrap(self, cls):
        if getattr(cls.step, "_taut", None) is not self:
            cls.step = self.counting(cls.step)

    def counting(self, step):
        watcher, clock, thread = self, time.perf_counter, threading.get_ident

        @functools.wraps(step)
        def stepped(self, *args, **kwargs):
            if _is_compiling():
                return step(self, *args, **kwargs)
            if not watcher.depth:
                watcher.updates = clock(), thread()
            watcher.depth += 1
            try:
                result = step(self, *args, **kwargs)
            finally:
                watcher.depth -= 1
            # A step() that calls that of its base class, or others', is one step.
            if not watcher.depth:
                watcher.count(self)
            return result

        stepped._taut = self
        return stepped

    def watch_scaler(self):
        """A step that a GradScaler leaves out, for its gradients overflowed, was
        a step of the loop all the same."""
        scaler = getattr(getattr(torch, "amp", None), "GradScaler", None)
        maybe = getattr(scaler, "_maybe_opt_step", None)
        if maybe is None:
            return
        watcher = self

        @functools.wraps(maybe)
        def _maybe_opt_step(self, optimizer, *args, **kwargs):
            watcher.stepped = None
            result = maybe(self, optimizer, *args, **kwargs)
            if watcher.stepped is None:
                watcher.count(optimizer)
            return result

        scaler._maybe_opt_step = _maybe_opt_step

    def watch_deepspeed(self, module):
        """Its ZeRO has the job's optimizer step once for each group of parameters;
        its engine updates the model once a step, or leaves it out."""
        engine = getattr(module, "DeepSpeedEngine", None)
        take = getattr(engine, "_take_model_step", None)
        if take is not None:
            engine._take_model_step = self.counting(take)

    def watch_backward(self):
        """Where hooks of gradients have an optimizer step, perhaps one for each
        parameter, the step ends with the pass; the first such pass counts for none."""
        original, watcher = torch.autograd.backward, self

        @functools.wraps(original)
        def backward(*args, **kwargs):
            original(*args, **kwargs)
            if watcher.in_backward and _backward() == -1:
                watcher.in_backward = False
                watcher.count(backward)

        torch.autograd.backward = self.backward = backward

    def count(self, optimizer):
        self.stepped = True
        if _is_capturing():
            return
        if _backward() != -1:
            if self.backward is None:
                self.watch_backward()
            self.in_backward = True
            return
        leader = self.leader() if self.leader else None
        if leader is not optimizer:
            if leader is not None and self.others < LEADER_IS_GONE:
                self.others += 1
                return
            self.leader = weakref.ref(optimizer)
        self.others = 0
        self.ended()


class Adapter(_adapter.Adapter):
    framework = "torch"
    output = "torch.pt.trace.json.gz"
    shapes_output = "torch.shapes.json.gz"

    def __init__(self, job):
        super().__init__(job)
        self.profiler = None
        self.discards = False
        self.shapes = None  # the profiler of the window that is thrown away
        self.step_mark = None
        self.kineto = _Kineto()
        self.grown_bytes = 0  # by the heap in the window that is thrown away
        self.reserve = None
        self.faults = 0  # of the process, when the window began
        self.modules = _torch_modules.Modules()
        self.lookups = _torch_rows.Lookups()  # of the step before the window
        self.loader = _torch_loader.Loader()
        self.sums = []  # watches of gradients that Taut sums
        self.compiled = None  # what compiling gives, where that is asked for
        self.why_not_compiled = ""
        self.others = _torch_modules.OtherProfilers(self)
        self.steps = Steps(self.step_ended)
        self.steps.watch()
        self.loader.watch_workers()
        self.loader.watch_batches()

    # --- what the recorder asks ----------------------------------------------

    def ranks(self):
        dist = sys.modules.get("torch.distributed")
        found = _adapter.launcher_ranks()
        if dist and dist.is_available() and dist.is_initialized():
            local = found[2] if found else None
            return dist.get_rank(), dist.get_world_size(), local
        return found

    def issue_began(self, since):
        steps, me = self.steps, threading.get_ident()
        at, thread = self.loader.batch
        if thread == me and steps.unwatched:
            steps.unwatch_zero_grad()
        if thread != me:
            at, thread = steps.zeroed
        return at if thread == me and at > since else None

    def update_began(self, since):
        at, thread = self.steps.updates
        return at if thread == threading.get_ident() and at > since else None

    def busy(self):
        return self.others.busy()

    def store(self):
        dist = sys.modules.get("torch.distributed")
        if not (dist and dist.is_available() and dist.is_initialized()):
            return None
        find = getattr(dist.distributed_c10d, "_get_default_store", None)
        return find() if find else None

    def publish(self, key, value):
        store = self.store()
        if store is None:
            return False
        store.set(key, value)
        return True

    def lookup(self, key):
        store = self.store()
        if store is None or not store.check([key]):
            return None
        return store.get(key).decode()

    # --- the window -------------------------------------------------------

    def start(self, discard):
        self.lookups.end()
        self.discards = discard
        if discard:
            self.shapes = None
        self.finish_device()
        self.start_profiler()
        self.modules.begin(self.job.look, self.watch_calls(discard))
        self.loader.begin(self.job, discard)
        self.sums = [] if discard else _sums_watch.begin()
        self.mark_step()
        self.faults = _heap.faults()

    def prepare(self):
        self.reserve = _heap.Reserve(self.grown_bytes * (self.steps_to_come() + 1))
        self.lookups.begin()

    def watches(self):
        return self.lookups.is_on()

    def unwatch(self):
        self.lookups.end()

    def steps_to_come(self):
        job = self.job
        return job.end_step - job.first if job.end_step else UNKNOWN_STEPS

    @staticmethod
    def finish_device():
        """What a device still does of steps before is not recorded; the first step
        would wait for it, and nothing would say for what."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def activities(self):
        """A job that has not used its devices by the end of a step leaves them alone,
        and so do we. A window without steps may come before their first use."""
        cuda = torch.cuda
        if cuda.is_available() and (cuda.is_initialized() or not self.job.asked):
            return [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        return [ProfilerActivity.CPU]

    def start_profiler(self):
        """Shapes are dear. All steps of most jobs have the same ones, so those
        of the window that is thrown away do for all: its events are not kept,
        but what they say of tensors is."""
        self.profiler = _KinetoProfile(
            activities=self.activities(),
            record_shapes=self.shapes is None,
            profile_memory=os.environ.get("TAUT_RECORD_MEMORY") == "1",
        )
        self.kineto.is_started = True
        with self.others.ours():
            if self.kineto.level is not None:
                self.profiler.prepare_trace()
                with self.kineto.quiet():
                    self.profiler.start_trace()
            else:
                with self.kineto.quiet():
                    self.profiler.start()

    def between_steps(self):
        self.end_mark()
        self.mark_step()

    def mark_step(self):
        name = "ProfilerStep#%d" % self.job.steps_seen
        self.step_mark = autograd_profiler.record_function(name)
        self.step_mark.__enter__()

    def end_mark(self):
        mark, self.step_mark = self.step_mark, None
        if mark:
            mark.__exit__(None, None, None)

    def stop(self, folder):
        grown = _heap.faults() - self.faults - self.job.times.own_faults()
        self.grown_bytes = max(grown, 0) * _heap.page_bytes()
        profiler, self.profiler = self.profiler, None
        if profiler is None:
            return
        try:
            try:
                self.end_watches(folder)
            finally:
                self.stop_profiler(profiler)
            if folder:
                self.keep(profiler, folder)
            self.shapes = profiler if self.discards and not folder else None
        finally:
            self.modules.forget()
            if self.reserve:
                self.reserve.release()

    def end_watches(self, folder):
        self.end_mark()
        self.loader.end(folder)
        sums, self.sums = self.sums, []
        _sums_watch.end(sums, self.job if folder else None)
        self.modules.end()

    def stop_profiler(self, profiler):
        """One that fails to end is switched off nonetheless."""
        with self.others.ours(), self.kineto.quiet():
            try:
                profiler.stop()
            except Exception:
                with contextlib.suppress(Exception):
                    torch._C._autograd._disable_profiler()
                raise

    def watch_calls(self, discard):
        """Who is to hear of calls of modules that are to be compiled once the window is
        over: of the window that is thrown away. All ranks compile at once, for in the job
        they share memory and cores, too."""
        patterns = os.environ.get("TAUT_RECORD_COMPILE")
        if not patterns:
            return None
        from . import _compile_probe

        if self.compiled is None:
            self.compiled = _compile_probe.Probe(patterns)
            self.why_not_compiled = "no step before the window was watched: begin later"
        if not discard:
            return None
        self.why_not_compiled = "no module of this name was called in training"
        return self.compiled.saw

    def keep(self, profiler, folder):
        if self.job.log:
            _torch_facts.write(self.job.log, self.modules.tops())
            for key, text in self.lookups.told:
                self.job.log.fact(key, text)
        self.export(profiler, folder)
        failed = getattr(sys, "last_type", None) is not None
        if self.compiled and self.job.log and not failed:
            if not self.modules.roots:
                self.why_not_compiled = "modules are not marked in a job that compiles some itself"
            for key, text in self.compiled.facts(self.why_not_compiled):
                self.job.log.fact(key, text)

    def export(self, profiler, folder):
        """Written where no step is recorded any more, the shapes too."""
        self.write(profiler, folder, self.output, b"")
        if self.shapes:
            try:
                self.write(self.shapes, folder, self.shapes_output, SHAPES_MARK)
            except Exception:
                pass  # the recording is whole without them

    def write(self, profiler, folder, name, mark):
        """Compressed at once: a job may end without another chance. The mark
        comes in place of what opens the object."""
        path = os.path.join(folder, name)
        if not self.job.ranks:
            path = os.path.join(folder, "%s.%s" % (self.job.file.name, name))
        plain, packed = path + ".json.part", path + ".part"
        try:
            with self.kineto.quiet():
                profiler.export_chrome_trace(plain)
            with open(plain, "rb") as source, gzip.open(packed, "wb", 1) as out:
                if mark:
                    out.write(mark + source.read(64).partition(b"{")[2])
                shutil.copyfileobj(source, out, 1 << 20)
            _process.place(packed, path)
        finally:
            for part in (plain, plain + ".tmp", packed):
                try:
                    os.unlink(part)
                except OSError:
                    pass

    def forked(self):
        self.kineto.forked()
        if self.profiler is None:
            return
        self.sums = []
        self.lookups.end()
        _sums_watch.forked()
        # The child inherits a profiler that nobody will stop.
        self.profiler = self.step_mark = self.shapes = None
        self.modules.end()
        disable = getattr(torch._C._autograd, "_enable_record_function", None)
        if disable:
            disable(False)

    def ended(self):
        self.shapes = None
        if self.reserve:
            self.reserve.release()


class _Kineto:
    """How much Kineto may print, which is nothing while we use it. It reads
    KINETO_LOG_LEVEL when it is first used; later its own variable counts, where
    the library shows it."""

    NAME = "KINETO_LOG_LEVEL"
    VARIABLE = "_ZN9libkineto6Logger14severityLevel_E"
    NOTHING = 99

    def __init__(self):
        self.level = None
        self.is_started = False
        try:
            folder = os.path.join(os.path.dirname(torch.__file__), "lib")
            lib = ctypes.CDLL(os.path.join(folder, "libtorch_cpu.so"))
            self.level = ctypes.c_int.in_dll(lib, self.VARIABLE)
        except (OSError, ValueError):
            pass

    def forked(self):
        """Kineto's first use starts a thread that a fork does not copy, and its
        destructor waits in the child for that thread, for ever. So a child that
        calls exit() ends without the destructors that it has from its parent:
        C's streams are flushed, then it is gone."""
        if not self.is_started:
            return
        self.is_started = False  # a child of the child inherits what is set here
        libc = ctypes.CDLL(None)
        last, flush = libc._exit, libc.fflush
        # The last one set is called first; both get what they expect: _exit()
        # the status, fflush() NULL.
        if not libc.on_exit(last, None):
            libc.__cxa_atexit(flush, None, None)

    @contextlib.contextmanager
    def quiet(self):
        if self.level is not None:
            level, self.level.value = self.level.value, self.NOTHING
            try:
                yield
            finally:
                self.level.value = level
        elif self.NAME in os.environ:
            yield
        else:
            os.environ[self.NAME] = str(self.NOTHING)
            try:
                yield
            finally:
                os.environ.pop(self.NAME, None)
