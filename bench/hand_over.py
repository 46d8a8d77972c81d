#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the thread that computes does for Taut's exchange: CPU time a gradient, of jobs of
the lab (bench/lab) under `taut run`, one rank a host, at the rate at which gradients take
as long as a step without them.

*hand over*: the hooks of autograd, up to the exchange's thread that is woken. *late*: what
crossing the end of the step costs beside the updates themselves: which gradients came,
which updates wait, hooks of modules. What the kernel does meanwhile on that core, of
messages that have just come, counts where it happens.

`taut whatif schedule=...,by=taut` takes so much for each gradient (src/whatif/handed.c).
Needs root and PyTorch (TAUT_TORCH_PYTHON, or build-python/torch)."""

import argparse
import atexit
import collections
import functools
import importlib
import json
import os
import runpy
import statistics
import sys
import tempfile
import time

import common
import measure

sys.path.insert(0, os.path.join(common.HERE, "lab"))

SAID = "hand_over: "  # before the numbers of a rank, in what the job says
SKIPPED = 8  # steps: the first ones agree on what there is


# --- in the job ---------------------------------------------------------------------


class Spent:
    """CPU time of the calling thread within functions, without that of others of these."""

    def __init__(self):
        self.ns, self.calls = collections.Counter(), collections.Counter()
        self.inner = [0]  # of each open call: what others took within it
        self.own = 0  # of a function that does nothing: the clock's
        nothing = self.watch(lambda: None, "nothing")
        for _ in range(2000):
            nothing()
        self.own = self.ns.pop("nothing") / self.calls.pop("nothing")

    def watch(self, function, name):
        @functools.wraps(function)
        def watched(*args, **kwargs):
            begin = time.thread_time_ns()
            self.inner.append(0)
            try:
                return function(*args, **kwargs)
            finally:
                within = self.inner.pop()
                took = time.thread_time_ns() - begin
                self.inner[-1] += took
                self.ns[name] += took - within - self.own
                self.calls[name] += 1

        return watched


def watch_job():
    import torch  # noqa: F401 - brings what `taut run` puts in place

    package = next(name for name in sys.modules if name.endswith("._sums")).rpartition(".")[0]
    _control, _cross, _sums = (
        importlib.import_module(package + name) for name in ("._control", "._cross", "._sums")
    )
    spent = Spent()
    places = [
        (_sums.Sums, "before_accumulate", "hand over"),
        (_sums.Sums, "accumulated", "hand over"),
        (_sums.Sums, "collect", "late"),
        (_sums.Sums, "finish_some", "late"),
        (_control._Watched, "before_forward", "late"),
        (_cross, "_leave", "late"),
        (_cross.Step, "make", "update"),
    ]
    gradients = []
    for owner, name, what in places:
        setattr(owner, name, spent.watch(getattr(owner, name), what))
    begin = _sums.Sums.begin

    def counted(sums, wanted):
        gradients.append(len(sums.records))
        if len(gradients) == SKIPPED:
            spent.ns.clear()
        return begin(sums, wanted)

    _sums.Sums.begin = counted
    # The hook is made of the bound method when the first module is watched.
    _control._watched.before_forward = functools.partial(
        _control._Watched.before_forward, _control._watched
    )

    @atexit.register
    def tell():
        handed = sum(gradients[SKIPPED - 1 :])
        us = {name: ns / 1e3 / handed for name, ns in spent.ns.items()} if handed else {}
        print(SAID + json.dumps({"gradients": max(gradients, default=0), "us": us}), flush=True)


def run_job(command):
    watch_job()
    sys.argv = command
    sys.path.insert(0, os.path.dirname(command[0]))
    runpy.run_path(command[0], run_name="__main__")


# --- the bench ----------------------------------------------------------------------


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--models", default="vgg,resnet,gpt,rnn")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--steps", type=int, default=30)
    return p.parse_args()


def told(said):
    lines = [line for line in said.splitlines() if line.startswith(SAID)]
    return [json.loads(line[len(SAID) :]) for line in lines]


def rows_of(a, jobs, model, turns):
    """What each rank of each turn told of itself."""
    import runner
    import train_compare

    def whole(before, **more):
        job = {"model": model, "workers": 0, "steps": a.steps, **more}
        out = os.path.join(jobs.folder, "job")
        extra = {"UCX_NET_DEVICES": "eth0", "UCX_TLS": "tcp"}
        return runner.whole(jobs.net, jobs.python, before, job, a.ranks, out, extra)

    jobs.net.shape(10000)
    alone, _ = whole([], local=1)
    ms = statistics.median(s for rank in alone for s in rank["seconds"][5:]) * 1e3
    jobs.net.shape(train_compare.rate_of(a.ranks, alone[0]["gradient_bytes"], ms))
    ours = [a.taut, "run", "--gate", "off", "--", jobs.python, __file__, "--job"]
    rows = []
    for _ in range(turns):
        rows += told(whole(ours)[1])
    return rows


def main():
    if sys.argv[1:2] == ["--job"]:  # and then PYTHON JOB OPTIONS, as the lab has it
        return run_job(sys.argv[3:])
    a = arguments()
    common.taut_of(a)
    import cluster
    import runner

    python = runner.find_python()
    if not python:
        sys.exit("hand_over: no interpreter with PyTorch: set TAUT_TORCH_PYTHON")
    print(f"`bench/hand_over.py`, {a.ranks} ranks, {a.turns} turns of {a.steps} steps.\n")
    print(measure.machine_lines() + "\n")
    print("| model | gradients | hand over, us a gradient | late | updates |\n|---|---|---|---|---|")
    with cluster.Cluster(range(a.ranks)) as net, tempfile.TemporaryDirectory() as folder:
        jobs = argparse.Namespace(net=net, python=python, folder=folder)
        for model in a.models.split(","):
            rows = rows_of(a, jobs, model, a.turns)
            us = [
                statistics.median(row["us"].get(name, 0) for row in rows)
                for name in ("hand over", "late", "update")
            ]
            cells = [model, str(rows[0]["gradients"]), *(f"{x:.1f}" for x in us)]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
