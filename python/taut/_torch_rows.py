# SPDX-License-Identifier: Apache-2.0
"""What the step before a recording looks up, which nothing else watches, as facts of the log
(docs/recording.md, embedding.*): by these a prediction knows what gradients by rows would give."""

import functools
import sys

import torch
from torch import nn
from torch.nn.parallel import distributed

from . import _lookups
from ._torch_facts import clean_name
from ._torch_modules import compiles

MOST_HASHES = 512  # src/whatif/embeddings.c
NODE = "EmbeddingBackward0"


def least_hashes(rows):
    """Of 32 bits, the least of them, ascending: the same of a row on all ranks. rows: int64,
    each once."""
    mask = 0xFFFFFFFF
    h = (rows * 0x9E3779B1) & mask
    for shift, factor in ((16, 0x45D9F3B), (15, 0x2C1B3C6D), (16, 1)):
        h = ((h ^ (h >> shift)) * factor) & mask
    return h.unique()[:MOST_HASHES].tolist()


class _Embedding:
    """Of a step; rows are those of all its passes."""

    def __init__(self, weight):
        self.weight, self.name = weight, None
        self.ids, self.n_lookups = [], 0  # of the pass under way
        self.rows = []
        self.other = 0  # numbers from the first lookup to the last of other uses
        self.goes_whole = False  # `taut run` would not take it by rows

    def pass_ended(self, uses):
        ids, self.ids, n, self.n_lookups = self.ids, [], self.n_lookups, 0
        own = uses.of.get(id(self.weight), ())
        lookups = [node._sequence_nr() for node in own if node.name() == NODE]
        others = [node._sequence_nr() for node in own if node.name() != NODE]
        if not lookups and not others:
            return  # its gradient is none of this pass
        self.rows += ids
        if len(lookups) != n or uses.is_hidden:
            self.goes_whole = True
            return
        self.other = min(others) - min(lookups) if others else 0
        kept = not others and self.weight.grad is not None
        hooks = self.weight._backward_hooks or getattr(
            self.weight, "_post_accumulate_grad_hooks", None
        )
        self.goes_whole |= self.other < 0 or kept or bool(hooks)

    def fact(self):
        rows, weight = torch.cat(self.rows).unique(), self.weight
        numbers = len(weight), weight[0].numel() * weight.element_size(), len(rows), self.other
        hashes = "".join(" %x" % h for h in least_hashes(rows))
        return "embedding." + self.name, " ".join(map(str, numbers)) + hashes


class Lookups:
    """Of one step. What it holds of the job goes with the step; told stays: (key, text)."""

    def __init__(self):
        self.told = []
        self.seen = {}  # by id of the parameter, in the order of first lookups
        self.undo = []

    def begin(self):
        self.told, self.seen = [], {}
        is_summed = __package__ + "._pending" in sys.modules  # by Taut: no prediction asks
        if not compiles() and not is_summed:
            self.replace(nn.Embedding, "forward", self.looking_up)
            self.replace(distributed.DistributedDataParallel, "forward", self.wrapping)

    def replace(self, owner, name, make):
        own = getattr(owner, name)
        ours = functools.wraps(own)(make(own))
        setattr(owner, name, ours)
        self.undo.append((owner, name, ours, own))

    def end(self):
        """Nothing of the job is held, or watched, any more."""
        undo, self.undo = self.undo, []
        for owner, name, ours, own in reversed(undo):
            if getattr(owner, name) is ours:
                setattr(owner, name, own)
        seen, self.seen = self.seen, {}
        try:
            self.told += [e.fact() for e in seen.values() if e.name and not e.goes_whole]
        except Exception as error:
            self.fault(error)

    def is_on(self):
        return bool(self.undo)

    def fault(self, error):
        why = "%s: %s" % (type(error).__name__, error)
        self.told = [("embeddings.fault", " ".join(why.split()))]
        self.seen = {}

    # --- what the job does --------------------------------------------------------------------

    def looking_up(self, own):
        def forward(module, input):
            result = own(module, input)
            try:
                self.looked_up(module, input)
            except Exception as error:
                self.fault(error)
            return result

        return forward

    def looked_up(self, module, ids):
        weight = module._parameters.get("weight")
        if weight is None or weight.device.type != "cpu" or not _lookups.is_plain(module, ids):
            return
        entry = self.seen.setdefault(id(weight), _Embedding(weight))
        entry.ids.append(ids.detach().reshape(-1).long().unique())
        entry.n_lookups += 1

    def wrapping(self, own):
        def forward(ddp, *args, **kwargs):
            result = own(ddp, *args, **kwargs)
            try:
                if self.seen and torch.is_grad_enabled():
                    self.pass_ended(ddp, result)
            except Exception as error:
                self.fault(error)
            return result

        return forward

    def pass_ended(self, ddp, result):
        uses = _lookups.Uses(distributed._find_tensors(result))
        sums = ddp.require_backward_grad_sync
        careful = ddp.find_unused_parameters or getattr(ddp, "static_graph", False)
        for name, parameter in ddp.module.named_parameters():
            entry = self.seen.get(id(parameter))
            if entry:
                entry.name = clean_name(name)
                entry.goes_whole |= careful or not sums
                entry.pass_ended(uses)
