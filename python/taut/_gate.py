# SPDX-License-Identifier: Apache-2.0
"""Whether crossing the barrier can pay: forward, backward and communication times
of some steps, without it, and the bound that they give. Where it can, some steps
are made with it, and it stays if those were shorter."""

import collections
import statistics
import time

import torch
import torch.distributed as dist

from . import _sync

WARM, MEASURED = 3, 6  # steps
TRIAL_WARM, TRIAL_MEASURED = 2, 6
LEAST_GAIN = 1.02

Bound = collections.namedtuple("Bound", "forward backward communication exposed gain")


def _of_all(process_group, worst):
    """The largest of each that a rank has."""
    worst = torch.tensor(worst, dtype=torch.float64)
    dist.all_reduce(worst, dist.ReduceOp.MAX, group=process_group)
    return worst.tolist()


class Gate:
    def __init__(self, sums):
        self.sums = sums
        # Of forward, backward, communication, what was waited for behind the
        # backward pass, and the whole step, in ns.
        self.steps = []
        self.begun_ns = self.forward_ns = None
        self.busy_ns = 0

    def begin(self, completed):
        """A forward pass begins. completed: the last one was of an iteration whose
        gradients all were summed. Those alone count: a rank may have more passes
        than the others, but as many of these."""
        busy, now = self.sums.exchange.busy_ns(), time.monotonic_ns()
        if completed:
            ended = self.forward_ns or self.begun_ns
            backward = max(self.sums.last_hook_ns - ended, 0)
            self.steps.append(
                (
                    ended - self.begun_ns,
                    backward,
                    busy - self.busy_ns,
                    self.sums.exposed_ns,
                    now - self.begun_ns,
                )
            )
        self.busy_ns, self.sums.exposed_ns = busy, 0
        self.forward_ns, self.begun_ns = None, now

    def forward_ended(self):
        self.forward_ns = time.monotonic_ns()

    def is_over(self):
        return len(self.steps) >= WARM + MEASURED

    def bound(self, process_group):
        """The same on all ranks. Passes take what they take on the slowest rank;
        a rank that is late is waited for on the others, so communication takes
        what it takes where it is shortest."""
        measured = self.steps[WARM:]
        f, b, c, e, self.step_ns = (statistics.median(s[i] for s in measured) for i in range(5))
        forward, backward, c, e = _of_all(process_group, [f, b, -c, -e])
        gain = _sync.most_gain(forward, backward, -c, -e)
        return Bound(forward, backward, -c, -e, gain)

    def piece_bytes(self, bound):
        """What a piece is on this link."""
        return _sync.piece_bytes(self.sums.gradient_bytes(), bound.communication)


class Trial:
    """Steps that cross, beside those before, of step_ns."""

    def __init__(self, step_ns):
        self.before_ns = step_ns
        self.times, self.begun_ns = [], None

    def begin(self, completed):
        """As Gate.begin()."""
        now = time.monotonic_ns()
        if completed and self.begun_ns is not None:
            self.times.append(now - self.begun_ns)
        self.begun_ns = now

    def is_over(self):
        return len(self.times) >= TRIAL_WARM + TRIAL_MEASURED

    def steps_ns(self, process_group):
        """Without and with, the same on all ranks: what the slowest takes."""
        crossed = statistics.median(self.times[TRIAL_WARM:])
        return _of_all(process_group, [self.before_ns, crossed])
