#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training whose gradients go to parameter servers, in the lab (bench/lab): Taut's
servers under an unchanged PyTorch job and under taut.tensorflow, beside tf.distribute's
ParameterServerStrategy on the same model, at link rates at which communication C is a
given multiple of computation.

Workers and servers have hosts of their own. Computation f + b is the step of the same
model by the same framework that exchanges nothing, on all workers at once; so each
framework has rates of its own. C is what the gradients take on the wire at least: their
bytes times max(1, workers / servers), there, and the parameters or sums as many back,
which is the other direction of the links; at the link's rate less the headers of TCP,
IP and Ethernet. No step is shorter than max(f + b, C), the bound.

tf.distribute's jobs are asynchronous, and wait for no other worker: what is compared is
the seconds in which each worker has done one step of the same batch. Of its ways to cut
variables each is tried in the first turn of a rate, and the best one goes on.

All processes are started once; then one job at a time does a block of steps, in turns.
Needs root, PyTorch and TensorFlow (TAUT_TORCH_PYTHON, TAUT_TENSORFLOW_PYTHON, or
build-python), and a machine with nothing else on it."""

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time

import common
import measure

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import cluster
import runner

JOBS = os.path.join(common.HERE, "servers")
ON_THE_WIRE = 1448 / 1514  # payload of a frame as tbf counts it, with time stamps of TCP
SETUP_MBIT, LOCAL_MBIT = 4000, 10000
BEGIN, END = "<!-- servers: begin -->", "<!-- servers: end -->"
# Jiang et al., OSDI 2020, abstract; README and docs/performance.md of bytedance/byteps.
BYTEPS = (
    ("over the parameter servers of its time, at most", "OSDI'20, abstract", 3.45),
    ("over Horovod's all-reduce, at most", "OSDI'20, abstract", 1.84),
    ("over Horovod, VGG16, 20 Gbit/s TCP", "docs/performance.md", 2.0),
    ("over Horovod, ResNet50, 20 Gbit/s TCP", "docs/performance.md", 1.44),
    ("over Horovod, VGG16, 100 Gbit/s RDMA", "docs/performance.md", 1.17),
    ("over Horovod, ResNet50, 100 Gbit/s RDMA", "docs/performance.md", 1.07),
    ("of linear, BERT-large, 256 GPUs", "README", 0.90),
)


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--models", default="vgg", help="of PyTorch; TensorFlow has vgg alone")
    p.add_argument("--frameworks", default="torch,tensorflow")
    p.add_argument("--times", default="0.5,1,2", help="C as multiples of f + b")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--servers", type=int, default=2)
    p.add_argument("--partitions", default="none,fixed,min", help="of tf.distribute, to be tried")
    p.add_argument("--steps", type=int, default=12, help="that count, of each block")
    p.add_argument("--warm", type=int, default=4, help="before them")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--minutes", type=float, default=8, help="no other turn begins after them")
    p.add_argument("--options", default="", help="more words for taut run")
    p.add_argument("--write", action="store_true", help="the table into docs/performance.md")
    a = p.parse_args()
    a.models, a.frameworks = a.models.split(","), a.frameworks.split(",")
    a.partitions = a.partitions.split(",")
    a.times = [float(t) for t in a.times.split(",")]
    a.until = time.monotonic() + 60 * a.minutes
    return a


def say(text):
    print(text, file=sys.stderr, flush=True)


def tensorflow_python():
    own = os.path.join(common.ROOT, "build-python", "tensorflow", "bin", "python")
    for path in (os.environ.get("TAUT_TENSORFLOW_PYTHON"), own):
        if path and os.access(path, os.X_OK):
            return path
    return None


# --- processes -------------------------------------------------------------------------


class Lab:
    """Hosts: workers first, then servers. What all that is started is started with."""

    def __init__(self, a, net, folder):
        self.a, self.net, self.folder = a, net, folder
        self.processes, self.n_logs, self.port = [], 0, 30100
        self.taut_lib = os.path.join(os.path.dirname(os.path.abspath(a.taut)), "libtaut.so.0")
        self.secret = os.urandom(16).hex()

    def ports(self, hosts):
        """HOST:PORT on each, of which no other job has one."""
        self.port += 1
        return ["%s:%d" % (self.net.address(host), self.port) for host in hosts]

    def workers(self):
        return range(self.a.workers)

    def servers(self):
        return range(self.a.workers, self.a.workers + self.a.servers)

    def environment(self, rank, **more):
        own = runner.environment(self.net, rank, self.a.workers)
        own.update(
            TAUT_LIB=self.taut_lib,
            TAUT_SECRET=self.secret,
            UCX_NET_DEVICES="eth0",
            UCX_TLS="tcp",
            PYTHONPATH=os.path.join(common.ROOT, "python"),
            CUDA_VISIBLE_DEVICES="",
            TF_CPP_MIN_LOG_LEVEL="2",
        )
        own.update(more)
        return own

    def start(self, host, words, own):
        self.n_logs += 1
        errors = os.path.join(self.folder, "%d.err" % self.n_logs)
        with open(errors, "w", encoding="utf-8") as stderr:
            process = self.net.start(
                host, words, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )
        process.errors = errors
        self.processes.append(process)
        return process

    def start_servers(self):
        """`taut server` on each host of servers; where they are met."""
        places = self.ports(self.servers())
        for i, host in enumerate(self.servers()):
            words = ["--workers", str(self.a.workers), "--servers", ",".join(places)]
            own = self.environment(0)
            self.start(host, [self.a.taut, "server", *words, "--index", str(i)], own)
        return ",".join(places)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def last_words(process):
    with open(process.errors, encoding="utf-8", errors="replace") as file:
        return file.read()[-1500:]


class Job:
    """Processes that answer: those of all workers, or a chief."""

    def __init__(self, processes, limit_s=150):
        self.processes, self.limit_s = processes, limit_s

    def answers(self):
        end, found = time.monotonic() + self.limit_s, []
        for process in self.processes:
            ready, _, _ = select.select([process.stdout], [], [], max(0, end - time.monotonic()))
            line = process.stdout.readline() if ready else ""
            if not line.startswith("{"):
                sys.exit(f"server_compare: a rank says '{line.strip()}': {last_words(process)}")
            found.append(json.loads(line))
        return found

    def begin(self):
        """When all are ready: bytes of gradients, and what sums them."""
        first = self.answers()[0]
        return first["gradient_bytes"], first["engine"]

    def block(self, steps, warm, local=False):
        """Median step in ms over ranks, and over steps where they are told."""
        for process in self.processes:
            process.stdin.write(json.dumps({"steps": steps + warm, "local": local}) + "\n")
            process.stdin.flush()
        told = [row["seconds"] for row in self.answers()]
        return statistics.median(s for row in told for s in (row[warm:] or row)) * 1e3


def start_torch(lab, python, model):
    places = lab.start_servers()
    words = [lab.a.taut, "run", "--server", places, "--gate", "off", *lab.a.options.split(), "--"]
    job = os.path.join(JOBS, "torch_rank.py")
    more = {"MASTER_PORT": str(lab.port + 1000)}
    ranks = [
        lab.start(rank, [*words, python, job, model], lab.environment(rank, **more))
        for rank in lab.workers()
    ]
    return Job(ranks)


def start_tensorflow(lab, python):
    places = lab.start_servers()
    meet = lab.ports([0])[0]
    job = os.path.join(JOBS, "tf_rank.py")
    ranks = []
    for rank in lab.workers():
        own = lab.environment(
            rank, TAUT_RANK=str(rank), TAUT_RANKS=str(lab.a.workers), TAUT_MEET=meet,
            TAUT_RUN_SERVER=places,
        )
        ranks.append(lab.start(rank, [python, job], own))
    return Job(ranks)


def start_strategy(lab, python, partition):
    """Workers and servers of TensorFlow; the chief beside the first server."""
    chief = lab.servers()[0]
    tasks = {
        "worker": lab.ports(lab.workers()),
        "ps": lab.ports(lab.servers()),
        "chief": lab.ports([chief]),
    }
    hosts = {"worker": lab.workers(), "ps": lab.servers(), "chief": [chief]}
    job = os.path.join(JOBS, "tf_strategy.py")
    for kind, places in hosts.items():
        for index, host in enumerate(places):
            config = {"cluster": tasks, "task": {"type": kind, "index": index}}
            own = lab.environment(0, TF_CONFIG=json.dumps(config))
            process = lab.start(host, [python, job, partition], own)
    return Job([process])


# --- what is measured ------------------------------------------------------------------


class Row:
    """A model of a framework at a rate: blocks of each job, by name."""

    def __init__(self, name, times, jobs, gradient_bytes):
        self.name, self.times, self.jobs = name, times, jobs
        self.gradient_bytes = gradient_bytes
        self.local, self.mbit = [], None
        self.blocks = {job: [] for job in jobs}

    def wire_bits(self, a):
        return self.gradient_bytes * 8 * max(1, a.workers / a.servers)

    def wire_ms(self, a):
        return self.wire_bits(a) / self.mbit / 1e3 / ON_THE_WIRE

    def tried(self):
        """In a turn: Taut's, and those of tf.distribute that are not given up."""
        others = [job for job in self.jobs if job != "taut"]
        if others and all(self.blocks[job] for job in others):
            others = [self.best()]
        return ["taut", *others]

    def best(self):
        others = [job for job in self.jobs if job != "taut"]
        return min(others, key=lambda job: statistics.median(self.blocks[job]), default=None)

    def turn(self, a, lab):
        lab.net.shape(LOCAL_MBIT)
        self.local.append(self.jobs["taut"].block(a.steps, a.warm, local=True))
        if self.mbit is None:
            self.mbit = round(
                self.wire_bits(a) / (self.local[0] * self.times) / 1e3 / ON_THE_WIRE, 1
            )
        lab.net.shape(self.mbit)
        for job in self.tried():
            self.blocks[job].append(self.jobs[job].block(a.steps, a.warm))
        told = {job: round(values[-1], 1) for job, values in self.blocks.items() if values}
        say(f"{self.name} x{self.times:g}: {self.mbit} Mbit/s, local {self.local[-1]:.1f}, {told}")

    def cells(self, a):
        compute = statistics.median(self.local)
        wire, ours = self.wire_ms(a), statistics.median(self.blocks["taut"])
        bound = max(compute, wire)
        spread = (max(self.blocks["taut"]) - min(self.blocks["taut"])) / 2 / ours * 100
        cells = [
            f"{self.name}, {self.times:g}", f"{self.mbit:g}", f"{compute:.1f}", f"{wire:.1f}",
            f"{bound:.1f}", f"{ours:.1f} ({spread:.1f} %)", f"{bound / ours * 100:.0f} %",
            f"{compute / ours * 100:.0f} %",
        ]  # fmt: skip
        if not self.best():
            return [*cells, "", "", ""]
        theirs = statistics.median(self.blocks[self.best()])
        return [
            *cells, f"{theirs:.1f} ({self.best()})", f"{bound / theirs * 100:.0f} %",
            f"{theirs / ours:.2f}",
        ]  # fmt: skip


