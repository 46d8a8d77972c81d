# SPDX-License-Identifier: Apache-2.0
"""bench/mpi_allreduce.py --gpu: all-reduces of a GPU's memory (bench/coll_gpu.c), several
ranks on one device or more. In turns in one run: the bare MPI library with the program
copying to the host and back; Taut by way of the host; Taut by the devices. And what
bench/gpu_rate says of the cache and the kernels.

A way that does not work is left out, and why is said; so is one that turns out to go
another way (the devices' memory cannot be shared, there is no NVRTC). NVRTC is
$TAUT_NVRTC, or where CUDA or this Python has it, or where the loader finds it."""

import dataclasses
import glob
import os
import re
import statistics
import subprocess
import sys

import common
from coll_compare import Failed, say, short

LEAST_BYTES = 1024  # below, Taut leaves all to MPI, which may not know devices


@dataclasses.dataclass
class Way:
    mode: str  # of coll_gpu
    table: str = None
    says: str = None  # what Taut says where it goes this way


BARE = "the program copies, bare MPI"
WAYS = {
    BARE: Way("host"),
    "Taut, by way of the host": Way(
        "device", "* * 1024 taut device\n", "by way of the host"
    ),
    "Taut, by the devices": Way(
        "device", "* * 1024 peer device\n", "by the ranks' devices"
    ),
}


def nvrtc():
    """The newest there is, or None: the loader knows where, or there is none."""
    if os.environ.get("TAUT_NVRTC"):
        return os.environ["TAUT_NVRTC"]
    folders = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib"]
    folders += [os.path.join(folder, "nvidia/*/lib") for folder in sys.path if folder]
    found = [path for folder in folders for path in glob.glob(folder + "/libnvrtc.so.1*")]

    def version(path):
        return [int(n) for n in re.findall(r"\d+", os.path.basename(path))]

    return max(found, key=version, default=None)


def own_nvrtc():
    path = nvrtc()
    return {"TAUT_NVRTC": path} if path else {}


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
    """Lines of gpu_rate, and the one that says what it lacks."""
    program = common.program(
        os.path.join(os.path.abspath(options.build), "bench/gpu_rate"), "build it"
    )
    words = [program]
    env = dict(os.environ, **own_nvrtc())
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    lines = done.stdout.splitlines()
    if done.returncode:
        lines.append(f"it ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return lines


def times_in(out, says):
    """{bytes: us} of the lines "bytes median", if Taut says that it goes that way."""
    notes = [line for line in out.splitlines() if line.startswith("taut: ")]
    if says and not any(says in note for note in notes):
        raise Failed(notes[0] if notes else "Taut did not take the calls")
    rows = re.findall(r"^(\d+) (\d+\.\d+)$", out, re.MULTILINE)
    return {int(size): float(us) for size, us in rows}


def measured(run, options, flavour, program, ranks, sizes, way, folder):
    own = {}
    if way.table:
        path = os.path.join(folder, way.table.split()[3])
        with open(path, "w", encoding="ascii") as file:
            file.write(way.table)
        own = {"LD_PRELOAD": options.object, "TAUT_LIB": options.lib, "TAUT_MPI_SAY": "1"}
        own.update(TAUT_MPI_AFTER="0", TAUT_MPI_TABLE=path, **own_nvrtc())
    words = [way.mode, options.budget_ms, *sorted(sizes, reverse=True)]
    out = run(options, flavour, ranks, program, words, own, errors=subprocess.STDOUT)
    return times_in(out, way.says)


def in_turns(options, title, sizes, measure):
    """({way: {bytes: [us of each turn]}}, {way: why it is left out})"""
    times = {name: {size: [] for size in sizes} for name in WAYS}
    faults = {}
    for turn in range(options.turns):
        for name in [name for name in WAYS if name not in faults]:
            say(f"{title}, turn {turn + 1}: {name}")
            try:
                for size, us in measure(WAYS[name]).items():
                    times[name][size].append(us)
            except Failed as fault:
                faults[name] = str(fault)
                say(f"  {fault}")
    return times, faults


def cell(us):
    return f"{us:.1f}" if us else "-"


def table_of(title, times, faults):
    """us; last, the time of the program that copies over the best of Taut's."""
    lines = [f"**{title}, memory of devices, us**", ""]
    lines += ["| size | " + " | ".join(times) + " | copies / Taut |"]
    lines += ["|---" * (len(times) + 2) + "|"]
    for size in sorted(times[BARE]):
        row = {
            name: statistics.median(of_way[size]) if of_way[size] else None
            for name, of_way in times.items()
        }
        taut = min((us for name, us in row.items() if us and name != BARE), default=None)
        ratio = f"{row[BARE] / taut:.2f}" if taut and row[BARE] else "-"
        cells = " | ".join(cell(us) for us in row.values())
        lines.append(f"| {short(size)} | {cells} | {ratio} |")
    lines += [""] + [f"- {name} is left out: {why}" for name, why in faults.items()]
    return lines + [""]


def compare(run, options, sizes, folder):
    """Lines, as soon as there are some: who is cut off keeps what was measured."""
    found = rate(options)
    yield ["    " + line for line in found] + [""]
    if any("no device" in line for line in found):
        return
    sizes = [size for size in sizes if size >= LEAST_BYTES]
    made = programs(options, folder)
    for flavour in [f for f in options.flavours if f in made]:
        for ranks in options.ranks:
            title = f"{flavour}, {ranks} ranks"

            def measure(way, flavour=flavour, ranks=ranks):
                program = made[flavour]
                return measured(run, options, flavour, program, ranks, sizes, way, folder)

            yield table_of(title, *in_turns(options, title, sizes, measure))
