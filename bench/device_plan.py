#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of jobs on a GPU made real: the ResNet, the BERT and the GPT of bench/lab/device_job.py,
wrapped in DistributedDataParallel of one process, are recorded as they are, `taut plan` searches
the recording, and `taut run --plan` makes what it decided in the unchanged job. Beside it stand
the job as it is, what a person would try by hand with the job's own options (bf16, fused
updates and CUDA graphs); with --alone also each decision of the plan by itself, predicted by
`taut whatif` and made by `taut run`, so that an error has a place, and by hand without graphs.

In each turn a model's ways take turns, each as a process of its own; measured is the median of
the turns' mean steps. What fails is said, and the others go on. Needs PyTorch
(TAUT_TORCH_PYTHON, or build-python/torch) with a GPU that nothing else uses; a turn takes a
minute and a half for each model, with --alone twice that.

--device cpu --small tries the script where there is no GPU: what needs one is left out, and
the figures say nothing. --write puts the table into docs/planning.md."""

import argparse
import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import common
import device
import runner

DOC = os.path.join(common.ROOT, "docs", "planning.md")
BEGIN, END = "<!-- device plans: begin -->", "<!-- device plans: end -->"
WRAPPED = ("--ddp",)
BY_HAND = {"bf16, fused, graphs": ("--amp", "--fused", "--graphs")}
LESS = {"bf16, fused": ("--amp", "--fused")}
PATIENCE_S = 90  # for a job, which takes some 15 s
BEGUN = time.monotonic()


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--out", help="folder for recordings, plans and times (default: none is kept)")
    p.add_argument("--device", default="cuda")
    p.add_argument("--small", action="store_true", help="tiny models, to try this")
    p.add_argument("--models", default=",".join(device.MODELS))
    p.add_argument("--steps", type=int, default=32, help="of each run; a quarter is left out")
    p.add_argument("--turns", type=int, default=1)
    p.add_argument("--allow", default="lossy", help="exact, reordered or lossy")
    p.add_argument("--alone", action="store_true", help="also each decision by itself")
    p.add_argument("--budget", default="6s", help="of each search")
    p.add_argument("--json", metavar="FILE", help="all that was predicted and measured")
    p.add_argument("--write", action="store_true", help="the table into docs/planning.md")
    o = p.parse_args()
    o.predict = False
    return o


def say(text):
    print(f"{time.monotonic() - BEGUN:6.1f} s  {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass
class Way:
    """How a model is trained: by which options of the job, under which command."""

    model: str
    name: str
    kind: str  # "as it is", "plan", "alone" or "by hand"
    job: tuple = ()
    before: tuple = ()
    told: dict = None  # what was predicted: after_ms, low_ms, high_ms
    why: str = ""  # there is no prediction, or no run
    times: list = dataclasses.field(default_factory=list)

    @property
    def measured(self):
        return statistics.median(self.times) if self.times else None

    @property
    def error(self):
        if not self.told or not self.times:
            return None
        return (self.told["after_ms"] / self.measured - 1) * 100


# --- predicted --------------------------------------------------------------------------------


def plan(o, folder, path):
    """The plan of a recording, as JSON; None, and the reason."""
    words = [o.taut, "plan", folder, "--allow", o.allow, "--budget", o.budget, "-o", path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip().split("\n")[-1]
    with open(path, encoding="utf-8") as file:
        return json.load(file), None


def options_of(change):
    """Of `taut run`, for one decision of a plan; None: it has none of its own."""
    name, _, value = change.partition("=")
    if name == "graphs":
        return ("--graphs",)
    if name in ("amp", "optimizer", "workers", "heap", "recompute", "compile"):
        return (f"--{name}", value)
    return None


def ways_by_hand(o, model):
    cuda = o.device.startswith("cuda")
    chosen = {**BY_HAND, **(LESS if o.alone else {})} if cuda else {}
    return [Way(model, name, "by hand", job) for name, job in chosen.items()]


def ways_alone(o, model, folder, changes):
    for change in changes if len(changes) > 1 else ():
        told, why = device.predict(o, folder, device.Change(change, (change,)))
        before = options_of(change)
        if before:
            before = (o.taut, "run", *before, "--")
            yield Way(model, f"`{change}`", "alone", (), before, told, why or "")


def ways_of(o, python, model):
    """Records a model's job, and searches the plan; then what is to be measured."""
    ways = [Way(model, "as it is", "as it is"), *ways_by_hand(o, model)]
    folder, fault = device.record_once(o, python, model, WRAPPED, PATIENCE_S)
    say(f"{model}: {fault or 'recorded'}")
    path = device.path_of(o, model, "plan") + ".json"
    planned, fault = (None, fault) if fault else plan(o, folder, path)
    if fault:
        return [*ways, Way(model, "no plan", "plan", why=fault)]
    predicted = planned["predicted"]
    changes = [d["change"] for d in planned["decisions"]]
    said = " ".join(changes) or "nothing decided"
    say(f"{model}: {predicted['before_ms']:.2f} ms, planned {predicted['after_ms']:.2f}: {said}")
    ways[0].told = {"after_ms": predicted["before_ms"]}
    named = ", ".join(f"`{c}`" for c in changes) or said
    before = (o.taut, "run", "--plan", path, "--")
    ways.append(Way(model, named, "plan", (), before, predicted))
    return ways + (list(ways_alone(o, model, folder, changes)) if o.alone else [])


