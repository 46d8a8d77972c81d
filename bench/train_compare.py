#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `taut run` gives a PyTorch job, beside DistributedDataParallel at its
defaults and at its best bucket size, in the lab (bench/lab): one rank a host, at
link rates at which communication C is a given multiple of computation.

Computation f + b is the step of the same job whose ranks exchange nothing, all at
once. C is what the gradients take on the wire at least: 2 (n - 1) / n of their
bytes, at the link's rate less the headers of TCP, IP and Ethernet. No step that
sums all gradients in order is shorter than max(f + b, C), the bound; where gradients
come late and are needed early, none that crosses the barrier is shorter than the window
bound: of C, and of what the gate of `taut run` measured of each gradient.

A host has --cores-a-host cores. With one, what the kernel and the libraries do to
move gradients takes time of the computation; the bound does not know that. With
two, computation (one thread) has a core for itself, as it would on a cluster, and
so does it for DDP. The last column is what the hosts' cores did under Taut: where they
are always busy, the core is the limit, and not the link.

All rows and all runs of a row take turns. Of the bucket sizes, each is tried in the
first turn, and the best one goes on. Each job runs as a whole; its first steps do
not count: in those Taut measures whether crossing can pay.

Needs root and PyTorch (TAUT_TORCH_PYTHON, or build-python/torch), and a machine
with nothing else on it. --write puts the table into docs/performance.md."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import common
import measure

sys.path.insert(0, os.path.join(common.ROOT, "python"))
from taut import _coll

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import cluster
import matrix
import runner

DOC = os.path.join(common.ROOT, "docs", "performance.md")
WARM_STEPS = 22  # of a job under taut run, until it has decided
DDP_WARM_STEPS = 5  # buckets are made anew behind the first
BUCKETS_MB = (1.0, 4.0, 10.0, 50.0)  # beside the default of 25; no model has 50 MB
ON_THE_WIRE = 1448 / 1514  # payload of a frame as tbf counts it, with time stamps of TCP


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--models", default="vgg,resnet,gpt")
    p.add_argument("--times", default="0.5,1,2", help="C as multiples of f + b")
    p.add_argument("--batch", type=float, default=1, help="times the model's own")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--steps", type=int, default=16, help="that count, of each run")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--cores-a-host", type=int, default=2)
    p.add_argument("--first-core", type=int, default=0, help="of the hosts: beside other work")
    p.add_argument("--minutes", type=float, default=30, help="then no run of a row begins any more")
    p.add_argument("--options", default="", help="more words for taut run")
    p.add_argument("--also", metavar="WORDS", help="a run with these as well, in a column more")
    p.add_argument("--json", metavar="FILE", help="all that was measured, after each turn of a row")
    p.add_argument("--beside", metavar="FILE", action="append", default=[],
        help="what another run on this machine wrote by --json: rows of the same table")
    p.add_argument("--block", default="train", help="of the page that --write writes")
    p.add_argument("--write", action="store_true", help="into docs/performance.md")
    a = p.parse_args()
    a.models = a.models.split(",")
    a.times = [float(t) for t in a.times.split(",")]
    return a


class Jobs:
    def __init__(self, a, net, python, folder, batch=1.0):
        """batch: times the model's own."""
        self.a, self.net, self.python, self.folder = a, net, python, folder
        self.batch = batch
        self.cores = {}  # what those of the hosts did in the last job's steps
        self.measured = os.path.join(folder, "measured")

    def told(self):
        """What the gate of the last job under taut run measured; None: it did not."""
        try:
            with open(self.measured, encoding="utf-8") as file:
                told = json.load(file)
        except FileNotFoundError:
            return None
        os.unlink(self.measured)
        return told

    def job(self, model, **options):
        """What bench/lab/job.py is to do."""
        # No loader of its own: nothing but the exchange differs.
        base = {k: v for k, v in matrix.BASE[model].items() if k == "workers"}
        batch = round(matrix.batches_of()[model] * self.batch)
        return {"model": model, "batch": batch, **base, **options}

    def run(self, model, mbit, before=(), limit_s=180, **options):
        """Median step in ms over ranks and steps, bytes of gradients, what was said."""
        warm = WARM_STEPS if before else DDP_WARM_STEPS
        job = self.job(model, **options, steps=warm + self.a.steps, uncounted=warm)
        self.net.shape(mbit)
        extra = {"UCX_NET_DEVICES": "eth0", "UCX_TLS": "tcp"}
        if before:
            extra["TAUT_RUN_MEASURED"] = self.measured
        told, said = runner.whole(
            self.net, self.python, before, job, self.a.ranks, os.path.join(self.folder, "job"),
            extra, limit_s,
        )
        ms = statistics.median(s for r in told for s in r["seconds"][warm:]) * 1e3
        self.cores = {
            what: statistics.mean(r["cores"][what] for r in told) for what in ("busy", "kernel")
        }
        return ms, told[0]["gradient_bytes"], said


