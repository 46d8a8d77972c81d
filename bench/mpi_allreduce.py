#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPI_Allreduce of an unchanged program (bench/coll_mpi.c), bare and with Taut's object
before the MPI library, in turns in one run: float32, sum, in place; medians over the
turns of each turn's median. And what a call costs that stays with MPI, in ns.

--tune FILE measures, in the same turns, the program with every size Taut's, and
writes the table for TAUT_MPI_TABLE: Taut's where it took at most 0.98 of the bare time.
A table holds for the library and the host that it was measured on.

--gpu measures memory of GPUs instead (bench/mpi_gpu.py).

Ranks are on this host, a core each. About 4 minutes; --quick: 1."""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile

import coll_compare
import common
import mpi_gpu
from coll_compare import Failed, plain_environment, say, short, sizes_of, spoken, table_of
from measure import machine_lines

NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
LAUNCH = {
    "openmpi": ["--allow-run-as-root", "--bind-to", "core"],
    "mpich": ["-bind-to", "core"],
}
BETTER = 0.98  # of the bare time: less is noise
WORSE = 1.02
LEAST_BYTES = 1024  # below, the object leaves all to MPI


def environment(options, table):
    """Of the preloaded program; it is Taut's from the first large sums on."""
    own = {"LD_PRELOAD": options.object, "TAUT_LIB": options.lib, "TAUT_MPI_AFTER": "0"}
    if table:
        own["TAUT_MPI_TABLE"] = table
    return own


def run(options, flavour, ranks, program, words, own, errors=subprocess.PIPE):
    env = plain_environment()
    command = [f"mpirun.{flavour}", *LAUNCH[flavour], "-n", str(ranks)]
    command += ["env", *(f"{k}={v}" for k, v in own.items()), program, *map(str, words)]
    process = subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=errors
    )
    return spoken(process)


def measured(options, flavour, ranks, sizes, own):
    """{bytes: us}. The largest first: they bring the ranks to their agreement."""
    words = [options.budget_ms, *sorted(sizes, reverse=True)]
    return table_of(run(options, flavour, ranks, options.programs[flavour], words, own))


def passing(options, flavour, own):
    out = run(options, flavour, 1, options.passing[flavour], [], own)
    return {name: float(ns) for name, ns in (line.split() for line in out.splitlines())}


def in_turns(options, flavour, ranks, sizes, forced):
    """{way: {bytes: [us of each turn]}}"""
    ways = {"bare": {}, "taut": environment(options, options.table)}
    if options.tune:
        ways["forced"] = environment(options, forced)
    times = {way: {size: [] for size in sizes} for way in ways}
    for turn in range(options.turns):
        for way in list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]:
            say(f"{NAMES[flavour]}, {ranks} ranks, turn {turn + 1}: {way}")
            for size, us in measured(options, flavour, ranks, sizes, ways[way]).items():
                times[way][size].append(us)
    return times


def medians(times):
    return {size: statistics.median(all_us) for size, all_us in times.items() if all_us}


def rows_of(ranks, bare, forced):
    """Lines of a table: whose the calls are, from so many bytes on. Between two sizes
    that were measured, the middle of their logarithms parts."""
    rows, before, holds = [], None, "mpi"
    for size in sorted(bare):
        who = "taut" if size >= LEAST_BYTES and forced[size] <= BETTER * bare[size] else "mpi"
        if who != holds:
            start = round(math.sqrt(before * size)) if before else 0
            rows.append(f"{ranks:>7} {1:>5} {start:>10} {who}")
        before, holds = size, who
    return rows


def comparison(flavour, ranks, bare, taut):
    lines = [f"**{NAMES[flavour]}, {ranks} ranks, one host**", ""]
    lines += ["| size | bare, us | with Taut, us | bare / Taut |", "|---|---|---|---|"]
    for size in sorted(bare):
        mark = " slower" if taut[size] > WORSE * bare[size] else ""
        lines.append(
            f"| {short(size)} | {bare[size]:.2f} | {taut[size]:.2f} | "
            f"{bare[size] / taut[size]:.2f}{mark} |"
        )
    return lines + [""]


