#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small data-parallel training job that is worth profiling.

A residual conv net (4.9 M parameters, 19.6 MB of gradients) learns from synthetic images. Every batch comes from
DataLoader workers that really unpack, crop, shrink and normalise each image; the gradients are averaged by
DistributedDataParallel over Gloo, so no GPU is needed. torch.profiler records a few steps of the run.

Started like any job: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from the environment, as torchrun sets them.

    torchrun --nproc-per-node 2 train.py --out traces

Written to --out: rankN.pt.trace.json.gz by each rank, and steps.csv (all ranks, all steps, recorded or not) by rank 0.
"""

import argparse
import csv
import os
import time
import zlib

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

CLASSES = 100
IMAGE = 32  # side of the images that the model sees


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", default="traces", help="folder for the traces (default: %(default)s)")
    p.add_argument("--steps", type=int, default=36, help="training steps (default: %(default)s)")
    p.add_argument("--active", type=int, default=4, help="steps a recording, 0 for none (default: %(default)s)")
    p.add_argument("--wait", type=int, default=5, help="steps before each recording (default: %(default)s)")
    p.add_argument("--recordings", type=int, default=3, help="how many; the last is kept (default: %(default)s)")
    p.add_argument("--batch", type=int, default=16, help="images a rank and step (default: %(default)s)")
    p.add_argument("--workers", type=int, default=1, help="DataLoader workers a rank (default: %(default)s)")
    p.add_argument("--source", type=int, default=192, help="side of the stored images (default: %(default)s)")
    p.add_argument("--bucket-mb", type=float, default=4, help="DDP's bucket_cap_mb (default: %(default)s)")
    p.add_argument("--no-module-names", action="store_true", help="do not mark the model's blocks in the trace")
    late = p.add_argument_group("a late rank", "make one rank late by host work between the batch and the forward pass")
    late.add_argument("--late-rank", type=int, default=-1, help="the rank (default: none)")
    late.add_argument("--late-ms", type=float, default=150, help="for how long (default: %(default)s)")
    late.add_argument("--late-every", type=int, default=2, help="in every Nth step (default: %(default)s)")
    a = p.parse_args()
    if a.wait < 2 or a.recordings < 1 or a.late_every < 1:
        p.error("--wait must be 2 or more, --recordings and --late-every 1 or more")
    if a.active and a.steps < a.recordings * (a.wait + a.active):
        p.error("--steps must leave room for --recordings times --wait + --active")
    return a


class Images(Dataset):
    """Compressed images made from a seed. Reading one costs what reading a stored image costs: unpack it, cut a random
    piece, mirror it half of the time, shrink it to IMAGE x IMAGE, normalise it."""

    def __init__(self, count, source):
        rng = numpy.random.default_rng(0)
        smooth = rng.integers(0, 200, (16, source // 16, source // 16, 3), dtype=numpy.uint8)
        self.stored = []
        for image in smooth.repeat(16, axis=1).repeat(16, axis=2):
            noise = rng.integers(0, 16, image.shape, dtype=numpy.uint8)
            self.stored.append(zlib.compress((image + noise).tobytes()))
        self.count = count
        self.shape = smooth.shape[1] * 16, smooth.shape[2] * 16, 3

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        packed = self.stored[index % len(self.stored)]
        image = numpy.frombuffer(zlib.decompress(packed), numpy.uint8).reshape(self.shape)
        rng = numpy.random.default_rng(index)
        factor = self.shape[0] * 3 // 4 // IMAGE
        side = factor * IMAGE
        top, left = rng.integers(0, self.shape[0] - side + 1, 2)
        piece = image[top : top + side, left : left + side]
        if rng.random() < 0.5:
            piece = piece[:, ::-1]
        small = piece.reshape(IMAGE, factor, IMAGE, factor, 3).mean((1, 3), dtype=numpy.float32)
        small = (small - small.mean((0, 1))) / (small.std((0, 1)) + 1e-5)
        return torch.from_numpy(small.transpose(2, 0, 1).copy()), index % CLASSES


class Residual(nn.Module):
    def __init__(self, width_in, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.skip = nn.Conv2d(width_in, width, 1, stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.skip(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, 1, 1)
        self.block1 = Residual(64, 64, 1)
        self.block2 = Residual(64, 128, 2)
        self.block3 = Residual(128, 256, 2)
        self.block4 = Residual(256, 512, 2)
        self.head = nn.Linear(512, CLASSES)

    def forward(self, x):
        x = self.block4(self.block3(self.block2(self.block1(torch.relu(self.stem(x))))))
        return self.head(x.mean((2, 3)))


def mark_modules(model):
    """Puts the name of each child of the model around its forward pass in the trace."""
    for name, module in model.named_children():
        open_marks = []

        def enter(_module, _inputs, label=f"nn.Module: {name}", marks=open_marks):
            marks.append(record_function(label))
            marks[-1].__enter__()

        def leave(_module, _inputs, _output, marks=open_marks):
            marks.pop().__exit__(None, None, None)

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)


def work_on_host(milliseconds):
    """Keeps the calling thread busy outside of PyTorch, as preparation in the training loop would."""
    values = numpy.arange(4096.0)
    end = time.perf_counter() + milliseconds / 1000
    while time.perf_counter() < end:
        values = numpy.sqrt(values * values + 1)


def recording(a, step):
    """Which recording the step is in: 1 is the first; 0 is none."""
    turn, place = divmod(step, a.wait + a.active)
    return turn + 1 if place >= a.wait and turn < a.recordings else 0


def train(a, rank, world, profiler):
    """Runs a.steps steps. Returns rows of rank, step, recording, data_ms, step_ms."""
    torch.manual_seed(0)
    model = Net()
    if not a.no_module_names:
        mark_modules(model)
    model = DistributedDataParallel(model, bucket_cap_mb=a.bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    images = Images(a.steps * a.batch * world, a.source)
    sampler = DistributedSampler(images, world, rank)
    loader = DataLoader(images, a.batch, sampler=sampler, num_workers=a.workers)

    rows = []
    begin = time.perf_counter()
    for step, (x, y) in enumerate(loader):
        data = time.perf_counter()
        if rank == a.late_rank and step % a.late_every == 0:
            work_on_host(a.late_ms)
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
        rows.append((rank, step, recording(a, step), f"{(data - begin) * 1e3:.3f}", f"{(end - begin) * 1e3:.3f}"))
        if profiler:
            profiler.step()
        begin = time.perf_counter()
    return rows


def main():
    a = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    os.makedirs(a.out, exist_ok=True)

    if a.active:
        # The first recording of a process makes its heap grow, and page faults then slow the very steps that it
        # records (by a quarter in this job). So there are several, each written over the one before.
        trace = os.path.join(a.out, f"rank{rank}.pt.trace.json.gz")
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=a.wait - 1, warmup=1, active=a.active, repeat=a.recordings),
            on_trace_ready=lambda p: p.export_chrome_trace(trace),
            record_shapes=True,
        ) as profiler:
            rows = train(a, rank, world, profiler)
    else:
        rows = train(a, rank, world, None)

    everyone = [None] * world if rank == 0 else None
    dist.gather_object(rows, everyone)
    if rank == 0:
        with open(os.path.join(a.out, "steps.csv"), "w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(("rank", "step", "recording", "data_ms", "step_ms"))
            out.writerows(row for rank_rows in everyone for row in rank_rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
