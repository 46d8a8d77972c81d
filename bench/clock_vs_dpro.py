#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""How well are the clocks of hosts found? dPRO's published alignment and Taut's, on the same synthetic truth.

Hosts in a ring all-reduce chunk by chunk, several rounds a second. Each host has a clock with a known offset and a
known drift; the latency of each way of each link, jitter and lateness of hosts are drawn from a seed. What both see is the same: sends
and receives with the stamps of their hosts' clocks. Taut sees in addition what its recorder measures: an exchange of
64 datagrams with host 0 before and after, over the same links, of which the fastest counts.

  dPRO default   SYNC_MODE=0, what its code does as shipped: one Sync event a round is taken for one instant
  dPRO paper     its objective: least variance of the durations of each receive (those longer than 1.5 medians clipped
                 to begin with their send) subject to no receive before its send, one constant offset a host; solved
                 exactly as a quadratic program
  dPRO minimal   its mode 1: least sum of squared offsets subject to the same bounds
  Taut graph     `taut report` on the logs without the exchange: what sends and receives alone tell it
  Taut           the same with the exchange

Printed: the largest error of a clock over the whole recording and all hosts, and how many receives end before their
send has begun on the found clocks. Needs cvxpy: python3 -m venv V && V/bin/pip install cvxpy; run it with V/bin/python.
"""

import argparse
import json
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common

EPOCH_NS = 1_700_000_000_000_000_000
KIND_COMM = 12
COMM_RECORD = 4


# --- the truth ------------------------------------------------------------------------------------------------------


class Truth:
    """Offsets, drifts and what happened, in true microseconds."""

    def __init__(self, scene, seed):
        self.scene = scene
        rng = self.rng = random.Random(seed)
        n = self.hosts = scene["hosts"]
        self.offset_us = [0.0] + [rng.uniform(-scene["offset_us"], scene["offset_us"]) for _ in range(n - 1)]
        self.drift_ppm = [0.0] + [rng.uniform(-scene["drift_ppm"], scene["drift_ppm"]) for _ in range(n - 1)]
        # each way of each link has a latency of its own, which nobody is told
        self.latency_us = {
            (i, k): scene["latency_us"] * rng.uniform(0.8, 1.4) for i in range(n) for k in range(n) if i != k
        }
        self.transfers = []  # (send begin, send end, receive begin, receive end, source, chunk of the round, round)
        self.syncs = []  # per round: the instant at which each host sees the Sync event
        at = 1000.0
        while at < scene["seconds"] * 1e6:
            at = self.ring(at, len(self.syncs)) + scene["pause_us"]
        self.exchanges = [self.exchange(h, t) for h in range(1, n) for t in (0.0, scene["seconds"] * 1e6)]

    def delay(self, source, to):
        """One way over a link: never less than its latency."""
        return self.latency_us[source, to] + self.rng.expovariate(1 / self.scene["jitter_us"])

    def ring(self, at, number):
        """One all-reduce: 2 (n - 1) chunks round the ring. Returns when it is done."""
        n, scene = self.hosts, self.scene
        ready = [at + self.rng.expovariate(1 / scene["late_us"]) for _ in range(n)]
        told = max(ready)
        self.syncs.append([told + (self.delay(0, host) if host else 0) for host in range(n)])
        free = list(self.syncs[-1])
        for chunk in range(2 * (n - 1)):
            after = list(free)
            for source in range(n):
                to = (source + 1) % n
                send = free[source]
                sent = send + scene["chunk_us"]
                arrive = sent + self.delay(source, to)
                posted = free[to]
                end = max(arrive, posted + 1)
                self.transfers.append((send, sent, posted, end, source, chunk, number))
                after[to] = max(after[to], end)
            free = [max(a, f) + self.rng.uniform(1, 5) for a, f in zip(after, free)]
        return max(free)

    def exchange(self, host, at):
        """The fastest of 64 questions to host 0: (host, own time, offset found, half the round trip)."""
        best = None
        for _ in range(64):
            out, back = self.delay(host, 0), self.delay(0, host)
            asked, answered = self.clock(host, at), self.clock(0, at + out)
            heard = self.clock(host, at + out + back)
            if best is None or heard - asked < 2 * best[3]:
                best = (host, (asked + heard) / 2, answered - (asked + heard) / 2, (heard - asked) / 2)
            at += out + back + 20
        return best

    def clock(self, host, at):
        """What the host's clock shows at a true instant."""
        return at + self.offset_us[host] + self.drift_ppm[host] * at / 1e6

    def seen(self):
        """Transfers as the hosts' clocks stamp them."""
        for send, sent, posted, end, source, chunk, number in self.transfers:
            to = (source + 1) % self.hosts
            yield (
                self.clock(source, send),
                self.clock(source, sent),
                self.clock(to, posted),
                self.clock(to, end),
                source,
                to,
                chunk,
                number,
            )

    def judge(self, correction):
        """correction(host, local us) -> common us. (largest error in us, receives before their sends).

        A common shift of all hosts is no error: errors are counted from host 0's.
        """
        worst = 0.0
        for i in range(21):
            at = self.scene["seconds"] * 1e6 * i / 20
            base = correction(0, self.clock(0, at)) - at
            for host in range(1, self.hosts):
                worst = max(worst, abs(correction(host, self.clock(host, at)) - at - base))
        before = sum(
            correction(to, end) < correction(source, send) for send, _, _, end, source, to, _, _ in self.seen()
        )
        return worst, before


