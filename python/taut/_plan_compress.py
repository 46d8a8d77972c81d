# SPDX-License-Identifier: Apache-2.0
"""Gradients in 16 bits on the wire, where PyTorch's own DistributedDataParallel sums
them: its hooks for that, as a job would register them. On Taut's exchange Taut does
it, and the control of the model says so by `compresses`; of mxint8 nobody else does.

Undone for models that are wrapped later: PyTorch takes no hook back."""

import weakref

from . import _decisions, _options

WORDS = _options.NAMES["COMPRESS"][1:]
OURS = "mxint8"
NO_HOOK = "PyTorch, which sums this model, has no hook for it"


def make(values):
    if values["COMPRESS"] not in WORDS:
        raise ValueError("expected %s, found '%s'" % (" or ".join(WORDS), values["COMPRESS"]))
    return Compress(values["COMPRESS"])


class Compress(_decisions.Decision):
    def __init__(self, how):
        super().__init__("compress=" + how)
        self.how = how
        self.hooked = weakref.WeakSet()

    def install(self, torch):
        self.torch, stock = torch, _decisions.stock()
        self.register = stock.register_comm_hook
        for name in ("register_comm_hook", "_register_builtin_comm_hook", "_register_fused_optim"):
            self.replace(stock, name, self.refusing)

    def refusing(self, own):
        def method(ddp, *args, **kwargs):
            if self.is_on and ddp in self.hooked:
                _decisions.refuse("%s: the job registers a hook of its own" % self.text)
            return own(ddp, *args, **kwargs)

        return method

    def check(self, ddp):
        control = ddp.__dict__.get("_taut")
        if control is not None:
            if getattr(control, "compresses", None) == self.how:
                return None
            why = "Taut's exchange does not do it"
            return why if self.how == OURS else why + ": expected --no-schedule"
        if self.how == OURS:
            return NO_HOOK if self.is_summed(ddp) else None
        if getattr(ddp, "mixed_precision", None):
            return "mixed_precision of the wrapper has a hook of its own"
        if getattr(ddp, "_use_python_reducer", False):
            return "torch._dynamo has a reducer of its own"
        nn = self.torch.nn
        for part in ddp.module.modules():
            if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.sparse:
                return "gradients are sparse"
        return None

    def apply(self, ddp):
        if "_taut" not in ddp.__dict__ and self.how != OURS:
            group = ddp.process_group
            is_default = group is self.torch.distributed.group.WORLD
            # A group cannot be pickled with the model; the default one is named by None.
            self.register(ddp, None if is_default else group, self.hook_of(group))
            self.hooked.add(ddp)
        self.made()

    def given_back(self, ddp):
        """In the middle of a job, which goes on."""
        if self.how == OURS:
            self.is_made, self.why = False, NO_HOOK
        else:
            self.apply(ddp)

    def is_summed(self, ddp):
        return self.torch.distributed.get_world_size(ddp.process_group) > 1

    def hook_of(self, group):
        """PyTorch lets its hook for bf16 be registered with NCCL alone, by its name;
        whether another library adds up such numbers is found out by one."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        dist = self.torch.distributed
        if self.how != "bf16" or dist.get_backend(group) == "nccl":
            return getattr(default_hooks, self.how + "_compress_hook")
        dist.all_reduce(self.torch.ones(1, dtype=self.torch.bfloat16), group=group)
        return narrow_hook


def narrow_hook(process_group, bucket):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    return default_hooks.bf16_compress_hook(process_group, bucket)
