# SPDX-License-Identifier: Apache-2.0
"""Names of modules around their forward passes, and who else profiles."""

import contextlib
import sys

import torch
from torch.autograd import profiler as autograd_profiler

from ._patterns import PREFIX
from ._torch_facts import clean_name


class Modules:
    """While it is on, each call of a module is a range in the trace."""

    def __init__(self):
        fast = getattr(torch._C, "_profiler", None)
        fast = getattr(fast, "_RecordFunctionFast", None)
        self.mark = fast or autograd_profiler.record_function
        self.names = {}  # id of a module -> its range's name
        self.roots = []  # keeps them alive while their ids are in names
        self.original = None

    def begin(self, called, saw=None):
        """called() behind each call; saw(module, name, args, kwargs) hears of each."""
        if self.original is not None or compiles():
            return
        cls = torch.nn.Module
        original = self.original = cls.__call__
        names, mark, name_it = self.names, self.mark, self.name

        def __call__(self, *args, **kwargs):
            name = names.get(id(self)) or name_it(self)
            with mark(name):
                result = original(self, *args, **kwargs)
            called()
            return result

        def seen(self, *args, **kwargs):
            saw(self, names.get(id(self)) or name_it(self), args, kwargs)
            return __call__(self, *args, **kwargs)

        self.ours = cls.__call__ = seen if saw else __call__

    def end(self):
        original, self.original = self.original, None
        if original is not None and torch.nn.Module.__call__ is self.ours:
            torch.nn.Module.__call__ = original

    def name(self, module):
        """Of a module that no root seen so far holds: it is a root."""
        names = self.names
        self.roots.append(module)
        model = wrapped(module)
        for name, part in model.named_modules():
            names[id(part)] = PREFIX + (clean_name(name) or type(part).__name__)
        while module is not model:
            names[id(module)] = PREFIX + type(module).__name__
            module = module.module
        return names[id(self.roots[-1])]

    def tops(self):
        """The modules that the loop itself called."""
        return list(self.roots)

    def forget(self):
        self.roots = []
        self.names.clear()


def wrapped(module):
    """The model inside a wrapper that makes it distributed."""
    distributed = (
        torch.nn.DataParallel,
        torch.nn.parallel.DistributedDataParallel,
    )
    while isinstance(module, distributed):
        module = module.module
    return module


def compiles():
    """Whether torch.compile is in use: a changed call would compile anew."""
    frame = sys.modules.get("torch._dynamo.utils")
    return bool(getattr(frame, "compile_times", None) and frame.counters)


class OtherProfilers:
    """The job's own use of the profiler, which goes first."""

    def __init__(self, adapter):
        self.adapter = adapter
        self.in_ours = False
        self.running = 0
        self.watch()

    @contextlib.contextmanager
    def ours(self):
        self.in_ours = True
        try:
            yield
        finally:
            self.in_ours = False

    def busy(self):
        enabled = getattr(torch._C._autograd, "_profiler_enabled", None)
        on = enabled() if enabled else autograd_profiler._is_profiler_enabled
        if self.running > 0 or on:
            return "the job uses torch.profiler itself"
        return None

    def watch(self):
        """A torch.profiler.profile counts from its start to its stop, also
        between its recordings."""
        cls = torch.profiler.profile
        start, stop = cls.start, cls.stop

        def started(profiler):
            self.running += 1
            return start(profiler)

        def stopped(profiler):
            self.running = max(0, self.running - 1)
            return stop(profiler)

        cls.start, cls.stop = started, stopped
        for name in ("_prepare_profiler", "_enable_profiler"):
            if hasattr(autograd_profiler, name):
                self.yield_to(name)

    def yield_to(self, name):
        """The job turns a profiler on while ours runs: ours ends first."""
        function = getattr(autograd_profiler, name)

        def turned_on(*args, **kwargs):
            if not self.in_ours and self.adapter.profiler is not None:
                job = self.adapter.job
                if job:
                    job.give_up("the job uses torch.profiler itself")
            return function(*args, **kwargs)

        setattr(autograd_profiler, name, turned_on)
