# SPDX-License-Identifier: Apache-2.0
"""Whether crossing the barrier can pay: forward, backward and communication times
of some steps, without it, and the bound that they give."""

import collections
import statistics
import time

import torch
import torch.distributed as dist

from . import _sync

WARM, MEASURED = 3, 6  # steps
LEAST_GAIN = 1.02

Bound = collections.namedtuple("Bound", "forward backward communication gain")


class Gate:
    def __init__(self, sums):
        self.sums = sums
        self.steps = []  # of forward, backward, communication, in ns
        self.begun_ns = self.forward_ns = None
        self.busy_ns = 0

    def begin(self, completed):
        """A forward pass begins. completed: the last one was of an iteration whose
        gradients all were summed. Those alone count: a rank may have more passes
        than the others, but as many of these."""
        busy = self.sums.exchange.busy_ns()
        if completed:
            ended = self.forward_ns or self.begun_ns
            backward = max(self.sums.last_hook_ns - ended, 0)
            self.steps.append((ended - self.begun_ns, backward, busy - self.busy_ns))
        self.busy_ns = busy
        self.forward_ns, self.begun_ns = None, time.monotonic_ns()

    def forward_ended(self):
        self.forward_ns = time.monotonic_ns()

    def is_over(self):
        return len(self.steps) >= WARM + MEASURED

    def bound(self, process_group):
        """The same on all ranks. Passes take what they take on the slowest rank;
        a rank that is late is waited for on the others, so communication takes
        what it takes where it is shortest."""
        steps = self.steps[WARM:]
        own = [statistics.median(s[i] for s in steps) for i in range(3)]
        worst = torch.tensor([own[0], own[1], -own[2]], dtype=torch.float64)
        dist.all_reduce(worst, dist.ReduceOp.MAX, group=process_group)
        forward, backward, communication = worst[0].item(), worst[1].item(), -worst[2].item()
        gain = _sync.most_gain(forward, backward, communication)
        return Bound(forward, backward, communication, gain)
