#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peak memory that `taut whatif` predicts, beside what it then is.

The four models of bench/lab train on the CPU, one rank each, recorded with
`taut record --memory`: once as they are, and once with each change really made.
From the first recording alone the peak of the changed job is predicted; measured
is what the allocator counted in the other, on the same steps. Both are of what is
asked for from the beginning of the recording on: parameters are not among it.

An allocator counts the same on a busy machine: nothing here is timed. Needs an
interpreter with PyTorch (TAUT_TORCH_PYTHON, or build-python/torch)."""

import argparse
import dataclasses
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile

import common

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import matrix
import runner

DOC = os.path.join(common.ROOT, "docs", "whatif.md")
BEGIN, END = "<!-- memory: begin -->", "<!-- memory: end -->"
BATCH = {"vgg": 24, "resnet": 16, "gpt": 6, "rnn": 12}
STEPS = "3:6"


@dataclasses.dataclass
class Change:
    name: str
    words: str  # of `taut whatif`
    job: dict  # options of job.py
    models: tuple = tuple(matrix.BASE)


CHANGES = (
    Change("batch x2", "batch=2x", {"batch": 2.0}),
    Change("batch x4", "batch=4x", {"batch": 4.0}),
    Change("batch x0.5", "batch=0.5x", {"batch": 0.5}),
    Change("accumulate 2", "accumulate=2", {"accumulate": 2}),
    Change(
        "blocks again", "recompute=nn.Module: blocks.*", {"checkpoint": 1}, ("resnet", "gpt")
    ),
)


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--models", default=",".join(matrix.BASE), help="some of them")
    p.add_argument("--out", help="folder for the recordings; without it they go")
    p.add_argument("--write", action="store_true", help="the table into docs/whatif.md")
    return p.parse_args()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def record(taut, python, run, options):
    """The recording of a job of one rank."""
    if os.path.isdir(run):
        return
    words = [w for key, value in options.items() for w in (f"--{key.replace('_', '-')}", str(value))]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_")}
    environment.update(
        RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", OMP_NUM_THREADS="1"
    )
    environment["MASTER_PORT"] = str(free_port())
    command = [taut, "record", "--memory", "--steps", STEPS, "--out", run, "--"]
    done = subprocess.run(
        [*command, python, runner.JOB, "--steps", "7", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"memory: {' '.join(words)}: {done.stderr.strip()[-1500:]}")


def asked(*words):
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"memory: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measured(taut, run):
    return max(m["measured_peak_bytes"] for m in asked(taut, "report", run)["memory"])


def replayed(taut, run):
    return max(m["replayed_peak_bytes"] for m in asked(taut, "report", run)["memory"])


def rows_of(o, python, folder):
    """(model, change, before, measured, predicted), in bytes."""
    for model in o.models.split(","):
        base = os.path.join(folder, model)
        record(o.taut, python, base, {"model": model})
        before = measured(o.taut, base)
        yield model, "as it is", before, before, replayed(o.taut, base)
        for i, change in enumerate(CHANGES):
            if model not in change.models:
                continue
            job = dict(change.job)
            if "batch" in job:
                job["batch"] = round(BATCH[model] * job["batch"])
            run = os.path.join(folder, f"{model}-{i}")
            record(o.taut, python, run, {"model": model, **job})
            told = asked(o.taut, "whatif", base, change.words)
            yield model, change.name, before, measured(o.taut, run), told["memory_after_bytes"]


def table(rows):
    lines = ["| model, change | recorded MB | measured MB | predicted MB | error |", "|---" * 5 + "|"]
    errors = []
    for model, change, before, is_then, predicted in rows:
        error = (predicted / is_then - 1) * 100
        if change != "as it is":
            errors.append(abs(error))
        sizes = " | ".join(f"{n / 1e6:.1f}" for n in (before, is_then, predicted))
        lines.append(f"| {model}, {change} | {sizes} | {error:+.1f} % |")
    summed = (
        f"`bench/memory.py`: {len(errors)} changes of {len({r[0] for r in rows})} models; mean error "
        f"{statistics.mean(errors):.1f} %, largest {max(errors):.1f} %."
    )
    return "\n".join([summed, "", *lines])


def main():
    o = arguments()
    common.taut_of(o)
    python = runner.find_python()
    if not python:
        sys.exit("memory: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    with tempfile.TemporaryDirectory() as passing:
        text = table(list(rows_of(o, python, o.out or passing)))
    print(text)
    if o.write:
        common.write_between(DOC, BEGIN, END, text)


if __name__ == "__main__":
    main()
