# SPDX-License-Identifier: Apache-2.0
"""What the tests of PyTorch jobs under `taut run` share: the ranks of a job, with
Taut and without."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import forks
import frameworks
from frameworks import INJECT, LAUNCH, ROOT, free_port

PACKAGE = ROOT / "python"
JOBS = pathlib.Path(__file__).resolve().parent / "jobs"
PYTHON = frameworks.find_python("torch")


def main():
    frameworks.main(frameworks.needs(PYTHON, "TAUT_LIB"))


def environment(taut, **more):
    own = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_R")}
    own.pop("PYTHONPATH", None)
    own.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    own.update(TAUT_TEST_PACKAGE=str(PACKAGE))
    if taut:
        own.update(dict({"PYTHONPATH": str(INJECT), "TAUT_RUN": "1"}, **more))
    return own


def start(command, n_ranks, own, whole=False):
    """A process for each rank. A plain program of Python's is a fork of an interpreter
    that has PyTorch already, unless the process is to be whole."""
    own = dict(own, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    own["WORLD_SIZE"] = str(n_ranks)
    of_rank = [dict(own, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(n_ranks)]
    if not whole and command[0] == PYTHON and command[1].endswith(".py"):
        forks.prepare(PYTHON, n_ranks)
        return [forks.fork(command, of_rank[rank], rank) for rank in range(n_ranks)]
    return [
        subprocess.Popen(
            command,
            env=told,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for told in of_rank
    ]


def end(processes, seconds=240):
    return frameworks.end(processes, seconds)


def reference(command):
    """The same with PyTorch alone. Its 2.13 ends one in some hundreds of such jobs
    with "terminate called without an active exception" when all is done: once more,
    then."""
    ended = end(start(command, 2, environment(False)))
    if any(status == -signal.SIGABRT for status, _, _ in ended):
        ended = end(start(command, 2, environment(False)))
    return ended


def lines(ended):
    """By rank: the lines of JSON, by name."""
    for status, _, err in ended:
        if status:
            raise AssertionError("\n".join(e for _, _, e in ended))
    found = []
    for _, out, _ in ended:
        rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        found.append({row["name"]: row for row in rows})
    return found


def programs(job, *names, n_ranks=2, taut=True, **more):
    """What each rank saw, by name, and what rank 0 logged."""
    own = environment(taut, **more)
    ended = end(start([PYTHON, str(JOBS / (job + ".py")), *names], n_ranks, own))
    return lines(ended), ended[0][2]


# Two servers, which ranks start.
SERVERS = {"TAUT_RUN_SERVERS": "2", "TAUT_RUN_COMMAND": os.environ.get("TAUT", "")}

# Every gradient and every update as late as can be, from the second step on.
LATE = {"TAUT_RUN_GATE": "off", "TAUT_TEST_LATE": "1"}


class Case(unittest.TestCase):
    def same_as_pytorch(
        self, job, *names, but=(), on_time=(), either=(), engines=("coll", "process-group"),
        variables=None
    ):
        """What the programs saw, with each engine, is what they see without Taut;
        updates were late but in those on_time, and in those where other sums may
        come while one is waited for. The log of the last engine. but: programs that
        are left out."""
        command = [PYTHON, str(JOBS / (job + ".py")), *names, *["-" + name for name in but]]
        own = {}
        for e in engines:
            more = dict(LATE, **(SERVERS if e == "server" else {}), **(variables or {}))
            own[e] = start(command, 2, environment(True, TAUT_RUN_ENGINE=e, **more))
        without = lines(reference(command))
        for engine, processes in own.items():
            ended = end(processes)
            self.check(engine, lines(ended), without, on_time, either)
        return ended[0][2]

    def check(self, engine, own, without, on_time, either):
        self.assertEqual(set(own[0]), set(without[0]))
        for name in own[0]:
            with self.subTest(program=name, engine=engine):
                for rank in range(2):
                    self.assertEqual(own[rank][name]["seen"], without[rank][name]["seen"])
                    if name not in either:
                        was_late = own[rank][name]["late"] > 0
                        self.assertEqual(was_late, name not in on_time, "updates were late")