def say(text):
    print(text, file=sys.stderr, flush=True)


def hosts(a):
    """The lab of a's ranks: so many cores each, from a's first on."""
    n = a.cores_a_host
    starts = range(a.first_core, a.first_core + n * a.ranks, n)
    return cluster.Cluster(tuple(range(core, core + n)) for core in starts)


def rate_of(n_ranks, gradient_bytes, ms):
    """Mbit/s at which the gradients take so long on the wire."""
    bits = 2 * (n_ranks - 1) / n_ranks * gradient_bytes * 8
    return bits / ms / 1e3 / ON_THE_WIRE


def window_ms(told, compute_ms, wire_ms):
    """The window bound of a job whose step takes so long without exchange. The gate
    measured beside an exchange: its steps shrink to that, where they took more."""
    passes_ns = told["forward_ns"] + told["backward_ns"] + told["update_ns"]
    own_ns = max(told["step_ns"] - told["exposed_ns"], passes_ns)
    share = min(1, compute_ms * 1e6 / own_ns) if own_ns else 1
    demands = [
        (
            wire_ms * 1e6 * task["bytes"] / told["gradient_bytes"],
            *(task[name] * share for name in ("update_ns", "need_ns", "ready_ns")),
        )
        for task in told["tasks"]
    ]
    return max(compute_ms, wire_ms, _coll.window(demands).bound_ns / 1e6)


class Row:
    """A model at one rate."""

    def __init__(self, model, times):
        self.model, self.times = model, times
        self.mbit = None
        self.local, self.ddp, self.taut, self.cores = [], [], [], []
        self.also, self.also_said = [], []
        self.buckets = {mb: [] for mb in BUCKETS_MB}
        self.said, self.told = [], []

    def find_rate(self, a, jobs):
        ms, gradient_bytes, _ = jobs.run(self.model, 10000, local=1)
        self.local.append(ms)
        self.mbit = round(rate_of(a.ranks, gradient_bytes, ms * self.times))
        self.wire_ms = ms * self.times

    @property
    def best_bucket(self):
        return min(BUCKETS_MB, key=lambda mb: self.buckets[mb][0])

    def turn(self, a, jobs, number):
        if number:
            self.local.append(jobs.run(self.model, 10000, local=1)[0])
        else:
            self.find_rate(a, jobs)
        self.ddp.append(jobs.run(self.model, self.mbit)[0])
        with_taut = [a.taut, "run", *a.options.split(), "--"]
        ms, _, said = jobs.run(self.model, self.mbit, with_taut)
        self.taut.append(ms)
        self.cores.append(jobs.cores)
        self.told.append(jobs.told())
        self.said = [line for line in said.split("\n") if line.startswith("taut:")]
        if a.also is not None:
            ms, _, said = jobs.run(self.model, self.mbit, [a.taut, "run", *a.also.split(), "--"])
            self.also.append(ms)
            jobs.told()
            self.also_said = [line for line in said.split("\n") if line.startswith("taut:")]
        for mb in [self.best_bucket] if number else BUCKETS_MB:
            self.buckets[mb].append(jobs.run(self.model, self.mbit, bucket_mb=mb)[0])
        say(
            f"{number} {self.model} x{self.times:g}: f + b {self.local[-1]:.1f}, DDP "
            f"{self.ddp[-1]:.1f}, at {self.best_bucket:g} MB "
            f"{self.buckets[self.best_bucket][-1]:.1f}, Taut {self.taut[-1]:.1f} ms"
        )

    def cells(self):
        compute, default = statistics.median(self.local), statistics.median(self.ddp)
        ours, best = statistics.median(self.taut), self.best_bucket
        at_best = min(default, statistics.median(self.buckets[best]))
        best_name = "default" if at_best == default else f"{best:g} MB"
        bound = max(compute, self.wire_ms)
        windows = [window_ms(told, compute, self.wire_ms) for told in self.told if told]
        window = f"{statistics.median(windows):.1f}" if windows else "-"
        spread = (max(self.taut) - min(self.taut)) / 2 / ours * 100
        busy, kernel = (
            100 * statistics.median(run[what] for run in self.cores) for what in ("busy", "kernel")
        )
        return [
            f"{self.model}, {self.times:g}", f"{self.mbit}", f"{compute:.1f}",
            f"{self.wire_ms:.1f}", f"{bound:.1f}", window, f"{default:.1f}",
            f"{at_best:.1f} ({best_name})", f"{ours:.1f} ({spread:.1f} %)",
            f"{bound / ours * 100:.0f} %", f"{bound / at_best * 100:.0f} %",
            f"{default / ours:.2f}", f"{at_best / ours:.2f}", f"{busy:.0f} % ({kernel:.0f} %)",
            *self.also_cells(bound, default, ours),
        ]

    def also_cells(self, bound, default, ours):
        if not self.also:
            return []
        ms = statistics.median(self.also)
        return [f"{ms:.1f}", f"{bound / ms * 100:.0f} %", f"{default / ms:.2f}", f"{ours / ms:.2f}"]


