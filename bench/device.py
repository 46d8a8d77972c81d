#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `taut whatif` predicts of a training job on a GPU, beside what happens.

A ResNet, a BERT and a GPT (bench/lab/device_job.py) are recorded as they are: 32 bits,
kernel by kernel, with a loader that keeps up. From that one recording each change is predicted,
then made. All configurations take turns (A B C A B C), each as a process of its own;
measured is the median of the turns' mean steps (with a loader that does not keep up, one
step waits for the batches of several), spread half of their range. Needs PyTorch
(TAUT_TORCH_PYTHON, or build-python/torch) with a GPU that nothing else uses.

--device cpu --small tries the script where there is no GPU: what needs one is left out,
and the figures say nothing."""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys

import common
import measure

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import runner

JOB = os.path.join(common.HERE, "lab", "device_job.py")
DOC = os.path.join(common.ROOT, "docs", "accuracy.md")
BEGIN, END = "<!-- device: begin -->", "<!-- device: end -->"
MODELS = ("resnet", "bert", "gpt")


@dataclasses.dataclass
class Change:
    name: str
    words: tuple = ()  # of `taut whatif`
    job: tuple = ()  # options of device_job.py
    gpu: bool = True  # needs one
    base: tuple = ()  # options of the job that is recorded, too


SLOW = ("--workers", "1", "--prepare-ms", "4")  # a loader that does not keep up
CHANGES = (
    Change("as it is", gpu=False),
    Change("bf16", ("amp=bf16",), ("--amp",)),
    Change("fused update", ("optimizer=fused",), ("--fused",), gpu=False),
    Change("batch x2", ("batch=2x",), ("--batch", "2"), gpu=False),
    Change("batch x0.5", ("batch=0.5x",), ("--batch", "0.5"), gpu=False),
    Change("CUDA graphs", ("graphs",), ("--graphs",)),
    Change("torch.compile", ("fuse",), ("--compile",)),
    Change("bf16, batch x2", ("amp=bf16", "batch=2x"), ("--amp", "--batch", "2")),
    Change("slow loader", gpu=False, base=SLOW),
    Change("slow loader, 4 workers", ("workers=4",), ("--workers", "4"), False, SLOW),
)


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--out", required=True, help="folder for recordings and times")
    p.add_argument("--device", default="cuda")
    p.add_argument("--small", action="store_true", help="tiny models, to try this")
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--predict", action="store_true", help="anew, beside what --out has measured")
    p.add_argument("--write", action="store_true", help="the table into docs/accuracy.md")
    return p.parse_args()


def command(o, python, model, options):
    words = [python, JOB, "--model", model, "--device", o.device, "--steps", str(o.steps)]
    return words + ["--small"] * o.small + list(options)


def run(words, patience_s=None):
    """Why it failed, or None."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_")}
    try:
        done = subprocess.run(
            words, env=clean, capture_output=True, text=True, timeout=patience_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"ended after {patience_s} s"
    if done.returncode:
        return done.stderr.strip().split("\n")[-1] or f"ended with {done.returncode}"
    return None


def path_of(o, *parts):
    return os.path.join(o.out, "-".join(parts).replace(" ", "_").replace(",", ""))


def record_once(o, python, model, base, patience_s=None):
    """The folder of a recorded job with these options, and why there is none or None."""
    folder = path_of(o, model, "base", *(w.strip("-") for w in base))
    if o.predict or os.path.isdir(folder):
        return folder, None
    first = o.steps // 2
    record_words = [o.taut, "record", "--steps", f"{first}:{first + 8}", "--out", folder, "--"]
    return folder, run(record_words + command(o, python, model, base), patience_s)


def record(o, python, model, change):
    """The recording of a job before the change."""
    folder, fault = record_once(o, python, model, change.base)
    if fault:
        sys.exit(f"device: {model}: {fault}")
    return folder


def measure_once(o, python, model, change, turn):
    out = path_of(o, model, change.name, str(turn)) + ".json"
    words = command(o, python, model, (*change.base, *change.job, "--out", out))
    if o.predict and not os.path.exists(out):
        return None
    fault = None if os.path.exists(out) else run(words)
    if fault:
        print(f"{model}, {change.name}: {fault}", file=sys.stderr)
        return None
    with open(out, encoding="ascii") as file:
        return statistics.mean(json.load(file)["seconds"]) * 1e3


def predict(o, folder, change):
    """The prediction, or a line that says why there is none."""
    words = [o.taut, "whatif", folder, *(change.words or ("batch=1x",)), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip().split("\n")[-1]
    return json.loads(done.stdout), None


@dataclasses.dataclass
class Row:
    model: str
    change: Change
    times: list
    told: dict = None
    fault: str = None

    @property
    def measured(self):
        return statistics.median(self.times)

    @property
    def error(self):
        return (self.told["after_ms"] / self.measured - 1) * 100 if self.told else None


def line_of(row):
    spread = (max(row.times) - min(row.times)) / 2 / row.measured * 100
    spread = f"{spread:.1f} %" if len(row.times) > 1 else "-"
    cells = [f"{row.model}, {row.change.name}", f"{row.measured:.2f}", spread]
    if not row.told:
        cells += [row.fault, "-", "-"]
    else:
        low, high = row.told.get("low_ms"), row.told.get("high_ms")
        interval = "-" if low is None else f"{low:.2f} .. {high:.2f}"
        cells += [f"{row.told['after_ms']:.2f}", interval, f"{row.error:+.1f} %"]
    return "| " + " | ".join(cells) + " |"


def table(rows):
    head = "| model, change | measured ms | spread | Taut ms | interval | error |"
    errors = [abs(r.error) for r in rows if r.told and r.change.words]
    summed = "no change was predicted"
    if errors:
        summed = (
            f"{len(errors)} changes: mean error {statistics.mean(errors):.1f} %, "
            f"largest {max(errors):.1f} %"
        )
    return "\n".join([f"`bench/device.py`, {summed}.", "", head, "|---" * 6 + "|", *map(line_of, rows)])


def rows_of(o, python):
    wanted = [
        Row(model, change, [])
        for model in o.models.split(",")
        for change in CHANGES
        if not change.gpu or o.device.startswith("cuda")
    ]
    for row in wanted:
        folder = record(o, python, row.model, row.change)
        row.told, row.fault = predict(o, folder, row.change)
        if row.fault:
            print(f"{row.model}, {row.change.name}: {row.fault}", file=sys.stderr)
    for turn in range(o.repeats):
        for row in wanted:
            ms = measure_once(o, python, row.model, row.change, turn)
            row.times += [ms] if ms else []
    return [row for row in wanted if row.times]


def machine(o, python):
    """The lines of the machine that measured; kept for who predicts elsewhere."""
    path = os.path.join(o.out, "machine.txt")
    if not o.predict:
        os.makedirs(o.out, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{measure.machine_lines()}\n{device_line(o, python)}\n")
    if not os.path.exists(path):
        sys.exit(f"device: {path}: expected what an earlier run of this wrote there")
    with open(path, encoding="utf-8") as file:
        return file.read()


def device_line(o, python):
    if not o.device.startswith("cuda"):
        return "no GPU"
    words = "import torch; print(torch.cuda.get_device_name(), torch.__version__)"
    done = subprocess.run([python, "-c", words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("device: PyTorch finds no GPU; --device cpu --small tries the script without one")
    return done.stdout.strip()


def main():
    o = arguments()
    common.taut_of(o)
    python = runner.find_python()
    if not python and not o.predict:
        sys.exit("device: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    text = f"{machine(o, python)}\n{table(rows_of(o, python))}"
    print(text)
    if o.write:
        common.write_between(DOC, BEGIN, END, text)


if __name__ == "__main__":
    main()
