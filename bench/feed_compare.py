#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""How long epochs take with another storage, cache, cores, batch or a second job: measured
beside predicted by taut_feed_play() (include/taut/feed.h).

The loader reads made images (bench/load_compare.py) from a storage that is slowed down to a
rate, for a job that takes a fixed time a batch. One point is measured to begin with; all
that the predictions have from it is

  prepare   CPU time of the process an item: preparation, and what reads and calls cost
  read      bytes a second: storage is what that point is bound by
  step      time a batch that the job did not wait for one, its calls included

Every other point is predicted from these and from what is changed there, and then measured:
seconds an epoch, from the second on. One process a job and turn, in turns; medians.

Needs Pillow and numpy; TAUT_LIB or an installed libtaut.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import common
import load_compare
import measure

sys.path.insert(0, os.path.join(common.ROOT, "python"))

BASE = {
    "cores": 2, "workers": 2, "batch": 20, "rate": 1.0, "latency_ms": 0.0, "reads": 64,
    "cache": 0.0, "step_ms": 15.0, "jobs": 1,
}  # fmt: skip
POINTS = (
    ("cache 25 %", {"cache": 0.25}),
    ("cache 50 %", {"cache": 0.5}),
    ("cache 75 %", {"cache": 0.75}),
    ("rate / 2", {"rate": 0.5}),
    ("rate x 2", {"rate": 2.0}),
    ("rate x 2, cache 50 %", {"rate": 2.0, "cache": 0.5}),
    ("1 core, 1 worker, rate x 2", {"cores": 1, "workers": 1, "rate": 2.0}),
    ("1 core, 3 workers, cache 75 %", {"cores": 1, "workers": 3, "cache": 0.75}),
    ("batch 50", {"batch": 50, "step_ms": 37.5}),
    ("step x 4", {"step_ms": 60.0}),
    ("2 jobs, cache 50 %, latency", {
        "jobs": 2, "cache": 0.5, "rate": 0.0, "latency_ms": 10.0, "reads": 4, "workers": 1,
    }),
)  # fmt: skip


# --- measured ---------------------------------------------------------------------------


def sleep_until(end):
    while (left := end - time.perf_counter()) > 0:
        time.sleep(left)


def turn(point, options):
    """One job, in a process of its own."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: point["cores"]])
    from taut import _load
    from taut.load import Image, Loader, Set

    images = Set(options.root)
    at = _load.library().taut_set_at
    sizes = [at(images._set, i).bytes for i in range(len(images))]
    time.sleep(max(0, options.at - time.time()))
    begun, marks = time.perf_counter(), []
    loader = Loader(
        images, point["batch"], shuffle=True, seed=options.seed, num_workers=point["workers"],
        transform=Image(224, flip=0.5), store="slow", arrays="numpy", tail="drop",
        slow_bytes_s=int(point["rate"] * options.rate), slow_ns=int(point["latency_ms"] * 1e6),
        num_reads=point["reads"], cache_bytes=int(point["cache"] * sum(sizes)),
        cache_name=options.name,
    )  # fmt: skip
    for _ in range(options.epochs):
        for _data, _labels in loader:
            sleep_until(time.perf_counter() + point["step_ms"] * 1e-3)
        marks.append((time.perf_counter() - begun, time.process_time(), loader.counts()))
    return {"sizes": sizes, "ends_s": [mark[0] for mark in marks], **costs(marks)}


def costs(marks):
    """From the first epoch's end to that of the last."""
    (from_s, from_cpu_s, before), (to_s, to_cpu_s, after) = marks[0], marks[-1]
    did = {name: after[name] - before[name] for name in after}
    return {
        "prepare_ns": (to_cpu_s - from_cpu_s) * 1e9 / did["samples"],
        "step_ns": ((to_s - from_s) * 1e9 - did["waited_ns"]) / did["batches"],
        "counts": did,
    }


def measured(point, options, number):
    """The jobs of a point, begun at the same time."""
    begin = time.time() + 0.7
    turns = []
    for seed in range(point["jobs"]):
        command = [sys.executable, os.path.abspath(__file__), "--turn", json.dumps(point)]
        for name in ("root", "epochs", "rate"):
            command += ["--" + name, str(getattr(options, name))]
        command += ["--at", repr(begin), "--seed", str(seed), "--name", str(number)]
        turns.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    told = [one.communicate()[0] for one in turns]
    if any(one.returncode for one in turns):
        sys.exit("feed_compare.py: a turn failed")
    return [json.loads(text) for text in told]


# --- predicted: taut/feed.h ---------------------------------------------------------------


class Host(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("rate_bytes_s", ctypes.c_uint64),
        ("latency_ns", ctypes.c_int64),
        ("n_served", ctypes.c_uint32),
        ("cores", ctypes.c_double),
        ("cache", ctypes.c_int),
        ("cache_bytes", ctypes.c_uint64),
        ("crowd", ctypes.c_double),
        ("burst_bytes", ctypes.c_uint64),
    ]


class Items(ctypes.Structure):
    _fields_ = [
        ("n_items", ctypes.c_uint64),
        ("bytes", ctypes.POINTER(ctypes.c_uint64)),
        ("mean_bytes", ctypes.c_double),
        ("spread", ctypes.c_double),
        ("seed", ctypes.c_uint64),
    ]


