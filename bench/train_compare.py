#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `taut run` gives a PyTorch job, beside DistributedDataParallel at its
defaults and at its best bucket size, in the lab (bench/lab): one rank a host, at
link rates at which communication C is a given multiple of computation.

Computation f + b is the step of the same job whose ranks exchange nothing, all at
once. C is what the gradients take on the wire at least: 2 (n - 1) / n of their
bytes, at the link's rate less the headers of TCP, IP and Ethernet. No step that
sums all gradients in order is shorter than max(f + b, C), the bound.

All runs of a model and rate take turns. Of the bucket sizes, each is tried in the
first turn, and the best one goes on. Each job runs as a whole; its first steps do
not count: in those Taut measures whether crossing can pay.

Needs root and PyTorch (TAUT_TORCH_PYTHON, or build-python/torch), and a machine
with nothing else on it."""

import argparse
import json
import os
import statistics
import sys
import tempfile

import common
import measure

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import cluster
import matrix
import runner

WARM_STEPS = 14
BUCKETS_MB = (1.0, 4.0, 10.0, 50.0, 100.0)
ON_THE_WIRE = 1448 / 1514  # payload of a frame as tbf counts it, with time stamps of TCP


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--models", default="vgg,resnet,gpt")
    p.add_argument("--times", default="0.5,1,2", help="C as multiples of f + b")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--steps", type=int, default=16, help="that count, of each run")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--options", default="", help="more words for taut run")
    p.add_argument("--json", metavar="FILE", help="all that was measured, after each run")
    a = p.parse_args()
    a.models = a.models.split(",")
    a.times = [float(t) for t in a.times.split(",")]
    return a


class Jobs:
    def __init__(self, a, net, python, folder):
        self.a, self.net, self.python, self.folder = a, net, python, folder
        self.log = []

    def run(self, model, mbit, before=(), limit_s=180, **options):
        """Median step in ms over ranks and steps, bytes of gradients, what was said."""
        # No loader of its own: nothing but the exchange differs.
        base = {k: v for k, v in matrix.BASE[model].items() if k == "workers"}
        job = {"model": model, **base, **options, "steps": WARM_STEPS + self.a.steps}
        self.net.shape(mbit)
        extra = {"UCX_NET_DEVICES": "eth0", "UCX_TLS": "tcp"}
        told, said = runner.whole(
            self.net, self.python, before, job, self.a.ranks, os.path.join(self.folder, "job"),
            extra, limit_s,
        )
        ms = statistics.median(s for r in told for s in r["seconds"][WARM_STEPS:]) * 1e3
        self.log.append({"model": model, "mbit": mbit, "before": list(before), **options, "ms": ms})
        if self.a.json:
            with open(self.a.json, "w", encoding="ascii") as file:
                json.dump(self.log, file, indent=1)
        return ms, told[0]["gradient_bytes"], said


def say(text):
    print(text, file=sys.stderr, flush=True)


def rate_of(n_ranks, gradient_bytes, ms):
    """Mbit/s at which the gradients take so long on the wire."""
    bits = 2 * (n_ranks - 1) / n_ranks * gradient_bytes * 8
    return bits / ms / 1e3 / ON_THE_WIRE


def row_of(a, jobs, model, times):
    first, gradient_bytes, _ = jobs.run(model, 10000, local=1)
    local, wire_ms = [first], first * times
    mbit = round(rate_of(a.ranks, gradient_bytes, wire_ms))
    with_taut = [a.taut, "run", *a.options.split(), "--"]
    found = {"ddp": [], "taut": []}
    buckets = {mb: [] for mb in BUCKETS_MB}
    said = ""
    for turn in range(a.repeats):
        found["ddp"].append(jobs.run(model, mbit)[0])
        tried = BUCKETS_MB if turn == 0 else [min(BUCKETS_MB, key=lambda mb: buckets[mb][0])]
        for mb in tried:
            buckets[mb].append(jobs.run(model, mbit, bucket_mb=mb)[0])
        ms, _, said = jobs.run(model, mbit, with_taut)
        found["taut"].append(ms)
        local.append(jobs.run(model, 10000, local=1)[0])
        say(f"{model} x{times:g} turn {turn}: " + json.dumps({k: v[-1] for k, v in found.items()}))
    lines = [line for line in said.split("\n") if line.startswith("taut:")]
    best = min(BUCKETS_MB, key=lambda mb: buckets[mb][0])
    compute = statistics.median(local)
    default = statistics.median(found["ddp"])
    ours = statistics.median(found["taut"])
    at_best = min(default, statistics.median(buckets[best]))
    best_name = "default" if at_best == default else f"{best:g} MB"
    bound = max(compute, wire_ms)
    spread = (max(found["taut"]) - min(found["taut"])) / 2 / ours * 100
    cells = [
        f"{model}, {times:g}", f"{mbit}", f"{compute:.1f}", f"{wire_ms:.1f}", f"{bound:.1f}",
        f"{default:.1f}", f"{at_best:.1f} ({best_name})", f"{ours:.1f} ({spread:.1f} %)",
        f"{bound / ours * 100:.0f} %", f"{bound / at_best * 100:.0f} %",
        f"{default / ours:.2f}", f"{at_best / ours:.2f}",
    ]
    return "| " + " | ".join(cells) + " |", lines


HEAD = (
    "model, C / (f + b) | Mbit/s | f + b ms | C ms | bound ms | DDP ms | DDP at its best ms | "
    "Taut ms (spread) | Taut of the bound | DDP's best of it | DDP / Taut | best / Taut"
)


def main():
    a = arguments()
    common.taut_of(a)
    python = runner.find_python()
    if not python:
        sys.exit("train_compare: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    try:
        net = cluster.Cluster(range(a.ranks))
    except cluster.Unavailable as fault:
        sys.exit(f"train_compare: {fault}")
    rows, remarks = [], []
    with net, tempfile.TemporaryDirectory(prefix="taut-train-") as folder:
        jobs = Jobs(a, net, python, folder)
        for model in a.models:
            for times in a.times:
                row, lines = row_of(a, jobs, model, times)
                rows.append(row)
                remarks += [f"{model}, {times:g}: {line}" for line in lines]
    print(measure.machine_lines())
    print(f"\n{a.ranks} ranks, {a.repeats} runs of each, {a.steps} steps of each run\n")
    print(f"| {HEAD} |\n|{'---|' * 12}")
    print("\n".join(rows))
    print("\n" + "\n".join(remarks))


if __name__ == "__main__":
    main()
