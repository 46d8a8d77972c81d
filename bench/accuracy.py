#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far off is `taut whatif`? Brings up the lab (bench/lab), records a
baseline of each of four models, makes each change of bench/lab/matrix.py for
real, and prints predicted beside measured.

Measuring needs root and PyTorch (TAUT_TORCH_PYTHON, or build-python/torch), and
a machine with nothing else on it. All that is measured is kept in --out: what
is there is not measured again, so that a run can be cut off and resumed, and
predictions be made anew with --predict.

Measured: the median over ranks and steps after the warm-up, of each repeat; the
median of the repeats is compared, and half of their range is the spread.
Repeats of all configurations take turns. In each turn each model is recorded
anew, just before its changes are measured. Each recording predicts by itself, and
the median of the predictions is compared, as the median of the repeats is. Before
and after each repeat, all its ranks time a fixed piece of work; where that took
longer than it usually does, the machine was disturbed, and the repeat is measured
anew."""

import argparse
import concurrent.futures
import fnmatch
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import baselines
import common
import measure

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import cluster
import matrix
import runner

WARM_STEPS = 4  # DDP rebuilds its buckets in the first, allocators settle
DRAIN_STEPS = 3  # and batches that lay ready before the first one are used up
LEAST_STEPS, MOST_STEPS = 6, 24
RECORD_FROM, RECORDED_STEPS = 12, 40
DISTURBED, TRIES = 1.25, 2  # times the usual; how often all of them anew
DOC = os.path.join(common.ROOT, "docs", "accuracy.md")
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", default=os.path.join(common.bench_home(), "accuracy"))
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--only", action="append", metavar="PATTERN", help="MODEL/NAME, * and ?")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--block-s", type=float, default=2.5, help="of measured steps (default 2.5)")
    p.add_argument("--minutes", type=float, default=25, help="then stop measuring")
    p.add_argument("--resume", action="store_true", help="keep what --out has of an earlier run")
    p.add_argument("--predict", action="store_true", help="measure nothing")
    p.add_argument("--turns", metavar="FROM:TO", help="compare these alone (of --repeats; 0:3)")
    p.add_argument("--cores", default="0,1,2,3", help="of the hosts")
    p.add_argument(
        "--weight", type=int, default=1024, help="of a host beside other work on its core (1024)"
    )
    p.add_argument("--write", action="store_true", help="put the table into docs/accuracy.md")
    a = p.parse_args()
    a.cores = [int(core) for core in a.cores.split(",")]
    a.turns = range(*map(int, a.turns.split(":"))) if a.turns else range(a.repeats)
    return a


# --- what is kept in --out ------------------------------------------------------


def kept(a, config, kind, suffix=""):
    """Path of a file of a configuration."""
    name = re.sub(r"[^a-z0-9.]+", "-", config.key.lower())
    return os.path.join(a.out, kind, name + suffix)


def save(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def medians_of(a, config):
    """Milliseconds, one a repeat."""
    paths = (kept(a, config, "measured", f".{turn}.json") for turn in a.turns)
    return [median_ms(config, load(path)["seconds"]) for path in paths if os.path.exists(path)]


def warm_steps(config):
    return WARM_STEPS + (DRAIN_STEPS if "fetch_ms" in config.options() else 0)


def median_ms(config, seconds):
    warm = warm_steps(config)
    return statistics.median(s for rank in seconds for s in rank[warm:]) * 1e3


# --- measuring ------------------------------------------------------------------


class Lab:
    """The cluster and its jobs; a job that failed is started anew."""

    def __init__(self, a):
        self.a = a
        self.python = runner.find_python()
        if not self.python:
            sys.exit("accuracy: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
        self.net = cluster.Cluster(a.cores, weight=a.weight)
        self.jobs = None

    def serving(self):
        self.jobs = self.jobs or runner.Runner(self.net, self.python)
        return self.jobs

    def rest(self):
        """No job is left that could disturb another."""
        if self.jobs:
            self.jobs.close()
            self.jobs = None

    def close(self):
        self.rest()
        self.net.close()

    def shape(self, config):
        self.net.shape(config.mbit)
        if config.slow:
            self.net.slow(*config.slow)

    def slow_none(self):
        if self.net.groups:
            for host in range(len(self.a.cores)):
                self.net.slow(host, 1)

    def job(self, config, steps):
        return {**config.options(), "steps": steps}

    def block(self, config, steps):
        try:
            return self.serving().block(
                self.job(config, steps), config.ranks, lambda: self.shape(config), beside=True
            )
        except (runner.Failed, OSError):
            self.rest()
            raise
        finally:
            self.slow_none()

    def record(self, config, run):
        """With jobs beside it, as when it is measured."""
        self.rest()
        # What the recorder throws away, two steps before, takes it half a
        # second, in which loaders get ahead.
        end = RECORD_FROM + RECORDED_STEPS + warm_steps(config) - WARM_STEPS
        jobs = self.serving()
        jobs.load(config.options(), config.ranks)
        self.shape(config)
        try:
            return runner.record(
                self.net,
                self.python,
                self.a.taut,
                run,
                self.job(config, end + 2),
                config.ranks,
                f"{RECORD_FROM}:{end}",
            )
        finally:
            self.rest()


def steps_for(a, config):
    """As many as fit into a block, by what was measured before."""
    known = medians_of(a, config)
    wanted = int(a.block_s * 1e3 / known[0]) if known else 8
    return warm_steps(config) + min(MOST_STEPS, max(LEAST_STEPS, wanted))


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def recording_of(a, config, turn):
    """The run of a model, and the file that says it is whole."""
    base = matrix.Config(config.model)
    return kept(a, base, "runs", f".{turn}"), kept(a, base, "recorded", f".{turn}.json")


def record_one(a, lab, config, turn):
    run, done = recording_of(a, config, turn)
    shutil.rmtree(run, ignore_errors=True)
    save(done, {"seconds": lab.record(config, run)})
    say(f"{turn} recorded {config.model}")


def measure_one(a, lab, config, turn):
    told = lab.block(config, steps_for(a, config))
    seconds, speed = ([rank[key] for rank in told] for key in ("seconds", "speed"))
    path = kept(a, config, "measured", f".{turn}.json")
    save(path, {"seconds": seconds, "speed": speed, "turn": turn})
    say(f"{turn} {config.key}: {median_ms(config, seconds):.1f} ms")


def work_ms(a, config, turn):
    """What the fixed work of a repeat took, at the worst of its ends; None: no
    such repeat."""
    path = kept(a, config, "measured", f".{turn}.json")
    if not os.path.exists(path):
        return None
    return max(statistics.mean(times) for times in zip(*load(path)["speed"]))


def usual_work_ms(a, configs):
    """By number of ranks: cores share memory."""
    found = {}
    for config in configs:
        for turn in range(a.repeats):
            found.setdefault(config.ranks, []).append(work_ms(a, config, turn))
    known = {ranks: [t for t in times if t] for ranks, times in found.items()}
    return {ranks: statistics.median(times) for ranks, times in known.items() if times}


def disturbed(a, configs):
    """[(configuration, turn)] of the repeats in which the machine was slow."""
    usual = usual_work_ms(a, configs)
    return [
        (config, turn)
        for turn in range(a.repeats)
        for config in configs
        if (work_ms(a, config, turn) or 0) > DISTURBED * usual.get(config.ranks, 0)
    ]


def by_turn(a, configs):
    """[(configuration, turn)]: models one after another, so that a recording is
    near to what it predicts, each with its baseline first."""
    models = list(dict.fromkeys(c.model for c in configs))
    return [
        (config, turn)
        for turn in range(a.repeats)
        for model in models
        for config in configs
        if config.model == model
    ]


def measure_all(a, lab, configs, end):
    """Returns how many repeats were measured anew."""
    failed, anew = [], 0
    wanted = [w for w in by_turn(a, configs) if work_ms(a, *w) is None]
    for _ in range(1 + TRIES):
        for config, turn in wanted:
            if time.monotonic() > end:
                say("time is up")
                return anew
            if config in failed:
                continue
            anew += work_ms(a, config, turn) is not None
            try:
                if not config.change and not os.path.exists(recording_of(a, config, turn)[1]):
                    record_one(a, lab, config, turn)
                measure_one(a, lab, config, turn)
            except runner.Failed as fault:
                say(f"{config.key}: {fault}")
                failed.append(config)
        wanted = disturbed(a, configs)
    return anew


# --- predicting -------------------------------------------------------------------


def ask_taut(a, *words):
    """The JSON that the command prints, or the last line that it said."""
    done = subprocess.run([a.taut, *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip().split("\n")[-1]
    return json.loads(done.stdout), None


def runs_differ(a, configs):
    """How far, with 95 %, a run of a job is from another of the same, in percent: by
    the repeats of the unchanged jobs alone, which whoever predicts can make."""
    variances = []
    for config in configs:
        repeats = medians_of(a, config)
        if not config.change and len(repeats) > 1:
            variances.append((statistics.stdev(repeats) / statistics.mean(repeats)) ** 2)
    return 1.96 * math.sqrt(2 * statistics.mean(variances)) * 100 if variances else None


def predict(a, config, run, differ):
    """{after_ms, low_ms, high_ms, before_ms} or {fault}."""
    if not config.change:
        told, fault = ask_taut(a, "report", run)
        if fault:
            return {"fault": fault}
        ms = told["steady_step_ms"]
        return {"after_ms": ms, "low_ms": None, "high_ms": None, "before_ms": ms}
    known = [f"--runs-differ={differ:.1f}"] if differ is not None else []
    told, fault = ask_taut(a, "whatif", run, *config.change.split(), *known)
    if fault:
        return {"fault": fault}
    return {key: told[key] for key in ("after_ms", "low_ms", "high_ms", "before_ms")}


def recordings_of(a, model):
    """[run] of the model, one a turn, as far as they are whole."""
    found = (recording_of(a, matrix.Config(model), turn) for turn in a.turns)
    return [run for run, done in found if os.path.exists(done)]


def middle(values):
    """Their median; None without any."""
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else None


class Row:
    def __init__(self, a, config, tolds, recordings, batch_of):
        """tolds: what predict() says of each recording."""
        self.config = config
        repeats = medians_of(a, config)
        self.repeats = len(repeats)
        self.measured = statistics.median(repeats)
        self.spread = (max(repeats) - min(repeats)) / 2 if len(repeats) > 1 else None
        self.fault = next((told["fault"] for told in tolds if "fault" in told), None)
        self.taut, self.low, self.high = (
            middle([told.get(k) for told in tolds]) for k in ("after_ms", "low_ms", "high_ms")
        )
        predicted = [told["after_ms"] for told in tolds if "after_ms" in told]
        self.apart = (max(predicted) - min(predicted)) / 2 if predicted else 0
        self.daydream = middle([baselines.daydream(r, config, batch_of) for r in recordings])
        self.dpro = middle(
            [baselines.dpro(r, config, batch_of, matrix.MBIT) for r in recordings]
        )

    def error(self, predicted):
        return None if predicted is None else (predicted / self.measured - 1) * 100

    @property
    def inside(self):
        return None if self.low is None else self.low <= self.measured <= self.high

    @property
    def noisy(self):
        """The error is within what repeats differ by."""
        error = self.error(self.taut)
        if error is None or self.spread is None:
            return False
        return abs(error) <= self.spread / self.measured * 100


def predictions(a, configs, runs, differ):
    """{key: [what predict() says of each recording]}; runs: {model: [run]}."""
    jobs = [(config, run) for config in configs for run in runs[config.model]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        tolds = list(pool.map(lambda job: predict(a, *job, differ), jobs))
    found = {config.key: [] for config in configs}
    for (config, _), told in zip(jobs, tolds):
        found[config.key].append(told)
    return found


def rows_of(a, configs, batch_of):
    runs = {config.model: recordings_of(a, config.model) for config in configs}
    configs = [c for c in configs if medians_of(a, c) and runs[c.model]]
    tolds = predictions(a, configs, runs, runs_differ(a, configs))
    rows = []
    for model in matrix.BASE:
        recordings = [baselines.Recording(run) for run in runs.get(model, [])]
        rows += [
            Row(a, config, tolds[config.key], recordings, batch_of)
            for config in sorted(configs, key=lambda c: bool(c.change))
            if config.model == model
        ]
    return rows


def keep_table(a, rows):
    """The table's numbers, for other programs."""
    names = ("measured", "spread", "repeats", "taut", "low", "high", "fault", "daydream", "dpro")
    save(
        os.path.join(a.out, "table.json"),
        [
            {"key": r.config.key, "change": r.config.change, **{n: getattr(r, n) for n in names}}
            for r in rows
        ],
    )


