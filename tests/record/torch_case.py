# SPDX-License-Identifier: Apache-2.0
"""What the tests of PyTorch recordings share: running a job with and without a
recording, and reading what it left."""

import collections
import gzip
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import forks
import frameworks
from frameworks import INJECT, LAUNCH, ROOT, free_port

JOB = ROOT / "tests" / "record" / "jobs" / "torch_job.py"
STEPS = "8:12"

Span = collections.namedtuple("Span", "name kind lane start end correlation load")
Load = collections.namedtuple(
    "Load", "cpu_ns queued_ns others_ns read_bytes storage_bytes samples"
)


PYTHON = frameworks.find_python("torch")


def main():
    frameworks.main(frameworks.needs(PYTHON, "TAUT_RECORD_LIB"))


def clean_environment(**more):
    own = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_RECORD")}
    own.pop("PYTHONPATH", None)
    own.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", **more)
    return own


def recording_environment(run, steps=STEPS, **more):
    """What `taut record` sets for its job."""
    own = clean_environment()
    own.update(
        PYTHONPATH=str(INJECT),
        TAUT_RECORD=str(run),
        TAUT_RECORD_STEPS=steps,
        TAUT_RECORD_LIB=os.environ["TAUT_RECORD_LIB"],
    )
    own.update(more)
    return own


def torchrun(ranks, *words):
    launcher = [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    return launcher + ["--master-port", str(free_port()), str(JOB), *words]


def launch(ranks, *words):
    """The job where it does not matter by whom its ranks are started."""
    return [PYTHON, LAUNCH, str(ranks), str(JOB), *words]


def run(command, environment, **options):
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, **options
    )


def fork(words, *of_rank, program=JOB):
    """The job without a launcher: a process for each of the environments, a fork of one
    that has PyTorch already. What the first of them said, and the status of one that
    failed, if any did."""
    forks.prepare(PYTHON, len(of_rank))
    command = [PYTHON, str(program), *words]
    ranks = [
        forks.fork(command, own, rank, own_end=True) for rank, own in enumerate(of_rank)
    ]
    ended = frameworks.end(ranks, 300)
    failed = [status for status, _, _ in ended if status]
    return subprocess.CompletedProcess(words, (failed or [0])[0], *ended[0][1:])


def bare(*words):
    """The job in two ranks, not recorded."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    return fork(words, *(clean_environment(RANK=r, LOCAL_RANK=r, **meet) for r in "01"))


def record(command, folder, steps=STEPS, **options):
    """`taut record` of the command into the folder, which it makes."""
    shutil.rmtree(folder)
    words = [os.environ["TAUT"], "record", "--steps", steps, "--out", str(folder), "--"]
    return run(words + command, clean_environment(), **options)


def taut(*args):
    """The command's standard output; it must succeed."""
    words = [os.environ["TAUT"], *map(str, args)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if result.returncode:
        raise AssertionError(result.stderr)
    return result.stdout


class EventLog:
    """A log by src/base/log_format.h."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        assert data[:8] == b"TAUTLOG1", path
        self.rank, self.world, self.local, self.pid = struct.unpack_from("<4i", data, 16)
        capacity, reserved, _, self.closed_ns = struct.unpack_from("<QQqq", data, 32)
        self.source = data[64:96].split(b"\0")[0].decode()
        self.state = data[224:480].split(b"\0")[0].decode()
        self.spans, self.facts, texts = [], [], {0: ""}
        slot, slots = 0, min(reserved, capacity, (len(data) - 4096) // 128)
        while slot < slots:
            at = 4096 + slot * 128
            kind, name, start, end, lane, what, correlation = struct.unpack_from(
                "<IIqqqII", data, at
            )
            slot += 1
            if kind == 1:
                size = struct.unpack_from("<I", data, at + 40)[0]
                texts[name] = data[at + 128 : at + 128 + size].decode()
                slot += (size + 127) // 128
            elif kind in (3, 8):
                load = Load(*struct.unpack_from("<5qi", data, at + 40)) if kind == 8 else None
                self.spans.append(Span(texts[name], what, lane, start, end, correlation, load))
            elif kind == 7:
                value = struct.unpack_from("<I", data, at + 40)[0]
                self.facts.append((texts[name], texts[value]))

    def fact(self, key):
        """The JSON of the one fact of this key."""
        (value,) = [v for k, v in self.facts if k == key]
        return json.loads(value)


class Case(unittest.TestCase):
    """Each test has an empty folder, and in it a RUN."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="taut-torch-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_folder = self.folder / "run"
        (self.run_folder / "processes").mkdir(parents=True)

    def job(self, *words, steps=STEPS, **more):
        """The job in one process, recorded."""
        environment = recording_environment(self.run_folder, steps, **more)
        return fork(words, environment)

    def processes(self):
        files = sorted((self.run_folder / "processes").glob("*.json"))
        return [json.loads(f.read_text()) for f in files]

    def process(self):
        (found,) = self.processes()
        return found

    def told(self):
        """What the parent says."""
        return json.loads((self.run_folder / "recording.json").read_text())

    def trace(self, rank=0, name="torch.pt.trace.json.gz"):
        with gzip.open(self.run_folder / ("rank%d" % rank) / name, "rt") as f:
            return json.load(f)

    def events(self, rank=0):
        return [e for e in self.trace(rank)["traceEvents"] if e.get("ph") == "X"]

    def shapes(self, rank=0):
        """The events of the one step that was recorded with shapes."""
        trace = self.trace(rank, "torch.shapes.json.gz")
        assert trace["tautShapes"] == 1, trace.keys()
        return [e for e in trace["traceEvents"] if e.get("ph") == "X"]

    def steps_of(self, rank=0):
        names = [e["name"] for e in self.events(rank)]
        return sorted(int(n.split("#")[1]) for n in names if n.startswith("ProfilerStep#"))

    def logs(self, rank, source):
        folder = self.run_folder / ("rank%d" % rank)
        return [EventLog(path) for path in sorted(folder.glob(source + "-*.tautlog"))]

    def left_over(self):
        """Files that a reader would stumble over."""
        names = [p.name for p in self.run_folder.rglob("*")]
        return [n for n in names if ".part" in n or n.startswith(".")]
