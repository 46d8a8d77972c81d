#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of jobs on a GPU made real: the ResNet, the BERT and the GPT of bench/lab/device_job.py,
wrapped in DistributedDataParallel of one process, are recorded as they are, `taut plan` searches
the recording, and `taut run --plan` makes what it decided in the unchanged job. Beside it stand
the job as it is, what a person would try by hand with the job's own options (bf16 and fused
updates; the same with CUDA graphs), and each decision of the plan alone, predicted by `taut whatif`
and made by `taut run`, so that an error has a place.

All take turns (A B C A B C), each as a process of its own; measured is the median of the turns'
mean steps. Needs PyTorch (TAUT_TORCH_PYTHON, or build-python/torch) with a GPU that nothing else
uses; one turn of all takes some four minutes.

--device cpu --small tries the script where there is no GPU: what needs one is left out, and
the figures say nothing. --write puts the table into docs/planning.md."""

import argparse
import concurrent.futures
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
BY_HAND = {"bf16, fused": ("--amp", "--fused"), "bf16, fused, graphs": ("--amp", "--fused", "--graphs")}
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
    p.add_argument("--budget", default="20s", help="of each search")
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
    """The plan of a recording, as JSON."""
    words = [o.taut, "plan", folder, "--allow", o.allow, "--budget", o.budget, "-o", path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"device_plan: {done.stderr.strip()}")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def options_of(change):
    """Of `taut run`, for one decision of a plan; None: it has none of its own."""
    name, _, value = change.partition("=")
    if name == "graphs":
        return ("--graphs",)
    if name in ("amp", "optimizer", "workers", "heap", "recompute", "compile"):
        return (f"--{name}", value)
    return None


def ways_of(o, model, folder, path, planned):
    predicted = planned["predicted"]
    changes = [d["change"] for d in planned["decisions"]]
    as_it_is = {"after_ms": predicted["before_ms"]}
    ways = [Way(model, "as it is", "as it is", told=as_it_is)]
    named = ", ".join(f"`{c}`" for c in changes) or "nothing decided"
    ways.append(Way(model, named, "plan", before=(o.taut, "run", "--plan", path, "--"), told=predicted))
    for change in changes if len(changes) > 1 else ():
        told, why = device.predict(o, folder, device.Change(change, (change,)))
        before = options_of(change)
        if before:
            before = (o.taut, "run", *before, "--")
            ways.append(Way(model, f"`{change}`", "alone", (), before, told, why or ""))
    for name, job in BY_HAND.items() if o.device.startswith("cuda") else ():
        ways.append(Way(model, name, "by hand", job))
    return ways


def prepare(o, python):
    """All recordings, one after the other, then all searches beside each other."""
    folders = {}
    for model in o.models.split(","):
        say(f"{model}: recorded")
        change = device.Change("as it is", base=WRAPPED)
        folders[model] = device.record(o, python, model, change)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        paths = {m: device.path_of(o, m, "plan") + ".json" for m in folders}
        plans = {m: pool.submit(plan, o, folder, paths[m]) for m, folder in folders.items()}
    ways = []
    for model, folder in folders.items():
        planned = plans[model].result()
        predicted = planned["predicted"]
        say(f"{model}: {predicted['before_ms']:.2f} ms, planned {predicted['after_ms']:.2f}: "
            + " ".join(d["change"] for d in planned["decisions"]))  # fmt: skip
        ways += ways_of(o, model, folder, paths[model], planned)
    return ways


# --- measured ---------------------------------------------------------------------------------


def measure_once(o, python, way):
    out = os.path.join(o.out, "times.json")
    words = device.command(o, python, way.model, (*WRAPPED, *way.job, "--out", out))
    if os.path.exists(out):
        os.remove(out)
    fault = device.run([*way.before, *words])
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


def page(o, python, ways):
    first = {w.model: w for w in reversed(ways) if w.kind == "as it is"}
    rows = ["| " + " | ".join(cells(w, first[w.model])) + " |" for w in ways]
    turns = f"{o.turns} run{'s' if o.turns > 1 else ''} of {o.steps} steps each"
    return "\n".join(
        [
            f"`bench/device_plan.py`, {o.allow} decisions, searches of {o.budget}, {turns}.",
            "",
            device.machine(o, python).strip(),
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
    device.machine(o, python)  # it ends where there is no GPU
    ways = prepare(o, python)
    for _ in range(o.turns):
        for way in ways:
            measure_once(o, python, way)
            if o.json:
                keep(o, ways)
    text = page(o, python, ways)
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
