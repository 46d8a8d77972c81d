#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""How long epochs of real PyTorch jobs take with another storage, cache, cores, workers, batch
or a second job: measured, beside what `taut stalls` predicts from the job as it is.

The job is bench/stalls_job.py: DataLoader over made JPEGs (bench/load_compare.py) on a disk
that a control group slows down to a rate, with a model of one of three weights, on one thread.
`taut stalls` runs it at the first point (--runs times: processes of the same job differ); each
other point is then predicted from what that gave (`taut stalls --read --change`), and measured
at once behind it. That is a turn: cores and disks of a shared machine are not the same an hour
later, so each turn has a `taut stalls` of its own, and the medians of both sides over the turns
are compared; what each turn was off by alone stands below.

  cold         before each epoch the system forgets the files; an epoch is as the first one
  page cache   of so much of the set: a control group of memory holds it there, or some
               hundredths below. Epochs once it is as it stays
  kept         so much of the set, the same items in each epoch, in memory; the rest cold

With --heap kept jobs keep what memory they have (malloc's own settings, as bench/lab has them);
as malloc comes each step pays for page faults, and what they take differs by turns.

Seconds an epoch, medians over epochs, from the second on (page cache: the fourth). A point
beside which other programs took more than --most of the cores is thrown away and done again;
so is one before or after which the cores were not as fast, within --steady, as around the
turn's `taut stalls`, whose prediction is for cores of that speed. After --tries it
counts as it is.

Needs root, control groups (v1: blkio, memory), torch, Pillow, numpy; --device is the disk
(major:minor) that the files lie on.
"""

import argparse
import ctypes
import hashlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import common
import load_compare
import measure

JOB = os.path.join(common.HERE, "stalls_job.py")
RATES = {"light": 30e6, "residual": 25e6, "stacked": 12e6}  # bytes/s; by model
MODELS = tuple(RATES)
BASE = {"rate": 1.0, "workers": 2, "cores": 2, "batch": 32, "jobs": 1, "page": None, "kept": 0}
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
POINTS = (
    ("rate / 2", {"rate": 0.5}),
    ("rate x 2", {"rate": 2}),
    ("rate x 4", {"rate": 4}),
    ("1 worker", {"workers": 1}),
    ("3 workers", {"workers": 3}),
    ("1 core, 1 worker", {"cores": 1, "workers": 1}),
    ("page cache 50 %", {"page": 0.5}),
    ("50 % kept", {"kept": 0.5}),
    ("2 jobs, page cache 50 %", {"jobs": 2, "page": 0.5}),
    ("batch / 2", {"batch": 16}),
)  # fmt: skip


# --- the machine ---------------------------------------------------------------------------


class Group:
    """A control group, v1, of this process's name; its children are put into it."""

    def __init__(self, kind, tag):
        self.path = f"/sys/fs/cgroup/{kind}/taut-{os.getpid()}-{tag}"
        os.makedirs(self.path)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="ascii") as file:
            return file.read()

    def remove(self):
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


class Schedule(ctypes.Structure):
    """struct sched_attr"""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    ]


def run_before_others():
    """Who runs by shorter turns than others need not wait for the end of theirs (Linux 6.12)."""
    how = Schedule(size=ctypes.sizeof(Schedule), runtime_ns=1000000)
    ctypes.CDLL(None).syscall(314, 0, ctypes.byref(how), 0)  # sched_setattr; refused: no matter


class Place:
    """Where jobs run: a disk of a rate, so many cores, perhaps a limited page cache."""

    def __init__(self, rate, cores, options):
        kinds = ("blkio", "disk"), ("memory", "cache"), ("cpu", "first")
        self.cores, self.groups = cores, [Group(*kind) for kind in kinds]
        limit = f"{options.device} {int(rate)}"
        self.groups[0].write("blkio.throttle.read_bps_device", limit)
        self.groups[2].write("cpu.shares", 262144)  # others have what is left

    def enter(self):
        for group in (self.groups[0], self.groups[2]):
            group.write("cgroup.procs", os.getpid())
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: self.cores])
        run_before_others()

    def take_readers(self, jobs):
        """Workers, whose files the memory group holds from now on; the jobs themselves, which
        need much memory and little, are not in it."""
        for job in jobs:
            for pid in measure.tree_of(job.pid)[1:]:
                self.groups[1].write("cgroup.procs", pid)

    def hold_cache(self, limit_bytes):
        """As large as that, whatever else is held; what it is now."""
        memory = self.groups[1]
        stat = dict(line.split() for line in memory.read("memory.stat").splitlines())
        cache = int(stat["total_cache"]) - int(stat["total_shmem"])
        used = int(memory.read("memory.usage_in_bytes"))
        try:
            memory.write("memory.limit_in_bytes", used - cache + limit_bytes)
        except OSError:  # it cannot be as small yet
            pass
        return cache

    def close(self):
        for group in self.groups:
            group.remove()


