#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a stage costs: samples a second of a loader over small items in its cache, without one,
with a C function, and with Python's, per item and per batch; and beside a training loop that
holds the interpreter's lock for a millisecond at a time, as one that is all Python does.

    TAUT_LIB=build/libtaut.so.0 bench/load_stage.py [--items 4000] [--turns 5] [--workers 2]

Stages do nothing: the rest is the way to them. Ways take turns; medians."""

import argparse
import ctypes
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from taut.load import Loader, Tensor  # noqa: E402


def nothing(*_):
    pass


WAYS = {
    "none": {},
    # Of its first argument, which is NULL: 0.
    "C, per item": {"stage": ctypes.CDLL(None).ffs},
    "Python, per item": {"stage": nothing},
    "Python, per batch": {"stage": nothing, "stage_per": "batch"},
}


def spin(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def rate(loader, spins):
    begin, n = time.perf_counter(), 0
    for data, _ in loader:
        n += len(data)
        if spins:
            spin(1e-3)
    return n / (time.perf_counter() - begin)


def write(folder, items):
    for item in range(items):
        path = folder / ("%d" % (item % 4)) / ("%06d.bin" % item)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(256))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in ("items", 4000), ("turns", 5), ("workers", 2), ("batch", 64):
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(pathlib.Path(folder), args.items)
        kind = Tensor((64,), "float32", raw=True)
        loaders = {
            name: Loader(
                folder,
                args.batch,
                transform=kind,
                arrays="numpy",
                num_replicas=1,
                num_workers=args.workers,
                cache_bytes=64 << 20,
                cache_name=os.getpid(),
                **way,
            )
            for name, way in WAYS.items()
        }
        rates = {(name, spins): [] for name in WAYS for spins in (False, True)}
        for turn in range(args.turns + 1):
            for (name, spins), found in rates.items():
                found.append(rate(loaders[name], spins))
        print("%-20s %12s %8s %12s" % ("stage", "samples/s", "us", "loop spins"))
        for name in WAYS:
            alone, beside = (statistics.median(rates[name, s][1:]) for s in (False, True))
            print("%-20s %12.0f %8.2f %12.0f" % (name, alone, 1e6 / alone, beside))


if __name__ == "__main__":
    main()