HEAD = (
    "framework, model, C / (f + b) | Mbit/s | f + b ms | C ms | bound ms | Taut ms (spread) | "
    "Taut of the bound | of linear | tf.distribute ms | of the bound | tf.distribute / Taut"
)


def rows_of(a, lab, pythons):
    """Started, one framework and model after another."""
    found = []
    for model in a.models if "torch" in a.frameworks else []:
        job = start_torch(lab, pythons["torch"], model)
        gradient_bytes, engine = job.begin()
        check(engine, "server")
        found += [Row("PyTorch, " + model, t, {"taut": job}, gradient_bytes) for t in a.times]
    if "tensorflow" in a.frameworks:
        python = pythons["tensorflow"]
        jobs = {"taut": start_tensorflow(lab, python)}
        gradient_bytes, engine = jobs["taut"].begin()
        check(engine, "taut._job_server")
        for partition in a.partitions:
            jobs[partition] = start_strategy(lab, python, partition)
            jobs[partition].begin()
        found += [Row("TensorFlow, vgg", t, jobs, gradient_bytes) for t in a.times]
    return found


def check(engine, expected):
    if not engine.startswith(expected):
        sys.exit(f"server_compare: gradients are summed by {engine}, not by servers")


def text_of(a, rows, turns):
    lines = [
        f"`bench/server_compare.py`, {a.workers} workers, {a.servers} servers, {turns} turns of "
        f"{a.steps} steps.\n",
        measure.machine_lines() + "\n",
        f"| {HEAD} |\n|{'---|' * len(HEAD.split('|'))}",
        *("| " + " | ".join(row.cells(a)) + " |" for row in rows),
        "\nBytePS, as published:\n",
        "| ratio | source | |\n|---|---|---|",
        *(f"| {what} | {source} | {ratio:.2f} |" for what, source, ratio in BYTEPS),
    ]
    return "\n".join(lines)


