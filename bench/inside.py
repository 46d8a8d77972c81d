# SPDX-License-Identifier: Apache-2.0
"""Jobs of the lab (bench/lab) under `taut run` in which a bench watches from inside: each
rank begins with the bench itself, which runs the job and prints what it saw at its end."""

import json
import os
import runpy
import statistics
import sys

import common

sys.path.insert(0, os.path.join(common.HERE, "lab"))


def wants_job():
    """The words PYTHON JOB OPTIONS of a rank that begins with the bench; None."""
    return sys.argv[2:] if sys.argv[1:2] == ["--job"] else None


def run_job(words):
    sys.argv = words[1:]
    sys.path.insert(0, os.path.dirname(words[1]))
    runpy.run_path(words[1], run_name="__main__")


def package():
    """The name of Taut's package in a process of `taut run`, once PyTorch is there."""
    import torch  # noqa: F401 - brings what `taut run` puts in place

    return next(name for name in sys.modules if name.endswith("._sums")).rpartition(".")[0]


def say(mark, told):
    print(mark + json.dumps(told), flush=True)


def told(said, mark):
    """What ranks have told by say(), in what all have said."""
    lines = [line for line in said.splitlines() if line.startswith(mark)]
    return [json.loads(line[len(mark) :]) for line in lines]


class Jobs:
    """Of one model on the hosts of a cluster, one rank on each."""

    def __init__(self, net, python, folder, options, model):
        self.net, self.python, self.out = net, python, os.path.join(folder, "job")
        self.options, self.model = options, model

    def whole(self, before, **more):
        import runner

        a = self.options
        job = {"model": self.model, "workers": 0, "steps": a.steps, **more}
        extra = {"UCX_NET_DEVICES": "eth0", "UCX_TLS": "tcp"}
        return runner.whole(self.net, self.python, before, job, a.ranks, self.out, extra)

    def shape(self):
        """Links at which gradients take as long as a step without them."""
        import train_compare

        self.net.shape(10000)
        alone, _ = self.whole([], local=1)
        ms = statistics.median(s for rank in alone for s in rank["seconds"][5:]) * 1e3
        rate = train_compare.rate_of(self.options.ranks, alone[0]["gradient_bytes"], ms)
        self.net.shape(rate)

    def watched(self, bench, mark, limits=()):
        """What each rank told of a job that begins with this bench."""
        ours = [self.options.taut, "run", "--gate", "off", *limits, "--"]
        return told(self.whole([*ours, self.python, bench, "--job"])[1], mark)