def busy_s():
    """Seconds of all cores that were not idle, whoever took them."""
    with open("/proc/stat", encoding="ascii") as file:
        times = [int(word) for word in file.readline().split()[1:]]
    return (sum(times[:8]) - times[3] - times[4]) / os.sysconf("SC_CLK_TCK")


def own_s():
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def calm(most):
    """Waits until the machine is as good as idle, a minute at most."""
    for _ in range(60):
        before = busy_s()
        time.sleep(1)
        if busy_s() - before <= 2 * most * os.cpu_count():
            return


def speed():
    """Of all cores together, in blocks of bytes hashed a second: virtual ones are not always
    as fast. The best of some tenths of a second, for what comes between is told by others."""
    block, best = bytes(1 << 16), 0.0

    def work(until, done):
        n = 0
        while time.perf_counter() < until:
            hashlib.sha256(block).digest()  # without the interpreter's lock
            n += 1
        done.append(n)

    for _ in range(5):
        begun, done = time.perf_counter(), []
        threads = [
            threading.Thread(target=work, args=(begun + 0.2, done)) for _ in range(os.cpu_count())
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best = max(best, sum(done) / (time.perf_counter() - begun))
    return best


def undisturbed(what, options, usual):
    """what(), again if others took too much of the cores meanwhile, or the cores were not
    as fast as usual. With it, the share of others, and how fast they were."""
    for _ in range(options.tries):
        calm(options.most)
        speeds = [speed()]
        busy, own, begun = busy_s(), own_s(), time.perf_counter()
        told = what()
        wall = time.perf_counter() - begun
        others = (busy_s() - busy - (own_s() - own)) / wall / os.cpu_count()
        speeds.append(speed())
        if others > options.most:
            print(f"  others took {100 * others:.0f} % of the cores", file=sys.stderr)
        elif any(abs(one / usual - 1) > options.steady for one in speeds):
            shares = " and ".join(f"{100 * one / usual:.0f} %" for one in speeds)
            print(f"  the cores were {shares} as fast", file=sys.stderr)
        else:
            break
    return told, others, statistics.fmean(speeds) / usual


# --- measured ---------------------------------------------------------------------------


def paths_of(root):
    return sorted(os.path.join(at, f) for at, _folders, files in os.walk(root) for f in files)


def forget(paths):
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def keep(root, share, folder):
    """The same items each time, into memory; they are taken out of the page cache's way."""
    paths = paths_of(root)
    random.Random(1).shuffle(paths)
    for path in paths[: round(share * len(paths))]:
        there = os.path.join(folder, os.path.relpath(path, root))
        os.makedirs(os.path.dirname(there), exist_ok=True)
        shutil.copyfile(path, there)


def command_of(point, model, epochs, options, kept=None):
    command = [sys.executable, JOB, options.root, "--model", model, "--epochs", str(epochs)]
    for name in ("batch", "workers"):
        command += ["--" + name, str(point[name])]
    if not point["page"]:
        command += ["--forget"]
    return command + (["--kept", kept] if kept else [])


def lines_of(file):
    text = os.pread(file.fileno(), 1 << 20, 0).decode()  # jobs share the file's place
    return [line for line in text.splitlines() if line.startswith("{")]


def environment(options):
    return {**os.environ, **(KEPT if options.heap == "kept" else {})}


def run_jobs(place, command, point, options):
    """Their epochs, and how much of the set the page cache held, again and again. It is limited
    from their second epoch on, when their workers have all that they need besides."""
    paths = paths_of(options.root)
    sizes = sum(os.path.getsize(path) for path in paths)
    forget(paths)
    told = [tempfile.TemporaryFile("w+") for _ in range(point["jobs"])]
    jobs = [
        subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, preexec_fn=place.enter,
            env=environment(options),
        )
        for out in told
    ]
    cached = []
    while any(job.poll() is None for job in jobs):
        time.sleep(0.1)
        if not point["page"] or not all(lines_of(out) for out in told):
            continue
        if not cached:
            place.take_readers(jobs)
            forget(paths)
        cached.append(place.hold_cache(int(point["page"] * sizes)) / sizes)
    for job, out in zip(jobs, told):
        if job.returncode:
            said = os.pread(out.fileno(), 1 << 20, 0).decode()
            sys.exit(f"stalls_compare.py: {' '.join(command)}: {said[-1500:]}")
    seconds = [[json.loads(line)["seconds"] for line in lines_of(out)] for out in told]
    return seconds, cached


