# SPDX-License-Identifier: Apache-2.0
"""The batches of a wrapped model by their form, and which of them have CUDA graphs.

A form is all that a graph takes for granted: shapes, types and what is no tensor of a batch;
of the model where its parameters and buffers lie, which want gradients, the modes and plain
attributes of its modules, how many hooks they have; autocast's type."""

import weakref

import torch

from . import _graph_capture, _left_behind

FORMS = 4  # that are captured
SEEN = 3  # of another form than the first, before it is
REMEMBERED = 64  # forms that are not captured


class Model:
    """Of a wrapped model: its captured forms, and what is looked at before each play.
    why_not: why the last batch was not played, or cannot be."""

    def __init__(self, ddp):
        self.module = ddp.module
        self.device = next(ddp.module.parameters()).device
        self.recorder = _graph_capture.Recorder(self.device)
        self.parts = list(self.module.named_modules())
        self.parameters = list(self.module.parameters())
        self.buffers = list(self.module.buffers())
        self.hooks = [getattr(p, name) for _, p in self.parts for name in _HOOKS]
        self.places = [
            (vars(part), key)
            for _, part in self.parts
            for key, value in vars(part).items()
            if key == "training" or _is_plain(key, value)
        ]
        self.forms = []  # [row, Captured, how often it was seen]
        self.last = None  # a weak reference to the token of the last play
        self.is_over = False
        self.why_not = self.why_hooked()

    def why_hooked(self):
        for name, part in self.parts:
            for hooks in _HOOKS:
                if any(not _is_ours(hook) for hook in getattr(part, hooks).values()):
                    return "%s has hooks of the job's, which no graph calls" % (name or "the model")
        for name, p in self.module.named_parameters():
            if p._backward_hooks:
                return "%s has hooks of the job's, which no graph calls" % name
        module = torch.nn.modules.module
        for hooks in _HOOKS:
            known = getattr(module, "_global" + hooks, None) or {}
            if any(not _is_ours(hook) for hook in known.values()):
                return "the job has hooks of all modules, which no graph calls"
        return None

    # --- what a batch looks like, and the model by then ------------------------------------------

    def row_of(self, leaves, form):
        """In a form that can be compared; None, and why_not: cannot be captured."""
        rows = [self.row_of_leaf(leaf) for leaf in leaves]
        if None in rows:
            return None
        kind = self.device.type
        narrow = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
        return (
            form,
            rows,
            (narrow, torch.get_float32_matmul_precision()),
            [there.get(key) for there, key in self.places],
            [len(hooks) for hooks in self.hooks],
            [(p.data_ptr(), p.requires_grad) for p in self.parameters],
            [b.data_ptr() for b in self.buffers],
        )

    def row_of_leaf(self, leaf):
        if isinstance(leaf, _left_behind.PLAIN):
            return type(leaf), leaf
        if type(leaf) is not torch.Tensor or leaf.layout != torch.strided:
            self.why_not = "it is given a %s" % type(leaf).__name__
        elif leaf.device != self.device:
            self.why_not = "it is given a tensor of %s" % leaf.device
        elif leaf.requires_grad:
            self.why_not = "it is given a tensor that wants a gradient"
        elif torch.empty_like(leaf, device="meta").stride() != leaf.stride():
            self.why_not = "it is given a tensor with gaps in memory"
        else:
            return leaf.shape, leaf.dtype, leaf.stride()
        return None

    # --- which graph -------------------------------------------------------------------------------

    def capture(self, row, leaves, form):
        """Why it cannot be, or None."""
        if row is None:
            return self.why_not
        try:
            made = _graph_capture.Captured(self.recorder, self.module, leaves, form).make()
        except _graph_capture.Failed as why:
            return str(why)
        except RuntimeError as why:
            return " ".join(str(why).split("\n")[0].split())[:200]
        self.forms.insert(0, [row, made, SEEN])
        return None

    def find(self, row, leaves, form):
        """What is to be played, or None."""
        if row is None or self.is_over:
            return None
        token = self.last and self.last()
        if token and not token.is_done:
            self.why_not = "the backward pass of the one before was still to come"
            return None
        if not all(known[1] is None or known[1].lets_go() for known in self.forms):
            self.is_over = True
            self.why_not = "the job keeps gradients from one step to the next"
            return None
        known = self.known(row)
        if known and known[1] is None and known[2] == SEEN:
            return self.capture_later(known, leaves, form)
        if known and known[1] is None:
            self.why_not = "batches have other forms"
        return known and known[1]

    def known(self, row):
        for known in self.forms:
            if known[0] == row:
                known[2] = min(SEEN, known[2] + 1)
                return known
        self.why_not = "batches have other forms"
        if len(self.forms) < REMEMBERED:
            self.forms.append([row, None, 1])
        return None

    def capture_later(self, known, leaves, form):
        if sum(1 for other in self.forms if other[1]) >= FORMS or self.why_hooked():
            self.why_not = self.why_hooked() or "batches have many forms"
            return None
        self.forms.remove(known)
        why = self.capture(known[0], leaves, form)
        if why:
            self.is_over, self.why_not = True, why
            return None
        return self.forms[0][1]

    def begin(self):
        token = _graph_capture.Token()
        self.last = weakref.ref(token)
        return token


_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def _is_plain(key, value):
    return key not in _left_behind.OWN and isinstance(value, _left_behind.PLAIN)


def _is_ours(hook):
    where = getattr(hook, "__module__", None) or type(hook).__module__
    return where.split(".")[0] == __package__
