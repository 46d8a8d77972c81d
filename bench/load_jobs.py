#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What jobs read from storage, and how long their epochs take, when not all of the set fits
in memory: the system's page cache beside caches that keep (cache_bytes), and K jobs on one host
beside K jobs that share what they prepare (share_bytes).

  cache   one job, raw items of 99 KB in another order each epoch: bytes that the device
          delivered in an epoch, as a share of the set. The page cache has x of the set by
          a limit of memory; taut.load keeps x of it
  jobs    K jobs over JPEGs of 500 x 375: DataLoader (Pillow, worker processes), taut.load
          by itself, and taut.load with a cache and shared preparation. All of them
          together have memory for x of the set beside some of their own, and storage of
          the rate given: as page cache, or as cache and shared samples together. Each
          computes for --step seconds a batch, elsewhere: it sleeps.

Memory and storage are limited by control groups (version 1: memory and blkio), bytes are counted
by blkio: of the device, not of the page cache. Needs root; torch and Pillow for jobs.
"""

import argparse
import json
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import common
import load_compare
import measure

sys.path.insert(0, os.path.join(common.ROOT, "python"))
os.environ.setdefault("TAUT_LIB", os.path.join(common.ROOT, "build", "libtaut.so.0"))

RAW = 182  # a side of the raw items
GROUPS = "/sys/fs/cgroup"
MIB = 1 << 20


# --- control groups -------------------------------------------------------------------


class Group:
    """Memory and storage of some processes."""

    def __init__(self, path, memory=0, rate=0):
        device = os.stat(path).st_dev
        self.device = f"{os.major(device)}:{os.minor(device) if os.major(device) != 254 else 0}"
        self.paths = {
            kind: os.path.join(GROUPS, kind, f"taut-{os.getpid()}") for kind in ("memory", "blkio")
        }
        for folder in self.paths.values():
            os.makedirs(folder, exist_ok=True)
        if memory:
            self.write("memory", "memory.limit_in_bytes", str(int(memory)))
        if rate:
            self.write("blkio", "blkio.throttle.read_bps_device", f"{self.device} {int(rate)}")

    def write(self, kind, name, text):
        with open(os.path.join(self.paths[kind], name), "w", encoding="ascii") as file:
            file.write(text)

    def take(self, pids):
        for pid in pids:
            for kind in self.paths:
                try:
                    self.write(kind, "cgroup.procs", str(pid))
                except ProcessLookupError:
                    pass

    def read_bytes(self):
        name = os.path.join(self.paths["blkio"], "blkio.throttle.io_service_bytes")
        with open(name, encoding="ascii") as file:
            found = re.search(rf"^{self.device} Read (\d+)$", file.read(), re.MULTILINE)
        return int(found.group(1)) if found else 0

    def remove(self):
        for folder in self.paths.values():
            for _ in range(50):
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.1)


def forget(root):
    """The system drops the files from its cache."""
    for folder, _, names in os.walk(root):
        for name in names:
            fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


# --- the jobs: processes of their own -------------------------------------------------------


class Reader:
    """A job that reads every item of the set once an epoch, by read(), and no more."""

    def __init__(self, root):
        self.paths = [os.path.join(f, n) for f, _, names in os.walk(root) for n in names]
        self.epoch = 0

    def __len__(self):
        return len(self.paths)

    def __iter__(self):
        import random

        random.Random(self.epoch).shuffle(self.paths)
        self.epoch += 1
        for path in self.paths:
            with open(path, "rb", 0) as file:
                yield file.read()


def open_job(how):
    if how["way"] == "read":
        return Reader(how["root"])
    if how["way"] in ("pillow", "simplejpeg"):
        import torch
        from torch.utils.data import DataLoader

        torch.set_num_threads(1)
        torch.manual_seed(how["job"])
        return DataLoader(
            load_compare.Tree(how["root"], how["way"]), how["batch"], shuffle=True,
            num_workers=how["workers"], drop_last=True, persistent_workers=True,
        )  # fmt: skip
    from taut.load import Image, Loader, Set

    raw = how["way"] == "raw"
    image = Image(RAW, crop="none", format="raw", raw_size=RAW) if raw else Image(flip=0.5)
    return Loader(
        Set(how["root"], "raw jpg"), how["batch"], shuffle=True, transform=image, num_workers=how["workers"],
        tail="keep" if raw else "drop", seed=1 if how["share"] else how["job"], cache_bytes=how["cache"],
        share_bytes=how["share"], cold=bool(how["cache"]),
    )  # fmt: skip


def run_job(how):
    """Goes a little way, says that it stands, and at a line's coming goes through the epochs."""
    loader = open_job(how)
    counts = getattr(loader, "counts", lambda: {"reads": 0, "share_made": 0, "share_alone": 0})
    if not how["cache"]:
        for i, _ in enumerate(loader):
            if i == 20:
                break
    print("ready", flush=True)
    sys.stdin.readline()
    before = counts()
    for _ in range(how["epochs"]):
        begun, n = time.perf_counter(), 0
        for _batch in loader:
            if how["step"]:
                time.sleep(how["step"])
            n += 1
        after = counts()
        told = {k: after[k] - before[k] for k in ("reads", "share_made", "share_alone")}
        before = after
        told.update(seconds=time.perf_counter() - begun, batches=n)
        print(json.dumps(told), flush=True)
        sys.stdin.readline()  # all jobs have come to the epoch's end


