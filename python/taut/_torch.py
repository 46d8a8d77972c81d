# SPDX-License-Identifier: Apache-2.0
"""PyTorch: steps end with the optimiser's, its own profiler records them.

Written against 2.13; what is not the same in every release since 2.1 is looked
for before it is used."""

import functools
import gzip
import os
import shutil
import sys
import weakref

import torch
from torch.autograd import profiler as autograd_profiler
from torch.profiler import ProfilerActivity, _KinetoProfile

from . import _adapter, _torch_facts, _torch_loader, _torch_modules

# Steps of another optimiser after which the one that counted is taken to have
# been given up: a warm-up's, or that of an earlier phase.
LEADER_IS_GONE = 64


class Steps:
    """Finds the end of each step: the first optimiser instance has stepped."""

    def __init__(self, ended):
        self.ended = ended
        self.leader = None  # weak: it may go with its phase of the training
        self.others = 0
        self.depth = 0
        self.stepped = None

    def watch(self):
        """Every class of optimisers, when its first instance is made: what its
        step() is then, whoever wrapped or replaced it before."""
        watcher = self
        base = torch.optim.Optimizer
        patch = base._patch_step_function

        @functools.wraps(patch)
        def _patch_step_function(self):
            patch(self)
            try:
                watcher.wrap(type(self))
            except Exception:
                pass

        base._patch_step_function = _patch_step_function
        self.watch_scaler()

    def wrap(self, cls):
        step = cls.step
        if getattr(step, "_taut", None) is self:
            return
        watcher = self

        @functools.wraps(step)
        def stepped(self, *args, **kwargs):
            if torch.compiler.is_compiling():
                return step(self, *args, **kwargs)
            watcher.depth += 1
            try:
                result = step(self, *args, **kwargs)
            finally:
                watcher.depth -= 1
            # A step() that calls that of its base class is one step.
            if not watcher.depth:
                watcher.count(self)
            return result

        stepped._taut = self
        cls.step = stepped

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

    def count(self, optimizer):
        self.stepped = True
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

    def __init__(self, job):
        super().__init__(job)
        self.profiler = None
        self.step_mark = None
        self.modules = _torch_modules.Modules()
        self.loader = _torch_loader.Loader()
        self.others = _torch_modules.OtherProfilers(self)
        Steps(self.step_ended).watch()
        self.loader.watch_workers()

    # --- what the agent asks ----------------------------------------------

    def ranks(self):
        dist = sys.modules.get("torch.distributed")
        found = _adapter.launcher_ranks()
        if dist and dist.is_available() and dist.is_initialized():
            local = found[2] if found else None
            return dist.get_rank(), dist.get_world_size(), local
        return found

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
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self.profiler = _KinetoProfile(
            activities=activities,
            record_shapes=True,
            profile_memory=os.environ.get("TAUT_RECORD_MEMORY") == "1",
        )
        with self.others.ours(), _quiet_kineto():
            self.profiler.start()
        self.modules.begin()
        self.loader.begin(self.job, discard)
        self.mark_step()

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
        self.end_mark()
        self.loader.end(folder)
        self.modules.end()
        profiler, self.profiler = self.profiler, None
        if profiler is None:
            return
        with self.others.ours():
            profiler.stop()
        if folder:
            if self.job.log:
                _torch_facts.write(self.job.log, self.modules.tops())
            self.export(profiler, folder)
        self.modules.forget()

    def export(self, profiler, folder):
        """Compressed at once: a job may end without another chance."""
        path = os.path.join(folder, self.output)
        if not self.job.ranks:
            path = os.path.join(folder, "%s.%s" % (self.job.file.name, self.output))
        plain, packed = path + ".part.json", path + ".part"
        try:
            profiler.export_chrome_trace(plain)
            with open(plain, "rb") as source, gzip.open(packed, "wb", 1) as out:
                shutil.copyfileobj(source, out, 1 << 20)
            os.rename(packed, path)
        finally:
            for part in (plain, packed):
                try:
                    os.unlink(part)
                except OSError:
                    pass

    def forked(self):
        if self.profiler is None:
            return
        # The child inherits a profiler that nobody will stop.
        self.profiler = self.step_mark = None
        self.modules.end()
        disable = getattr(torch._C._autograd, "_enable_record_function", None)
        if disable:
            disable(False)

    def ended(self):
        self.loader.close()


class _quiet_kineto:
    """Kineto reads how much it may print when it is first used."""

    NAME = "KINETO_LOG_LEVEL"

    def __enter__(self):
        self.ours = self.NAME not in os.environ
        if self.ours:
            os.environ[self.NAME] = "99"

    def __exit__(self, *exception):
        if self.ours:
            os.environ.pop(self.NAME, None)
