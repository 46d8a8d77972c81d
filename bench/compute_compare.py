#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of PyTorch (bench/lab/job.py: DistributedDataParallel, two ranks on this host) with
modules compiled, or memory kept in the heap: what `taut whatif` predicts from a recording
(with `taut record --compile`), beside what the job takes by `taut run` with the same change.

Of each turn and model: the job recorded once, with every pattern measured; then run as it is,
and with each change. Milliseconds a step, medians over turns of the medians over steps and
ranks; predicted is the median over turns, too. What is compared is the factor by which
a change changes the step, of each turn by itself, so that a machine that is slower an hour later
does not mind. Needs PyTorch and a C++ compiler."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import common
import measure

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import runner

WHOLE = "nn.Module: DistributedDataParallel"
BLOCKS = "nn.Module: blocks.*"
PATTERNS = {"vgg": [WHOLE], "resnet": [WHOLE, BLOCKS], "gpt": [WHOLE, BLOCKS], "rnn": [WHOLE]}
KEPT = "keep"


def changes(options, model):
    """(name, value) of those asked for: of taut whatif, and an option of taut run."""
    compiled = [("compile", pattern) for pattern in PATTERNS[model]]
    return [c for c in [*compiled, ("heap", KEPT)] if c[0] in options.changes]


def job(python, model, steps):
    script = os.path.join(common.HERE, "lab", "job.py")
    launch = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [*launch, script, "--model", model, "--steps", str(steps)]


def environment():
    own = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_")}
    return dict(own, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")


def call(command):
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"compute_compare.py: {' '.join(command)}: {done.stderr[-1500:]}")
    return done.stdout


def predicted(options, folder, model):
    """Milliseconds as it was, and by change: as predicted, or why it was not."""
    run = os.path.join(folder, "run")
    command = [options.taut, "record", "--steps", "10:30", "--out", run]
    patterns = [value for name, value in changes(options, model) if name == "compile"]
    command += ["--compile", ",".join(patterns)] if patterns else []
    call([*command, "--", *job(options.python, model, 34)])
    before, after = None, {}
    for change in changes(options, model):
        command = [options.taut, "whatif", "--json", run, "=".join(change)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            after[change] = done.stderr.strip()
            continue
        told = json.loads(done.stdout)
        before, after[change] = told["before_ms"], told["after_ms"]
    shutil.rmtree(run)
    return before, after


def measured(options, folder, model, change):
    out = os.path.join(folder, "steps")
    command = [options.taut, "run", "--no-schedule", "--measure", out]
    command += ["--" + change[0], change[1]] if change else []
    call([*command, "--", *job(options.python, model, 20 + options.steps)])
    times = []
    for name in os.listdir(out):
        with open(os.path.join(out, name), encoding="utf-8") as file:
            times.append(statistics.median(json.load(file)["step_ns"]) / 1e6)
    shutil.rmtree(out)
    return statistics.median(times)


def turn(options, model, rows):
    with tempfile.TemporaryDirectory() as folder:
        before, after = predicted(options, folder, model)
        plain = measured(options, folder, model, None)
        for change in changes(options, model):
            if isinstance(after[change], str):
                print(f"{model}: {after[change]}", file=sys.stderr)
                continue
            took = measured(options, folder, model, change)
            row = (before, after[change], plain, took)
            rows.setdefault((model, change), []).append(row)
            print(model, "=".join(change), *(f"{ms:.1f}" for ms in row), file=sys.stderr)


def show(rows):
    print(measure.machine_lines())
    print("\n| model, change | as it is, ms | changed, ms | times as long | predicted | error |")
    print("|---|---|---|---|---|---|")
    errors = []
    for (model, (name, value)), turns in rows.items():
        plain, took = (statistics.median(t[i] for t in turns) for i in (2, 3))
        said = statistics.median(t[1] / t[0] for t in turns)
        was = statistics.median(t[3] / t[2] for t in turns)
        errors.append(abs(said / was - 1) * 100)
        of = "" if name == "heap" else " whole" if value == WHOLE else " " + value.partition(": ")[2]
        print(f"| {model}, {name}{of} | {plain:.1f} | {took:.1f} | {was:.3f} | {said:.3f} "
              f"| {100 * (said / was - 1):+.1f} % |")  # fmt: skip
    print(f"\nmean error {statistics.fmean(errors):.1f} %, largest {max(errors):.1f} %")


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--models", nargs="+", choices=PATTERNS, default=list(PATTERNS))
    p.add_argument("--changes", nargs="+", choices=["compile", "heap"], default=["compile", "heap"])
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--steps", type=int, default=60, help="measured, of a run")
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    options = p.parse_args()
    options.python = runner.find_python()
    if not options.python:
        sys.exit("compute_compare.py: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    rows = {}
    for _ in range(options.turns):
        for model in options.models:
            turn(options, model, rows)
    show(rows)


if __name__ == "__main__":
    main()
