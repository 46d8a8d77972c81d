#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a piece costs the core beside its bytes: how long the core of a rank is busy in a
step of jobs of the lab (bench/lab) under `taut run`, with gradients in pieces of several
sizes, two pieces under way, one core and one rank a host, at the rate at which gradients
take as long as a step without them. The slope is the least squares' over the sizes.

Busy is all that the kernel counts of that core: the job's threads, its own work for
messages, and what of the links and the bridge runs there.

`taut whatif schedule=...,by=taut` takes so much for each piece (src/whatif/handed.c).
Needs root and PyTorch (TAUT_TORCH_PYTHON, or build-python/torch)."""

import argparse
import atexit
import importlib
import os
import statistics
import sys
import tempfile

import common
import inside
import measure

SAID = "piece_core: "  # before the numbers of a rank, in what the job says
SKIPPED = 8  # steps
IDLE = (3, 4)  # of the numbers of /proc/stat: idle, and waiting for input


# --- in the job ---------------------------------------------------------------------


def busy_ms(text, core):
    """Of a core, since the machine started: of the text of /proc/stat."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == [f"cpu{core}"]:
            # guest time, the last two, is in user time
            ticks = [int(w) for w in words[1:9]]
            busy = sum(t for i, t in enumerate(ticks) if i not in IDLE)
            return busy * 1000 / os.sysconf("SC_CLK_TCK")
    raise ValueError(f"no core {core} in /proc/stat")


def busy_now():
    with open("/proc/stat", encoding="ascii") as file:
        text = file.read()
    return sum(busy_ms(text, core) for core in os.sched_getaffinity(0))


def watch_job():
    package = inside.package()
    _sums = importlib.import_module(package + "._sums")
    begin, seen = _sums.Sums.begin, []

    def counted(sums, wanted):
        seen.append((busy_now(), sums.counts()["messages"]))
        return begin(sums, wanted)

    _sums.Sums.begin = counted

    @atexit.register
    def tell():
        steps = len(seen) - 1 - SKIPPED
        if steps > 0:
            per_step = [(b - a) / steps for a, b in zip(seen[SKIPPED], seen[-1])]
            told = dict(zip(("busy_ms", "messages"), per_step))
            inside.say(SAID, told)


# --- the bench ----------------------------------------------------------------------


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--models", default="vgg,gpt")
    p.add_argument("--sizes", default="65536,131072,262144,524288,1048576")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("--steps", type=int, default=50)
    return p.parse_args()


def slope(points):
    """Of the line through pairs x, y, by least squares."""
    mean_x, mean_y = (statistics.mean(p[i] for p in points) for i in (0, 1))
    over = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return over / sum((x - mean_x) ** 2 for x, _ in points)


def rows_of(a, jobs):
    """By size: what each rank of each turn told of itself. Sizes by turns."""
    jobs.shape()
    rows = {int(size): [] for size in a.sizes.split(",")}
    for _ in range(a.turns):
        for size, seen in rows.items():
            limits = ["--piece", str(size), "--credit", str(2 * size), "--fuse", str(size)]
            seen += jobs.watched(__file__, SAID, limits)
    return rows


def main():
    words = inside.wants_job()
    if words:
        watch_job()
        return inside.run_job(words)
    a = arguments()
    common.taut_of(a)
    import cluster
    import runner

    python = runner.find_python()
    if not python:
        sys.exit("piece_core: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    print(f"`bench/piece_core.py`, {a.ranks} ranks, {a.turns} turns of {a.steps} steps.\n")
    print(measure.machine_lines() + "\n")
    print("| model | piece, bytes | messages a step | core busy, ms a step |\n|---|---|---|---|")
    slopes = []
    with cluster.Cluster(range(a.ranks)) as net, tempfile.TemporaryDirectory() as folder:
        for model in a.models.split(","):
            points = []
            jobs = inside.Jobs(net, python, folder, a, model)
            for size, rows in rows_of(a, jobs).items():
                x, y = (statistics.median(r[k] for r in rows) for k in ("messages", "busy_ms"))
                points.append((x, y))
                print(f"| {model} | {size} | {x:.0f} | {y:.1f} |", flush=True)
            slopes.append((model, slope(points) * 1e3))
    print("\n" + ", ".join(f"{model}: {us:.0f} us a piece" for model, us in slopes))


if __name__ == "__main__":
    main()