# --- dPRO -----------------------------------------------------------------------------------------------------------


def dpro_default(truth):
    """SYNC_MODE=0: the Sync event of a round happens at one instant on all hosts; the mean difference counts."""
    theta = [0.0] * truth.hosts
    for host in range(1, truth.hosts):
        theta[host] = statistics.fmean(
            truth.clock(0, sync[0]) - truth.clock(host, sync[host]) for sync in truth.syncs
        )
    return lambda host, local: local + theta[host]


def bounds(truth):
    """Per pair (source, to): the least theta_to - theta_source for which no receive ends before its send has ended."""
    least = {}
    for _, sent, _, end, source, to, _, _ in truth.seen():
        least[source, to] = max(least.get((source, to), -1e18), sent - end)
    return least


def solve(cvxpy, truth, objective_of):
    theta = cvxpy.Variable(truth.hosts)
    rules = [theta[0] == 0]
    rules += [theta[to] - theta[source] >= low for (source, to), low in bounds(truth).items()]
    problem = cvxpy.Problem(cvxpy.Minimize(objective_of(theta)), rules)
    problem.solve()
    if problem.status not in ("optimal", "optimal_inaccurate"):
        return None  # no constant offsets satisfy all pairs: the clocks drift
    found = [float(x) for x in theta.value]
    return lambda host, local: local + found[host]


def dpro_minimal(cvxpy, truth):
    return solve(cvxpy, truth, cvxpy.sum_squares)


def dpro_paper(cvxpy, truth):
    ops = {}
    for send, _, posted, end, source, to, chunk, _ in truth.seen():
        ops.setdefault((source, to, chunk), []).append((send, posted, end))

    def objective(theta):
        total = 0
        for (source, to, _), samples in ops.items():
            usual = statistics.median(end - posted for _, posted, end in samples)
            terms = []
            for send, posted, end in samples:
                if end - posted > 1.5 * usual:
                    terms.append(end - send + theta[to] - theta[source])
                else:
                    terms.append(end - posted)
            stacked = cvxpy.hstack(terms)
            total = total + cvxpy.sum_squares(stacked - cvxpy.sum(stacked) / len(terms)) / len(terms)
        return total

    return solve(cvxpy, truth, objective)


# --- Taut -----------------------------------------------------------------------------------------------------------


class Log:
    """An event log (src/base/log_format.h)."""

    def __init__(self, rank, world):
        self.rank, self.world, self.records, self.texts = rank, world, [], {}

    def text(self, text):
        if text not in self.texts:
            self.texts[text] = len(self.texts) + 1
            data = text.encode()
            head = struct.pack("<IIqqqIII", 1, self.texts[text], 0, 0, 0, 0, 0, len(data))
            self.records += [head.ljust(128, b"\0"), data.ljust(128, b"\0")]
        return self.texts[text]

    def comm(self, name, start_us, end_us, source, to):
        what, group, dtype = self.text(name), self.text("ring"), self.text("Byte")
        start, end = (EPOCH_NS + round(t * 1000) for t in (start_us, end_us))
        self.records.append(
            struct.pack("<IIqqqII", COMM_RECORD, what, start, max(start, end), self.rank + 1, KIND_COMM, 0)
            + struct.pack("<IIIIqqqiiii", what, group, 0, dtype, 65536, 65536, -1, self.world, source, to, -1)
        )
        self.records[-1] = self.records[-1].ljust(128, b"\0")

    def clock(self, at_us, offset_us, half_us):
        at = EPOCH_NS + round(at_us * 1000)
        record = struct.pack("<IIqqqIIqq", 6, 0, at, at, 0, 0, 0, round(offset_us * 1000), round(half_us * 1000))
        self.records.append(record.ljust(128, b"\0"))

    def write(self, path):
        n = len(self.records)
        header = struct.pack("<8sIIiiiiQQqq", b"TAUTLOG1", 4096, 128, self.rank, self.world, 0, self.rank + 1, n, n, 1, 1)
        header += b"bench".ljust(32, b"\0") + f"host{self.rank}".encode().ljust(64, b"\0")
        with open(path, "wb") as out:
            out.write(header.ljust(4096, b"\0") + b"".join(self.records))