def passed(options, flavour):
    """The fastest of some processes each, by turns."""
    ways = {"bare": {}, "taut": environment(options, options.table)}
    least = {way: {} for way in ways}
    for _ in range(options.turns):
        for way, own in ways.items():
            for name, ns in passing(options, flavour, own).items():
                least[way][name] = min(ns, least[way].get(name, math.inf))
    lines = [f"| {NAMES[flavour]}, ns | bare | with Taut |", "|---|---|---|"]
    words = {"one": "MPI_Allreduce, 1 element", "looked_at": "256 elements", "test": "MPI_Test"}
    for name, text in words.items():
        lines.append(f"| {text} | {least['bare'][name]:.0f} | {least['taut'][name]:.0f} |")
    return lines + [""]


def compile_passing(options, folder):
    options.passing = {}
    for flavour in options.programs:
        options.passing[flavour] = os.path.join(folder, f"pass_{flavour}")
        source = os.path.join(common.HERE, "mpi_pass.c")
        words = [f"mpicc.{flavour}", "-O2", "-o", options.passing[flavour], source]
        subprocess.run(words, check=True)


def parsed():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--build", default=os.path.join(common.ROOT, "build"))
    p.add_argument("--flavours", type=lambda t: t.split(","), default=list(NAMES))
    p.add_argument("--ranks", type=lambda t: [int(n) for n in t.split(",")], default=[2, 4])
    p.add_argument("--sizes", help="default: 64:64M:4")
    p.add_argument("--turns", type=int, help="default: 5")
    p.add_argument("--table", help="for TAUT_MPI_TABLE (default: what is built in)")
    p.add_argument("--tune", metavar="FILE", help="write a table")
    p.add_argument("--gpu", action="store_true", help="memory of GPUs")
    p.add_argument("--quick", action="store_true", help="fewer sizes and turns")
    options = p.parse_args()
    options.sizes = options.sizes or ("64:16M:16" if options.quick else "64:64M:4")
    options.turns = options.turns or (2 if options.quick else 5)
    options.budget_ms = 30 if options.quick else 60
    build = os.path.abspath(options.build)
    how = "build it, or name the folder with --build"
    options.object = common.program(os.path.join(build, "libtaut-mpi-coll.so"), how)
    options.lib = common.program(os.path.join(build, "libtaut.so.0"), how)
    options.table = options.table and os.path.abspath(options.table)
    return options


def main():
    options = parsed()
    sizes = sizes_of(options.sizes)
    text = [f"`bench/mpi_allreduce.py`, {options.turns} turns.", "", machine_lines(), ""]
    with tempfile.TemporaryDirectory() as folder:
        coll_compare.compiled(options, folder)
        if options.gpu:
            print("\n".join(text), flush=True)
            for lines in mpi_gpu.compare(run, options, sizes, folder):
                print("\n".join(lines), flush=True)
            return
        compile_passing(options, folder)
        forced = os.path.join(folder, "forced")
        with open(forced, "w", encoding="ascii") as file:
            file.write("* * 0 taut\n")
        for flavour in [f for f in options.flavours if f in options.programs]:
            rows = [f"# {NAMES[flavour]}", "# ranks hosts from_bytes who"]
            text += passed(options, flavour)
            for ranks in options.ranks:
                times = in_turns(options, flavour, ranks, sizes, forced)
                found = {way: medians(of_way) for way, of_way in times.items()}
                text += comparison(flavour, ranks, found["bare"], found["taut"])
                if options.tune:
                    rows += rows_of(ranks, found["bare"], found["forced"])
            if options.tune:
                path = options.tune
                if len(options.flavours) > 1:
                    path += "." + flavour
                with open(path, "w", encoding="ascii") as file:
                    file.write("\n".join(rows) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    try:
        main()
    except Failed as fault:
        sys.exit(f"mpi_allreduce: {fault}")
