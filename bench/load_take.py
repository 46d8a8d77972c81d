#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the job's thread is busy taking a batch of taut.load that is ready, and how often it
loses its core meanwhile: milliseconds of next(), by store, while workers keep all cores busy for
most of each step. A step sleeps, as that of a device does. Needs Pillow and numpy; TAUT_LIB or
an installed libtaut."""

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time

import common
import load_compare
import measure

sys.path.insert(0, os.path.join(common.ROOT, "python"))


def lost():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def taken(root, store, options):
    """(ms, cores lost) of each batch, but for those of the first epoch."""
    from taut.load import Image, Loader, Set

    loader = Loader(
        Set(root), options.batch, shuffle=True, tail="drop", arrays="numpy", store=store,
        num_workers=os.cpu_count(), transform=Image(224, flip=0.5),
    )  # fmt: skip
    found = []
    for epoch in range(1 + options.epochs):
        batches = iter(loader)
        while True:
            before, begin = lost(), time.perf_counter()
            if next(batches, None) is None:
                break
            if epoch:
                found.append((1e3 * (time.perf_counter() - begin), lost() - before))
            time.sleep(options.step_ms * 1e-3)
    loader.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--step-ms", type=float, default=15)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    print(measure.machine_lines())
    print("%-8s %8s %8s %8s %8s   %s" % ("store", "median", "p90", "p99", "most", "cores lost a batch"))
    with tempfile.TemporaryDirectory() as root:
        load_compare.make_images(root, options.images)
        for store in "file", "uring":
            found = taken(root, store, options)
            ms = sorted(one for one, _ in found)
            at = [ms[int(share * (len(ms) - 1))] for share in (0.5, 0.9, 0.99, 1)]
            each = statistics.fmean(n for _, n in found)
            print("%-8s %8.2f %8.2f %8.2f %8.2f   %.2f" % (store, *at, each))


if __name__ == "__main__":
    main()