def taut(command, truth, exchanged):
    """The clocks that `taut report` finds, from logs as the recorder writes them."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Log(rank, truth.hosts) for rank in range(truth.hosts)]
        for send, sent, posted, end, source, to, _, _ in truth.seen():
            logs[source].comm("send", send, sent, source, to)
            logs[to].comm("recv", posted, end, source, to)
        for host, at, offset, half in truth.exchanges if exchanged else []:
            logs[host].clock(at, offset, half)
        for log in logs:
            log.write(os.path.join(folder, f"rank{log.rank}.tautlog"))
        out = subprocess.run([command, "report", "--json", folder], check=True, capture_output=True, text=True).stdout
    report = json.loads(out)
    rows = {row["rank"]: row for row in report["clock"]}
    origin_us = (report["clock_origin_ns"] - EPOCH_NS) / 1000

    def correction(host, local):
        row = rows[host]
        return local + row["offset_us"] + row["drift_ppm"] * (local - origin_us) / 1e6

    return correction


# --- the table ------------------------------------------------------------------------------------------------------

USUAL = {
    "hosts": 4, "seconds": 10, "pause_us": 250_000, "offset_us": 5000, "drift_ppm": 0, "latency_us": 25,
    "jitter_us": 10, "late_us": 2000, "chunk_us": 50,
}
SCENES = [
    ("calm network, no drift", {}),
    ("drift up to 20 ppm", {"drift_ppm": 20}),
    ("drift up to 50 ppm, 60 s", {"drift_ppm": 50, "seconds": 60, "pause_us": 1_500_000}),
    ("jitter 200 us, drift 20 ppm", {"drift_ppm": 20, "jitter_us": 200}),
    ("16 hosts, drift 20 ppm", {"hosts": 16, "drift_ppm": 20, "pause_us": 1_000_000}),
]


def measure(cvxpy, command, scene, seeds):
    """{way: [(error in us, receives before sends) or None a seed]}"""
    found = {}
    for seed in seeds:
        truth = Truth(scene, seed)
        ways = {
            "none": lambda host, local: local,
            "dPRO default": dpro_default(truth),
            "dPRO minimal": dpro_minimal(cvxpy, truth),
            "dPRO paper": dpro_paper(cvxpy, truth),
            "Taut graph": taut(command, truth, False),
            "Taut": taut(command, truth, True),
        }
        for way, correction in ways.items():
            found.setdefault(way, []).append(correction and truth.judge(correction))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"), help="default: build/taut")
    parser.add_argument("--seeds", type=int, default=5, help="truths a row; the median is printed (default 5)")
    options = parser.parse_args()
    try:
        import cvxpy
    except ImportError:
        sys.exit("clock_vs_dpro.py: needs cvxpy: python3 -m venv V && V/bin/pip install cvxpy, then V/bin/python")
    command = common.taut_of(options)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, seeds 1-{options.seeds}; median of the")
    print("largest clock error in us (median of receives that end before their send begins)\n")
    print("| truth | " + " | ".join(("none", "dPRO default", "dPRO minimal", "dPRO paper", "Taut graph", "Taut")) + " |")
    print("|---|" + "---|" * 6)
    for name, change in SCENES:
        found = measure(cvxpy, command, {**USUAL, **change}, range(1, options.seeds + 1))
        cells = []
        for results in found.values():
            solved = [r for r in results if r]
            if len(solved) < len(results):
                cells.append(f"no solution in {len(results) - len(solved)} of {len(results)}")
            else:
                error = statistics.median(r[0] for r in solved)
                cells.append(f"{error:.1f} ({statistics.median(r[1] for r in solved):.0f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