def measured(point, model, options):
    """Epochs of one or more jobs of a point, from the one that is as all later ones."""
    first = 3 if point["page"] else 1
    with tempfile.TemporaryDirectory(dir="/dev/shm") as kept:
        if point["kept"]:
            keep(options.root, point["kept"], kept)
        place = Place(point["rate"] * options.rate, point["cores"], options)
        command = command_of(
            point, model, first + options.epochs, options, kept if point["kept"] else None
        )
        try:
            seconds, cached = run_jobs(place, command, point, options)
        finally:
            place.close()
    late = cached[len(cached) // 2 :]
    return {
        "seconds": [one[first:] for one in seconds],
        "cached": statistics.fmean(late) if late else None,
    }


def epoch_s(told):
    return statistics.fmean(statistics.median(job) for job in told["seconds"])


# --- predicted: taut stalls ----------------------------------------------------------------


def run_stalls(options, folder):
    """One command, which runs the job at the first point; what it measured is kept in a folder.
    How fast the cores were."""
    calm(options.most)
    speeds = [speed()]
    place = Place(options.rate, BASE["cores"], options)
    command = [options.taut, "stalls", "--json", "--rounds", str(options.rounds)]
    command += ["--runs", str(options.runs), "--out", folder, "--"]
    command += [sys.executable, JOB, options.root, "--model", options.model]
    command += ["--epochs", "100000"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, preexec_fn=place.enter, check=False,
            env=environment(options),
        )
    finally:
        place.close()
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr[-1500:]}")
    speeds.append(speed())
    print(f"  the cores were {100 * speeds[1] / speeds[0]:.0f} % as fast behind it", file=sys.stderr)
    return statistics.fmean(speeds)


def words_of(change, cached=None):
    """As --change has it. cached: what the page cache was seen to hold, of the set."""
    point = {**BASE, **change}
    words = [f"{name}={change[name]:g}" for name in change if name not in ("page", "kept")]
    cache = "none"
    if point["page"]:
        cache = f"linux:{100 * (cached or point['page']):.4g}%"
    elif point["kept"]:
        cache = f"keep:{100 * point['kept']:g}%"
    return ",".join([*words, "cache=" + cache])


def predicted(options, turn):
    """Seconds of a later epoch at each point, by name, and all that the command says. Where the
    page cache is limited, of one as large as it was: the system keeps it below the limit."""
    command = [options.taut, "stalls", "--read", turn["folder"], "--json"]
    for name, change in points_of_all():
        cached = turn["points"].get(name, {}).get("cached")
        command += ["--change", words_of(change, cached)]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    names = (name for name, _change in points_of_all())
    return {name: row["epoch"]["later_ms"] / 1e3 for name, row in zip(names, told["asked"])}, told


def points_of_all():
    return (("the first point", {}), *POINTS)


# --- both -----------------------------------------------------------------------------------


