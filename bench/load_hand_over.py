#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to hand a batch of taut.load to a framework: microseconds a batch of the
process's CPU time beyond what the same loader takes with nothing handed over. Batches of 64
raw images, uint8, of 8 x 8 and of 224 x 224: what grows with them is a copy. Run it with the
framework's Python: torch, numpy, tensorflow, tf.data (taut.tensorflow.dataset), mxnet,
DataIter (taut.mxnet)."""

import argparse
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from taut.load import Image, Loader

BATCH, ITEMS = 64, 640


def write(folder, side):
    for item in range(ITEMS):
        path = pathlib.Path(folder, "c%d" % (item % 2), "%03d.png" % item)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(side * side * 3))


def batches_of(form, folder, side):
    """(loader, what is iterated)"""
    arrays = {"tf.data": "numpy", "DataIter": "mxnet", "nothing": "numpy"}.get(form, form)
    loader = Loader(
        folder, BATCH, num_replicas=1, num_workers=1, prefetch_factor=6, arrays=arrays,
        cache_bytes=64 << 20,
        transform=Image(side, crop="none", format="raw", layout="HWC"),
    )  # fmt: skip
    if form == "tf.data":
        from taut.tensorflow import dataset

        return loader, dataset(loader)
    if form == "DataIter":
        from taut.mxnet import DataIter

        return loader, DataIter(loader)
    if form == "nothing":
        loader._parts = lambda batch: ()
    return loader, loader


def epoch(batches):
    n = sum(1 for _ in batches)
    if hasattr(batches, "reset"):
        batches.reset()
    return n


def cpu_us(form, folder, side, seconds):
    """Of a batch, all threads together: the lower quartile of epochs."""
    loader, batches = batches_of(form, folder, side)
    epoch(batches)
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.process_time()
        n = epoch(batches)
        times.append(1e6 * (time.process_time() - begin) / n)
    loader.close()
    return sorted(times)[len(times) // 4]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forms", nargs="+")
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    print("%-12s %12s %12s" % ("us a batch", "8 x 8", "224 x 224"))
    rows = {form: [] for form in options.forms}
    for side in 8, 224:
        with tempfile.TemporaryDirectory() as folder:
            write(folder, side)
            bare = cpu_us("nothing", folder, side, options.seconds)
            for form, found in rows.items():
                found.append(cpu_us(form, folder, side, options.seconds) - bare)
    for form, found in rows.items():
        print("%-12s %12.0f %12.0f" % (form, *found))


if __name__ == "__main__":
    main()
