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
import os
import statistics
import sys
import tempfile
import time

import common
import inside
import measure

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
    package = inside.package()
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
        inside.say(SAID, {"gradients": max(gradients, default=0), "us": us})


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


def rows_of(a, jobs):
    """What each rank of each turn told of itself."""
    jobs.shape()
    rows = []
    for _ in range(a.turns):
        rows += jobs.watched(__file__, SAID)
    return rows


def main():
    words = inside.wants_job()
    if words:
        watch_job()
        return inside.run_job(words)
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
        for model in a.models.split(","):
            rows = rows_of(a, inside.Jobs(net, python, folder, a, model))
            us = [
                statistics.median(row["us"].get(name, 0) for row in rows)
                for name in ("hand over", "late", "update")
            ]
            cells = [model, str(rows[0]["gradients"]), *(f"{x:.1f}" for x in us)]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