def collect(options, turns):
    """Turns of all points; what is there already stays, and what was broken off goes on."""

    def keep_turns():
        with open(options.turns_of, "w", encoding="utf-8") as file:
            json.dump(turns, file, indent=1)

    for number in range(options.turns):
        if number == len(turns):
            folder = f"{options.folder}-{number}"
            shutil.rmtree(folder, ignore_errors=True)
            turns.append({"folder": folder, "speed": run_stalls(options, folder), "points": {}})
        for name, change in points_of_all():
            if name in turns[number]["points"]:
                continue
            point = {**BASE, **change}
            told, others, fast = undisturbed(
                lambda point=point: measured(point, options.model, options),
                options, turns[number]["speed"],
            )  # fmt: skip
            told.update(others=others, speed=fast)
            turns[number]["points"][name] = told
            print(f"  {name}: {epoch_s(told):.3f} s", file=sys.stderr)
            keep_turns()


def means_of(lists):
    return ", ".join(f"{statistics.fmean(values):.1f}" for values in lists if values)


def show(options, turns):
    said, told = zip(*(predicted(options, one) for one in turns))
    median = statistics.median
    print(f"{options.model}, {options.rate / 1e6:g} MB/s, {len(turns)} turns; samples/s: " + ", ".join(
        f"{name} {median(one['samples_a_second'][name]['value'] for one in told):.0f}"
        for name in ("place", "cached", "cold")
    ))  # fmt: skip
    print(f"{'seconds an epoch':26}{'measured':>10}{'from':>8}{'to':>8}{'predicted':>11}"
          f"{'error':>9}{'others':>8}{'speed':>8}")  # fmt: skip
    errors, said_alone, alone = [], [[] for _ in turns], [[] for _ in turns]
    for name, change in points_of_all():
        rows = [(one["points"][name], says[name]) for one, says in zip(turns, said)
                if name in one["points"]]  # fmt: skip
        if not rows:
            continue
        is_s = [epoch_s(row) for row, _says in rows]
        says_s = median(says for _row, says in rows)
        error = 100 * (says_s / median(is_s) - 1)
        if change:
            errors.append(abs(error))
            for said_off, off, (row, says) in zip(said_alone, alone, rows):
                said_off.append(abs(100 * (says / median(is_s) - 1)))
                off.append(abs(100 * (says / epoch_s(row) - 1)))
        print(
            f"{name:26}{median(is_s):10.3f}{min(is_s):8.3f}{max(is_s):8.3f}{says_s:11.3f}"
            f"{error:8.1f}%{100 * median(row['others'] for row, _says in rows):7.0f}%"
            f"{100 * median(row['speed'] for row, _says in rows):7.0f}%"
        )
    if errors:
        print(f"\nerror without its sign, {len(errors)} points beside the first: mean "
              f"{statistics.fmean(errors):.1f} %, most {max(errors):.1f} %; what one turn says "
              f"beside the medians of what was measured {means_of(said_alone)} %, beside its "
              f"own {means_of(alone)} %\n")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="for what is measured; what is there already stays")
    parser.add_argument("--model", choices=MODELS, default="residual")
    parser.add_argument("--root", help="a tree of JPEGs that is there already")
    parser.add_argument("--images", type=int, default=800, help="to make, without --root")
    parser.add_argument("--rate", type=float, help="bytes/s of the first point")
    parser.add_argument("--epochs", type=int, default=5, help="that count, of each point")
    parser.add_argument("--heap", choices=("own", "kept"), default="own")
    parser.add_argument("--runs", type=int, default=3, help="of the job, by taut stalls")
    parser.add_argument("--rounds", type=int, default=3, help="of each of them")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--most", type=float, default=0.03, help="of the cores, for others")
    parser.add_argument("--steady", type=float, default=0.03, help="of the cores' speed")
    parser.add_argument("--device", default="254:0", help="the disk: major:minor")
    parser.add_argument("--shown", action="store_true", help="measures nothing")
    parser.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    options = parser.parse_args()
    options.rate = options.rate or RATES[options.model]
    os.makedirs(options.folder, exist_ok=True)
    options.turns_of = os.path.join(options.folder, options.model + ".json")
    images = os.path.join(options.folder, "images")
    options.folder = os.path.join(options.folder, options.model)
    turns = []
    if os.path.exists(options.turns_of):
        with open(options.turns_of, encoding="utf-8") as file:
            turns = json.load(file)
    if not options.root:
        options.root = images
        if not os.path.isdir(images):
            load_compare.make_images(images, options.images)
            os.sync()
    print(measure.machine_lines())
    if not options.shown:
        collect(options, turns)
    show(options, turns)


if __name__ == "__main__":
    main()