def measure_all(a, jobs):
    rows = [Row(model, times) for model in a.models for times in a.times]
    end = time.monotonic() + a.minutes * 60
    for number in range(a.repeats):
        for row in rows:
            if time.monotonic() > end:
                say("time is up")
                return [row for row in rows if row.taut]
            row.turn(a, jobs, number)
            if a.json:
                common.keep_rows(a.json, [row for row in rows if row.taut], "buckets")
    return rows


HEAD = (
    "model, C / (f + b) | Mbit/s | f + b ms | C ms | bound ms | window bound ms | DDP ms | "
    "DDP at its best ms | Taut ms (spread) | Taut of the bound | DDP's best of it | DDP / Taut | best / Taut | "
    "cores busy (in the kernel)"
)


def page(a, rows):
    head = HEAD
    if a.also is not None:
        head += f" | `{a.also}` ms | of the bound | DDP / that | Taut / that"
    batch = f", batches {a.batch:g} times the models' own" if a.batch != 1 else ""
    turns = {len(row.taut) for row in rows}
    lines = [
        f"`bench/train_compare.py`, {a.ranks} ranks, {a.cores_a_host} core(s) a host, "
        f"{' to '.join(map(str, sorted(turns)))} runs of each, {a.steps} steps of each run that count"
        f"{batch}.",
        "",
        measure.machine_lines(),
        "",
        f"| {head} |",
        "|---" * (head.count("|") + 1) + "|",
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
    ]
    return "\n".join(lines)


def main():
    a = arguments()
    own = os.path.join(os.path.dirname(os.path.abspath(common.taut_of(a))), "libtaut.so.0")
    if not os.environ.get("TAUT_LIB") and os.path.exists(own):
        os.environ["TAUT_LIB"] = own
    python = runner.find_python()
    if not python:
        sys.exit("train_compare: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    try:
        net = hosts(a)
    except cluster.Unavailable as fault:
        sys.exit(f"train_compare: {fault}")
    with net, tempfile.TemporaryDirectory(prefix="taut-train-") as folder:
        rows = measure_all(a, Jobs(a, net, python, folder, a.batch))
    rows += [row for path in a.beside for row in common.kept_rows(path, Row, "buckets")]
    text = page(a, rows)
    print(text + "\n")
    for row in rows:
        said = row.said + row.also_said
        print("\n".join(f"{row.model}, {row.times:g}: {line}" for line in said))
    if a.write and rows:
        begin, end = f"<!-- {a.block}: begin -->", f"<!-- {a.block}: end -->"
        common.write_between(DOC, begin, end, text)


if __name__ == "__main__":
    main()
