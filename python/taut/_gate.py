# SPDX-License-Identifier: Apache-2.0
"""Whether crossing the barrier can pay: forward, backward, update and communication
times of some steps, without it, when each parameter is needed and its gradient is
ready, and the bound that they give. Where it can, some steps are made with it, and it
stays if those were shorter."""

import collections
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

from . import _options, _pending, _sync

WARM, MEASURED = 3, 6  # steps
TRIAL_WARM, TRIAL_MEASURED = 2, 6
LEAST_GAIN = 1.02
WINDOW_SAYS = 1.01  # times the bound of computation and link: then the window is named

Bound = collections.namedtuple(
    "Bound", "forward backward update communication exposed window crossed gain"
)
# Of one parameter: what its update takes, in ns, and when it is needed and its gradient
# is ready: in a step as parts of the forward and the backward pass, for passes of another
# step are longer; of all steps in ns since the step's begin.
Asks = collections.namedtuple("Asks", "update need ready")


def _of_all(process_group, worst):
    """The largest of each that a rank has."""
    worst = torch.tensor(worst, dtype=torch.float64)
    dist.all_reduce(worst, dist.ReduceOp.MAX, group=process_group)
    return worst.tolist()


def _medians(steps, forward_ns, backward_ns):
    """Of what is in all of these, by task, in passes that take so long."""
    found = {}
    for task in sorted(set.intersection(*map(set, steps)) if steps else ()):
        update, need, ready = (statistics.median(s[task][i] for s in steps) for i in range(3))
        found[task] = Asks(update, forward_ns * need, forward_ns + backward_ns * ready)
    return found


class Gate:
    def __init__(self, sums):
        self.sums = sums
        # Of forward, backward, communication, what was waited for behind the
        # backward pass, and the whole step, in ns.
        self.steps = []
        self.asked = []  # of each step: Asks by task
        self.begun_ns = self.forward_ns = None
        self.busy_ns = 0
        self.needs, self.updates = {}, {}  # of this step, by task
        self.asks, self.window = {}, None  # of all steps, once there is a bound

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
            self.asked.append(self.asked_for(ended, backward))
        self.busy_ns, self.sums.exposed_ns = busy, 0
        self.forward_ns, self.begun_ns = None, now
        self.needs, self.updates = {}, {}

    def needed(self, records):
        """A module begins; of a forward pass the first time counts."""
        if self.begun_ns is None or self.forward_ns is not None:
            return
        now = time.monotonic_ns()
        for record in records:
            self.needs.setdefault(record.task, now)

    def updated(self, optimizer, ns):
        """A step() took so long: each parameter by its bytes."""
        some = [p for group in optimizer.param_groups for p in group["params"]]
        some = [(p, p.numel() * p.element_size()) for p in some if p.grad is not None]
        whole = sum(n_bytes for _, n_bytes in some)
        for p, n_bytes in some:
            record = _pending.records.get(id(p))
            if record is not None and record.sums is self.sums and n_bytes:
                before = self.updates.get(record.task, 0)
                self.updates[record.task] = before + ns * n_bytes / whole

    def asked_for(self, ended_ns, backward_ns):
        """By task, but for those that no module of this step began with, or that had
        no gradient of their own."""
        forward_ns = max(ended_ns - self.begun_ns, 1)
        found = {}
        for task, need_ns in self.needs.items():
            ready_ns = self.sums.ready_ns[task]
            if ready_ns >= need_ns:
                need = (need_ns - self.begun_ns) / forward_ns
                ready = max(ready_ns - ended_ns, 0) / max(backward_ns, 1)
                found[task] = Asks(self.updates.get(task, 0), need, ready)
        return found

    def forward_ended(self):
        self.forward_ns = time.monotonic_ns()

    def is_over(self):
        return len(self.steps) >= WARM + MEASURED

    def bound(self, process_group):
        """The same on all ranks. Passes take what they take on the slowest rank;
        a rank that is late is waited for on the others, so communication takes
        what it takes where it is shortest. Windows are each rank's own, and the
        largest holds for all."""
        measured = self.steps[WARM:]
        f, b, c, e, self.step_ns = (statistics.median(s[i] for s in measured) for i in range(5))
        self.asks = _medians(self.asked[WARM:], f, b)
        u = sum(asks.update for asks in self.asks.values())
        forward, backward, update, c, e = _of_all(process_group, [f, b, u, -c, -e])
        self.window = _sync.window(self.demands(-c))
        (window,) = _of_all(process_group, [self.window.bound_ns])
        bound = _sync.bound(
            forward_ns=forward,
            backward_ns=backward,
            update_ns=update,
            communication_ns=-c,
            exposed_ns=-e,
            window_ns=window,
        )
        crossed, gain = bound.crossed_ns, bound.most_gain
        return Bound(forward, backward, update, -c, -e, window, crossed, gain)

    def demands(self, communication_ns):
        """As in struct taut_sync_demand: each gradient takes the link by its bytes there."""
        whole = self.sums.gradient_bytes()
        return [
            (communication_ns * self.sums.bytes_of(self.sums.records[task]) / (whole or 1), *asks)
            for task, asks in self.asks.items()
        ]

    def window_text(self, bound):
        """What keeps a step above what core and link are busy for."""
        plain = max(bound.forward + bound.backward + bound.update, bound.communication)
        if bound.window <= WINDOW_SAYS * plain:
            return ""
        return "; %.1f ms cannot be hidden: %s last and needed first" % (
            (bound.window - plain) / 1e6,
            self.window_names(),
        )

    def window_names(self):
        """The largest of this rank's window."""
        window = self.window
        inside = [
            self.sums.records[task]
            for task, (update, need, ready) in self.asks.items()
            if int(need) <= window.ready_ns <= int(ready)
            and int(need) - int(update) <= window.due_ns
        ]
        if not inside:
            return "some gradients are there"
        name = max(inside, key=self.sums.bytes_of).name
        if len(inside) == 1:
            return "the gradient of %s is there" % name
        return "the gradients of %s and %d more are there" % (name, len(inside) - 1)

    def write(self, bound):
        """For who compares measurements with bounds: into the file TAUT_RUN_MEASURED."""
        path = os.environ.get("TAUT_RUN_MEASURED")
        if not path:
            return
        times = {name + "_ns": ns for name, ns in bound._asdict().items() if name != "gain"}
        tasks = []
        for task, asks in self.asks.items():
            record = self.sums.records[task]
            row = {name + "_ns": ns for name, ns in asks._asdict().items()}
            tasks.append(dict(row, name=record.name, bytes=self.sums.bytes_of(record)))
        told = dict(times, step_ns=self.step_ns, most_gain=bound.gain)
        told["gradient_bytes"] = self.sums.gradient_bytes()
        try:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(dict(told, tasks=tasks), file)
        except OSError as why:
            _options.say("TAUT_RUN_MEASURED: %s" % why)

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
