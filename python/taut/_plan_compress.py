# SPDX-License-Identifier: Apache-2.0
"""Gradients in 16 bits on the wire, where PyTorch's own DistributedDataParallel sums
them: its hooks for that, as a job would register them. On Taut's exchange Taut does
it, and the control of the model says so by `compresses`.

Undone for models that are wrapped later: PyTorch takes no hook back."""

import weakref

from . import _decisions

WORDS = ("fp16", "bf16")


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
            ours = getattr(control, "compresses", None) == self.how
            return None if ours else "Taut's exchange does not do it: expected --no-schedule"
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
        if "_taut" not in ddp.__dict__:
            group = ddp.process_group
            is_default = group is self.torch.distributed.group.WORLD
            # A group cannot be pickled with the model; the default one is named by None.
            self.register(ddp, None if is_default else group, self.hook_of(group))
            self.hooked.add(ddp)
        self.made()

    given_back = apply

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
