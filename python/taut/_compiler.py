# SPDX-License-Identifier: Apache-2.0
"""PyTorch's compiler as Taut uses it: the same for what a recording measures
(_compile_probe.py) and for what a job is given (_plan_compile.py).

A graph is made for each form of inputs, and none for forms that vary: modules of one class
whose sizes differ are each compiled for their own. Random numbers are drawn as without a
compiler. A backward pass may be done twice. DDP's cutting of graphs at its buckets is off:
the whole of a module is one graph."""

import contextlib
import random
import sys
import warnings

import torch

OPTIONS = {"fallback_random": True}
GRAPHS = 64  # of one forward(), at least


def compiled(compile, forward):
    return compile(forward, dynamic=False, options=OPTIONS)


def _wanted():
    """(module of settings, name, value); releases differ in which there are."""
    from torch._dynamo import config as dynamo
    from torch._functorch import config as functorch

    yield dynamo, "optimize_ddp", False
    yield functorch, "donated_buffer", False
    for name in ("recompile_limit", "cache_size_limit"):
        if hasattr(dynamo, name):
            yield dynamo, name, max(GRAPHS, getattr(dynamo, name))
            return


class Settings:
    """Of the compiler, while a decision holds or a measurement lasts."""

    def __init__(self):
        self.were = []

    def set(self):
        if self.were:
            return
        for owner, name, value in list(_wanted()):
            if hasattr(owner, name):
                self.were.append((owner, name, getattr(owner, name)))
                setattr(owner, name, value)

    def undo(self):
        for owner, name, value in reversed(self.were):
            setattr(owner, name, value)
        self.were.clear()


@contextlib.contextmanager
def unseen():
    """What the compiler does to a process beside compiling, and random numbers that are
    drawn meanwhile, are as they were in the end; it warns of nothing."""
    distribution = torch.distributions.Distribution
    checks, drawn = distribution._validate_args, random.getstate()
    numpy = sys.modules.get("numpy")
    drawn_too = numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        distribution._validate_args = checks
        random.setstate(drawn)
        if numpy:
            numpy.random.set_state(drawn_too)


def check():
    """An exception that says so where nothing can be compiled for cores."""
    from torch._inductor import cpp_builder

    cpp_builder.get_cpp_compiler()
