#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans made real: an unchanged DDP job of the lab (bench/lab) is recorded, `taut plan`
searches that recording, `taut run --plan` makes what it decided, and what was predicted
stands beside what is measured; beside it DDP at its defaults, and the best of a grid that
a person would try by hand (bucket sizes, and with --allow lossy gradients in fp16).

Each turn records the job anew, for cores are not always as fast: what `taut whatif` says
of the first turn's plan by that recording is the turn's prediction.

Rates are such that C, what the gradients take on the link at least, is a multiple of
f + b, the step of the same ranks that exchange nothing. f + b is also the bound: no plan
of these decisions takes less. The grid is run as a whole in the first turn; its best one
goes on beside the others, and counts with the median of all turns but the first.

With --compile plans may also compile the model as a whole, which such a person would not:
then f + b, which is of the job as it is, bounds them no longer.

Needs root and PyTorch (TAUT_TORCH_PYTHON, or build-python/torch), and a machine with
nothing else on it. --write puts the table into docs/planning.md."""

import argparse
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import common
import measure
import train_compare

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import cluster
import matrix
import runner

DOC = os.path.join(common.ROOT, "docs", "planning.md")
WHOLE = "nn.Module: DistributedDataParallel"
RECORD_FROM, RECORDED_STEPS = 12, 16
BUCKETS_MB = (1.0, 4.0, 10.0, 50.0)


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--models", default="vgg,resnet,gpt,rnn")
    p.add_argument("--times", default="0.5,1,2", help="C as multiples of f + b")
    p.add_argument("--allow", default="lossy", help="exact, reordered or lossy")
    p.add_argument("--budget", default="20s", help="of each search")
    p.add_argument("--batch", type=float, default=1, help="times the model's own")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--steps", type=int, default=16, help="that count, of each run")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--cores-a-host", type=int, default=1)
    p.add_argument("--first-core", type=int, default=0, help="of the hosts: beside other work")
    p.add_argument("--minutes", type=float, default=30, help="then no run of a row begins any more")
    p.add_argument("--compile", action="store_true", help="plans may compile the model, too")
    p.add_argument("--json", metavar="FILE", help="all that was measured and decided, after each turn of a row")
    p.add_argument("--beside", metavar="FILE", action="append", default=[],
        help="what an earlier run on this machine wrote by --json: rows of the same table")
    p.add_argument("--keep", metavar="DIR", help="the last recording and the plan of each row, else thrown away")
    p.add_argument("--block", default="plans", help="of the page that --write writes")
    p.add_argument("--write", action="store_true", help="into docs/planning.md")
    a = p.parse_args()
    a.models = a.models.split(",")
    a.times = [float(t) for t in a.times.split(",")]
    a.taut = os.path.abspath(a.taut)
    return a


def say(text):
    print(text, file=sys.stderr, flush=True)


class Row:
    """A model at one rate."""

    def __init__(self, model, times):
        self.model, self.times = model, times
        self.mbit = self.plan = None
        self.local, self.ddp, self.planned, self.predicted = [], [], [], []
        self.grid = {}  # (bucket, compress): times
        self.search_s = None

    def find_rate(self, a, jobs):
        ms, gradient_bytes, _ = jobs.run(self.model, 10000, local=1)
        self.local.append(ms)
        self.mbit = round(train_compare.rate_of(a.ranks, gradient_bytes, ms * self.times))

    def record(self, a, jobs):
        run = os.path.join(jobs.folder, f"run-{self.model}-{self.times:g}")
        shutil.rmtree(run, ignore_errors=True)
        jobs.net.shape(self.mbit)
        end = RECORD_FROM + RECORDED_STEPS
        steps = f"{RECORD_FROM}:{end}"
        more = ["--compile", WHOLE] if a.compile else []
        job = jobs.job(self.model, steps=end + 2)
        runner.record(jobs.net, jobs.python, a.taut, run, job, a.ranks, steps, more)
        return run

    def ask(self, *words):
        told = subprocess.run(words, capture_output=True, text=True, check=False)
        if told.returncode:
            raise runner.Failed(told.stderr.strip())
        return json.loads(told.stdout)

    def predict_again(self, a, jobs):
        """What a recording of now says of the plan, beside which it then runs."""
        run = self.record(a, jobs)
        changes = [d["change"] for d in self.plan["decisions"]]
        while changes:
            try:
                return self.ask(a.taut, "whatif", "--json", run, *changes)["after_ms"]
            except runner.Failed as fault:
                # Of this recording it would give nothing, as heap=keep without a page fault.
                refused = [c for c in changes if f" {c}: " in str(fault)]
                if not refused:
                    raise
                changes = [c for c in changes if c not in refused]
        return self.predicted[0]

    def make_plan(self, a, jobs):
        """Records, and searches what was recorded."""
        plan = os.path.join(jobs.folder, f"plan-{self.model}-{self.times:g}.json")
        words = ["--budget", a.budget, "--allow", a.allow, "-o", plan, "--json"]
        told = self.ask(a.taut, "plan", self.record(a, jobs), *words)
        self.search_s, self.replayed = told["search_s"], told["replayed"]
        with open(plan, encoding="ascii") as file:
            self.plan = json.load(file)
        self.path = plan
        words = " ".join(d["change"] for d in self.plan["decisions"])
        say(f"{self.model} x{self.times:g}: {told['after_ms']:.1f} ms predicted: {words}")

    def run_grid(self, a, jobs, which):
        for bucket, compress in which:
            ms, _, _ = jobs.run(self.model, self.mbit, bucket_mb=bucket, compress=compress)
            self.grid.setdefault((bucket, compress), []).append(ms)

    def whole_grid(self, a):
        narrow = ("none", "fp16") if a.allow == "lossy" else ("none",)
        return list(itertools.product((0.0, *BUCKETS_MB), narrow))[1:]

    @property
    def best_of_grid(self):
        """By the first turn, in which all were measured."""
        return min(self.grid, key=lambda k: self.grid[k][0])

    def turn(self, a, jobs, number):
        if number:
            self.local.append(jobs.run(self.model, 10000, local=1)[0])
            predicted = self.predict_again(a, jobs)
        else:
            self.find_rate(a, jobs)
            self.make_plan(a, jobs)
            predicted = self.plan["predicted"]["after_ms"]
        ddp = jobs.run(self.model, self.mbit)[0]
        with_plan = [a.taut, "run", "--plan", self.path, "--"]
        planned = jobs.run(self.model, self.mbit, with_plan)[0]
        self.run_grid(a, jobs, [self.best_of_grid] if number else self.whole_grid(a))
        self.ddp.append(ddp)
        self.planned.append(planned)
        self.predicted.append(predicted)
        say(
            f"{number} {self.model} x{self.times:g}: f + b {self.local[-1]:.1f}, DDP "
            f"{self.ddp[-1]:.1f}, best of grid {self.grid[self.best_of_grid][-1]:.1f}, "
            f"plan {self.planned[-1]:.1f} ms, predicted {self.predicted[-1]:.1f}"
        )

    # --- what came of it -------------------------------------------------------------

    @property
    def predicted_ms(self):
        return statistics.median(self.predicted)

    @property
    def by_hand_ms(self):
        """Of turns that did not choose it."""
        times = self.grid[self.best_of_grid]
        return min(statistics.median(times[1:] or times), statistics.median(self.ddp))

    @property
    def over_hand(self):
        """Of each turn in which both ran, for what the machine gives changes between turns."""
        hand = self.grid[self.best_of_grid]
        turns = [t for t in range(min(len(hand), len(self.planned))) if t or len(hand) == 1]
        return statistics.median(min(hand[t], self.ddp[t]) / self.planned[t] for t in turns)

    def numbers(self):
        planned, ddp = statistics.median(self.planned), statistics.median(self.ddp)
        bound = statistics.median(self.local)
        return {
            "error": (self.predicted_ms / planned - 1) * 100,
            "gain": ddp / planned,
            "bound_gain": ddp / bound,
            "over_hand": self.over_hand,
        }

    def cells(self):
        n = self.numbers()
        planned = statistics.median(self.planned)
        spread = (max(self.planned) - min(self.planned)) / 2 / planned * 100
        bucket, compress = self.best_of_grid
        hand = f"{bucket:g} MB" if bucket else "25 MB"
        hand += "" if compress == "none" else f", {compress}"
        decided = ", ".join(f"`{d['change']}`" for d in self.plan["decisions"]) or "as it is"
        return [
            f"{self.model}, {self.times:g}", f"{self.mbit}",
            f"{statistics.median(self.local):.1f}", f"{statistics.median(self.ddp):.1f}",
            f"{self.by_hand_ms:.1f} ({hand})", f"{self.predicted_ms:.1f}",
            f"{planned:.1f} ({spread:.1f} %)", f"{n['error']:+.1f} %", f"{n['gain']:.2f}",
            f"{n['bound_gain']:.2f}", f"{n['over_hand']:.2f}", decided,
        ]


HEAD = (
    "model, C / (f + b) | Mbit/s | f + b ms | DDP ms | best by hand ms | predicted ms | measured ms "
    "(spread) | error | DDP / plan | bound | hand / plan | decided"
)


def measure_all(a, jobs):
    rows = [Row(model, times) for model in a.models for times in a.times]
    end = time.monotonic() + a.minutes * 60
    done = []
    for number in range(a.repeats):
        for row in rows:
            if time.monotonic() > end:
                say("time is up")
                return done
            try:
                row.turn(a, jobs, number)
            except runner.Failed as fault:
                say(f"{row.model} x{row.times:g}: {str(fault)[-300:]}")
            if row.planned and row not in done:
                done.append(row)
            if a.json:
                common.keep_rows(a.json, done, "grid")
    return done


def geometric(values):
    return math.exp(statistics.mean(math.log(v) for v in values))


def summary(rows):
    numbers = [row.numbers() for row in rows]
    errors = [abs(n["error"]) for n in numbers]
    gains = geometric([n["gain"] for n in numbers])
    reached = geometric([n["gain"] / n["bound_gain"] for n in numbers])
    over = [n["over_hand"] for n in numbers]
    return (
        f"{len(rows)} plans: predicted and measured differ by {statistics.mean(errors):.1f} % in the "
        f"mean, {max(errors):.1f} % at most. Over DDP's defaults {gains:.2f} times as fast "
        f"(geometric mean), {reached * 100:.0f} % of what computation alone allows; over the best "
        f"by hand {geometric(over):.2f} times, {min(over):.2f} at least."
    )


def page(a, rows):
    if not rows:
        return "Not measured."
    turns = " to ".join(str(n) for n in dict.fromkeys(
        pick(len(row.planned) for row in rows) for pick in (min, max)
    ))  # fmt: skip
    batch = f", batches {a.batch:g} times the models' own" if a.batch != 1 else ""
    return "\n".join(
        [
            f"`bench/plan_compare.py`, {a.ranks} ranks, {a.cores_a_host} core(s) a host, "
            f"{a.allow} decisions{', modules compiled' if a.compile else ''}, searches of {a.budget}, {turns} runs of each"
            f"{batch}.",
            "",
            measure.machine_lines(),
            "",
            summary(rows),
            "",
            f"| {HEAD} |",
            "|---" * 12 + "|",
            *("| " + " | ".join(row.cells()) + " |" for row in rows),
        ]
    )


def main():
    a = arguments()
    own = os.path.join(os.path.dirname(os.path.abspath(common.taut_of(a))), "libtaut.so.0")
    if not os.environ.get("TAUT_LIB") and os.path.exists(own):
        os.environ["TAUT_LIB"] = own
    python = runner.find_python()
    if not python:
        sys.exit("plan_compare: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    try:
        net = train_compare.hosts(a)
    except cluster.Unavailable as fault:
        sys.exit(f"plan_compare: {fault}")
    with net, tempfile.TemporaryDirectory(prefix="taut-plans-") as folder:
        if a.keep:
            os.makedirs(a.keep, exist_ok=True)
        rows = measure_all(a, train_compare.Jobs(a, net, python, a.keep or folder, a.batch))
    rows += [row for path in a.beside for row in common.kept_rows(path, Row, "grid")]
    rows.sort(key=lambda row: (a.models.index(row.model), row.times))
    text = page(a, rows)
    print(text)
    if a.write and rows:
        begin, end = f"<!-- {a.block}: begin -->", f"<!-- {a.block}: end -->"
        common.write_between(DOC, begin, end, text)


if __name__ == "__main__":
    main()