# --- measured ---------------------------------------------------------------------------------


def measure_once(o, python, way):
    out = os.path.join(o.out, "times.json")
    words = device.command(o, python, way.model, (*WRAPPED, *way.job, "--out", out))
    if os.path.exists(out):
        os.remove(out)
    fault = way.why if way.name == "no plan" else device.run([*way.before, *words], PATIENCE_S)
    if fault:
        way.why = fault
        say(f"{way.model}, {way.name}: {fault}")
        return
    with open(out, encoding="ascii") as file:
        way.times.append(statistics.mean(json.load(file)["seconds"]) * 1e3)
    told = f", predicted {way.told['after_ms']:.2f}" if way.told else ""
    say(f"{way.model}, {way.name}: {way.times[-1]:.2f} ms{told}")


# --- what came of it ----------------------------------------------------------------------------

HEAD = "model | changed | predicted ms | 95 % between | measured ms | error | as it is / this"


def cells(way, as_it_is):
    told, low = way.told, (way.told or {}).get("low_ms")
    kind = {"as it is": "", "plan": "**plan**: ", "alone": "alone: ", "by hand": "by hand: "}[way.kind]
    gain = as_it_is.measured / way.measured if way.times and as_it_is.times else None
    return [
        way.model,
        kind + way.name,
        f"{told['after_ms']:.2f}" if told else "-",
        f"{low:.2f} .. {told['high_ms']:.2f}" if low is not None else "-",
        f"{way.measured:.2f}" if way.times else way.why or "-",
        "-" if way.error is None else f"{way.error:+.1f} %",
        "-" if gain is None else f"{gain:.2f}",
    ]


def summary(ways):
    """Of the plans: errors, and how many times as fast they are as the job, and as the best
    by hand."""
    errors, gains, over = [], [], []
    for way in ways:
        if way.kind != "plan" or not way.times:
            continue
        mine = [w for w in ways if w.model == way.model and w.times]
        errors.append(abs(way.error))
        gains += [w.measured / way.measured for w in mine if w.kind == "as it is"]
        hand = [w.measured for w in mine if w.kind in ("by hand", "as it is")]
        over += [min(hand) / way.measured] if hand else []
    if not errors or not gains or not over:
        return "No plan was measured."
    return (
        f"{len(errors)} plans: predicted and measured differ by {statistics.mean(errors):.1f} % in the "
        f"mean, {max(errors):.1f} % at most. {geometric(gains):.2f} times as fast as the job as it is "
        f"(geometric mean), {geometric(over):.2f} times as the best by hand, {min(over):.2f} at least."
    )


def geometric(values):
    return math.exp(statistics.mean(math.log(v) for v in values))


def page(o, ways):
    first = {w.model: w for w in reversed(ways) if w.kind == "as it is"}
    rows = ["| " + " | ".join(cells(w, first[w.model])) + " |" for w in ways]
    turns = f"{o.turns} run{'s' if o.turns > 1 else ''} of {o.steps} steps each"
    return "\n".join(
        [
            f"`bench/device_plan.py`, {o.allow} decisions, searches of {o.budget}, {turns}.",
            "",
            o.machine,
            "",
            summary(ways),
            "",
            f"| {HEAD} |",
            "|---" * 7 + "|",
            *rows,
        ]
    )


def keep(o, ways):
    with open(o.json, "w", encoding="utf-8") as file:
        json.dump([dataclasses.asdict(way) for way in ways], file, indent=1)


def measure_all(o):
    common.taut_of(o)
    o.taut = os.path.abspath(o.taut)
    python = runner.find_python()
    if not python:
        sys.exit("device_plan: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    o.machine = device.machine(o, python).strip()  # it ends where there is no GPU
    ways = []
    for model in o.models.split(","):
        mine = ways_of(o, python, model)
        ways += mine
        for way in mine * o.turns:
            measure_once(o, python, way)
            if o.json:
                keep(o, ways)
    text = page(o, ways)
    print(text)
    if o.write:
        common.write_between(DOC, BEGIN, END, text)


def main():
    o = arguments()
    if o.out:
        measure_all(o)
        return
    with tempfile.TemporaryDirectory(prefix="taut-device-plan-") as o.out:
        measure_all(o)


if __name__ == "__main__":
    main()
