# SPDX-License-Identifier: Apache-2.0
"""Decisions about some modules of a model, which get another forward pass.

The modules are those whose calls a change of `taut whatif` with the same pattern finds in a
recording: the pattern, as of a shell and whatever the case, is of the names that
_torch_modules.py gives them, "nn.Module: layer1.0"; of calls within each other the
outermost counts.

A class of modules gets another forward(), which asks for the module at hand; the
modules stay as they are.

Undone from the next forward pass on."""

import contextlib
import weakref

from . import _decisions, _patterns


def patterns_of(text):
    patterns = _patterns.split(text)
    if not patterns:
        raise ValueError("expected patterns of names of modules")
    return patterns


class Modules(_decisions.Decision):
    """change: as a plan has it. A subclass has run()."""

    def __init__(self, change, patterns):
        super().__init__("%s=%s" % (change, ",".join(patterns)))
        self.patterns, self.match = patterns, _patterns.matcher()
        self.chosen = {}  # id of a module -> what choose() makes of it
        self.classes = set()  # that have our forward()

    def choose(self, module):
        """A Chosen for a module."""
        return Chosen(module, self.chosen)

    def run(self, known, own, args, kwargs):
        """The forward pass of a chosen module that trains; own: its class's forward()."""

    def install(self, torch):
        self.torch = torch

        def make(own):
            def create_script_module(*args, **kwargs):
                with self.as_it_was():  # TorchScript reads the source of forward()
                    return own(*args, **kwargs)

            return create_script_module

        self.replace(torch.jit._recursive, "create_script_module", make)

    # --- which modules ----------------------------------------------------------------------

    def is_meant(self, name):
        return any(self.match(pattern, name) for pattern in self.patterns)

    def find(self, root, wrapper):
        """Outermost modules of root that are meant and can be called, by name; wrapper:
        the name of the class around it, whose calls are root's."""
        from ._torch_facts import clean_name

        found = {}
        if self.is_meant(wrapper):
            return {"": root}
        for name, part in root.named_modules():
            if any(name.startswith(outer + ".") or not outer for outer in found):
                continue
            if type(part).forward is self.torch.nn.Module.forward:
                continue  # a list of modules: nobody calls it
            if self.is_meant(clean_name(name) or type(part).__name__):
                found[name] = part
        return found

    def find_in(self, ddp):
        return self.find(ddp.module, type(ddp).__name__)

    def check(self, ddp):
        for name, part in self.find_in(ddp).items():
            why = self.why_not(part)
            if why:
                return "%s %s" % (name or type(part).__name__, why)
        return None

    def why_not(self, module):
        if "forward" in module.__dict__:
            return "has a forward() of its own, perhaps one that does this already"
        for part in module.modules():
            if isinstance(part, self.torch.jit.ScriptModule):
                return "is TorchScript, or has parts that are"
            if type(part).__name__ == "OptimizedModule" or getattr(
                part, "_compiled_call_impl", None
            ):
                return "is compiled, or has parts that are"
        return None

    def apply(self, ddp):
        found = self.find_in(ddp)
        for part in found.values():
            self.chosen[id(part)] = self.choose(part)
            self.change(type(part))
        if found:
            self.made()

    def begins(self):
        return None if self.is_made else "no model of the job has a module of this name"

    # --- their forward passes -----------------------------------------------------------------

    def change(self, cls):
        """The class whose forward() its instances have."""
        owner = next(c for c in cls.__mro__ if "forward" in c.__dict__)
        if owner not in self.classes:
            self.classes.add(owner)
            self.replace(owner, "forward", self.forward)

    @contextlib.contextmanager
    def as_it_was(self):
        ours = [row for row in self.replaced if row[0] in self.classes]
        for cls, name, own, _ in ours:
            setattr(cls, name, own)
        try:
            yield
        finally:
            for cls, name, _, forward in ours:
                setattr(cls, name, forward)

    def forward(self, own):
        chosen, torch = self.chosen, self.torch

        def forward(module, *args, **kwargs):
            if torch.compiler.is_compiling():
                return own(module, *args, **kwargs)
            known = chosen.get(id(module))
            if (
                known is None
                or known.is_inside
                or not module.training
                or not torch.is_grad_enabled()
                or not self.is_on
            ):
                return own(module, *args, **kwargs)
            return self.run(known, own, args, kwargs)

        return forward


class Chosen:
    """A module, as long as it is there."""

    def __init__(self, module, chosen):
        self.module = weakref.ref(module, lambda _, key=id(module): chosen.pop(key, None))
        self.is_inside = False  # of a forward() that calls that of its base class

    @contextlib.contextmanager
    def inside(self):
        self.is_inside = True
        try:
            yield
        finally:
            self.is_inside = False
