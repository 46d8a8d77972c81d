# SPDX-License-Identifier: Apache-2.0
"""Jobs of one rank each that know nothing of Taut, and end in some way. Each is a fork
of this process, which has imported PyTorch and does nothing else.

    measured.py HOW...    prints the status of each, as JSON

HOW: end, long, short; exit, raise; waits: for a signal, in C; sleeps: for one, in
Python; started: its rank is a process that multiprocessing starts; gan: two optimizers
step by turns; nowhere: its folder cannot be; hook: says how many ns a look at the clock
takes."""

import json
import multiprocessing
import os
import signal
import sys
import time
import timeit

import torch
import torch._dynamo  # the first step of an optimizer imports it
import torch.distributed as dist
from torch import nn
from torch.optim import optimizer as module

STEPS = {"long": 5000, "short": 7}


def train(how, optimizers=1):
    model = nn.Linear(2, 2)
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for _ in range(optimizers)]
    for _ in range(STEPS.get(how, 30)):
        model(torch.ones(1, 2)).sum().backward()
        if how not in STEPS:
            time.sleep(0.001)
        for optimizer in optimizers:
            optimizer.step()


def measure():
    return next(iter(module._global_optimizer_post_hooks.values())).__self__


def hook():
    own = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    measure().leader = id(own)
    stepped = next(iter(module._global_optimizer_post_hooks.values()))
    times = timeit.repeat(lambda: stepped(own, (), {}), number=1000, repeat=20)
    print(json.dumps({"name": "hook", "ns": min(times) * 1e6}), flush=True)


def be_ready(ready):
    """Its own workers end when they are told to."""
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    worker.start()
    worker.terminate()
    worker.join()
    os.write(ready, b"%d" % worker.exitcode)


def job(how, ready):
    if how == "nowhere":
        measure().folder = "/dev/null/x"
    if how == "started":
        torch.multiprocessing.start_processes(started, nprocs=1, start_method="fork")
        return
    train(how, 2 if how == "gan" else 1)
    if how == "hook":
        hook()
    if how == "exit":
        sys.exit(3)
    if how == "raise":
        raise ValueError("the job's own error")
    if how in ("waits", "sleeps"):
        be_ready(ready)
        if how == "sleeps":
            time.sleep(60)
        dist.TCPStore("127.0.0.1", 0, 1, True).wait(["nothing"])


def started(index):
    train("started")


def main():
    torch.set_num_threads(1)
    ranks = {}
    for rank, how in enumerate(sys.argv[1:]):
        read, ready = os.pipe()
        pid = os.fork()
        if not pid:
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(len(sys.argv) - 1))
            job(how, ready)
            return
        os.close(ready)
        ranks[how] = pid, read
    for how in {"waits", "sleeps"} & set(ranks):
        pid, read = ranks[how]
        assert os.read(read, 8) == b"-15", how
        os.kill(pid, signal.SIGTERM)
    ends = {how: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for how, (pid, _) in ranks.items()}
    print(json.dumps({"name": "ends", "ends": ends}), flush=True)


if __name__ == "__main__":
    main()
