# SPDX-License-Identifier: Apache-2.0
"""Autocast around the forward pass of a wrapped model while it trains. What the model
returns is of the type that the job expects, so that what it does with it, the loss too
where it is not made inside of the model, is done in the precision of before.

Undone from the next forward pass on."""

from . import _decisions


def make(values):
    if values["AMP"] == "fp16":
        raise ValueError(
            "fp16 needs losses that are scaled, which is the job's to do by a GradScaler: "
            "expected bf16"
        )
    if values["AMP"] != "bf16":
        raise ValueError("expected bf16, found '%s'" % values["AMP"])
    return Amp()


class Amp(_decisions.Decision):
    def __init__(self):
        super().__init__("amp=bf16")
        self.widens = False  # what is returned now

    def install(self, torch):
        from torch.utils import _pytree

        self.torch, self.map = torch, _pytree.tree_map
        self.replace_forward()

    def run(self, own, ddp, inputs, kwargs):
        self.widens = True
        try:
            with self.torch.autocast(ddp.device_type, dtype=self.torch.bfloat16):
                output = own(ddp, *inputs, **kwargs)
        finally:
            self.widens = False
        self.made()
        return self.map(self.widened, output)

    def trains(self, ddp):
        if not self.is_on or not ddp.training or not self.torch.is_grad_enabled():
            return False
        if self.torch.is_autocast_enabled(ddp.device_type):
            self.why = self.why if self.is_made else "the job has an autocast of its own"
            return False
        return True

    def widened(self, value):
        is_narrow = isinstance(value, self.torch.Tensor) and value.dtype == self.torch.bfloat16
        return value.float() if is_narrow else value

    def check(self, ddp):
        types = {p.dtype for p in ddp.module.parameters() if p.is_floating_point()}
        if self.torch.float32 not in types:
            names = sorted(str(t) for t in types)
            return "parameters are of %s" % " and ".join(names or ["no floating type"])
        if getattr(ddp, "mixed_precision", None):
            return "mixed_precision of the wrapper is given"
        if ddp.device_type == "cuda" and not self.torch.cuda.is_bf16_supported():
            return "the device has no bf16"
        return None
