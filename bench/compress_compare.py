#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `taut run --compress` gives a PyTorch job, beside DistributedDataParallel with
and without its fp16_compress_hook, in the lab (bench/lab) as of train_compare.py: the
link has a rate at which communication C of float32 gradients is a given multiple of
computation f + b. With 16 bits C is half, and the bound max(f + b, C / 2); with mxint8 it
is 33 / 128.

All columns take turns, and so does the job that exchanges nothing; ratios are those
within a turn, and of these the median, for a machine is not always as fast. Needs root and PyTorch (TAUT_TORCH_PYTHON, or
build-python/torch), and a machine with nothing else on it."""

import argparse
import os
import statistics
import sys
import tempfile
import time

import common
import measure
import train_compare
from train_compare import say

import cluster  # bench/lab, where train_compare.py finds it
import runner

# Of each column: words for taut run, or None, and what the job does itself.
COLUMNS = {
    "DDP": (None, {}),
    "DDP fp16": (None, {"compress": "fp16"}),
    "Taut": ([], {}),
    "Taut fp16": (["--compress", "fp16"], {}),
    "Taut bf16": (["--compress", "bf16"], {}),
    "Taut mxint8": (["--compress", "mxint8"], {}),
}
BITS = {"Taut": 32, "Taut fp16": 16, "Taut bf16": 16, "Taut mxint8": 33 / 4}


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--models", default="vgg,gpt")
    p.add_argument("--times", default="1,2,4", help="C as multiples of f + b")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--steps", type=int, default=12, help="that count, of each run")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--cores-a-host", type=int, default=1)
    p.add_argument("--first-core", type=int, default=0)
    p.add_argument("--minutes", type=float, default=15, help="then no turn begins any more")
    p.add_argument("--options", default="", help="more words for taut run")
    p.add_argument("--json", metavar="FILE", help="all that was measured, after each run")
    a = p.parse_args()
    a.models = a.models.split(",")
    a.times = [float(t) for t in a.times.split(",")]
    return a


class Row:
    """A model at one rate."""

    def __init__(self, model, times):
        self.model, self.times = model, times
        self.mbit = None
        self.compute = []
        self.found = {name: [] for name in COLUMNS}
        self.said = {}

    def turn(self, a, jobs):
        compute, n_bytes, _ = jobs.run(self.model, 10000, local=1)
        self.compute.append(compute)
        if self.mbit is None:
            self.mbit = round(train_compare.rate_of(a.ranks, n_bytes, compute * self.times))
            self.wire = compute * self.times
        for name, (words, job) in COLUMNS.items():
            before = () if words is None else [a.taut, "run", *words, *a.options.split(), "--"]
            ms, _, said = jobs.run(self.model, self.mbit, before, **job)
            self.found[name].append(ms)
            self.said[name] = [line for line in said.split("\n") if line.startswith("taut:")]
        last = ", ".join(f"{name} {ms[-1]:.1f}" for name, ms in self.found.items())
        say(f"{self.model} x{self.times:g}, {self.mbit} Mbit/s, f + b {compute:.1f}: {last}")

    def cells(self):
        medians = {name: statistics.median(ms) for name, ms in self.found.items()}
        return [
            f"{self.model}, {self.times:g}", f"{self.mbit}",
            f"{statistics.median(self.compute):.1f}", *(f"{ms:.1f}" for ms in medians.values()),
            *(f"{self.reached(name) * 100:.0f} %" for name in BITS),
            f"{self.ratio('DDP fp16', 'Taut fp16'):.2f}",
            f"{self.ratio('Taut bf16', 'Taut mxint8'):.2f}",
        ]

    def ratio(self, a, b):
        return statistics.median(x / y for x, y in zip(self.found[a], self.found[b]))

    def reached(self, name):
        """Of the bound of so many bits."""
        wire = self.wire * BITS[name] / 32
        return statistics.median(
            max(f_b, wire) / ms for f_b, ms in zip(self.compute, self.found[name])
        )


def page(a, rows):
    head = ["model, C / (f + b)", "Mbit/s", "f + b ms", *COLUMNS,
            *(f"{name}, of its bound" for name in BITS),
            "DDP fp16 / Taut fp16", "Taut bf16 / Taut mxint8"]
    turns = sorted({len(row.found["DDP"]) for row in rows})
    return "\n".join([
        f"`bench/compress_compare.py`, {a.ranks} ranks, {a.cores_a_host} core(s) a host, "
        f"{' to '.join(map(str, turns))} runs of each, {a.steps} steps of each run that count.",
        "",
        measure.machine_lines(),
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
    ])


def measure_all(a, jobs):
    rows = [Row(model, times) for model in a.models for times in a.times]
    end = time.monotonic() + a.minutes * 60
    for _ in range(a.repeats):
        for row in rows:
            if time.monotonic() > end:
                say("time is up")
                return [row for row in rows if row.found["DDP"]]
            row.turn(a, jobs)
    return rows


def main():
    a = arguments()
    own = os.path.join(os.path.dirname(os.path.abspath(common.taut_of(a))), "libtaut.so.0")
    if not os.environ.get("TAUT_LIB") and os.path.exists(own):
        os.environ["TAUT_LIB"] = own
    python = runner.find_python()
    if not python:
        sys.exit("compress_compare: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    try:
        net = train_compare.hosts(a)
    except cluster.Unavailable as fault:
        sys.exit(f"compress_compare: {fault}")
    with net, tempfile.TemporaryDirectory(prefix="taut-compress-") as folder:
        rows = measure_all(a, train_compare.Jobs(a, net, python, folder))
    print(page(a, rows) + "\n")
    for row in rows:
        for name, lines in row.said.items():
            for line in lines:
                print(f"{row.model}, {row.times:g}, {name}: {line}")


if __name__ == "__main__":
    main()