class Job(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("set", ctypes.POINTER(Items)),
        ("batch", ctypes.c_uint32),
        ("n_ranks", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("shuffle", ctypes.c_bool),
        ("tail", ctypes.c_int),
        ("n_workers", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
        ("n_reads", ctypes.c_uint32),
        ("read_bytes", ctypes.c_uint64),
        ("prepare_ns", ctypes.c_double),
        ("prepare_ns_byte", ctypes.c_double),
        ("prepare_spread", ctypes.c_double),
        ("step_ns", ctypes.c_int64),
        ("step_cores", ctypes.c_double),
        ("epochs", ctypes.c_uint64),
        ("start_ns", ctypes.c_int64),
        ("form", ctypes.c_int),
        ("read_cpu_ns", ctypes.c_double),
        ("read_cpu_ns_byte", ctypes.c_double),
        ("take_ns", ctypes.c_int64),
        ("begin_ns", ctypes.c_int64),
        ("share_items", ctypes.c_uint64),
        ("copy_ns", ctypes.c_double),
        ("idle_ns", ctypes.c_int64),
    ]


class Epoch(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("begin_ns", "end_ns", "waited_ns", "fetch_ns", "prepare_ns")
    ] + [
        (name, ctypes.c_uint64)
        for name in ("batches", "hits", "reads", "read_bytes", "prepared", "copied")
    ]


def predicted(point, known, options):
    """Ends of epochs, a list for each job. One epoch more is played than is asked for, as the
    loader too goes on to the next one."""
    from taut import _lib

    sizes = known["sizes"]
    items = Items(len(sizes), (ctypes.c_uint64 * len(sizes))(*sizes))
    host = Host(
        size=ctypes.sizeof(Host), rate_bytes_s=int(point["rate"] * known["rate"]),
        latency_ns=int(point["latency_ms"] * 1e6), cores=point["cores"],
        cache=1 if point["cache"] else 0, cache_bytes=int(point["cache"] * sum(sizes)),
    )  # fmt: skip
    jobs = (Job * point["jobs"])()
    for seed, job in enumerate(jobs):
        job.size, job.set = ctypes.sizeof(Job), ctypes.pointer(items)
        job.batch, job.n_workers, job.n_reads = point["batch"], point["workers"], point["reads"]
        job.seed, job.shuffle, job.tail = seed, True, 1
        job.prepare_ns = known["prepare_ns"]
        job.step_ns = int(point["step_ms"] * 1e6 + known["late_ns"])
        job.epochs = options.epochs + 1
    epochs = (Epoch * (len(jobs) * (options.epochs + 1)))()
    function = _lib.library().taut_feed_play
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                         ctypes.c_size_t, _lib.error]  # fmt: skip
    _lib.call(function, ctypes.byref(host), jobs, len(jobs), epochs, len(epochs))
    ends = [epoch.end_ns / 1e9 for epoch in epochs]
    each = options.epochs + 1
    return [ends[i * each : i * each + options.epochs] for i in range(len(jobs))]


# --- both -------------------------------------------------------------------------------


def epoch_s(jobs_ends):
    """Seconds an epoch from the second on, the mean of jobs."""
    return statistics.fmean((ends[-1] - ends[0]) / (len(ends) - 1) for ends in jobs_ends)


def calibrate(turns, point, sizes):
    """Of the point that is measured first."""
    middle = {
        name: statistics.median(t[name] for t in turns) for name in ("prepare_ns", "step_ns")
    }
    rates = [sum(sizes) / epoch_s([t["ends_s"]]) for t in turns]
    return {
        "sizes": sizes,
        "prepare_ns": middle["prepare_ns"],
        "late_ns": middle["step_ns"] - point["step_ms"] * 1e6,
        "rate": statistics.median(rates),
    }


def measure_all(points, options):
    with tempfile.TemporaryDirectory() as made:
        if not options.root:
            options.root = made
            load_compare.make_images(made, options.images)
        return collect(points, options)


def read(paths):
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for name, turns in json.load(file).items():
                found.setdefault(name, []).extend(turns)
    return found


def collect(points, options):
    """All turns of all points, in turns."""
    found = {name: [] for name, _ in points}
    number = os.getpid() * 1000
    for _ in range(options.turns):
        for name, change in points:
            number += 1
            found[name].append(measured({**BASE, **change}, options, number))
    return found


def show(points, found, known, options):
    errors = []
    print(f"prepare {known['prepare_ns'] / 1e6:.3f} ms an item, read {known['rate'] / 1e6:.1f} "
          f"MB/s, step {BASE['step_ms'] + known['late_ns'] / 1e6:.2f} ms\n")
    print(f"{'seconds an epoch':32}{'measured':>10}{'least':>8}{'most':>8}{'predicted':>11}"
          f"{'error':>9}")
    for name, change in points:
        is_s = [epoch_s([job["ends_s"] for job in jobs]) for jobs in found[name]]
        said_s = epoch_s(predicted({**BASE, **change}, known, options))
        error = 100 * (said_s / statistics.median(is_s) - 1)
        if change:
            errors.append(abs(error))
        print(f"{name:32}{statistics.median(is_s):10.3f}{min(is_s):8.3f}{max(is_s):8.3f}"
              f"{said_s:11.3f}{error:8.1f}%{'' if change else '  (where it was learnt)'}")
    print(f"\nerror without its sign, {len(errors)} points: mean "
          f"{statistics.fmean(errors):.1f} %, most {max(errors):.1f} %")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rate", type=float, default=60e6, help="bytes/s of the first point")
    parser.add_argument("--root", help="a tree that is there already")
    parser.add_argument("--json", help="all turns, to a file")
    parser.add_argument(
        "--shown", nargs="+", metavar="JSON", help="measures nothing: shows these together"
    )
    parser.add_argument("--turn", help=argparse.SUPPRESS)
    parser.add_argument("--at", type=float, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--name", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn:
        print(json.dumps(turn(json.loads(options.turn), options)))
        return
    points = (("the first point", {}), *POINTS)
    print(measure.machine_lines())
    found = read(options.shown) if options.shown else measure_all(points, options)
    base = [jobs[0] for jobs in found["the first point"]]
    show(points, found, calibrate(base, BASE, base[0]["sizes"]), options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
