# SPDX-License-Identifier: Apache-2.0
"""Gradient accumulation over micro-batches that together are the job's own batch.

What the wrapped model is given is cut along its first dimension, the model runs on one
part after the other, and what it returns is joined. So the job's loop sees what it saw:
one forward pass, one loss over all samples, whatever that divides by, one backward pass,
one step. All parts but the last keep nothing of their forward pass, and do it again when
their backward pass comes. Autograd goes through the last part first, so that activations
of one part alone are there at a time; it adds up what the parts give for a parameter, and
hands it over once, while it goes through the first part: gradients are summed over the
ranks as often as before, and under that part.

It is the same only of a model that takes each sample by itself. Before its first step the
model is run on some rows of its first batch, and on two halves of them: _microbatch_rows.py.
What differs is refused. What comes up later, as a layer that begins to look at its whole
batch, is run whole from there on, and told at the end.

Undone from the next forward pass on."""

import weakref

from . import _decisions

MOST = 1024


def make(values):
    text = values["MICROBATCHES"]
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise ValueError("expected a number from 1 to %d, found '%s'" % (MOST, text))
    return Microbatches(int(text))


class Microbatches(_decisions.Decision):
    def __init__(self, number):
        super().__init__("microbatches=%d" % number)
        self.number = number
        self.models = weakref.WeakKeyDictionary()  # DistributedDataParallel -> _Model
        self.is_over = False  # run whole from some step on

    def install(self, torch):
        from torch.utils import _pytree, checkpoint

        from . import _microbatch_rows

        self.torch, self.tree, self.rows = torch, _pytree, _microbatch_rows
        self.checkpoint = checkpoint.checkpoint
        self.replace_forward()
        if self.number == 1:
            self.made()  # as it is

    def trains(self, ddp):
        return (
            self.is_on
            and not self.is_over
            and self.number > 1
            and ddp.training
            and self.torch.is_grad_enabled()
            and not self.torch.compiler.is_compiling()
        )

    # --- one forward pass -------------------------------------------------------------------

    def run(self, own, ddp, inputs, kwargs):
        leaves, form = self.tree.tree_flatten((inputs, kwargs))
        given = self.rows.Given(leaves, form)
        model = self.models.get(ddp)
        why = self.first(own, ddp, given) if model is None else model.why_not(given)
        if why is None and model and not model.knows(given):
            why = self.look(own, ddp, model, given)
        if why is None and given.count() >= 2:
            joined = self.in_parts(own, ddp, given)
            if joined is not None:
                return joined[0]
            why = "what the model returns for parts of a batch cannot be joined any more"
        if why:
            self.is_over, self.is_made = True, False
            self.why = "from some step on batches were whole: " + why
        elif not self.is_over:
            self.made()  # a batch of one sample is one part
        return own(ddp, *inputs, **kwargs)

    def in_parts(self, own, ddp, given):
        """In a tuple; None: the parts do not fit together. A parameter of each device goes
        to checkpoint(), so that it sees whose random numbers it has to keep."""
        n = min(self.number, given.count())
        of_device = list({p.device: p for p in ddp.module.parameters()}.values())

        def run(leaves, *_):
            inputs, kwargs = self.tree.tree_unflatten(leaves, given.form)
            return own(ddp, *inputs, **kwargs)

        parts = given.parts(n)
        results = [
            self.checkpoint(run, part, *of_device, use_reentrant=False) for part in parts[:-1]
        ]
        results.append(run(parts[-1]))
        try:
            joined = self.rows.join(results, given.sizes(n))
        except self.rows.Unlike:
            return None
        self.made()
        return (joined,)

    # --- whether it can be made --------------------------------------------------------------

    def first(self, own, ddp, given):
        """Of a model's first forward pass: ends the job where it cannot be made; on all
        ranks alike, which all come here."""
        model = _Model(self.torch, ddp)
        why = model.why_not(given) or self.look(own, ddp, model, given)
        _decisions.agree(ddp, why and "%s: %s" % (self.text, why))
        self.models[ddp] = model
        return None

    def look(self, own, ddp, model, given):
        """At what the model returns for some rows. Remembers that this form is right."""
        if given.count() < 2:  # nothing to be told from
            return "its first batch has one sample" if not model.known else None
        why = self.rows.why_not(own, ddp, given, self.number)
        return why or model.take(given)


class _Model:
    """Of a wrapped model: what its batches look like, and the parts that may look at
    several samples."""

    def __init__(self, torch, ddp):
        self.known = []  # (form, which are cut)
        self.parts = list(ddp.module.named_modules())
        norm = torch.nn.modules.batchnorm._BatchNorm
        self.norms = [(name, part) for name, part in self.parts if isinstance(part, norm)]

    def knows(self, given):
        for form, is_cut in self.known:
            if form == given.form:
                return True
        return False

    def take(self, given):
        self.known.append((given.form, given.is_cut))

    def why_not(self, given):
        for name, part in self.norms:
            if part.training:
                return "%s (%s) normalizes over all samples of a batch" % (
                    name or "the model",
                    type(part).__name__,
                )
        for name, part in self.parts:
            for hooks in _HOOKS:
                if any(not _is_ours(hook) for hook in getattr(part, hooks, {}).values()):
                    return "%s has hooks of the job's, which would see parts of a batch" % (
                        name or "the model"
                    )
        for form, is_cut in self.known:
            if form == given.form:
                given.is_cut = is_cut
        return given.why_not()


_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def _is_ours(hook):
    where = getattr(hook, "__module__", None) or type(hook).__module__
    return where.split(".")[0] == __package__
