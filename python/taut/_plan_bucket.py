# SPDX-License-Identifier: Apache-2.0
"""The buckets of PyTorch's own DistributedDataParallel: at how many bytes one is full,
and the first of them, or each of them. What the job gives itself, bucket_cap_mb, counts
no more.

Undone for models that are wrapped later; those that are there keep their buckets."""

import contextlib
import dataclasses

from . import _decisions, _options


def make(values):
    first = _bytes(values["BUCKET_FIRST"])
    if "+" not in values["BUCKET"]:
        return Bucket(_bytes(values["BUCKET"]), first)
    if first is not None:
        raise ValueError("each bucket has a size: expected no other of the first")
    each = _options.sizes_of(values["BUCKET"])
    return Bucket(max(each), each[0], each)


def _bytes(text):
    if text and (not text.isdecimal() or not int(text)):
        raise ValueError("expected bytes, found '%s'" % text)
    return int(text) if text else None


class Bucket(_decisions.Decision):
    """cap, first: bytes. None: that of the job; of the first, that of the others. each: of
    each bucket as gradients come, the last one for all behind it; (): cap."""

    def __init__(self, cap, first, each=()):
        text = "bucket" if cap is None else "bucket=%d" % cap
        text += ",first=%d" % first if first and first != cap else ""
        super().__init__("bucket=" + "+".join(map(str, each)) if each else text)
        self.cap, self.first, self.each = cap, first, each

    def install(self, torch):
        self.dist = torch.distributed

        def make(own):
            def _ddp_init_helper(ddp, *args, **kwargs):
                if not self.is_on:
                    return own(ddp, *args, **kwargs)
                with self.sized(ddp):
                    return own(ddp, *args, **kwargs)

            return _ddp_init_helper

        self.replace(_decisions.stock(), "_ddp_init_helper", make)

    @contextlib.contextmanager
    def sized(self, ddp):
        """While its reducer is made, also when it is unpickled, or given back by Taut's
        exchange."""
        cap = ddp.bucket_bytes_cap if self.cap is None else self.cap
        first = cap if self.first is None else self.first
        ddp.bucket_bytes_cap = cap
        if hasattr(ddp, "_bucket_config"):
            ddp._bucket_config = dataclasses.replace(
                ddp._bucket_config,
                bucket_bytes_cap=cap,
                per_bucket_bytes_caps=self.each,
                first_bucket_bytes_cap=first,
            )
            ddp.bucket_bytes_cap_list = list(self.each)
            ddp.bucket_bytes_cap_default = not self.each and first < cap
            yield
            return
        # Before PyTorch had that, a first bucket of another size was the module's.
        usual, self.dist._DEFAULT_FIRST_BUCKET_BYTES = self.dist._DEFAULT_FIRST_BUCKET_BYTES, first
        ddp.bucket_bytes_cap_default = True
        try:
            yield
        finally:
            self.dist._DEFAULT_FIRST_BUCKET_BYTES = usual

    def check(self, ddp):
        if "_taut" in ddp.__dict__:
            return "Taut's exchange has no buckets: expected --no-schedule"
        if getattr(ddp, "_use_python_reducer", False):
            return "torch._dynamo has a reducer of its own"
        if self.each and not hasattr(ddp, "_bucket_config"):
            return "this PyTorch has one size for all buckets but the first"
        if self.each and ddp.find_unused_parameters and not ddp.static_graph:
            return "with find_unused_parameters buckets are not made as gradients come"
        return None

    def apply(self, ddp):
        self.made()
