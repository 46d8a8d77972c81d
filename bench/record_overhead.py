#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `taut record` costs a PyTorch job, by paired runs of examples/train.py.

Each pair is a run without a recording and one with it, in a random order. Two
questions, each a ratio of medians of the job's own step times:

  inside   recorded steps against the steps before and after them, same run
  outside  the other steps of recorded runs against runs without a recording

The table has the median of the pairs' ratios and its 95 % confidence interval,
by bootstrap over the pairs."""

import argparse
import csv
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

import common

FIRST_STEPS = 6  # of a run: caches, allocators and buckets settle
EXPORT_STEPS = 2  # behind the window: the step that writes the trace, and the next


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root = common.ROOT
    p.add_argument("--taut", default=os.path.join(root, "build", "taut"))
    default = os.environ.get("TAUT_TORCH_PYTHON") or os.path.join(
        root, "build-python", "torch", "bin", "python"
    )
    p.add_argument("--python", default=default, help="an interpreter with torch and numpy")
    p.add_argument("--pairs", type=int, default=10)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--steps", type=int, default=60, help="of a run")
    p.add_argument("--record", default="20:40", metavar="A:B")
    p.add_argument("--memory", action="store_true", help="record allocations too")
    p.add_argument("--json", metavar="FILE", help="write all ratios, after each pair")
    p.add_argument(
        "--add", metavar="FILE", nargs="+", default=[], help="pairs of earlier runs, from --json"
    )
    p.add_argument("job", nargs="*", help="more arguments of train.py, after --")
    a = p.parse_args()
    a.first, a.end = map(int, a.record.split(":"))
    if not FIRST_STEPS + 2 < a.first < a.end < a.steps - EXPORT_STEPS:
        p.error("--record must leave steps before and after it")
    return a


def run_job(a, recorded, folder):
    """{step: [ms of each rank]} of one run."""
    out, run = os.path.join(folder, "out"), os.path.join(folder, "run")
    for path in (out, run):
        shutil.rmtree(path, ignore_errors=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    words = [a.taut, "record", "--steps", a.record, "--out", run, "--"] if recorded else []
    words += [a.python, "-m", "torch.distributed.run", "--nproc-per-node", str(a.ranks)]
    words += ["--master-port", str(port), os.path.join(common.ROOT, "examples", "train.py")]
    words += ["--active", "0", "--steps", str(a.steps), "--out", out, "--no-module-names"]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if a.memory:
        environment["TAUT_RECORD_MEMORY"] = "1"
    done = subprocess.run(words + a.job, env=environment, capture_output=True, text=True)
    if not recorded and "terminate called without an active exception" in done.stderr:
        # PyTorch 2.13 ends one in some hundreds of such jobs so when all is done.
        print("an unrecorded run was ended by PyTorch itself: once more", file=sys.stderr)
        done = subprocess.run(words + a.job, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    if recorded and not os.path.exists(os.path.join(run, "rank0", "torch.pt.trace.json.gz")):
        sys.exit("nothing was recorded: " + done.stderr)
    steps = {}
    with open(os.path.join(out, "steps.csv"), newline="") as f:
        for row in csv.DictReader(f):
            steps.setdefault(int(row["step"]), []).append(float(row["step_ms"]))
    return steps


def middle(steps, chosen):
    return statistics.median(statistics.mean(steps[s]) for s in chosen)


def pair(a, folder):
    order = [False, True]
    random.shuffle(order)
    runs = {recorded: run_job(a, recorded, folder) for recorded in order}
    before = range(FIRST_STEPS, a.first - 2)
    after = range(a.end + EXPORT_STEPS, a.steps)
    outside = [*before, *after]
    within = range(a.first, a.end)
    bare, ours = runs[False], runs[True]
    # The same steps of the run without a recording: what would differ anyway.
    drift = middle(bare, within) / middle(bare, outside)
    return {
        "inside": middle(ours, within) / middle(ours, outside),
        "inside, nothing recorded": drift,
        "outside": middle(ours, outside) / middle(bare, outside),
        "step_ms": middle(bare, outside),
    }


def interval(values, rounds=10000):
    """95 % of the medians of samples drawn again."""
    rng = random.Random(0)
    medians = sorted(
        statistics.median(rng.choices(values, k=len(values))) for _ in range(rounds)
    )
    return medians[int(rounds * 0.025)], medians[int(rounds * 0.975)]


def percent(ratio):
    return f"{(ratio - 1) * 100:+.2f} %"


def main():
    a = arguments()
    common.program(a.taut, "run make build, or give --taut")
    common.program(a.python, "run tools/ensure-python torch, or give --python")
    pairs, earlier = [], []
    for path in a.add:
        with open(path) as f:
            earlier += json.load(f)
    with tempfile.TemporaryDirectory(prefix="taut-overhead-") as folder:
        for i in range(a.pairs):
            pairs.append(pair(a, folder))
            if a.json:
                with open(a.json, "w") as f:
                    json.dump(pairs, f, indent=1)
            if sys.stderr.isatty():
                print(f"\rpair {i + 1} of {a.pairs}", end="", file=sys.stderr)
    pairs += earlier
    step_ms = statistics.median(p["step_ms"] for p in pairs)
    print(
        f"{len(pairs)} pairs, {a.ranks} ranks, {a.steps} steps of {step_ms:.1f} ms, "
        f"{a.first}:{a.end} recorded; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(f"{'':26} median    95 % interval")
    for key in ("inside", "inside, nothing recorded", "outside"):
        values = [p[key] for p in pairs]
        low, high = interval(values)
        print(f"{key:26} {percent(statistics.median(values)):9} {percent(low)} .. {percent(high)}")


if __name__ == "__main__":
    main()
