#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rounds of push and pull with `taut server`, all on this host: the time of a round,
and the bytes that a worker and a server move in it (docs/server.md has the bound).

    bench/server_rate.py --workers 2 --servers 1 --bytes 32M [--gbit 25]

TAUT is the command and TAUT_LIB the library: build/taut and build/libtaut.so.0 where
they are not set. --gbit: of each machine's link, for the bound."""

import argparse
import array
import importlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time
import types

ROOT = pathlib.Path(__file__).resolve().parents[1]
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def load():
    """taut._server without the rest of the package, which wants a framework."""
    package = types.ModuleType("taut")
    package.__path__ = [str(ROOT / "python/taut")]
    sys.modules["taut"] = package
    return importlib.import_module("taut._server")


def work(rank, options, servers):
    server = load()
    worker = server.Worker(rank, options.workers, servers, part_bytes=options.part)
    data = array.array("f", bytes(options.bytes))
    key = worker.declare("x", server.FLOAT32, len(data))
    times = []
    for _ in range(options.warmup + options.rounds):
        begin = time.monotonic()
        worker.start(key, data.buffer_info()[0])
        worker.wait(key)
        times.append(time.monotonic() - begin)
    worker.leave()
    print(json.dumps(times[options.warmup :]))


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def measure(options):
    servers = ",".join("127.0.0.1:%d" % port for port in free_ports(options.servers))
    env = {**os.environ, "TAUT_SECRET": os.urandom(16).hex()}
    env.setdefault("TAUT_LIB", str(ROOT / "build/libtaut.so.0"))
    taut = os.environ.get("TAUT", str(ROOT / "build/taut"))
    its = []
    for i in range(options.servers):
        args = ["--workers", str(options.workers), "--servers", servers, "--index", str(i)]
        its.append(subprocess.Popen(
            [taut, "server", "--json", *args, *options.more],
            env=env, stdout=subprocess.PIPE, text=True,
        ))
    ranks = [
        subprocess.Popen(
            [sys.executable, sys.argv[0], "--rank", str(rank), "--list", servers, *sys.argv[1:]],
            env=env, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(options.workers)
    ]
    rows = [json.loads(rank.communicate()[0]) for rank in ranks]
    totals = [json.loads(server.communicate()[0]) for server in its]
    return [max(row) for row in zip(*rows)], totals


def read_bytes(text):
    unit = UNITS.get(text[-1:].upper())
    return int(text[:-1]) * unit if unit else int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--bytes", type=read_bytes, default=32 << 20)
    parser.add_argument("--part", type=read_bytes, default=4 << 20)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--gbit", type=float)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--list", help=argparse.SUPPRESS)
    parser.add_argument("more", nargs="*", help="options of taut server, after --")
    options = parser.parse_args()
    options.bytes -= options.bytes % 4
    if options.rank is not None:
        work(options.rank, options, options.list)
        return
    times, totals = measure(options)
    rounds = options.rounds + options.warmup
    median = statistics.median(times)
    print("workers %d, servers %d, %d bytes, %d rounds" % (
        options.workers, options.servers, options.bytes, options.rounds))
    print("round: median %.3f ms, least %.3f ms; %.2f GB/s of a worker each way" % (
        median * 1e3, min(times) * 1e3, options.bytes / median / 1e9))
    for i, total in enumerate(totals):
        print("server %d: %d bytes in and %d out a round" % (
            i, total["pushed_bytes"] // rounds, total["pulled_bytes"] // rounds))
    if options.gbit:
        bound = options.bytes * 8e-9 / options.gbit * max(1, options.workers / options.servers)
        print("bound over %g Gbit/s: %.3f ms" % (options.gbit, bound * 1e3))


if __name__ == "__main__":
    main()
