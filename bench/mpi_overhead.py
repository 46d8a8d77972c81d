#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libtaut-mpi.so adds to a small MPI call: the same program without it,
with it loaded but not recording, and recording, in turns."""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from measure import machine_lines

HERE = pathlib.Path(__file__).resolve().parent
FLAVOURS = {
    "openmpi": ["--allow-run-as-root", "--oversubscribe"],
    "mpich": [],
}
WAYS = ["without", "loaded", "recording"]


def run(flavour, program, way, library, args):
    """{name: nanoseconds a call}"""
    with tempfile.TemporaryDirectory() as folder:
        env = []
        if way != "without":
            env.append("LD_PRELOAD=%s" % library)
        if way == "recording":
            env.append("TAUT_RECORD=%s" % folder)
            env.append("TAUT_RECORD_EVENTS=%d" % args.events)
        command = ["mpirun." + flavour, *FLAVOURS[flavour], "-n", str(args.ranks)]
        out = subprocess.run(
            command + ["env", *env, program, str(args.calls)],
            capture_output=True,
            text=True,
            check=True,
            env={k: v for k, v in os.environ.items() if k != "TAUT_RECORD"},
        ).stdout
    return {name: float(ns) for name, ns in map(str.split, out.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", default=HERE.parent / "build/libtaut-mpi.so")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--calls", type=int, default=1000, help="in a round")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--events", type=int, default=1 << 20, help="room of a log")
    args = parser.parse_args()
    print(machine_lines())
    library = pathlib.Path(args.library).resolve()
    for flavour in FLAVOURS:
        if not shutil.which("mpicc." + flavour):
            print("%s is not here" % flavour)
            continue
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "mpi_overhead")
            subprocess.run(
                ["mpicc." + flavour, "-O2", "-w", "-o", program, HERE / "mpi_overhead.c"],
                check=True,
            )
            found = {way: [] for way in WAYS}
            for _ in range(args.turns):
                for way in WAYS:
                    found[way].append(run(flavour, program, way, library, args))
        print("| %s, ns a call | without | loaded | recording | adds |" % flavour)
        print("|---|---|---|---|---|")
        for name in found["without"][0]:
            median = [statistics.median(r[name] for r in found[w]) for w in WAYS]
            adds = statistics.median(
                r[name] - w[name]
                for r, w in zip(found["recording"], found["without"])
            )
            print("| %s | %.0f | %.0f | %.0f | %+.0f |" % (name, *median, adds))


if __name__ == "__main__":
    main()
