# SPDX-License-Identifier: Apache-2.0
"""Modules compiled by PyTorch's compiler, TorchInductor, while they train;
_plan_modules.py says which.

A compiled module reads all its parameters when it begins: beside Taut's exchange they are
waited for there (_control.py), and none of them is pending within. Its random numbers are
drawn as without a compiler. DDP's own cutting of graphs at its buckets is off: the whole of
a module is one graph, as it was when it was measured.

Undone from the next forward pass on; what it compiled stays in memory."""

import sys

from . import _decisions, _plan_modules

OPTIONS = {"fallback_random": True}
GRAPHS = 64  # of one forward(), for modules of one class that are not alike


def make(values):
    return Compile(_plan_modules.patterns_of(values["COMPILE"]))


class Compile(_plan_modules.Modules):
    def __init__(self, patterns):
        super().__init__("compile", patterns)
        self.compiled = {}  # a forward() -> what the compiler makes of it
        self.settings = []  # (name, value) of the compiler's as they were

    def install(self, torch):
        """Taut's own exchange is told of what a job compiles; this is not the job's."""
        super().install(torch)
        self.own_compile = torch.compile
        if not torch.cuda.is_available():
            from torch._inductor import cpp_builder

            cpp_builder.get_cpp_compiler()  # an exception that says so, where there is none

    def apply(self, ddp):
        super().apply(ddp)
        if not self.is_made or self.settings:
            return
        from torch._dynamo import config

        limits = [n for n in ("recompile_limit", "cache_size_limit") if hasattr(config, n)][:1]
        for name, value in [("optimize_ddp", False)] + [(n, GRAPHS) for n in limits]:
            self.settings.append((name, getattr(config, name)))
            setattr(config, name, value)

    def undo(self):
        super().undo()
        if self.settings:
            from torch._dynamo import config

            for name, value in self.settings:
                setattr(config, name, value)
            self.settings.clear()

    def check(self, ddp):
        mine = self.find_in(ddp)
        for other in _decisions.of(_plan_modules.Modules):
            theirs = {id(part) for p in other.find_in(ddp).values() for part in p.modules()}
            for name, part in mine.items() if other is not self else ():
                if any(id(each) in theirs for each in part.modules()):
                    return "%s, or a part of it, has %s" % (name or "the model", other.text)
        return super().check(ddp)

    def whole(self, model):
        return list(self.find(model).values())

    def run(self, known, own, args, kwargs):
        module = known.module()
        pending = sys.modules.get(__package__ + "._pending")
        if pending and pending.records:
            pending.touch(list(module.parameters()))
        compiled = self.compiled.get(own)
        if compiled is None:
            compiled = self.compiled[own] = self.own_compile(own, options=OPTIONS)
        try:
            return compiled(module, *args, **kwargs)
        except Exception as why:
            if not type(why).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            line = " ".join(str(why).split())[:300]
        _decisions.refuse("%s: %s" % (self.text, line))
