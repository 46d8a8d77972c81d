# SPDX-License-Identifier: Apache-2.0
"""Activation checkpointing: what some modules make in the forward pass is not kept, and
made again for their backward pass.

The modules are those whose calls `taut whatif recompute=PATTERN` finds in a recording:
the pattern, as of a shell and whatever the case, is of the names that _torch_modules.py
gives them, "nn.Module: layer1.0"; of calls within each other the outermost counts.

A class of modules gets another forward(), which asks for the module at hand; the
modules stay as they are. Random numbers of PyTorch, and buffers that a forward pass
changes, as a batch norm's, are the second time what they were the first time, and
afterwards what they would have been.

Undone from the next forward pass on."""

import contextlib
import ctypes
import weakref

from . import _decisions

_IGNORE_CASE = 1 << 4  # FNM_CASEFOLD


def make(values):
    patterns = [p for p in values["RECOMPUTE"].split(",") if p]
    if not patterns:
        raise ValueError("expected patterns of names of modules")
    return Recompute(patterns)


class Recompute(_decisions.Decision):
    def __init__(self, patterns):
        super().__init__("recompute=" + ",".join(patterns))
        self.patterns = [p.encode() for p in patterns]
        self.match = ctypes.CDLL(None).fnmatch
        self.match.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
        self.chosen = {}  # id of a module -> _Chosen
        self.classes = set()  # that have our forward()

    def install(self, torch):
        from torch.utils import checkpoint

        self.torch, self.checkpoint = torch, checkpoint.checkpoint

        def make(own):
            def create_script_module(*args, **kwargs):
                with self.as_it_was():  # TorchScript reads the source of forward()
                    return own(*args, **kwargs)

            return create_script_module

        self.replace(torch.jit._recursive, "create_script_module", make)

    # --- which modules ----------------------------------------------------------------------

    def is_meant(self, name):
        from ._torch_modules import PREFIX

        text = (PREFIX + name).encode()
        return any(self.match(p, text, _IGNORE_CASE) == 0 for p in self.patterns)

    def find(self, ddp):
        """Outermost modules that are meant and can be called, by name."""
        from ._torch_facts import clean_name

        found, root = {}, ddp.module
        if self.is_meant(type(ddp).__name__):
            return {"": root}
        for name, part in root.named_modules():
            if any(name.startswith(outer + ".") or not outer for outer in found):
                continue
            if type(part).forward is self.torch.nn.Module.forward:
                continue  # a list of modules: nobody calls it
            if self.is_meant(clean_name(name) or type(part).__name__):
                found[name] = part
        return found

    def check(self, ddp):
        for name, part in self.find(ddp).items():
            why = self.why_not(part)
            if why:
                return "%s %s" % (name or type(part).__name__, why)
        return None

    def why_not(self, module):
        nn = self.torch.nn
        if "forward" in module.__dict__:
            return "has a forward() of its own, perhaps one that does this already"
        for part in module.modules():
            if isinstance(part, self.torch.jit.ScriptModule):
                return "is TorchScript, or has parts that are"
            if type(part).__name__ == "OptimizedModule" or getattr(
                part, "_compiled_call_impl", None
            ):
                return "is compiled, or has parts that are"
            if isinstance(part, nn.SyncBatchNorm):
                return "has a SyncBatchNorm, whose sums over all ranks would be made twice"
        return None

    def apply(self, ddp):
        found = self.find(ddp)
        for part in found.values():
            self.chosen[id(part)] = _Chosen(part, self.chosen)
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
            known = chosen.get(id(module))
            if (
                known is None
                or known.is_inside
                or not module.training
                or not torch.is_grad_enabled()
                or torch.compiler.is_compiling()
                or not self.is_on
            ):
                return own(module, *args, **kwargs)
            return self.again(known, own, args, kwargs)

        return forward

    def again(self, known, own, args, kwargs):
        """What is given by name comes as one more argument, so that devices are found
        in that, too."""
        module, buffers = known.module(), known.before()

        def run(*args):
            with known.inside():
                return own(module, *args[:-1], **args[-1])

        result = self.checkpoint(
            run,
            *args,
            kwargs,
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), _AsBefore(buffers)),
        )
        known.after(buffers)
        return result


class _Chosen:
    """A module, and which of its buffers a forward pass changes: [] none, None not known
    yet."""

    def __init__(self, module, chosen):
        self.module = weakref.ref(module, lambda _, key=id(module): chosen.pop(key, None))
        self.moving = None
        self.is_inside = False  # of a forward() that calls that of its base class

    @contextlib.contextmanager
    def inside(self):
        self.is_inside = True
        try:
            yield
        finally:
            self.is_inside = False

    def places(self):
        """Where buffers are: pairs of a module's dict of them and a name."""
        parts = self.module().modules()
        return [(part._buffers, n) for part in parts for n in part._buffers]

    def before(self):
        """Of each buffer that may move: where it is, it, its version, a copy."""
        if self.moving is None:
            self.moving = self.places()
            self.is_new = True
        found = [(where, name, where[name]) for where, name in self.moving]
        return [
            (where, name, b, b._version, b.detach().clone())
            for where, name, b in found
            if b is not None
        ]

    def after(self, buffers):
        """The first time it is seen which ones do. Some kernels, as batch norm's, write
        into them unseen by their versions; of a part of which one moves all count."""
        if not self.__dict__.pop("is_new", False):
            return
        parts = {id(where) for where, *row in buffers if _has_moved(where, *row)}
        buffers[:] = [row for row in buffers if id(row[0]) in parts]
        self.moving = [(where, name) for where, name, *_ in buffers]


def _has_moved(where, name, buffer, version, copy):
    now = where[name]
    return now is not buffer or now._version != version or not now.equal(copy)


class _AsBefore:
    """While a forward pass is done again, the buffers are what they were before it. May
    be entered again, by a backward pass that keeps its graph."""

    def __init__(self, buffers):
        self.buffers = buffers

    def __enter__(self):
        self.now = [(where, name, where[name]) for where, name, *_ in self.buffers]
        for where, name, _, _, copy in self.buffers:
            where[name] = copy.clone()

    def __exit__(self, *error):
        for where, name, buffer in self.now:
            where[name] = buffer
        del self.now
