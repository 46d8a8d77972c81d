#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What searches of 12 trials find of the best setting of an exhaustive grid: Bayesian
optimisation, with the simulator's predictions and without, random points, a coarse
grid, and the simulator's own choice, which is one trial.

A regret is how much longer a step takes with what a search ends with than with the
best of all; a search has come near when that is at most 3 %.

--virtual: the replay is the job. What it gives with changes that the simulator does
not know of (another link, other latency) is the truth; trials are that with noise. No
more than a recording is needed, and the same comes out every time.

Else in the lab (bench/lab): a model of it at one link rate. Every point of a grid is a
job that runs as a whole, --repeats times in turns; the median is the truth, and a trial
of a search draws one of the runs. The predictions are of a recording of the same job
under PyTorch's own class. In the end `taut run --tune` searches in one job, and what it
saved is compared, too. Needs root and PyTorch, and a machine with nothing else on it."""

import argparse
import ctypes
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile

import common

sys.path.insert(0, os.path.join(common.ROOT, "python"))
from taut import _lib, _search

TRIALS, NEAR = _search.TRIALS, 0.03
KB, MB = 1 << 10, 1 << 20
GRID = _search.Setting(  # of the lab: 36 points
    (512 * KB, 2 * MB, 8 * MB), (2 * MB, 8 * MB), (64 * KB, MB, 16 * MB), ("auto", "direct")
)
WORLDS = (
    [],
    ["link=0.5x"],
    ["link=2x"],
    ["link,latency=4x"],
    ["link=0.5x", "link,latency=0.25x"],
)


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--virtual", action="store_true")
    p.add_argument("--run", default=os.path.join(common.ROOT, "examples", "ddp-gloo-2host"))
    p.add_argument("--worlds", type=int, default=len(WORLDS), help="the first so many")
    p.add_argument("--noise", type=float, default=0.01, help="of a virtual trial")
    p.add_argument("--seeds", type=int, default=50, help="searches of each kind")
    p.add_argument("--model", default="vgg")
    p.add_argument("--times", type=float, default=1, help="C as a multiple of f + b")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--steps", type=int, default=12, help="that count, of each run")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--json", metavar="FILE", help="all that was found")
    return p.parse_args()


# --- searches ------------------------------------------------------------------------


class _Dimension(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("scale", ctypes.c_int),
        ("n_values", ctypes.c_uint32),
        ("values", ctypes.POINTER(ctypes.c_double)),
    ]


LOG, CHOICE = 1, 2  # enum taut_tune_scale


class Points(_search.Search):
    """A search over all settings that can be made of these values."""

    def __init__(self, values, how, seed, predicted):
        self.lib = _lib.declare(_search._TABLE)
        self.settings, self.tune = None, ctypes.c_void_p()
        self.points = [_search.Setting(*p) for p in itertools.product(*values)]
        self.n_points = len(self.points)
        dimensions = (_Dimension * len(values))()
        for d, (name, of) in zip(dimensions, values._asdict().items()):
            d.name, d.n_values, d.scale = name.encode(), len(of), LOG
            if name == "way":
                d.scale = CHOICE
            else:
                d.values = (ctypes.c_double * len(of))(*of)
        options = _search._TuneOptions(how=how, seed=seed, budget=TRIALS)
        self._call(
            "taut_tune_create", dimensions, len(values), ctypes.byref(options), ctypes.byref(self.tune)
        )
        self._predict(predicted)

    def at(self, point):
        return self.points[point]


KINDS = (  # name, how, with predictions
    ("bayes after the simulator", _search.BAYES, True),
    ("bayes", _search.BAYES, False),
    ("random", _search.RANDOM, False),
    ("grid", _search.GRID, False),
)


def search(points, trial):
    """What a search ends with, and after how many trials."""
    n = 0
    while n < TRIALS:
        point = points.next()
        if point is None:
            break
        points.tell(point, trial(points.at(point)))
        n += 1
    found = points.at(points.best().point)
    points.close()
    return found, n


def values_of(settings):
    """The values of each dimension that settings are made of."""
    return _search.Setting(*(sorted(set(column)) for column in zip(*settings)))


def compare(truth, predicted, trial, seeds):
    """Rows of the table. truth: ns by Setting; trial(setting, chance): one measurement."""
    best, values = min(truth.values()), values_of(truth)
    rows = []
    for name, how, with_predictions in KINDS:
        regrets, n_trials = [], []
        for seed in range(seeds):
            chance = random.Random(seed)
            points = Points(values, how, seed, predicted if with_predictions else {})
            found, n = search(points, lambda s: trial(s, chance))
            regrets.append(truth[found] / best - 1)
            n_trials.append(n)
        rows.append(row_of(name, regrets, n_trials))
    own = min(predicted, key=predicted.get)
    rows.append(row_of("the simulator's choice", [truth[own] / best - 1], [1]))
    return rows


def row_of(name, regrets, n_trials):
    return {
        "search": name,
        "trials": statistics.mean(n_trials),
        "near": sum(r <= NEAR for r in regrets) / len(regrets),
        "mean_regret": statistics.mean(regrets),
        "worst_regret": max(regrets),
    }


def by_chance(truth):
    """How often one of TRIALS points without repetition is near: by formula."""
    good = sum(ns <= (1 + NEAR) * min(truth.values()) for ns in truth.values())
    n = min(TRIALS, len(truth))
    return 1 - math.comb(len(truth) - good, n) / math.comb(len(truth), n)


def print_rows(title, truth, rows):
    spread = max(truth.values()) / min(truth.values())
    print(f"\n{title}: {len(truth)} settings, the best {min(truth.values()) / 1e6:.1f} ms, "
          f"the worst {spread:.2f} times as long; {TRIALS} at random are near in "
          f"{by_chance(truth) * 100:.0f} % (formula)\n")
    print("| search | trials | within 3 % | mean regret | worst |\n|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['search']} | {r['trials']:.1f} | {r['near'] * 100:.0f} % | "
              f"{r['mean_regret'] * 100:.2f} % | {r['worst_regret'] * 100:.2f} % |")
    sys.stdout.flush()


def replayed(taut, run, changes=()):
    """ns by Setting, as taut whatif --tune says."""
    done = subprocess.run(
        [taut, "whatif", run, *changes, "--tune", "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr.strip())
    return {
        _search.Setting(s["piece_bytes"], s["credit_bytes"], s["fuse_bytes"], s["way"]):
            s["after_ms"] * 1e6
        for s in json.loads(done.stdout)["settings"]
    }


# --- the replay in place of the job ------------------------------------------------------


def virtual(a):
    predicted = replayed(a.taut, a.run)
    tables = []
    for changes in WORLDS[: a.worlds]:
        truth = replayed(a.taut, a.run, changes)
        rows = compare(
            truth,
            predicted,
            lambda s, chance: truth[s] * math.exp(a.noise * chance.gauss(0, 1)),
            a.seeds,
        )
        name = " ".join(changes) or "as recorded"
        tables.append({"world": name, "settings": len(truth), "chance": by_chance(truth), "rows": rows})
        print_rows(f"{os.path.basename(a.run)}, {name}", truth, rows)
    return tables


# --- the lab -------------------------------------------------------------------------------


class Lab:
    """Whole jobs of one model at one rate."""

    def __init__(self, a, jobs, mbit):
        self.a, self.jobs, self.mbit = a, jobs, mbit

    def step_ns(self, setting):
        words = ["--gate", "off"]
        for name, value in setting._asdict().items():
            words += ["--" + name, str(value)]
        return self.jobs.run(self.a.model, self.mbit, [self.a.taut, "run", *words, "--"])[0] * 1e6

    def grid(self):
        """All runs of each point; they take turns."""
        runs = {_search.Setting(*p): [] for p in itertools.product(*GRID)}
        for turn in range(self.a.repeats):
            for i, setting in enumerate(runs):
                runs[setting].append(self.step_ns(setting))
                print(f"turn {turn}, {i + 1} of {len(runs)}: {_search.text_of(setting)}: "
                      f"{runs[setting][-1] / 1e6:.1f} ms", file=sys.stderr, flush=True)
        return runs

    def own_search(self, run, folder):
        """What taut run --tune has saved, and what it said."""
        path = os.path.join(folder, "found")
        steps, self.a.steps = self.a.steps, 8 * (TRIALS + 1)
        before = [self.a.taut, "run", "--gate", "off", "--tune", "--from", run, "--save", path, "--"]
        said = self.jobs.run(self.a.model, self.mbit, before, limit_s=1200)[2]
        self.a.steps = steps
        with open(path, encoding="ascii") as file:
            words = dict(line.split() for line in file if not line.startswith("#"))
        found = _search.Setting(*(int(words[k]) for k in ("piece", "credit", "fuse")), words["way"])
        return found, [line for line in said.splitlines() if "tune:" in line]


def lab(a):
    import train_compare

    python = train_compare.runner.find_python()
    if not python:
        sys.exit("tune_compare: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    try:
        net = train_compare.cluster.Cluster(range(a.ranks))
    except train_compare.cluster.Unavailable as fault:
        sys.exit(f"tune_compare: {fault}")
    with net, tempfile.TemporaryDirectory(prefix="taut-tune-") as folder:
        jobs = train_compare.Jobs(a, net, python, folder)
        alone, gradient_bytes, _ = jobs.run(a.model, 10000, local=1)
        mbit = round(train_compare.rate_of(a.ranks, gradient_bytes, alone * a.times))
        run = os.path.join(folder, "recorded")
        net.shape(mbit)
        train_compare.runner.record(
            net, python, a.taut, run, {"model": a.model, "steps": 12}, a.ranks, "4:12"
        )
        it = Lab(a, jobs, mbit)
        runs = it.grid()
        found, said = it.own_search(run, folder)
        again = [it.step_ns(found) for _ in range(a.repeats)]
        predicted = replayed(a.taut, run)
    truth = {s: statistics.median(ns) for s, ns in runs.items()}
    rows = compare(
        truth,
        {s: predicted[s] for s in truth},
        lambda s, chance: chance.choice(runs[s]),
        a.seeds,
    )
    regret = statistics.median(again) / min(truth.values()) - 1
    rows.append(row_of("taut run --tune, all settings", [regret], [TRIALS]))
    print_rows(f"{a.model}, C / (f + b) {a.times:g}, {mbit} Mbit/s", truth, rows)
    print("\n" + "\n".join(said))
    return [{"world": a.model, "mbit": mbit, "settings": len(truth), "chance": by_chance(truth), "rows": rows}]


def main():
    a = arguments()
    common.taut_of(a)
    own = os.path.join(os.path.dirname(os.path.abspath(a.taut)), "libtaut.so.0")
    if not os.environ.get("TAUT_LIB") and os.path.exists(own):
        os.environ["TAUT_LIB"] = own
    tables = virtual(a) if a.virtual else lab(a)
    if a.json:
        with open(a.json, "w", encoding="ascii") as file:
            json.dump(tables, file, indent=1)


if __name__ == "__main__":
    main()
