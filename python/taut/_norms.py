# SPDX-License-Identifier: Apache-2.0
"""What batch norms keep of their batches, which is rank 0's on all ranks.

DistributedDataParallel sends it when a forward pass begins, which waits for it, behind
whatever gradients are under way. Rank 0 has it as soon as the pass before has ended:

    PyTorch   send, wait | forward | backward | send, wait | forward
    Taut                 | forward | backward | word       | forward
                                     ... sent ...

In training a batch norm writes it and never reads it, so nothing that is computed depends
on when it comes. A pass that reads it, as in evaluation, waits for rank 0's word, sent
when its own pass began, that nobody has changed it since; else for what it is now. A pass
of training does not: what somebody changed before it comes to the other ranks one pass
later, and from then on it is PyTorch that sends.

What ranks send each other follows from how many passes each has made, and not from what
passes they are: as with PyTorch, one rank may evaluate while the others do not."""

import time
import weakref

import torch
from torch import nn

WAIT_SECONDS = 0.2  # after which Python looks for signals
KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)  # and none that is made of them
ALIGN = 8  # bytes, of any type
CHANGED, OVER = 1, 2  # bits of rank 0's word: what it has now follows; PyTorch goes on


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
    """How often a module was given a buffer, or a part: PyTorch tells it."""

    times, is_told = 0, False

    @classmethod
    def watch(cls):
        if not cls.is_told:
            cls.is_told = True
            nn.modules.module.register_module_buffer_registration_hook(cls._count)
            nn.modules.module.register_module_module_registration_hook(cls._count)

    @classmethod
    def _count(cls, module, name, given):
        cls.times += 1


class _Sent:
    """On its way from rank 0, into this memory."""

    def __init__(self, exchange, memory):
        self.exchange, self.run = exchange, exchange.broadcast(memory)
        self.is_here = False

    def wait(self, seconds=float("inf")):
        """False: it has not come in time."""
        end = time.monotonic() + seconds
        while not self.is_here:
            left = max(0, end - time.monotonic())
            self.is_here = self.run.wait(min(WAIT_SECONDS, left))
            if not left:
                break
        return self.is_here


class Norms:
    """Of one module. described: describe() of it, the same on all ranks."""

    def __init__(self, module, described, is_source):
        self.module, self.described, self.is_source = weakref.ref(module), described, is_source
        self.norms, self.places = [], []  # places: of each buffer, where it stands, and it
        self.registered = None  # when that was looked at last
        self.is_over = False  # on all ranks
        self.early = self.now = None  # memory for all of them: as sent early, as of now
        self.word = torch.zeros(1, dtype=torch.int64)
        self.sent = None  # early
        self.said = self.again = None  # of the pass that was begun last: the word, and now
        _Registered.watch()

    # --- where they are -------------------------------------------------------------------

    def _are_known(self):
        """They may have been replaced, as by module.to()."""
        if self.is_over:
            return False
        if self.registered == _Registered.times and all(
            where.get(name) is b for where, name, b in self.places
        ):
            return True
        module, self.registered = self.module(), _Registered.times
        self.is_over = module is None or describe(module) != self.described
        if self.is_over:
            return False
        self.norms, self.places = _norms(module), []
        seen = set()
        for norm in self.norms:
            for name, b in norm._buffers.items():
                if b is not None and id(b) not in seen:
                    seen.add(id(b))
                    self.places.append((norm._buffers, name, b))
        self.buffers = [b for _, _, b in self.places]
        if self.early is None:
            self.early, self.now = _Room(self.buffers), _Room(self.buffers)
        return True

    def _state(self):
        """That is another when somebody has written one of them, or replaced it."""
        return [(id(b), b._version) for b in self.buffers]

    # --- passes ---------------------------------------------------------------------------

    def send(self, exchange):
        """At the end of a pass of training, behind which the next one wants them."""
        self.forget()
        if not self._are_known():
            return
        if self.is_source:
            self.early.fill(self.buffers)
            self.state = self._state()
        self.sent = _Sent(exchange, self.early.bytes)

    def take(self, exchange):
        """At the begin of a pass that wants them. True: they are rank 0's by now; else
        PyTorch is to send them."""
        sent, self.sent = self.sent, None
        if sent is None or not self._are_known():
            return False
        sent.wait()
        reads = not torch.is_grad_enabled() or not all(norm.training for norm in self.norms)
        if self.is_source:
            self._say(exchange, reads)
            return True
        self.said = _Sent(exchange, self.word)
        if reads:
            self._hear()
        (self.now if self.again else self.early).give(self.buffers)
        return True

    def _say(self, exchange, reads):
        is_other = self._state() != self.state
        if reads and not is_other:  # .data and arrays change no version
            is_other = not all(map(torch.equal, self.buffers, self.early.views))
        self.is_over = is_other and not reads
        self.word[0] = (is_other and CHANGED) | (self.is_over and OVER)
        self.said = _Sent(exchange, self.word)
        if is_other:
            self.now.fill(self.buffers)
            self.again = _Sent(exchange, self.now.bytes)

    def _hear(self, seconds=float("inf")):
        """What rank 0 says of this pass is here. False: not in time."""
        end = time.monotonic() + seconds
        if self.said and not self.said.wait(seconds):
            return False
        said, self.said = self.said, None
        if said and not self.is_source and int(self.word[0]):
            self.is_over = self.is_over or bool(int(self.word[0]) & OVER)
            self.again = _Sent(said.exchange, self.now.bytes)
        return not self.again or self.again.wait(max(0, end - time.monotonic()))

    def settle(self, seconds=float("inf")):
        """Nothing is under way. False: not in time."""
        end = time.monotonic() + seconds
        if not self._hear(seconds):
            return False
        self.again = None
        return not self.sent or self.sent.wait(max(0, end - time.monotonic()))

    def forget(self):
        """What was sent, and not taken: the next pass does not want it."""
        self.settle()
        self.sent = None


class _Room:
    """One piece of memory for buffers like these."""

    def __init__(self, like):
        at, places = 0, []
        for b in like:
            places.append((at, at + b.nbytes))
            at += -(-b.nbytes // ALIGN) * ALIGN
        self.bytes = torch.empty(at, dtype=torch.uint8)
        self.views = [
            self.bytes[begin:end].view(b.dtype).view(b.shape)
            for b, (begin, end) in zip(like, places)
        ]

    def fill(self, buffers):
        _copy(self.views, buffers)

    def give(self, buffers):
        """As PyTorch does it: what a backward pass has kept of them counts as unchanged."""
        _copy([b.data for b in buffers], self.views)


def _copy(into, source):
    with torch.no_grad():
        if hasattr(torch, "_foreach_copy_"):
            torch._foreach_copy_(into, source)
            return
        for a, b in zip(into, source):
            a.copy_(b)
