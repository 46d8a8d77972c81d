# SPDX-License-Identifier: Apache-2.0
"""bench/mpi_allreduce.py --gpu: all-reduces of a GPU's memory (bench/coll_gpu.c), several
ranks on one device or more. In turns in one run: the bare MPI library with the program
copying to the host and back; Taut by way of the host; Taut by the devices. And what
bench/gpu_rate says of the cache and the kernels."""

import os
import statistics
import subprocess

import common
from coll_compare import say, short

WAYS = {
    "the program copies, bare MPI": ("host", None),
    "Taut, by way of the host": ("device", "* * 1024 taut device\n"),
    "Taut, by the devices": ("device", "* * 1024 peer device\n"),
}


def programs(options, folder):
    found = {}
    for flavour in options.programs:
        found[flavour] = os.path.join(folder, f"gpu_{flavour}")
        words = [f"mpicc.{flavour}", "-O2", "-w", "-o", found[flavour]]
        words += [f"-I{common.ROOT}/src", f"-I{common.ROOT}/include"]
        words += [os.path.join(common.HERE, "coll_gpu.c"), "-ldl"]
        subprocess.run(words, check=True)
    return found


def rate(options):
    """Lines of gpu_rate."""
    program = common.program(
        os.path.join(os.path.abspath(options.build), "bench/gpu_rate"), "build it"
    )
    words = [program, "16" if options.quick else "256"]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return out.splitlines()


def measured(run, options, flavour, program, ranks, sizes, way, folder):
    mode, table = WAYS[way]
    own = {}
    if table:
        path = os.path.join(folder, mode + str(len(table)))
        with open(path, "w", encoding="ascii") as file:
            file.write(table)
        own = {"LD_PRELOAD": options.object, "TAUT_LIB": options.lib}
        own.update(TAUT_MPI_AFTER="0", TAUT_MPI_TABLE=path)
    words = [mode, options.budget_ms, *sorted(sizes, reverse=True)]
    out = run(options, flavour, ranks, program, words, own)
    return {int(size): float(us) for size, us in (line.split() for line in out.splitlines())}


def table_of(flavour, ranks, times):
    lines = [f"**{flavour}, {ranks} ranks, memory of devices, us**", ""]
    lines += ["| size | " + " | ".join(times) + " |", "|---" * (len(times) + 1) + "|"]
    first = next(iter(times.values()))
    for size in sorted(first):
        cells = [f"{statistics.median(of_way[size]):.1f}" for of_way in times.values()]
        lines.append(f"| {short(size)} | " + " | ".join(cells) + " |")
    return lines + [""]


def compare(run, options, sizes, folder):
    text = ["    " + line for line in rate(options)] + [""]
    if "no device" in text[-2]:
        return text
    made = programs(options, folder)
    for flavour, program in ((f, made[f]) for f in options.flavours if f in made):
        for ranks in options.ranks:
            times = {way: {size: [] for size in sizes} for way in WAYS}
            for turn in range(options.turns):
                for way in WAYS:
                    say(f"{flavour}, {ranks} ranks, turn {turn + 1}: {way}")
                    found = measured(run, options, flavour, program, ranks, sizes, way, folder)
                    for size, us in found.items():
                        times[way][size].append(us)
            text += table_of(flavour, ranks, times)
    return text
