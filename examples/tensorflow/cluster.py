#!/usr/bin/env python3
"""Runs a script once for each task of a cluster on this machine, with its
TF_CONFIG, and ends when the chief (or else every worker) has.

    cluster.py --workers 2 [--servers 2] SCRIPT [ARG...]

With servers, a chief is added; it is the one that ends."""
import argparse
import json
import os
import socket
import subprocess
import sys


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def tasks_of(options):
    counts = {"worker": options.workers}
    if options.servers:
        counts = {"chief": 1, "worker": options.workers,
                  "ps": options.servers}
    ports = iter(free_ports(sum(counts.values())))
    cluster = {kind: ["127.0.0.1:%d" % next(ports) for _ in range(n)]
               for kind, n in counts.items()}
    for kind, names in cluster.items():
        for index in range(len(names)):
            yield kind, json.dumps({"cluster": cluster, "task": {
                "type": kind, "index": index}})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--servers", type=int, default=0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    started = []
    for kind, config in tasks_of(options):
        env = dict(os.environ, TF_CONFIG=config)
        started.append((kind, subprocess.Popen(
            [sys.executable] + options.command, env=env)))
    leading = [p for kind, p in started
               if kind == ("chief" if options.servers else "worker")]
    codes = [p.wait() for p in leading]
    for _, process in started:
        if process not in leading:
            process.terminate()
            process.wait()
    return max(codes, key=abs)


sys.exit(main())
