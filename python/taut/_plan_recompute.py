# SPDX-License-Identifier: Apache-2.0
"""Activation checkpointing: what some modules make in the forward pass is not kept, and
made again for their backward pass. _plan_modules.py says which modules.

Random numbers of PyTorch, and buffers that a forward pass changes, as a batch norm's, are
the second time what they were the first time, and afterwards what they would have been."""

import contextlib

from . import _plan_modules


def make(values):
    return Recompute(_plan_modules.patterns_of(values["RECOMPUTE"]))


class Recompute(_plan_modules.Modules):
    def __init__(self, patterns):
        super().__init__("recompute", patterns)

    def install(self, torch):
        from torch.utils import checkpoint

        super().install(torch)
        self.checkpoint = checkpoint.checkpoint

    def choose(self, module):
        return _Chosen(module, self.chosen)

    def why_not(self, module):
        if any(isinstance(part, self.torch.nn.SyncBatchNorm) for part in module.modules()):
            return "has a SyncBatchNorm, whose sums over all ranks would be made twice"
        return super().why_not(module)

    def run(self, known, own, args, kwargs):
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


class _Chosen(_plan_modules.Chosen):
    """Also which of its buffers a forward pass changes: [] none, None not known yet."""

    def __init__(self, module, chosen):
        super().__init__(module, chosen)
        self.moving = None

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