def start(how):
    return subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), "--job", json.dumps(how)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def line_of(job, seconds=600):
    if not select.select([job.stdout], [], [], seconds)[0]:
        raise TimeoutError("a job says nothing")
    line = job.stdout.readline()
    if not line:
        raise RuntimeError("a job ended")
    return line


def tell(jobs):
    for job in jobs:
        job.stdin.write("\n")
        job.stdin.flush()


def epochs_of(group, hows, root):
    """For each epoch: (seconds of the slowest, bytes of the device, what each job told)."""
    jobs, found = [start(how) for how in hows], []
    try:
        for job in jobs:
            line_of(job)
        group.take([pid for job in jobs for pid in measure.tree_of(job.pid)])
        forget(root)
        for _ in range(hows[0]["epochs"]):
            read = group.read_bytes()
            tell(jobs)
            told = [json.loads(line_of(job)) for job in jobs]
            seconds = max(t["seconds"] for t in told)
            found.append((seconds, group.read_bytes() - read, told))
        tell(jobs)
    finally:
        for job in jobs:
            job.stdin.close()
            if sys.exc_info()[0]:
                job.kill()
            job.wait()
    return found


def measured(root, hows, memory, rate):
    group = Group(root, memory, rate)
    try:
        return epochs_of(group, hows, root)
    finally:
        group.remove()


# --- the tables ---------------------------------------------------------------------------


def bytes_of(root):
    return sum(os.path.getsize(os.path.join(f, n)) for f, _, names in os.walk(root) for n in names)


def how_of(way, root, options, **more):
    how = {"way": way, "root": root, "batch": options.batch, "workers": options.workers,
           "cache": 0, "share": 0, "step": 0, "epochs": options.epochs, "job": 0}  # fmt: skip
    how.update(more)
    return how


