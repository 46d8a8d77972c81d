# SPDX-License-Identifier: Apache-2.0
"""A small job that knows nothing of Taut.

    simple.py [--steps N] [--width N] [--times F,B,C,E[,S]] [--status N] [--end exit|kill|raise|early] [--catches]
              [--lacks library|engine|gate|compress|reason|eyes|listener|taut|decision]

--end: what rank 1 does after its last step but one; early: it is killed before its
last backward(), and nobody reads what was trained. --catches: the others then leave
the process group, and end well. Prints a line of JSON."""

import argparse
import importlib
import json
import os
import signal
import socket
import sys
import time

import torch
import torch.distributed as dist
from base import leave
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--times", default="", help="what the gate measures, in ms")
    p.add_argument("--end", default="")
    p.add_argument("--catches", action="store_true")
    p.add_argument("--lacks", default="", help="what rank 1 has not, or has otherwise")
    p.add_argument("--status", type=int, default=0)
    return p.parse_args()


def pretend(times):
    """That each step's forward, backward, communication, and wait behind it took so
    many ms, and, once it crosses, the whole step."""
    gate = sys.modules["_taut._gate"]
    ns = [float(t) * 1e6 for t in times.split(",")]
    whole = ns[0] + max(ns[1] + ns[3], ns[2])
    step = [*ns[:4], whole]
    gate.Gate.begin = lambda self, completed: self.steps.extend([step] * completed)
    if len(ns) > 4:
        gate.Trial.begin = lambda self, completed: self.times.extend(ns[4:] * completed)


def lack(what):
    if what == "library":
        os.environ["TAUT_LIB"] = "/nowhere/libtaut.so"
    if what == "gate":
        os.environ["TAUT_RUN_GATE"] = "on"
    if what == "compress":
        os.environ["TAUT_RUN_COMPRESS"] = "bf16"
    if what == "reason":
        sys.modules["_taut._ddp"].why_not = lambda *arguments: "a reason of its own"
    if what == "eyes":
        sys.modules["_taut._control"].why_not_cross = lambda module: "it is not seen"
    if what == "decision":
        sys.modules["_taut._decisions"].undo()
    if what == "taut":
        global DDP
        DDP = sys.modules["_taut._ddp"].Stock
    if what == "listener":

        def create_server(*arguments, **options):
            raise OSError("there is no socket for it")

        socket.create_server = create_server
    if what == "engine":

        def exchange(self, limits):
            raise OSError("there is no memory for it")

        for name in ("_taut._sync", "_taut._group"):
            sys.modules[name].Engine.exchange = exchange


def end(how):
    if how in ("kill", "early"):
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise ValueError("the job's own error")
    if how == "exit":
        sys.exit(3)


def main():
    o = arguments()
    try:
        train(o)
    except RuntimeError:
        if not o.catches:
            raise
        dist.destroy_process_group()
        print(json.dumps({"name": "left", "is_there": dist.is_initialized()}), flush=True)


def train(o):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if o.times:
        pretend(o.times)
    if o.lacks in ("taut", "decision"):
        importlib.import_module("_taut._agree").SECONDS = 5
    if o.lacks and dist.get_rank() == 1:
        lack(o.lacks)
    torch.manual_seed(dist.get_rank())  # the constructor makes them equal
    layers = [nn.Linear(o.width, o.width) for _ in range(4)]
    model = DDP(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = time.perf_counter()
    for step in range(o.steps):
        x = torch.full((4, o.width), float(step + dist.get_rank() + 1))
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if o.end == "early" and dist.get_rank() == 1 and step == o.steps - 1:
            end(o.end)
        loss.backward()
        if o.end not in ("", "early") and dist.get_rank() == 1 and step == o.steps - 2:
            end(o.end)
        optimizer.step()
    if o.end == "early":
        dist.destroy_process_group()
        return
    seconds = time.perf_counter() - began
    total = sum(p.double().sum().item() for p in model.parameters())
    print(json.dumps({"name": "simple", "total": total, "seconds": seconds}), flush=True)
    leave()
    sys.exit(o.status)


if __name__ == "__main__":
    main()
