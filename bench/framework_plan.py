#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a recording of a TensorFlow job predicts of its exchange, and what the job then
takes: one rank a host of the lab (bench/lab), a core and a link each. The job is recorded
as it is; each row is a list of changes, predicted by `taut whatif` and made by `taut run
--plan`; the last is what `taut plan` finds. Rows are measured by turns, as often as
--turns says: their medians.

Needs root and TensorFlow (TAUT_TENSORFLOW_PYTHON, or build-python/tensorflow)."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import common

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import cluster

JOB = os.path.join(common.ROOT, "tests", "frameworks", "jobs", "tensorflow_plan.py")
EXCHANGE = "schedule=fifo,partition={},credit={},order=agreed"
ROWS = (
    ("bucket=1MiB algorithm=flat " + EXCHANGE).format("1MiB", "4MiB"),
    ("bucket=100MiB algorithm=flat " + EXCHANGE).format("1MiB", "4MiB"),
    ("bucket=1MiB compress=fp16,by=taut algorithm=flat " + EXCHANGE).format("1MiB", "4MiB"),
)
PORT = 7950


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--mbit", type=float, default=1000)
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--steps", type=int, default=40, help="of each run, of which 20 warm up")
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("--record", default="20:30", help="steps that are recorded")
    p.add_argument("--allow", default="lossy")
    return p.parse_args()


def python():
    own = os.environ.get("TAUT_TENSORFLOW_PYTHON")
    return own or os.path.join(common.ROOT, "build-python", "tensorflow", "bin", "python")


class Lab:
    def __init__(self, its, a):
        self.its, self.a, self.port = its, a, PORT

    def run(self, before):
        """before: words of a host's command in front of the job's, by host. What the hosts
        said."""
        self.port += 1
        job = [python(), JOB, *map(str, (self.a.width, self.a.layers, self.a.steps, self.a.batch))]
        running = []
        for host in range(2):
            own = dict(
                os.environ,
                PYTHONPATH=os.path.join(common.ROOT, "python"),
                TAUT_LIB=os.path.join(os.path.dirname(self.a.taut), "libtaut.so"),
                TAUT_RANK=str(host),
                TAUT_RANKS="2",
                TAUT_MEET="%s:%d" % (self.its.address(0), self.port),
                TAUT_SECRET="of the lab",
                OMP_NUM_THREADS="1",
                CUDA_VISIBLE_DEVICES="",
                TF_CPP_MIN_LOG_LEVEL="2",
                TAUT_TEST_THREADS="2",
            )
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            running.append(self.its.start(host, before(host) + job, env=own, **pipes))
        said = [process.communicate(timeout=600) for process in running]
        if any(process.returncode for process in running):
            sys.exit("\n".join(err[-2000:] for _, err in said))
        return said

    def record(self, folder):
        a = self.a
        self.run(lambda host: [a.taut, "record", "--join", "--steps", a.record, "-o", folder, "--"])

    def measure(self, plan=None):
        """The median step, in ms."""
        with tempfile.TemporaryDirectory() as folder:
            more = ["--plan", plan] if plan else []
            places = [os.path.join(folder, str(host)) for host in range(2)]
            self.run(lambda h: [self.a.taut, "run", *more, "--measure", places[h], "--"])
            steps = []
            for host, place in enumerate(places):
                with open(os.path.join(place, "rank-%d.json" % host), encoding="ascii") as file:
                    steps += json.load(file)["step_ns"]
            return statistics.median(steps) / 1e6


def predict(a, run, changes):
    words = [a.taut, "whatif", run, *changes.split(), "--json"]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(said.stdout)


def plan_of(a, run, path):
    subprocess.run(
        [a.taut, "plan", run, "--allow", a.allow, "-o", path], check=True, capture_output=True
    )
    with open(path, encoding="ascii") as file:
        return json.load(file)


def write_plan(path, job, changes):
    decisions = [{"change": c, "numerics": "lossy"} for c in changes.split()]
    with open(path, "w", encoding="ascii") as file:
        json.dump(
            {"taut_plan": 1, "job": job, "allow": "lossy", "decisions": decisions}, file, indent=1
        )


def measure_all(lab, rows, turns, path, job):
    """Of each row's changes, by turns: milliseconds."""
    found = [[] for _ in rows]
    for _ in range(turns):
        for changes, times in zip(rows, found):
            if changes:
                write_plan(path, job, changes)
            times.append(lab.measure(path if changes else None))
    return found


def show(rows, predicted, measured, mbit):
    print("| changes, %g Mbit/s | predicted ms | measured ms | each | error |" % mbit)
    print("|---|---|---|---|---|")
    for changes, guess, times in zip(rows, predicted, measured):
        name = "`%s`" % changes if changes else "as it is"
        middle = statistics.median(times)
        each = " ".join("%.1f" % time for time in times)
        error = 100 * (guess / middle - 1)
        print("| %s | %.1f | %.1f | %s | %+.1f %% |" % (name, guess, middle, each, error))


def main():
    a = arguments()
    a.taut = os.path.abspath(a.taut)
    with tempfile.TemporaryDirectory() as folder, cluster.Cluster([0, 1], mbit=a.mbit) as its:
        lab, run = Lab(its, a), os.path.join(folder, "run")
        os.mkdir(run)
        path = os.path.join(folder, "plan.json")
        lab.record(run)
        found = plan_of(a, run, path)
        planned = " ".join(d["change"] for d in found["decisions"])
        rows = ["", *ROWS] + ([planned] if planned and planned not in ROWS else [])
        before = found["predicted"]["before_ms"]
        predicted = [predict(a, run, c)["after_ms"] if c else before for c in rows]
        show(rows, predicted, measure_all(lab, rows, a.turns, path, found["job"]), a.mbit)


if __name__ == "__main__":
    main()
