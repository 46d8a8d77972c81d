#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scheduler predicted beside the scheduler measured: a DDP job of the lab
(bench/lab) is recorded, `taut whatif` predicts from that what `taut run` makes of it
with other pieces, credits, orders and link rates, and `taut run` does it.

Rates are such that communication C is a multiple of computation f + b, as in
bench/train_compare.py. In each turn the job is recorded anew at the middle rate before
every other row, for cores are not always as fast, and predicts the rows behind it; the
medians of the turns stand beside each other. The row "DDP" is no schedule: what it is
wrong by is due to the rate.

Pieces are what `taut run` makes of a link by itself, what that moves in about 2.5 ms,
or a multiple of that; gradients travel in groups of that size, as plans have them and as
`taut whatif` predicts them (--fuse 1M+1M). "defaults" is `taut run` as it is: what of the
gradients goes together is found out as they come (--fuse 1M), and predicted as such
groups.

Halves (reduce-scatter and all-gather) are measured with --halves and have no
prediction of their own: the same bytes are on the link, and the all-reduce stands
beside them.

Needs root and PyTorch (TAUT_TORCH_PYTHON, or build-python/torch), and a machine with
nothing else on it. --write puts the table into docs/performance.md."""

import argparse
import collections
import ctypes
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time

import accuracy
import common
import measure
import train_compare

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import cluster
import matrix
import runner

DOC = os.path.join(common.ROOT, "docs", "performance.md")
BEGIN, END = "<!-- schedule: begin -->", "<!-- schedule: end -->"
WARM_STEPS = 5  # the first ones agree on what there is, and cross nothing
RECORD_FROM, RECORDED_STEPS = 12, 16

ROWS_A_RECORDING = 2

# how: agreed or declared. Sizes as multiples of the piece that the link asks for. groups:
# of that size, whenever they are complete; else as many as are there. cross: past the
# end of the step.
Setting = collections.namedtuple("Setting", "how piece credit groups cross")
DEFAULTS = Setting("agreed", 1, 2, False, True)
GROUPS = DEFAULTS._replace(groups=True)
AT_ALL_RATES = ("defaults", "groups")
SETTINGS = {
    "defaults": DEFAULTS,
    "groups": GROUPS,
    "pieces of a quarter": GROUPS._replace(piece=0.25),
    "pieces of four": GROUPS._replace(piece=4, credit=8),
    "credit of one": GROUPS._replace(credit=1),
    "credit of eight": GROUPS._replace(credit=8),
    "credit of 32": GROUPS._replace(credit=32),
    "declared order": GROUPS._replace(how="declared"),
}


class Row:
    """What is measured and predicted: a model, how many times f + b the link takes,
    and a setting; None: DDP."""

    def __init__(self, model, times, name, setting):
        self.model, self.times, self.name, self.setting = model, times, name, setting
        self.mbit = self.fitting = None  # fitting: bytes of a piece
        self.measured_ms = []
        self.predicted = []  # what each turn's recording says, or {fault}
        self.failed = False  # it is not tried again

    def sizes(self):
        """Bytes of a piece, of the credit, and of what goes together."""
        return [round(self.fitting * k) for k in (self.setting.piece, self.setting.credit, 1)]

    def command(self, taut, halves):
        """What stands before the job."""
        s = self.setting
        if not s:
            return []
        piece, credit, fuse = self.sizes()
        words = [taut, "run", "--gate", "off", "--order", s.how, "--piece", str(piece)]
        words += ["--credit", str(credit)]
        words += ["--fuse", f"{fuse}+{fuse}" if s.groups else str(fuse)]
        return [*words, *(["--halves"] if halves else []), "--"]

    def change(self):
        """Words of taut whatif."""
        words, s = [f"link={self.mbit}mbit"], self.setting
        if not s:
            return words
        piece, credit, fuse = self.sizes()
        how = "priority" if s.how == "agreed" else "fifo"
        schedule = f"schedule={how},partition={piece}B,credit={credit}B"
        schedule += f",order={s.how},barrier={'cross' if s.cross else 'keep'},by=taut"
        return [*words, f"bucket={fuse}B", schedule]

    @property
    def median_ms(self):
        return statistics.median(self.measured_ms)

    @property
    def told(self):
        """The median of each number that was predicted, or {fault}."""
        told = [p for p in self.predicted if "fault" not in p]
        if not told:
            return self.predicted[0] if self.predicted else {"fault": "-"}
        keys = ("after_ms", "low_ms", "high_ms")
        return {key: statistics.median(p[key] for p in told) for key in keys}

    @property
    def error(self):
        after = self.told.get("after_ms")
        return None if after is None else (after / self.median_ms - 1) * 100


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--models", default="vgg,resnet,gpt")
    p.add_argument("--times", default="0.5,1,2", help="C as multiples of f + b")
    p.add_argument("--settings", default=",".join(SETTINGS), help="at the middle rate")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--steps", type=int, default=12, help="that count, of each run")
    p.add_argument("--minutes", type=float, default=18, help="then no run begins any more")
    p.add_argument(
        "--weight", type=int, default=1024, help="of a host beside other work on its core (1024)"
    )
    p.add_argument("--halves", action="store_true", help="measure in two halves")
    p.add_argument("--json", metavar="FILE", help="all that was measured and predicted")
    p.add_argument("--keep", metavar="DIR", help="the recordings, else thrown away")
    p.add_argument("--write", action="store_true", help="into docs/performance.md")
    a = p.parse_args()
    a.models = a.models.split(",")
    a.times = sorted(float(t) for t in a.times.split(","))
    a.settings = [name for name in a.settings.split(",") if name]
    for name in a.settings:
        if name not in SETTINGS:
            p.error(f"no setting {name!r}; there are: {', '.join(SETTINGS)}")
    a.taut = os.path.abspath(a.taut)
    return a


def rows_of(a, model):
    """DDP, the defaults and groups at each rate, the other settings at the middle one."""
    middle, rows = a.times[len(a.times) // 2], []
    for times in a.times:
        rows.append(Row(model, times, "DDP", None))
        for name in a.settings:
            if times == middle or name in AT_ALL_RATES:
                rows.append(Row(model, times, name, SETTINGS[name]))
    return rows


class Bench:
    def __init__(self, a, net, python, folder):
        self.a, self.net, self.python, self.folder = a, net, python, folder
        self.end = time.monotonic() + a.minutes * 60
        self.run = None  # the last recording
        self.lib = ctypes.CDLL(os.path.join(common.ROOT, "build", "libtaut.so"))
        self.lib.taut_sync_piece_bytes.argtypes = [ctypes.c_uint64, ctypes.c_int64]
        self.lib.taut_sync_piece_bytes.restype = ctypes.c_uint64

    def job(self, row, steps, **more):
        base = {k: v for k, v in matrix.BASE[row.model].items() if k == "workers"}
        return {"model": row.model, **base, "steps": steps, **more}

    def whole(self, row, before, steps, **more):
        """Median step in ms, and bytes of gradients."""
        extra = {"UCX_NET_DEVICES": "eth0", "UCX_TLS": "tcp"}
        out = os.path.join(self.folder, "job")
        job = self.job(row, steps, **more)
        told, _ = runner.whole(self.net, self.python, before, job, self.a.ranks, out, extra)
        ms = statistics.median(s for r in told for s in r["seconds"][WARM_STEPS:]) * 1e3
        return ms, told[0]["gradient_bytes"]

    def find_rates(self, rows):
        """C = times (f + b), of what ranks take that exchange nothing."""
        self.net.shape(10000)
        ms, gradient_bytes = self.whole(rows[0], [], WARM_STEPS + self.a.steps, local=1)
        for row in rows:
            wire_ms = ms * row.times
            row.mbit = round(train_compare.rate_of(self.a.ranks, gradient_bytes, wire_ms))
            row.fitting = self.lib.taut_sync_piece_bytes(gradient_bytes, round(wire_ms * 1e6))
        accuracy.say(f"{rows[0].model}: f + b {ms:.1f} ms")

    def record(self, row, turn, mbit):
        run = os.path.join(self.folder, f"{row.model}.{turn}.{row.times:g}.{row.name}")
        shutil.rmtree(run, ignore_errors=True)
        self.net.shape(mbit)
        end = RECORD_FROM + RECORDED_STEPS
        job, steps = self.job(row, end + 2), f"{RECORD_FROM}:{end}"
        runner.record(self.net, self.python, self.a.taut, run, job, self.a.ranks, steps)
        told, fault = accuracy.ask_taut(self.a, "report", run)
        if fault:
            raise runner.Failed(fault)
        self.run = run
        accuracy.say(f"{turn} recorded {row.model}: {told['steady_step_ms']:.1f} ms")

    def measure(self, row, turn):
        self.net.shape(row.mbit)
        before = row.command(self.a.taut, self.a.halves)
        ms, _ = self.whole(row, before, WARM_STEPS + self.a.steps)
        row.measured_ms.append(ms)
        told, fault = accuracy.ask_taut(self.a, "whatif", self.run, *row.change())
        row.predicted.append(told or {"fault": fault})
        after = f"{told['after_ms']:.1f}" if told else fault
        accuracy.say(
            f"{turn} {row.model} {row.mbit} Mbit/s, {row.name}: {ms:.1f} ms, predicted {after}"
        )

    def turn(self, rows, number):
        """False: time is up."""
        middle = self.a.times[len(self.a.times) // 2]
        mbit = next(row.mbit for row in rows if row.times == middle)
        for i, row in enumerate(rows):
            if time.monotonic() > self.end:
                return False
            if row.failed:
                continue
            try:
                if not self.run or i % ROWS_A_RECORDING == 0:
                    self.record(row, number, mbit)
                self.measure(row, number)
            except runner.Failed as fault:
                row.failed = True
                accuracy.say(f"{row.model}, {row.name}: {str(fault)[-300:]}")
        self.run = None
        return True


def measure_all(a, net, python, folder):
    bench = Bench(a, net, python, folder)
    rows = {model: rows_of(a, model) for model in a.models}
    for of_model in rows.values():
        bench.find_rates(of_model)
    for number in range(a.turns):
        if not all(bench.turn(of_model, number) for of_model in rows.values()):
            accuracy.say("time is up")
            break
    return [row for of_model in rows.values() for row in of_model if row.measured_ms]


# --- the table --------------------------------------------------------------------


def spread(row):
    if len(row.measured_ms) < 2:
        return "-"
    half = (max(row.measured_ms) - min(row.measured_ms)) / 2
    return f"{half / row.median_ms * 100:.1f} %"


def line(row):
    told = row.told
    cells = [
        f"{row.model}, {row.times:g}", f"{row.mbit}", row.name, f"{row.median_ms:.1f}", spread(row)
    ]
    if row.error is None:
        return "| " + " | ".join([*cells, told.get("fault", "-"), "-", "-"]) + " |"
    interval = f"{told['low_ms']:.1f} .. {told['high_ms']:.1f}"
    cells += [f"{told['after_ms']:.1f}", interval, f"{row.error:+.1f} %"]
    return "| " + " | ".join(cells) + " |"


def summary(rows, name):
    errors = [abs(row.error) for row in rows if row.error is not None]
    if not errors:
        return f"{name}: nothing was predicted."
    within = sum(error <= 5 for error in errors)
    return (
        f"{name}: {len(errors)} rows, error {statistics.mean(errors):.1f} % in the mean, "
        f"{max(errors):.1f} % at most; {within} within 5 %."
    )


def page(a, rows):
    head = (
        "| model, C / (f + b) | Mbit/s | setting | measured ms | spread | predicted ms | interval "
        "| error |"
    )
    scheduled = [row for row in rows if row.setting]
    plain = [row for row in rows if not row.setting]
    return "\n".join(
        [
            f"`bench/schedule_compare.py`, {a.ranks} ranks, {a.turns} turns at most, "
            f"{a.steps} steps of each run.",
            "",
            measure.machine_lines(),
            "",
            summary(scheduled, "Scheduled"),
            summary(plain, "DDP at these rates"),
            "",
            head,
            "|---" * 8 + "|",
            *map(line, rows),
        ]
    )


def keep(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(
            [{**vars(row), "change": row.change(), "told": row.told} for row in rows], file, indent=1
        )


def main():
    a = arguments()
    common.taut_of(a)
    python = runner.find_python()
    if not python:
        sys.exit("schedule_compare: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: sys.exit(1))
    try:
        with cluster.Cluster(range(a.ranks), weight=a.weight) as net, tempfile.TemporaryDirectory() as folder:
            if a.keep:
                os.makedirs(a.keep, exist_ok=True)
            rows = measure_all(a, net, python, a.keep or folder)
    except (cluster.Unavailable, runner.Failed) as fault:
        sys.exit(f"schedule_compare: {fault}")
    text = page(a, rows)
    print(text)
    if a.json:
        keep(a.json, rows)
    if a.write and rows:
        common.write_between(DOC, BEGIN, END, text)


if __name__ == "__main__":
    main()
