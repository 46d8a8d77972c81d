#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Taut's loader beside PyTorch's DataLoader on the same made images, from the page cache.

Each way reads a tree of JPEGs (500 x 375, quality 90, 4:2:0, some 90 KB), decodes, takes a
random crop (torchvision's RandomResizedCrop) resized to 224 x 224 with an antialiased
triangle filter, flips half, and gives uint8 batches to a loop that does nothing with them:

  taut        taut.load.Loader, threads
  pillow      DataLoader over Pillow, worker processes: torchvision's code for these steps
              calls the same functions
  simplejpeg  the same, decoded by libjpeg-turbo through simplejpeg; where it is installed

One process a turn, in turns; medians. Beside them, where it was built,
build/bench/decode_rate: what libjpeg-turbo alone does on one thread with these images.

  images/s  after the first batch, over the rest of the epochs
  per core  images by all CPU seconds of the process and its workers in that time
  first     from making the loader to its first batch
  PSS       of the process and its workers, at the end; shared pages counted once

Needs torch, Pillow, numpy; TAUT_LIB or an installed libtaut.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import common
import measure

WAYS = "taut", "pillow", "simplejpeg"
SIDE = 224


# --- images ---------------------------------------------------------------------------


def make_images(folder, n, classes=10):
    """Gradients, edges and noise: as large as photographs of that size."""
    import numpy
    from PIL import Image

    chance = numpy.random.default_rng(1)
    y, x = numpy.mgrid[0:375, 0:500]
    for i in range(n):
        waves = [
            60 * numpy.sin(x * chance.uniform(0.005, 0.3) + y * chance.uniform(0.005, 0.3))
            for _ in range(3)
        ]
        pixels = 128 + numpy.stack(waves, 2) + chance.normal(0, 14, (375, 500, 1))
        pixels[y > chance.uniform(0.2, 2) * x] *= 0.7
        path = os.path.join(folder, "%02d" % (i % classes), "%06d.jpg" % i)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(
            path, quality=90, subsampling=2
        )


# --- the ways -------------------------------------------------------------------------


def crop_of(chance, width, height):
    """torchvision's RandomResizedCrop: a box."""
    import math

    for _ in range(10):
        area = width * height * chance.uniform(0.08, 1)
        ratio = math.exp(chance.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = chance.randint(0, width - w), chance.randint(0, height - h)
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


class Tree:
    """As ImageFolder: paths and labels in lists, an image a call."""

    def __init__(self, root, way):
        self.way, self.samples = way, []
        for label, name in enumerate(sorted(os.listdir(root))):
            folder = os.path.join(root, name)
            self.samples += [(os.path.join(folder, f), label) for f in sorted(os.listdir(folder))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        import random

        import numpy
        import torch
        from PIL import Image

        path, label = self.samples[i]
        with open(path, "rb") as file:
            if self.way == "simplejpeg":
                import simplejpeg

                image = Image.fromarray(simplejpeg.decode_jpeg(file.read()))
            else:
                image = Image.open(file).convert("RGB")
        box = crop_of(random, *image.size)
        image = image.crop(box).resize((SIDE, SIDE), Image.BILINEAR)
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        return torch.from_numpy(numpy.array(image)).permute(2, 0, 1), label


def open_loader(way, root, options):
    if way == "taut":
        sys.path.insert(0, os.path.join(common.ROOT, "python"))
        from taut.load import Image, Loader

        how = Image(SIDE, flip=0.5)
        return Loader(
            root, options.batch, shuffle=True, transform=how, num_workers=options.workers,
            store=options.store, tail="drop",
        )  # fmt: skip
    from torch.utils.data import DataLoader

    return DataLoader(
        Tree(root, way), options.batch, shuffle=True, num_workers=options.workers,
        drop_last=True, persistent_workers=options.workers > 0,
    )  # fmt: skip


# --- one turn, in a process of its own ----------------------------------------------------


def cpu_s(pids):
    """User and system time of processes that live."""
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as source:
                fields = source.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def turn(way, root, options):
    import torch

    torch.set_num_threads(1)
    begun = time.perf_counter()
    loader = open_loader(way, root, options)
    images, first, started, spent = 0, None, None, None
    for _ in range(options.epochs):
        for data, _labels in loader:
            assert tuple(data.shape[1:]) == (3, SIDE, SIDE)
            if first is None:
                first = time.perf_counter() - begun
                pids = measure.tree_of(os.getpid())
                started, spent = time.perf_counter(), cpu_s(pids)
                continue
            images += len(data)
    wall = time.perf_counter() - started
    spent = cpu_s(pids) - spent
    return {
        "images_s": images / wall,
        "images_core_s": images / spent,
        "first_s": first,
        "pss_mb": sum(measure.held_kb(pid) for pid in pids) / 1024,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run_turn(way, root, options):
    command = [sys.executable, os.path.abspath(__file__), "--turn", way, "--root", root]
    for name in ("batch", "workers", "epochs"):
        command += ["--" + name, str(getattr(options, name))]
    if options.store:
        command += ["--store", options.store]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{way}: {done.stderr.strip()[-1500:]}")
    return json.loads(done.stdout)


def is_there(way):
    try:
        __import__("simplejpeg" if way == "simplejpeg" else "PIL.Image")
        return True
    except ImportError:
        return way == "taut"


def alone(root):
    """What libjpeg-turbo takes on these images, one thread; empty where it was not built."""
    rate = os.path.join(common.ROOT, "build", "bench", "decode_rate")
    if not os.access(rate, os.X_OK):
        return ""
    found = subprocess.run([rate, root, "11"], capture_output=True, text=True, check=False)
    return "\nOn one thread (build/bench/decode_rate):\n" + found.stdout


def show(results, options):
    print(f"{options.images} images, batch {options.batch}, {options.workers} workers, "
          f"{options.epochs} epochs, medians of {options.turns} turns")
    print(f"{'':12}{'images/s':>10}{'per core':>10}{'first, s':>10}{'PSS, MB':>10}")
    for way, turns in results.items():
        middle = {k: statistics.median(t[k] for t in turns) for k in turns[0]}
        print(f"{way:12}{middle['images_s']:10.0f}{middle['images_core_s']:10.0f}"
              f"{middle['first_s']:10.3f}{middle['pss_mb']:10.0f}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--store", help="of Taut")
    parser.add_argument("--root", help="a tree that is there already")
    parser.add_argument("--json", help="all turns, to a file")
    parser.add_argument("--turn", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn:
        print(json.dumps(turn(options.turn, options.root, options)))
        return
    print(measure.machine_lines())
    with tempfile.TemporaryDirectory() as made:
        root = options.root or made
        if not options.root:
            make_images(root, options.images)
        results = {way: [] for way in WAYS if is_there(way)}
        for _ in range(options.turns):
            for way in results:
                results[way].append(run_turn(way, root, options))
        raw = alone(root)
    show(results, options)
    print(raw)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