def room_of(nbytes):
    """What an item takes of a cache: rooms of whole 64 bytes."""
    return -(-nbytes // 64) * 64


def cache_table(folder, options):
    n, each = options.items, RAW * RAW * 3
    for i in range(n):
        path = os.path.join(folder, f"{i % 10}", f"{i:06}.raw")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(os.urandom(each))
    os.sync()
    whole = n * each
    print(f"\n{n} items of {each} bytes, {options.epochs} epochs; read from the device in an "
          "epoch after the first, % of the set")
    print(f"{'memory for':>12}{'page cache':>12}{'kept':>8}{'items kept read':>17}{'1 - x':>8}")
    for x in (0.25, 0.5, 0.75, 1.0):
        plain = how_of("read", folder, options)
        page = measured(folder, [plain], x * whole + 4 * MIB, 0)[1:]
        # a little more: what the cache needs for itself
        kept = how_of("raw", folder, options, cache=int(x * n) * room_of(each) + MIB)
        ours = measured(folder, [kept], 0, 0)[1:]
        reads = statistics.median(told[0]["reads"] for _, _, told in ours)
        print(f"{100 * x:10.0f} %{100 * statistics.median(b for _, b, _ in page) / whole:12.1f}"
              f"{100 * statistics.median(b for _, b, _ in ours) / whole:8.1f}"
              f"{100 * reads / n:17.2f}{100 * (1 - x):8.1f}")


def copy_images(folder, options):
    """--images of them, from 500 that are drawn."""
    load_compare.make_images(folder, min(500, options.images))
    drawn = sorted(os.path.join(f, n) for f, _, names in os.walk(folder) for n in names)
    for i in range(len(drawn), options.images):
        source = drawn[i % len(drawn)]
        shutil.copyfile(source, os.path.join(os.path.dirname(source), f"{i:06}.jpg"))
    os.sync()


def jobs_table(folder, options):
    copy_images(folder, options)
    whole = bytes_of(folder)
    ring = options.batch * 3 * 224 * 224 * 8
    ways = {
        "DataLoader": ("pillow", {}),
        "taut.load": ("taut", {}),
        "taut.load, shared": ("taut", {"cache": int(options.fits * whole) - ring, "share": ring}),
    }
    print(f"\n{options.images} JPEGs, {whole / 1e6:.0f} MB, memory for {100 * options.fits:.0f} %, "
          f"storage {options.rate / 1e6:.0f} MB/s, batch {options.batch}, {options.workers} workers "
          f"a job, a step {1e3 * options.step:.0f} ms; epochs after the first")
    print(f"{'':20}{'jobs':>5}{'epoch, s':>10}{'read, of the set':>18}{'prepared':>10}{'of DataLoader':>15}")
    for k in options.jobs:
        first = None
        for name, (way, more) in ways.items():
            hows = [how_of(way, folder, options, step=options.step, job=j, **more) for j in range(k)]
            # What keeps says how much; what the page cache takes needs a limit.
            memory = 0 if "share" in more else options.fits * whole + (k * 32 + 32) * MIB
            found = measured(folder, hows, memory, options.rate)[1:]
            seconds = statistics.median(s for s, _, _ in found)
            read = statistics.median(b for _, b, _ in found) / whole
            batches = found[0][2][0]["batches"]
            made = statistics.median(
                sum(t["share_made"] + t["share_alone"] for t in told) for _, _, told in found)
            prepared = made / (batches * options.batch) if "share" in more else k
            first = first or seconds
            print(f"{name:20}{k:5}{seconds:10.2f}{read:18.2f}{prepared:10.2f}{first / seconds:14.2f}x",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("cache", "jobs", "all"), default="all")
    parser.add_argument("--items", type=int, default=4000, help="raw ones (default 4000)")
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--fits", type=float, default=0.35, help="share of the set")
    parser.add_argument("--rate", type=float, default=60e6, help="bytes/s of the storage")
    parser.add_argument("--step", type=float, default=0.01, help="seconds of a batch")
    parser.add_argument("--folder", default="/var/tmp", help="on the device to limit")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        run_job(json.loads(options.job))
        return
    if os.geteuid() or not os.path.isdir(os.path.join(GROUPS, "blkio")):
        sys.exit("load_jobs.py: needs root and control groups of version 1 (memory, blkio)")
    print(measure.machine_lines())
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        for part, table in (("cache", cache_table), ("jobs", jobs_table)):
            if options.part in (part, "all"):
                os.makedirs(os.path.join(made, part))
                table(os.path.join(made, part), options)


if __name__ == "__main__":
    main()