def measured(a, lab, pythons):
    rows, turns, longest_s = rows_of(a, lab, pythons), 0, 0
    while turns < a.repeats and (not turns or time.monotonic() + longest_s < a.until):
        begin = time.monotonic()
        for row in rows:
            row.turn(a, lab)
        # The first one also tries what is then given up.
        longest_s = time.monotonic() - begin
        turns += 1
    return text_of(a, rows, turns)


def main():
    a = arguments()
    common.taut_of(a)
    pythons = {"torch": runner.find_python(), "tensorflow": tensorflow_python()}
    for name in a.frameworks:
        if not pythons[name]:
            sys.exit(f"server_compare: no interpreter with {name}: see tools/ensure-python")
    try:
        cores = [host % os.cpu_count() for host in range(a.workers + a.servers)]
        net = cluster.Cluster(cores, mbit=SETUP_MBIT)
    except cluster.Unavailable as fault:
        sys.exit(f"server_compare: {fault}")
    with net, tempfile.TemporaryDirectory(prefix="taut-servers-") as folder:
        lab = Lab(a, net, folder)
        try:
            text = measured(a, lab, pythons)
        finally:
            lab.close()
    print(text)
    if a.write:
        page = os.path.join(common.ROOT, "docs", "performance.md")
        common.write_between(page, BEGIN, END, text)


if __name__ == "__main__":
    main()
