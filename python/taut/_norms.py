# SPDX-License-Identifier: Apache-2.0
"""What batch norms keep of their batches, which is rank 0's on all ranks.

DistributedDataParallel sends it when a forward pass begins, which waits for it, behind
whatever gradients are under way. Rank 0 has it as soon as the pass before has ended:

    PyTorch   send, wait | forward | backward | send, wait | forward
    Taut                 | forward | backward |            | forward
                                     ... sent ...

In training a batch norm writes it and never reads it. So nothing that is computed depends
on when it comes, and all ranks have the same as with PyTorch, but where somebody else
changes it between two passes: that reaches the other ranks one pass later. Passes that
read it, in evaluation, are PyTorch's."""

import time

import torch
from torch import nn

WAIT_SECONDS = 0.2  # after which Python looks for signals
KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)  # and none that is made of them
ALIGN = 8  # bytes, of any type


def describe(module):
    """Name, type and shape of each buffer, where all are of batch norms and on the host;
    else None."""
    own = {id(b) for norm in _norms(module) for b in norm.buffers(recurse=False)}
    found = []
    for name, buffer in module.named_buffers():
        if id(buffer) not in own or buffer.device.type != "cpu" or not buffer.is_contiguous():
            return None
        found.append([name, str(buffer.dtype), list(buffer.shape)])
    return found or None


def _norms(module):
    return [part for part in module.modules() if type(part) in KINDS]


class _Registered:
    """How often a buffer was given to any module under a name: PyTorch tells it."""

    times, is_told = 0, False

    @classmethod
    def watch(cls):
        if not cls.is_told:
            cls.is_told = True
            nn.modules.module.register_module_buffer_registration_hook(cls._count)

    @classmethod
    def _count(cls, module, name, buffer):
        cls.times += 1


class Norms:
    """Of one module. described: describe() of it, the same on all ranks."""

    def __init__(self, module, described, is_source):
        self.module, self.described, self.is_source = module, described, is_source
        self.run, self.is_here = None, False  # run: that carries them
        self.norms, self.places = [], []  # places: of each buffer, where it stands, and it
        self.bytes = None  # of all of them, on their way; views: of each
        self.is_over = False  # the module has others now, on all ranks
        self.registered = None  # when that was looked at last
        _Registered.watch()

    def _are_known(self):
        """Where the buffers are; they may have been replaced, as by module.to()."""
        if self.is_over:
            return False
        if self.registered == _Registered.times and all(
            where.get(name) is b for where, name, b in self.places
        ):
            return True
        self.registered = _Registered.times
        self.is_over = describe(self.module) != self.described
        if self.is_over:
            return False
        self.norms, self.places = _norms(self.module), []
        seen = set()
        for norm in self.norms:
            for name, b in norm._buffers.items():
                if b is not None and id(b) not in seen:
                    seen.add(id(b))
                    self.places.append((norm._buffers, name, b))
        self.buffers = [b for _, _, b in self.places]
        if self.bytes is None:
            self._make_room()
        return True

    def _make_room(self):
        at, ends = 0, []
        for b in self.buffers:
            ends.append((at, at + b.nbytes))
            at += -(-b.nbytes // ALIGN) * ALIGN
        self.bytes = torch.empty(at, dtype=torch.uint8)
        self.views = [
            self.bytes[begin:end].view(b.dtype).view(b.shape)
            for b, (begin, end) in zip(self.buffers, ends)
        ]

    def send(self, exchange):
        """At the end of a forward pass of training."""
        self.finish()
        self.is_here = False
        if not self._are_known():
            return
        if self.is_source:
            _copy(self.views, self.buffers)
        self.run = exchange.broadcast(self.bytes)

    def finish(self, seconds=float("inf")):
        """What was sent is here, until it is taken. False: not in time."""
        end = time.monotonic() + seconds
        while self.run and not self.is_here:
            self.is_here = self.run.wait(min(WAIT_SECONDS, max(0, end - time.monotonic())))
            if not self.is_here and time.monotonic() >= end:
                return False
        self.run = None
        return True

    def take(self):
        """At the begin of a forward pass. True: the buffers are rank 0's by now; else
        PyTorch is to send them."""
        self.finish()
        was_here, self.is_here = self.is_here, False
        if not was_here or not torch.is_grad_enabled() or not self._are_known():
            return False
        if not all(norm.training for norm in self.norms):
            return False
        if not self.is_source:
            with torch.autograd._unsafe_preserve_version_counter(tuple(self.buffers)):
                _copy(self.buffers, self.views)
        return True


def _copy(into, source):
    with torch.no_grad():
        torch._foreach_copy_(into, source)
