# SPDX-License-Identifier: Apache-2.0
"""Modules compiled by PyTorch's compiler, TorchInductor, while they train;
_plan_modules.py says which, _compiler.py how.

A compiled module reads all its parameters when it begins: beside Taut's exchange they are
waited for there (_control.py), and none of them is pending within.

Undone from the next forward pass on; what it compiled stays in memory."""

import sys

from . import _decisions, _plan_microbatches, _plan_modules


def make(values):
    return Compile(_plan_modules.patterns_of(values["COMPILE"]))


class Compile(_plan_modules.Modules):
    def __init__(self, patterns):
        super().__init__("compile", patterns)
        self.compiled = {}  # a forward() -> what the compiler makes of it

    def install(self, torch):
        """Taut's own exchange is told of what a job compiles; this is not the job's."""
        from . import _compiler

        super().install(torch)
        self.own_compile = torch.compile
        self.compiler, self.settings = _compiler, _compiler.Settings()

    def check(self, ddp):
        mine = self.find_in(ddp)
        for other in _decisions.of(_plan_microbatches.Microbatches) if mine else ():
            return "%s computes the passes of its modules again" % other.text
        for other in _decisions.of(_plan_modules.Modules):
            theirs = {id(part) for p in other.find_in(ddp).values() for part in p.modules()}
            for name, part in mine.items() if other is not self else ():
                if any(id(each) in theirs for each in part.modules()):
                    return "%s, or a part of it, has %s" % (name or "the model", other.text)
        if mine and ddp.device_type == "cpu":
            try:
                self.compiler.check()
            except Exception as why:
                return " ".join(str(why).split())
        return super().check(ddp)

    def whole(self, model, wrapper):
        return list(self.find(model, wrapper).values())

    def apply(self, ddp):
        super().apply(ddp)
        if self.is_made:
            self.settings.set()

    def undo(self):
        super().undo()
        self.settings.undo()

    def run(self, known, own, args, kwargs):
        module = known.module()
        pending = sys.modules.get(__package__ + "._pending")
        if pending and pending.records:
            pending.touch(list(module.parameters()))
        try:
            compiled = self.compiled.get(own)
            if compiled is None:
                compiled = self.compiler.compiled(self.own_compile, own)
                self.compiled[own] = compiled
            return compiled(module, *args, **kwargs)
        except Exception as why:
            if not type(why).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            line = " ".join(str(why).split())[:300]
        _decisions.refuse("%s: %s" % (self.text, line))
