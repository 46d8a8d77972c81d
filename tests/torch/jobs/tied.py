# SPDX-License-Identifier: Apache-2.0
"""A job on a clock of its own, which goes only where this job says so: what the gate
measures of it is known.

    tied.py [--tied] [--uneven] [--steps N]

Three layers as large as each other, 10 ms between two of them forward and 15 ms
backward, step() 2 ms, 20 ms of communication a layer; backward() waits for a layer's at
its end. Without --tied the last is a layer of its own; with it, it is the first, as the
embedding of a language model often is. --uneven: of three steps one takes twice as long
forward, and one backward. Rank 1 is as fast as rank 0."""

import argparse
import sys
import time

import torch
import torch.distributed as dist
from base import leave
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WIDTH, LAYER_MS = 32, 20


class Clock:
    """In place of the module time."""

    monotonic = staticmethod(time.monotonic)
    ms = 1000
    forward, backward = 1, 1  # how slow

    def monotonic_ns(self):
        return self.ms * 1_000_000


clock = Clock()


class _Work(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        clock.ms += 10 * clock.forward
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        clock.ms += 15 * clock.backward
        return grad


class Net(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.words, self.middle = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.head = self.words if tied else nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        x = _Work.apply(self.words(x))
        return self.head(_Work.apply(self.middle(x)))


class SlowSGD(torch.optim.SGD):
    def step(self, closure=None):
        clock.ms += 2
        return super().step(closure)


def pretend(n_layers):
    """The clock, and an exchange that takes its time by it."""
    for name in ("_gate", "_sums", "_cross"):
        sys.modules["_taut." + name].time = clock
    gate = sys.modules["_taut._gate"].Gate
    own, passes = gate.begin, [0]

    def begin(self, completed):
        passes[0] += 1
        self.sums.exposed_ns = LAYER_MS * 1_000_000
        return own(self, completed)

    sync = sys.modules["_taut._sync"].Exchange
    sync.busy_ns = lambda self: passes[0] * n_layers * LAYER_MS * 1_000_000
    gate.begin = begin


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tied", action="store_true")
    p.add_argument("--uneven", action="store_true")
    p.add_argument("--steps", type=int, default=11)
    o = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DDP(Net(o.tied))
    pretend(2 if o.tied else 3)
    optimizer = SlowSGD(model.parameters(), lr=0.01)
    for step in range(o.steps):
        if o.uneven:
            clock.forward, clock.backward = ((1, 2), (2, 1), (1, 1))[step % 3]
        optimizer.zero_grad()
        model(torch.full((4, WIDTH), 1.0 + step)).square().mean().backward()
        optimizer.step()
    leave()


if __name__ == "__main__":
    main()
