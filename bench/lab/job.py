#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A data-parallel training job: DistributedDataParallel over Gloo, one core a
rank, one of the four models of models.py. RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT come from the environment, as torchrun sets them.

    torchrun --nproc-per-node 2 job.py --model vgg --steps 30 --out times.json

It knows nothing of Taut. Each rank writes the seconds of its steps, each from
asking for the batch to the end of the optimiser's step.

With --serve it does one such job after another, told by lines of JSON on its
standard input, so that a matrix of jobs pays for one start of Python: the
options as an object, with "world", "port" and "steps"; it answers "ready" when
it stands before its first step, begins with the line "go", and answers with its
times. Before the first step and behind the last, all ranks at once time a fixed
piece of work ("speed"), which says whether the machine was as fast as at other
times. The job's ranks are the "world" processes from "first" on, and the first of
them is at "master". A job of one rank with no steps goes on until a line comes."""

import argparse
import functools
import gc
import io
import json
import os
import select
import sys
import time

import models
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

# name, default, help
OPTIONS = [
    ("model", "vgg", "one of " + " ".join(models.MODELS)),
    ("steps", 30, "steps of the optimiser"),
    ("batch", 0, "samples a rank and micro-batch; 0: the model's own"),
    ("bucket_mb", 0.0, "DDP's bucket_cap_mb; 0: none given, which is 25, the first one 1"),
    ("accumulate", 1, "micro-batches a step; only the last one sums gradients"),
    ("compress", "none", "gradients on the wire: none or fp16"),
    ("workers", 0, "of the DataLoader"),
    ("prefetch", 2, "batches that each worker keeps ready"),
    ("fetch_ms", 0.0, "a sample waits so long for its storage"),
    ("prepare_ms", 0.0, "CPU time that it then takes to prepare a sample"),
    ("slow_rank", -1, "rank with work of its own on the host in each step"),
    ("slow_ms", 0.0, "CPU time of that work"),
    ("optimizer", "sgd", "sgd, sgd-foreach, adam, adam-foreach or adam-fused"),
    ("checkpoint", 0, "1: what a block of resnet or gpt made is made again for its backward pass"),
    ("seed", 0, "of the weights"),
    ("local", 0, "1: no gradients are summed, and no rank waits for another"),
    ("uncounted", 0, "steps before it is measured what the rank's cores do"),
]


ENDLESS = 100_000  # steps


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default, text in OPTIONS:
        words = f"{text} (default {default})"
        p.add_argument("--" + name.replace("_", "-"), type=type(default), default=default, help=words)
    p.add_argument("--out", help="file for the times of the steps; %%r is the rank")
    p.add_argument("--serve", action="store_true", help="jobs come on standard input")
    return p.parse_args()


def work(milliseconds):
    """Keeps the core busy for that much CPU time."""
    end = time.thread_time_ns() + milliseconds * 1e6
    while time.thread_time_ns() < end:
        pass


def speed(repeats=7):
    """Milliseconds of a product of matrices and a pass over memory."""
    a, b = torch.ones(384, 384), torch.ones(384, 384)
    x, y = torch.ones(4 << 20), torch.empty(4 << 20)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        torch.mm(a, b, out=b.new_empty(384, 384))
        y.copy_(x)
        times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times)[repeats // 2]


class Samples(Dataset):
    def __init__(self, options, count):
        self.options, self.count = options, count
        self.sample = models.MODELS[options.model].sample

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.options.fetch_ms:
            time.sleep(self.options.fetch_ms / 1000)
        if self.options.prepare_ms:
            work(self.options.prepare_ms)
        return self.sample(index)


def batches(o):
    size = o.batch or models.MODELS[o.model].batch

    return DataLoader(
        Samples(o, size * (o.steps or ENDLESS) * o.accumulate),
        size,
        num_workers=o.workers,
        prefetch_factor=o.prefetch if o.workers else None,
    )


def make_optimizer(o, parameters):
    name, _, how = o.optimizer.partition("-")
    ways = {"": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[how]
    if name == "adam":
        return torch.optim.Adam(parameters, lr=1e-4, **ways)
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, **ways)


def make_again(model):
    """Activation checkpointing of each block."""
    for block in model.blocks:
        again = functools.partial(checkpoint, block.forward, use_reentrant=False)
        block.forward = again


def make_model(o):
    torch.manual_seed(o.seed)
    model = models.MODELS[o.model].build()
    if o.checkpoint:
        make_again(model)
    if o.local:
        return model
    model = DistributedDataParallel(model, bucket_cap_mb=o.bucket_mb or None)
    if o.compress == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return model


def one_step(o, model, optimizer, loader, extra_ms):
    optimizer.zero_grad()
    for part in range(o.accumulate):
        x, y = next(loader)
        if extra_ms and part == 0:
            work(extra_ms)
        if part < o.accumulate - 1:
            with model.no_sync():
                model(x, y).backward()
        else:
            model(x, y).backward()
    optimizer.step()


def told_lines():
    """Standard input, of which no more is taken than is asked for: select() shows
    the rest."""
    return io.FileIO(0, closefd=False)


def until_told():
    """At least one."""
    yield 0
    number = 1
    while not select.select([0], [], [], 0)[0]:
        yield number
        number += 1
    told_lines().readline()


def ticks_of_cores():
    """Of all cores that this process may use: time in all, idle, and in the kernel
    (system calls and interrupts), in ticks since the boot."""
    mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    total = idle = kernel = 0
    with open("/proc/stat", encoding="ascii") as file:
        for name, *ticks in map(str.split, file):
            if name in mine:
                user, nice, system, idles, waits, irq, softirq, stolen = map(int, ticks[:8])
                total += user + nice + system + idles + waits + irq + softirq + stolen
                idle += idles + waits
                kernel += system + irq + softirq
    return total, idle, kernel


def shares_of_cores(begin, end):
    total, idle, kernel = (e - b for b, e in zip(begin, end))
    return {"busy": 1 - idle / total, "kernel": kernel / total} if total else {}


def train(o, rank, before_steps):
    """Seconds of each step, bytes of gradients, and what the cores did."""
    model = make_model(o)
    optimizer = make_optimizer(o, model.parameters())
    loader = iter(batches(o))
    before_steps()
    seconds = []
    for number in range(o.steps) if o.steps else until_told():
        if number == o.uncounted:
            ticks = ticks_of_cores()
        begin = time.perf_counter()
        one_step(o, model, optimizer, loader, o.slow_ms if rank == o.slow_rank else 0)
        seconds.append(time.perf_counter() - begin)
    cores = shares_of_cores(ticks, ticks_of_cores()) if len(seconds) > o.uncounted else {}
    return seconds, sum(p.numel() * p.element_size() for p in model.parameters()), cores


def serve(o, rank):
    def tell(**what):
        print(json.dumps(what), flush=True)

    tell(ready=True)
    for line in told_lines():
        block = argparse.Namespace(**{**vars(o), **json.loads(line)})
        mine = rank - block.first
        os.environ.update(
            RANK=str(mine),
            WORLD_SIZE=str(block.world),
            MASTER_ADDR=block.master,
            MASTER_PORT=str(block.port),
        )
        dist.init_process_group("gloo")

        speeds = []

        def time_work():
            dist.barrier()
            speeds.append(speed())
            dist.barrier()

        def wait():
            time_work()
            tell(ready=True)
            if told_lines().readline().strip() != b"go":
                sys.exit("the lab is gone")

        seconds, _, _ = train(block, mine, wait)
        time_work()
        dist.destroy_process_group()
        gc.collect()
        tell(seconds=seconds, speed=speeds)


def main():
    o = arguments()
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    if o.serve:
        serve(o, rank)
        return
    dist.init_process_group("gloo")
    seconds, gradients, cores = train(o, rank, lambda: None)
    if o.out:
        with open(o.out.replace("%r", str(rank)), "w", encoding="ascii") as file:
            told = {"rank": rank, "options": vars(o), "seconds": seconds}
            json.dump({**told, "gradient_bytes": gradients, "cores": cores}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
