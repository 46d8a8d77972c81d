# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs of the wrapped model's forward and backward pass, while it trains:
_graph_capture.py says how a pass is captured and played.

The first training batch is what both passes are captured for, before the job's first step:
a model that cannot be captured, or of which a play gives something else than the model does,
ends the job there. A batch of another form (shapes, types, what is no tensor, a module's mode or
attribute, a parameter in another place) is run as it was; the third of a form is captured too,
up to some forms. So is run as it was what comes while the backward pass of a play is still to
come, and all that is not training.

Kernels, their order and their random numbers are those of the model. One rank alone: gradients
come together at the end of the backward pass, and nothing of their sums would go under it.

Undone from the next forward pass on."""

import weakref

from . import _decisions, _plan_amp, _plan_microbatches, _plan_modules

DEVICE = "cuda"


def make(values):
    if values["GRAPHS"] != "on":
        raise ValueError("expected on, found '%s'" % values["GRAPHS"])
    return Graphs()


class Graphs(_decisions.Decision):
    def __init__(self):
        super().__init__("graphs")
        self.models = weakref.WeakKeyDictionary()  # DistributedDataParallel -> Model
        self.n_played = self.n_others = 0
        self.reason = ""

    def install(self, torch):
        from torch.utils import _pytree

        from . import _graph_forms

        self.torch, self.tree, self.forms = torch, _pytree, _graph_forms
        self.replace_forward()

    def trains(self, ddp):
        return (
            self.is_on
            and ddp.training
            and self.torch.is_grad_enabled()
            and not self.torch.compiler.is_compiling()
        )

    # --- whether it can be made --------------------------------------------------------------

    def check(self, ddp):
        if ddp.device_type != DEVICE:
            return "the model is on %s: CUDA graphs are of a GPU" % ddp.device_type
        if len({p.device for p in ddp.module.parameters()}) > 1:
            return "the model is on several devices"
        if ddp.process_group.size() > 1:
            return "gradients of several ranks would all be summed behind the backward pass"
        if getattr(ddp, "mixed_precision", None):
            return "mixed_precision of the wrapper is given"
        for kind in (_plan_microbatches.Microbatches, _plan_modules.Modules):
            for other in _decisions.of(kind):
                return "not beside %s" % other.text
        for name, part in ddp.module.named_modules():
            if isinstance(part, self.torch.jit.ScriptModule):
                return "%s is TorchScript" % (name or "the model")
            if type(part).__name__ == "OptimizedModule" or getattr(
                part, "_compiled_call_impl", None
            ):
                return "%s is compiled" % (name or "the model")
        return None

    def first(self, ddp, leaves, form):
        """Of a model's first forward pass: ends the job where it cannot be captured."""
        model = self.forms.Model(ddp)
        row = model.row_of(leaves, form)
        why = model.why_not or model.capture(row, leaves, form)
        _decisions.agree(ddp, why and "graphs: %s" % why)
        self.models[ddp] = model
        return row

    # --- one forward pass ------------------------------------------------------------------------

    def run(self, own, ddp, inputs, kwargs):
        leaves, form = self.tree.tree_flatten((inputs, kwargs))
        model = self.models.get(ddp)
        row = self.first(ddp, leaves, form) if model is None else model.row_of(leaves, form)
        model = self.models[ddp]
        captured = model.find(row, leaves, form)
        if captured is None:
            return self.as_it_was(own, ddp, model, inputs, kwargs)
        widens = any(amp.widens for amp in _decisions.of(_plan_amp.Amp))
        result = captured.play(leaves, model.begin(), widens)
        self.n_played += 1
        if self.n_played >= self.n_others:
            self.made()
        return result

    def as_it_was(self, own, ddp, model, inputs, kwargs):
        self.n_others += 1
        if self.n_others > self.n_played:
            self.is_made = False
            self.why = "%d of %d forward passes were run as they were, the last one because %s" % (
                self.n_others,
                self.n_others + self.n_played,
                model.why_not,
            )
        return own(ddp, *inputs, **kwargs)
