# SPDX-License-Identifier: Apache-2.0
"""Jobs on a cluster: one process a host that does block after block of steps
(job.py --serve), and whole jobs under `taut record`."""

import itertools
import json
import os
import select
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = os.path.join(HERE, "job.py")
ROOT = os.path.dirname(os.path.dirname(HERE))
PORT = 29400  # of recorded jobs
PORTS = itertools.cycle(range(29500, 30500))  # of blocks: an old one may not be free yet
SETUP_MBIT = 4000  # while a block is set up, links are not what is measured
# Of a job of one rank that nothing keeps from computing.
ALONE = {
    "steps": 0,
    "local": 1,
    "workers": 0,
    "fetch_ms": 0.0,
    "prepare_ms": 0.0,
    "accumulate": 1,
    "slow_rank": -1,
}


class Failed(Exception):
    """A job ended badly; holds what it said."""


def find_python():
    """An interpreter with PyTorch, or None."""
    own = os.path.join(ROOT, "build-python", "torch", "bin", "python")
    for path in (os.environ.get("TAUT_TORCH_PYTHON"), own):
        if path and os.access(path, os.X_OK):
            return path
    return None


def environment(cluster, rank, world):
    keep = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_")}
    return {
        **keep,
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": cluster.address(0),
        "MASTER_PORT": str(PORT),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        # Large blocks stay in the heap: else each step pays for page faults
        # of its own, and how many depends on what was freed before.
        "MALLOC_MMAP_THRESHOLD_": "4294967296",
        "MALLOC_TRIM_THRESHOLD_": "4294967296",
    }


class Runner:
    """Serving jobs on all hosts of a cluster, from start to close()."""

    def __init__(self, cluster, python, limit_s=90):
        self.cluster, self.limit_s = cluster, limit_s
        self.jobs, self.errors = [], []
        hosts = len(cluster.cores)
        for rank in range(hosts):
            errors = os.path.join("/tmp", f"{cluster.space(rank)}.err")
            self.errors.append(errors)
            with open(errors, "w", encoding="utf-8") as stderr:
                job = cluster.start(
                    rank,
                    [python, JOB, "--serve"],
                    env=environment(cluster, rank, hosts),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                )
            self.jobs.append(job)
        self.answers()

    def said(self):
        """The last words of each job on its standard error."""
        words = []
        for path in self.errors:
            with open(path, encoding="utf-8", errors="replace") as file:
                words.append(file.read()[-1500:])
        return "\n".join(words)

    def answers(self, ranks=None):
        """One line of each of the ranks."""
        end = time.monotonic() + self.limit_s
        lines = []
        for rank in range(len(self.jobs)) if ranks is None else ranks:
            out = self.jobs[rank].stdout
            ready, _, _ = select.select([out], [], [], max(0, end - time.monotonic()))
            line = out.readline() if ready else ""
            if not line:
                raise Failed(f"rank {rank} says nothing: {self.said()}")
            lines.append(json.loads(line))
        return lines

    def tell(self, line, ranks):
        for rank in ranks:
            self.jobs[rank].stdin.write(line + "\n")
            self.jobs[rank].stdin.flush()

    def words(self, options, first, world):
        where = {"master": self.cluster.address(first), "port": next(PORTS)}
        return {**options, "first": first, "world": world, **where}

    def make_ready(self, options, hosts):
        """A job on these hosts, up to its first step."""
        self.tell(json.dumps(self.words(options, hosts[0], len(hosts))), hosts)
        self.answers(hosts)

    def load(self, options, world):
        """On each host that a job of `world` ranks leaves, a job of one rank, which
        computes as the options say and waits for nothing, until unload(). Returns
        these hosts."""
        others = range(world, len(self.jobs))
        for host in others:
            self.make_ready({**options, **ALONE}, [host])
        self.go(others)
        return others

    def unload(self, others):
        self.tell("enough", others)
        self.answers(others)

    def go(self, hosts):
        self.tell("go", hosts)

    def block(self, options, world, shape, beside=False):
        """What each rank answers: {seconds: [of a step], speed: [ms of work before,
        and after]}. shape() gives the links their rates. beside: all other hosts
        compute meanwhile (load())."""
        job = range(world)
        others = self.load(options, world) if beside else []
        self.cluster.shape(SETUP_MBIT)
        self.make_ready(options, job)
        shape()
        self.go(job)
        told = self.answers(job)
        self.unload(others)
        return told

    def close(self):
        for job in self.jobs:
            job.kill()
        for job, path in zip(self.jobs, self.errors):
            job.wait()
            job.stdin.close()
            job.stdout.close()
            if os.path.exists(path):
                os.unlink(path)


def flags(options):
    return [w for k, v in options.items() for w in ("--" + k.replace("_", "-"), str(v))]


def whole(cluster, python, before, options, world, out, extra=None, limit_s=180):
    """One whole job of `world` ranks, one a host, with the words `before` in front
    of each. Returns what each rank tells of itself, and what all said. out: the
    beginning of the names of files that it needs."""
    jobs, told = [], [f"{out}.rank{r}.json" for r in range(world)]
    for rank in range(world):
        jobs.append(
            cluster.start(
                rank,
                [*before, python, JOB, "--out", told[rank], *flags(options)],
                env={**environment(cluster, rank, world), **(extra or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
    said = ""
    try:
        for job in jobs:
            said += job.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        said += f"not done after {limit_s} s"
    for job in jobs:
        job.kill()
        job.wait()
    if any(job.returncode for job in jobs):
        raise Failed(said)
    found = []
    for path in told:
        with open(path, encoding="ascii") as file:
            found.append(json.load(file))
        os.unlink(path)
    return found, said


def record(cluster, python, taut, run, options, world, steps, more=()):
    """One whole job of `world` ranks, recorded by `taut record` on each host, with more
    options. Returns its own seconds of its steps, by rank."""
    os.makedirs(run, exist_ok=True)
    before = [taut, "record", "--join", "--steps", steps, "--out", run, *more, "--"]
    told, said = whole(cluster, python, before, options, world, run)
    traces = [os.path.join(run, f"rank{r}", "torch.pt.trace.json.gz") for r in range(world)]
    if not all(map(os.path.exists, traces)):
        raise Failed(said or f"{run}: nothing was recorded")
    return [rank["seconds"] for rank in told]
