#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Taut's loader beside others on the same made images, from the page cache.

Each way reads JPEGs (500 x 375, quality 90, 4:2:0, some 90 KB), decodes, takes a random crop
(torchvision's RandomResizedCrop) resized to 224 x 224, flips half, and gives uint8 batches
to a loop that does nothing with them. bench/load_peers.py has each way's pipeline:

  taut        taut.load.Loader, threads, from files
  taut-cache  the same, from its own cache
  pillow      DataLoader over Pillow, worker processes: torchvision's classes call the
              same functions
  simplejpeg  the same, decoded by libjpeg-turbo through simplejpeg
  webdataset  WebLoader over shards of tar, Pillow
  dali        DALI on the CPU, its fused decoder of random crops
  spdl        SPDL's pipeline over FFmpeg's decoder and filters
  tf          tf.data, its fused decoder of crops
  ffcv        FFCV from its own file of JPEGs at their size, its fused decoder of crops

bench/setup_load_peers.sh installs them; what is not there is left out and told. Each is
tried with each of --workers first, and goes on with the number that gave the most images a
second. Then all take turns, each in a process of its own; medians.

  images/s  after the first batch, over the rest of the epochs; least and most of the turns
  per core  images by all CPU seconds of the process and its workers in that time
  of taut   the latter by that of `taut` in the same round; median
  first     from making the loader to its first batch
  memory    the rise, in a turn of its own, of the sum of PSS of the process and its workers
            (/proc/PID/smaps_rollup: shared pages count once) from before the loader is
            made, all modules loaded, to its most in the second epoch. It has what a way
            maps of files: FFCV's is all of its file, which lies in the page cache anyway

--items N measures the list of a long data set instead, in memory: N hard links to the images,
in 1,000 classes, with names as long as ImageNet's (1,281,167). For each of --workers:

  taut          from the tree;  taut-index  from an index of it (taut.load.Set.write)
  pillow        DataLoader, its list as ImageFolder's: tuples of a path and a class
  pillow-epoch  the same when workers have taken as many samples, at random, as are theirs in
                an epoch: each sample writes a count of references, and what was shared with
                the parent becomes a copy. --batches alone would take hours to get there
  memory        as above, the most in the later half of --batches of the first epoch
  of DataLoader to that of pillow; of pillow-epoch
  peak          by how much the process alone rose at most until the first batch

Beside them, where it was built, build/bench/load_rate: as many bare threads of
libjpeg-turbo on these images and crops as there are cores, and the loader in C.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import common
import measure
from load_peers import WAYS, Tree  # noqa: F401 - Tree is for load_jobs.py

LIST_WAYS = ["taut", "taut-index", "pillow", "pillow-epoch"]  # of --items
HOMES = {
    "taut": "torch", "taut-cache": "torch", "taut-index": "torch",
    "pillow": "torch", "pillow-epoch": "torch", "simplejpeg": "torch",
    "webdataset": "torch", "dali": "dali", "spdl": "spdl", "tf": "tf", "ffcv": "ffcv",
}  # fmt: skip


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


def make_links(folder, images, n, classes=1000):
    """n links to the images, in classes; n01440764/n01440764_10026.JPEG."""
    for c in range(classes):
        name = "n%08d" % (1440764 + 13 * c)
        os.makedirs(os.path.join(folder, name))
        for i in range(n * c // classes, n * (c + 1) // classes):
            number = 10026 + 7 * (i - n * c // classes)
            link = os.path.join(folder, name, "%s_%d.JPEG" % (name, number))
            os.link(images[i % len(images)], link)


# --- turns ----------------------------------------------------------------------------


def python_of(way, options):
    """The environment that bench/setup_load_peers.sh made for it."""
    return os.path.join(options.peers, HOMES[way], "bin", "python")


def run_turn(way, root, options, workers, *more):
    """A row; None, told, where it ends with an error."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [python_of(way, options), os.path.join(common.HERE, "load_peers.py"), way]
        command += [root, "--scratch", scratch, "--workers", str(workers), *more]
        command += ["--batch", str(options.batch), "--epochs", str(options.epochs)]
        if options.store:
            command += ["--store", options.store]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    if done.returncode == 0:
        print(f"{way} {workers} {done.stdout.splitlines()[-1]}", file=sys.stderr)
        return json.loads(done.stdout.splitlines()[-1])
    last = (done.stderr.strip().splitlines() or ["no word"])[-1]
    print(f"{way}, {workers} workers: left out: {last}", file=sys.stderr)
    return None


def best_workers(way, root, options):
    """The number that gives the most images a second; None: it does not run."""
    known = dict(one.split("=") for one in options.known)
    if way in known:
        return int(known[way])
    rates = {}
    for workers in options.workers:
        row = run_turn(way, root, options, workers)
        if row:
            rates[workers] = row["images_s"]
    if not rates:
        return None
    found = max(rates, key=rates.get)
    told = ", ".join(f"{n}: {rate:.0f}" for n, rate in rates.items())
    print(f"{way}: images/s by workers: {told}", flush=True)
    return found


def find_ways(root, options):
    found = {}
    for way in options.ways:
        if not os.access(python_of(way, options), os.X_OK):
            print(f"{way}: left out: no {python_of(way, options)}", file=sys.stderr)
            continue
        workers = best_workers(way, root, options)
        if workers:
            found[way] = workers
    return found


def run_turns(ways, root, options):
    rows = {way: [] for way in ways}
    for _ in range(options.turns):
        for way, workers in ways.items():
            row = run_turn(way, root, options, workers)
            if row:
                rows[way].append(row)
    for way, workers in ways.items():
        row = run_turn(way, root, options, workers, "--memory") or {"rise_mb": float("nan")}
        for one in rows[way]:
            one.update(row, workers=workers)
    return rows


# --- told -----------------------------------------------------------------------------


def ratio(rows, way, name):
    """To Taut's in the same round."""
    pairs = zip(rows[way], rows.get("taut") or rows[way])
    return statistics.median(one[name] / other[name] for one, other in pairs)


def show(rows, options):
    print(f"\n{options.images} images, batch {options.batch}, {options.epochs} epochs, "
          f"medians of {options.turns} turns")
    print(f"{'':12}{'workers':>8}{'images/s':>10}{'(least .. most)':>17}{'per core':>10}"
          f"{'of taut':>9}{'first, s':>10}{'memory, MB':>12}")
    for way, turns in rows.items():
        if not turns:
            continue
        middle = {k: statistics.median(t[k] for t in turns) for k in turns[0]}
        rates = [t["images_s"] for t in turns]
        print(f"{way:12}{middle['workers']:8.0f}{middle['images_s']:10.0f}"
              f"{f'({min(rates):.0f} .. {max(rates):.0f})':>17}{middle['images_core_s']:10.0f}"
              f"{ratio(rows, way, 'images_core_s'):9.2f}{middle['first_s']:10.3f}"
              f"{middle['rise_mb']:12.0f}")


def run_lists(made, options):
    """{(way, workers): row} of a tree of options.items, or of options.root."""
    source, root = os.path.join(made, "images"), options.root
    if not root:
        root = os.path.join(made, "train")
        make_images(source, options.images)
        images = [os.path.join(at, f) for at, _, files in os.walk(source) for f in files]
        make_links(root, images, options.items)
    rows = {}
    for workers in options.workers:
        for way in LIST_WAYS:
            row = run_turn(way, root, options, workers, "--batches", str(options.batches))
            if row:
                rows[way, workers] = row
    return rows


def show_lists(rows, options):
    print(f"\n{options.items} items, batch {options.batch}, after {options.batches} batches")
    print(f"{'workers':>7} {'':13}{'memory, MB':>10}{'of DataLoader':>14}{'of its epoch':>13}"
          f"{'peak, MB':>10}{'first, s':>10}")
    nan = {"rise_mb": float("nan")}
    for (way, workers), row in rows.items():
        of = [row["rise_mb"] / rows.get((other, workers), nan)["rise_mb"]
              for other in ("pillow", "pillow-epoch")]
        print(f"{workers:7} {way:13}{row['rise_mb']:10.0f}{of[0]:14.2f}{of[1]:13.2f}"
              f"{row['peak_mb']:10.0f}{row['first_s']:10.1f}")


def bare(root, options):
    """What libjpeg-turbo takes on these images; empty where it was not built."""
    rate = os.path.join(common.ROOT, "build", "bench", "load_rate")
    if not os.access(rate, os.X_OK):
        return ""
    cores = str(len(os.sched_getaffinity(0)))
    command = [rate, root, cores, str(2 * options.turns + 1), str(options.batch)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"\nbuild/bench/load_rate FOLDER {' '.join(command[2:])}:\n{found.stdout}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = range(1, len(os.sched_getaffinity(0)) + 2)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, nargs="+", default=list(numbers))
    parser.add_argument("--known", nargs="+", default=[], metavar="WAY=WORKERS",
                        help="the best numbers of an earlier run: these are not tried")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5, help="0: numbers are tried alone")
    ways = [way for way in WAYS if way not in ("taut-index", "pillow-epoch")]
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways)
    parser.add_argument("--items", type=int, help="the list of a set of so many, and no more")
    parser.add_argument("--batches", type=int, default=64, help="with --items (default 64)")
    parser.add_argument("--scratch", help="with --items: a folder for the tree")
    parser.add_argument("--peers", default=os.path.join(common.bench_home(), "load"),
                        help="where bench/setup_load_peers.sh put them")  # fmt: skip
    parser.add_argument("--store", help="of Taut")
    parser.add_argument("--root", help="a tree that is there already; --images is not used")
    parser.add_argument("--json", help="all turns, to a file")
    options = parser.parse_args()
    print(measure.machine_lines())
    if options.items:
        with tempfile.TemporaryDirectory(dir=options.scratch) as made:
            show_lists(run_lists(made, options), options)
        return
    with tempfile.TemporaryDirectory() as made:
        root = options.root or made
        if options.root:
            options.images = sum(len(files) for _, _, files in os.walk(root))
        else:
            make_images(root, options.images)
        ways = find_ways(root, options)
        rows = run_turns(ways, root, options) if options.turns else {}
        raw = bare(root, options) if options.turns else ""
    if options.turns:
        show(rows, options)
        print(raw)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
