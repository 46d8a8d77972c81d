#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training job of one process on a GPU, or with --device cpu on cores: a ResNet,
a BERT or a GPT, in 32 bits unless told otherwise. It knows nothing of Taut. Writes
the seconds of its steps as JSON, each from asking for the batch to when the device is
done with the step; the first quarter of them is for warming up. --ddp: the model is
wrapped, and NCCL's or Gloo's group is that of torchrun's variables, or one of its own."""

import argparse
import contextlib
import json
import os
import socket
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

WORDS = 30000
# Of each model: width, depth, length of a text or side of an image, batch.
SIZES = {
    "resnet": {"large": (64, 4, 224, 64), "small": (8, 1, 32, 4)},
    "bert": {"large": (768, 12, 256, 32), "small": (32, 2, 16, 4)},
    "gpt": {"large": (1024, 12, 512, 8), "small": (32, 2, 16, 4)},
}


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--model", choices=SIZES, default="resnet")
    p.add_argument("--device", default="cuda")
    p.add_argument("--small", action="store_true", help="to try the script")
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--batch", type=float, default=1, help="times the model's own")
    p.add_argument("--amp", action="store_true", help="autocast to bf16")
    p.add_argument("--fused", action="store_true", help="AdamW's fused update")
    p.add_argument("--graphs", action="store_true", help="CUDA graphs of both passes")
    p.add_argument("--compile", action="store_true", help="torch.compile")
    p.add_argument("--ddp", action="store_true", help="DistributedDataParallel")
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--prepare-ms", type=float, default=0, help="CPU time of a sample")
    p.add_argument("--out")
    return p.parse_args()


class Block(nn.Module):
    """Of a ResNet: two convolutions and what came in."""

    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.skip = nn.Conv2d(before, width, 1, stride, bias=False) if before != width else None

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return functional.relu(y + (x if self.skip is None else self.skip(x)))


class Resnet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers, before = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)], width
        layers += [nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        for stage in range(4):
            for i in range(depth):
                after = width << stage
                layers.append(Block(before, after, 2 if stage and not i else 1))
                before = after
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(before, 1000)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


class Layer(nn.Module):
    """Of a Transformer."""

    def __init__(self, width, causal):
        super().__init__()
        self.causal, self.heads = causal, max(1, width // 64)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = (batch, length, self.heads, width // self.heads)
        y = self.norm1(x)
        q, k, v = (f(y).view(parts).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Text(nn.Module):
    def __init__(self, width, depth, length, causal):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.layers = nn.Sequential(*(Layer(width, causal) for _ in range(depth)))
        self.head = nn.Linear(width, WORDS)

    def forward(self, x):
        return self.head(self.layers(self.words(x) + self.places)).flatten(0, 1)


class Samples(Dataset):
    def __init__(self, o, side, count):
        self.o, self.side, self.count = o, side, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        end = time.thread_time() + self.o.prepare_ms / 1e3
        while time.thread_time() < end:
            pass
        g = torch.Generator().manual_seed(index)
        if self.o.model == "resnet":
            return torch.randn(3, self.side, self.side, generator=g), index % 1000
        words = torch.randint(WORDS, (self.side + 1,), generator=g)
        return words[:-1], words[1:]


def make(o):
    """Model, and batches."""
    width, depth, side, batch = SIZES[o.model]["small" if o.small else "large"]
    torch.manual_seed(0)
    if o.model == "resnet":
        model = Resnet(width, depth)
    else:
        model = Text(width, depth, side, o.model == "gpt")
    batch = max(1, round(batch * o.batch))
    data = Samples(o, side, batch * (o.steps + 8))
    cuda = o.device.startswith("cuda")
    ahead = 2 if o.workers else None
    loader = DataLoader(data, batch, num_workers=o.workers, prefetch_factor=ahead, pin_memory=cuda)
    return model.to(o.device), iter(loader)


def join():
    """The process group that torchrun has prepared, or one of this process alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        alone = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1"}
        alone["MASTER_PORT"] = free.getsockname()[1]
    for name, value in alone.items():
        os.environ.setdefault(name, str(value))


def wrapped(o, model):
    if not o.ddp:
        return model
    cuda = o.device.startswith("cuda")
    join()
    if cuda:
        torch.cuda.set_device(torch.device(o.device).index or 0)
    dist.init_process_group("nccl" if cuda else "gloo")
    places = [torch.cuda.current_device()] if cuda else None
    return nn.parallel.DistributedDataParallel(model, device_ids=places)


def captured(o, model, loader):
    """The model with both passes as CUDA graphs."""
    if not o.device.startswith("cuda"):
        raise SystemExit("device_job: --graphs needs a GPU")
    x, _ = next(loader)
    x = x.to(o.device)
    if x.is_floating_point():
        x.requires_grad_(False)
    with narrow(o):
        return torch.cuda.make_graphed_callables(model, (x,), allow_unused_input=True)


def narrow(o):
    if not o.amp:
        return contextlib.nullcontext()
    kind = o.device.split(":")[0]
    return torch.autocast(kind, dtype=torch.bfloat16, cache_enabled=not o.graphs)


def wait(o):
    if o.device.startswith("cuda"):
        torch.cuda.synchronize()


def train(o):
    model, loader = make(o)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=o.fused, foreach=not o.fused)
    step = model
    if o.graphs:
        step = captured(o, model, loader)
    step = wrapped(o, step)
    if o.compile:
        step = torch.compile(step)
    seconds = []
    for _ in range(o.steps):
        begin = time.perf_counter()
        x, y = (t.to(o.device, non_blocking=True) for t in next(loader))
        optimizer.zero_grad(set_to_none=not o.graphs)
        with narrow(o):
            loss = functional.cross_entropy(step(x), y.flatten())
        loss.backward()
        optimizer.step()
        wait(o)
        seconds.append(time.perf_counter() - begin)
    return seconds[o.steps // 4 :]


def main():
    o = arguments()
    seconds = train(o)
    if o.ddp:
        dist.destroy_process_group()
    if o.out:
        with open(o.out, "w", encoding="ascii") as file:
            json.dump({"options": vars(o), "seconds": seconds}, file)


if __name__ == "__main__":
    main()