def number(value, form):
    return "-" if value is None else format(value, form)


def table(rows):
    head = "model, change | measured ms | spread | Taut ms | interval | error | inside | Daydream | dPRO"
    lines = [f"| {head} |", "|---" * 9 + "|"]
    for r in rows:
        interval = "-" if r.low is None else f"{r.low:.1f} .. {r.high:.1f}"
        inside = {None: "-", True: "yes", False: "no"}[r.inside]
        error = number(r.error(r.taut), "+.1f") + (" %" if r.taut else "")
        cells = [
            f"{r.config.model}, {r.config.name}",
            f"{r.measured:.1f}",
            "-" if r.spread is None else f"{r.spread / r.measured * 100:.1f} %",
            r.fault if r.fault else number(r.taut, ".1f"),
            interval,
            error + (" *" if r.noisy else ""),
            inside,
            number(r.error(r.daydream), "+.1f") + " %",
            number(r.error(r.dpro), "+.1f") + " %",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summed(rows, pick):
    errors = [abs(e) for e in (r.error(pick(r)) for r in rows) if e is not None]
    if not errors:
        return "none"
    within = sum(e <= 3 for e in errors)
    return (
        f"mean {statistics.mean(errors):.1f} %, median {statistics.median(errors):.1f} %, "
        f"largest {max(errors):.1f} %, {within} of {len(errors)} within 3 %"
    )


def summary(a, rows):
    changes = [r for r in rows if r.config.change]
    bases = [r for r in rows if not r.config.change]
    models = len({r.config.model for r in changes})
    times = [r.repeats for r in rows]
    lines = [
        f"{len(changes)} what-ifs over {models} models, each measured {min(times)} to "
        f"{max(times)} times.",
        "",
    ]
    for name, pick in (
        ("Taut", lambda r: r.taut), ("Daydream", lambda r: r.daydream), ("dPRO", lambda r: r.dpro)
    ):
        lines.append(f"- {name}: {summed(changes, pick)}")
    lines.append(f"- recording against the same job unrecorded: {summed(bases, lambda r: r.taut)}")
    lines.append(f"- replay against the recorded steps: {replay_error(a, bases)}")
    inside = [r.inside for r in changes if r.inside is not None]
    noisy = sum(r.noisy for r in changes)
    lines.append(f"- inside the stated interval: {sum(inside)} of {len(inside)}")
    differ = runs_differ(a, [r.config for r in bases])
    if differ is not None:
        lines.append(
            f"- runs of one unchanged job differ by {differ:.1f} % (95 %), which the intervals hold"
        )
    lines.append(f"- error not larger than the spread of the measurement (marked *): {noisy}")
    spreads = [r.spread / r.measured * 100 for r in rows if r.spread is not None]
    if spreads:
        lines.append(
            f"- spread of the repeats: median {statistics.median(spreads):.1f} %, "
            f"largest {max(spreads):.1f} %"
        )
    apart = [r.apart / r.taut * 100 for r in rows if r.taut]
    lines.append(
        f"- spread of what the recordings of one model predict: median "
        f"{statistics.median(apart):.1f} %, largest {max(apart):.1f} %"
    )
    usual = usual_work_ms(a, [r.config for r in rows])
    told = ", ".join(f"{ms:.1f} ms with {ranks} ranks" for ranks, ms in sorted(usual.items()))
    left = len(disturbed(a, [r.config for r in rows]))
    lines.append(f"- a fixed piece of work of each rank, all at once: {told}")
    lines.append(
        f"- repeats in which that took {DISTURBED - 1:.0%} longer, still, after {TRIES} more tries: {left}"
    )
    lines += losses(changes)
    return "\n".join(lines)


def losses(changes):
    """Where Taut is farthest off, and where others are nearer."""
    known = [r for r in changes if r.taut is not None]
    lines = []
    for name, pick in (("Daydream", lambda r: r.daydream), ("dPRO", lambda r: r.dpro)):
        nearer = [
            r for r in known if pick(r) is not None and abs(r.error(pick(r))) < abs(r.error(r.taut))
        ]
        lines.append(f"- {name} is nearer than Taut in {len(nearer)} of {len(known)}")
    worst = sorted(known, key=lambda r: -abs(r.error(r.taut)))[:5]
    named = [f"{r.config.model}, {r.config.name} ({r.error(r.taut):+.1f} %)" for r in worst]
    lines.append(f"- farthest off: {'; '.join(named)}")
    refused = [f"{r.config.model}, {r.config.name}" for r in changes if r.fault]
    if refused:
        lines.append(f"- not predicted: {'; '.join(refused)}")
    return lines


def replay_error(a, bases):
    means, worst = [], 0.0
    for run in (run for r in bases for run in recordings_of(a, r.config.model)):
        told, fault = ask_taut(a, "replay", run)
        if not fault:
            means.append(told["replay"]["error_pct_mean"])
            worst = max(worst, told["replay"]["error_pct_max"])
    if not means:
        return "none"
    return f"mean {statistics.mean(means):.3f} %, largest {worst:.3f} %"


# --- all of it ---------------------------------------------------------------------


def chosen(a, configs):
    if not a.only:
        return configs
    wanted = [c for c in configs if any(fnmatch.fnmatch(c.key, p) for p in a.only)]
    models = {c.model for c in wanted}
    return [c for c in configs if c in wanted or (c.name == "baseline" and c.model in models)]


def measuring(a, configs):
    if os.path.isdir(os.path.join(a.out, "measured")) and not a.resume:
        sys.exit(f"accuracy: {a.out} has measurements: --resume keeps them, or give another --out")
    with_machine = os.path.join(a.out, "machine.json")
    if not os.path.exists(with_machine):
        save(with_machine, {"text": measure.machine_lines(), "day": time.strftime("%Y-%m-%d")})
    end = time.monotonic() + a.minutes * 60
    lab = Lab(a)
    try:
        anew = measure_all(a, lab, configs, end)
        say(f"{anew} measured anew, {len(disturbed(a, configs))} still disturbed")
    finally:
        lab.close()


def main():
    a = arguments()
    common.taut_of(a)
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: sys.exit(1))
    batch_of = matrix.batches_of()
    configs = chosen(a, matrix.configs(batch_of))
    if not configs:
        sys.exit("accuracy: no configuration has such a name")
    try:
        if not a.predict:
            measuring(a, configs)
    except KeyboardInterrupt:
        sys.exit("accuracy: stopped; --resume goes on")
    except cluster.Unavailable as fault:
        sys.exit(f"accuracy: {fault}")
    except runner.Failed as fault:
        sys.exit(f"accuracy: a job failed: {fault}")
    rows = rows_of(a, configs, batch_of)
    if not rows:
        sys.exit("accuracy: nothing is measured")
    keep_table(a, rows)
    machine = load(os.path.join(a.out, "machine.json"))
    text = f"{machine['text']}, {machine['day']}\n\n{summary(a, rows)}\n\n{table(rows)}"
    print(text)
    if a.write:
        common.write_between(DOC, BEGIN, END, text)


if __name__ == "__main__":
    main()
