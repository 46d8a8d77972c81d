#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""A training job as anybody writes it: DataLoader over a tree of JPEGs, a model, SGD. What
bench/stalls_compare.py measures and predicts; it knows nothing of either.

Prints a line of JSON an epoch: its seconds, from the first batch asked for to the last step,
and the page faults of this process in a step.
With --forget the system is told before each epoch to forget all files, so that their bytes
come from storage; with --kept, what lies in that folder is read from there.
"""

import argparse
import json
import os
import random
import resource
import time

import torch
from PIL import Image
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class Tree(Dataset):
    def __init__(self, root, side, kept=None):
        self.side, self.samples = side, []
        for label, name in enumerate(sorted(os.listdir(root))):
            folder = os.path.join(root, name)
            self.samples += [(os.path.join(folder, f), label) for f in sorted(os.listdir(folder))]
        self.stored = [path for path, _label in self.samples]
        if kept:
            self.samples = [(kept_path(kept, root, path), label) for path, label in self.samples]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        with open(path, "rb") as file:
            image = Image.open(file).convert("RGB")
        width, height = image.size
        side = int(min(width, height) * random.uniform(0.5, 1))
        left, top = random.randint(0, width - side), random.randint(0, height - side)
        image = image.resize(
            (self.side, self.side), Image.BILINEAR, (left, top, left + side, top + side)
        )
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        pixels = pixels.view(self.side, self.side, 3).permute(2, 0, 1).float() / 255
        return (pixels - MEAN) / DEVIATION, label


def kept_path(kept, root, path):
    there = os.path.join(kept, os.path.relpath(path, root))
    return there if os.path.exists(there) else path


def forget(paths):
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


# --- models ------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.first = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(n_out)
        self.second = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(n_out)
        self.past = nn.Conv2d(n_in, n_out, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.past(x))


def light():
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, 4, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def residual():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), Residual(16, 16, 1), Residual(16, 32, 2),
        Residual(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def stacked():
    layers, n_in = [], 3
    for n_out in (16, 32, 64, 64):
        layers += [nn.Conv2d(n_in, n_out, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
        n_in = n_out
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(64 * 6 * 6, 256), nn.ReLU(), nn.Linear(256, 10)
    )


MODELS = {"light": (light, 64), "residual": (residual, 64), "stacked": (stacked, 96)}


def train(model, loader, optimizer):
    for images, labels in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root")
    parser.add_argument("--model", choices=MODELS, default="residual")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--forget", action="store_true")
    parser.add_argument("--kept")
    options = parser.parse_args()
    torch.set_num_threads(1)
    make, side = MODELS[options.model]
    model, tree = make(), Tree(options.root, side, options.kept)
    loader = DataLoader(
        tree, options.batch, shuffle=True, drop_last=True, num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    for _ in range(options.epochs):
        if options.forget:
            forget(tree.stored)
        begun, before = time.perf_counter(), faults()
        train(model, loader, optimizer)
        seconds, had = time.perf_counter() - begun, (faults() - before) / len(loader)
        print(json.dumps({"seconds": seconds, "faults_a_step": round(had)}), flush=True)


if __name__ == "__main__":
    main()
