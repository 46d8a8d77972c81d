# SPDX-License-Identifier: Apache-2.0
"""What the training programs beside this file share. They know nothing of Taut; each
does something else between backward() and the next forward pass, and says all that
it saw. What it sees must be the same with PyTorch's DistributedDataParallel and
with Taut's.

    gradients.py [NAME...] [-NAME...]    prints a line of JSON for each, on each rank;
                                         -NAME: for all but these

With TAUT_TEST_LATE=1 no sum is there before somebody waits for it, so that every
gradient and every update is as late as it can be."""

import hashlib
import importlib
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim import SGD

STEPS = 4
programs = {}


def program(function):
    programs[function.__name__] = function
    return function


class Net(nn.Module):
    """A scale of its own, a layer used twice, a norm with buffers."""

    def __init__(self, width=16):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.first = nn.Linear(8, width)
        self.twice = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 4)

    def forward(self, x):
        x = torch.relu(self.first(x)) * self.scale
        x = self.norm(self.twice(torch.tanh(self.twice(x))))
        return self.last(x)


class Branches(nn.Module):
    """Which branch a batch takes depends on rank and step; one is never taken."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.branches = nn.ModuleList(nn.Linear(8, 4) for _ in range(4))
        self.never = nn.Linear(8, 4)
        self.step = -1

    def forward(self, x):
        self.step += 1
        return self.branches[(self.step + dist.get_rank()) % 4](self.first(x))


def batch(step, part=0):
    g = torch.Generator().manual_seed(100 * step + 10 * part + dist.get_rank())
    return torch.randn(6, 8, generator=g), torch.randint(4, (6,), generator=g)


def loss_of(model, step, part=0):
    x, y = batch(step, part)
    return functional.cross_entropy(model(x), y)


def digest(tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().contiguous().numpy().tobytes() if t is not None else b"none")
    return h.hexdigest()[:16]


def late(model):
    return sum(type(p).__name__ == "Pending" for p in model.parameters())


class Job:
    """A model and its optimizer; seen: what the program saw."""

    def __init__(self, optimizer=SGD, model=None, ddp=None, **options):
        self.net = model or Net()
        self.model = DDP(self.net, **(ddp or {}))
        options.setdefault("lr", 0.05)
        self.optimizer = optimizer(self.model.parameters(), **options)
        self.seen, self.most_late = [], 0

    def saw(self, *tensors):
        self.seen.append(digest(tensors))

    def saw_all(self):
        self.saw(*self.model.parameters(), *self.model.buffers())

    def backward(self, step, part=0):
        loss = loss_of(self.model, step, part)
        loss.backward()
        self.seen.append(loss.item())

    def step(self):
        self.optimizer.step()
        self.most_late = max(self.most_late, late(self.model))

    def train(self, between=lambda: None, after=lambda: None, steps=STEPS):
        for i in range(steps):
            self.optimizer.zero_grad()
            self.backward(i)
            between()
            self.step()
            after()
        return self

    def result(self):
        self.saw_all()
        return {"seen": self.seen, "late": self.most_late}


def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return None


def make_late():
    """Nothing is there until somebody waits, who then goes on before the thread that
    said so."""
    for name in ("_group", "_sync", "_torch_server"):
        cls = importlib.import_module("_taut." + name).Exchange
        cls.next = (lambda own: lambda self, s: own(self, s) if s else None)(cls.next)
    cls = importlib.import_module("_taut._group").Exchange
    cls.done = (lambda own: lambda self, *a: (own(self, *a), time.sleep(0.002)))(cls.done)


def leave():
    """Ends the group, and returns when its threads hold nothing any more: one that
    drops its last tensor while the interpreter ends takes the process with it,
    "terminate called without an active exception", with Taut and without."""
    dist.destroy_process_group()
    quiet = 0  # looks: one that waits for the interpreter sleeps, too
    while quiet < 5:
        time.sleep(0.02)
        tasks = pathlib.Path("/proc/self/task").iterdir()
        quiet = 0 if any(awake(task) for task in tasks) else quiet + 1


def awake(task):
    """Whether this is a thread of Gloo's that is at work."""
    try:
        name, state = (task / "stat").read_text().split("(", 1)[1].rsplit(") ", 1)
    except FileNotFoundError:
        return False  # ended meanwhile
    return name == "pt_gloo_runloop" and not state.startswith("S")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if os.environ.get("TAUT_TEST_LATE") == "1" and "_taut" in sys.modules:
        make_late()
    but = {name[1:] for name in sys.argv[1:] if name.startswith("-")}
    for name in [n for n in sys.argv[1:] if n[0] != "-"] or programs:
        if name in but:
            continue
        torch.manual_seed(1)
        print(json.dumps(dict(programs[name](), name=name)), flush=True)
    if "ends_in_the_middle" not in sys.argv:
        leave()
