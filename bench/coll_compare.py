#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce of Taut beside Open MPI, MPICH and Gloo: float32, sum, in place, the
same sizes, in turns in one run; medians over the turns of each turn's median.

  host      ranks on this host, a core each
  lab       ranks in network namespaces (root), unshaped links
  shaped    the same, links of --mbit

Every setting of an MPI library that is tried is named; at each size the library
counts with the best of them: first all are tried briefly, then those, three at most,
that were best at some size are measured in the turns. Gloo is PyTorch's process group, as a job has it:
set TAUT_TORCH_PYTHON. Beside small messages stands what the engine's own
messages of that size cost: lg n halves of a round trip (build/bench/coll_pingpong),
measured in each turn too.

One host: about 15 minutes on a quiet machine. --quick: 3. Between hosts:
`--places lab,shaped --ranks 2,3,4 --minutes 12`; each place then has an equal share of the
minutes, and turns end, after the first, when it is spent. --write puts the tables
into docs/performance.md."""

import argparse
import json
import math
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import common
from measure import machine_lines

sys.path.insert(0, os.path.join(common.HERE, "lab"))
import cluster
import runner

DOC = os.path.join(common.ROOT, "docs", "performance.md")
PLACES_OF_DOC = {"table": ("host",), "between": ("lab", "shaped")}  # by the comments there
PAYLOAD = 1448 / 1514  # of an Ethernet frame of TCP over IPv4 with timestamps
LARGEST_TRIAL = 16 << 20
MOST_KEPT = 3
SMALL = 1024  # bytes: up to here the engine's own messages stand beside
LIMIT_S = 90  # of one process
PORTS = iter(range(31000, 32000))

TUNED = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm"]
# It steps back for networks that it was not made for, unless told that any will do.
UCX = "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any".split()
OPENMPI = {
    "default": [],
    "pml ob1": ["--mca", "pml", "ob1"],
    "pml ucx": UCX,
    "coll sm": ["--mca", "coll_sm_priority", "100"],
    "recursive doubling": [*TUNED, "3"],
    "ring": [*TUNED, "4"],
    "segmented ring": [*TUNED, "5"],
    "Rabenseifner": [*TUNED, "6"],
}
OPENMPI_LAB = {name: words for name, words in OPENMPI.items() if name != "coll sm"}
OPENMPI_LAB["pml ucx"] = [*UCX, "-x", "UCX_TLS=tcp,self", "-x", "UCX_NET_DEVICES=eth0"]
MPICH = {
    "default": {},
    "recursive doubling": {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "recursive_doubling"},
    "Rabenseifner": {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "reduce_scatter_allgather"},
}


class Failed(Exception):
    """A program that ended badly, with the end of what it said."""


def sizes_of(text):
    """"4:256M:4,32M" as bytes, in order."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = set()
    for word in text.split(","):
        numbers = [int(part.rstrip("KMG")) * units.get(part[-1], 1) for part in word.split(":")]
        first, last, factor = (*numbers, *(numbers[0], 4)[len(numbers) - 1 :])[:3]
        while first <= last:
            sizes.add(first)
            first *= factor
    return sorted(sizes)


def short(size):
    for unit in ("", "K", "M"):
        if size < 1024 or size % 1024:
            break
        size //= 1024
    else:
        unit = "G"
    return f"{size} {unit}B"


def spoken(process, limit_s=LIMIT_S):
    """What the process printed; those that are told to end are waited for."""
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failed(f"{process.args[0]}: nothing within {limit_s} s") from None
    if process.returncode:
        raise Failed(f"{' '.join(map(str, process.args[:3]))}: {(err or out or '').strip()[-300:]}")
    return out


def table_of(out):
    """{bytes: median in us} of lines "bytes median least p90"."""
    rows = [line.split() for line in out.splitlines()]
    return {int(r[0]): float(r[1]) for r in rows if len(r) == 4 and r[0].isdigit()}


# --- where ranks run ------------------------------------------------------------------


class Host:
    """All ranks on this host."""

    mpich_env = {}

    def __init__(self, options, ranks):
        self.options, self.ranks = options, ranks

    def start(self, _, words, env):
        return subprocess.Popen(
            words, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def address(self, _):
        return "127.0.0.1"

    def openmpi(self, words):
        return ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "core", *words]

    def mpich(self):
        return ["mpirun.mpich", "-bind-to", "core"]

    def close(self):
        pass


class Lab:
    """A rank a network namespace."""

    # Debian's MPICH stands on UCX, which finds that these hosts share memory.
    mpich_env = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}

    def __init__(self, options, ranks, mbit=None):
        self.options, self.ranks, self.mbit = options, ranks, mbit
        self.net = cluster.Cluster(range(ranks), mbit or 1000)
        if not mbit:
            self.unshape()
        self.remote_shell = self.write_remote_shell()

    def unshape(self):
        for host in range(self.ranks):
            name = self.net.space(host)
            cluster.run(*f"tc -n {name} qdisc del dev eth0 root".split())
            name = self.net.space("net")
            cluster.run(*f"tc -n {name} qdisc del dev port{host} root".split())

    def write_remote_shell(self):
        """What mpirun calls in place of ssh: HOST COMMAND..."""
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "remote-shell")
        first = min(min(self.net.cores))
        with open(path, "w", encoding="ascii") as file:
            file.write(
                "#!/bin/sh\n"
                'while [ "${1#-}" != "$1" ]; do shift; done\n'
                'host=$((${1##*.} - 1)); shift\n'
                f'exec ip netns exec {self.net.name}-$host unshare --uts sh -c '
                "'hostname \"$0\" && exec \"$@\"' host$host "
                f'taskset -c $(($host + {first})) sh -c "$*"\n'
            )
        os.chmod(path, 0o755)
        return path

    def start(self, rank, words, env):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return self.net.start(rank, words, env=env, **pipes)

    def address(self, rank):
        return self.net.address(rank)

    def hosts(self):
        return ",".join(self.address(rank) for rank in range(self.ranks))

    def openmpi(self, words):
        return [
            "mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none",
            "--mca", "plm_rsh_agent", self.remote_shell, "--host", self.hosts(),
            "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "eth0",
            "--mca", "oob_tcp_if_include", "eth0", *words,
        ]

    def mpich(self):
        return [
            "mpirun.mpich", "-launcher", "ssh", "-launcher-exec", self.remote_shell,
            "-hosts", self.hosts(), "-iface", "eth0",
        ]

    def close(self):
        self.net.close()
        self.folder.cleanup()


# --- who is measured --------------------------------------------------------------------


def plain_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(("TAUT_", "RANK", "WORLD"))}


def finish(processes):
    """What the first printed; all must end well."""
    try:
        outs = [spoken(p) for p in processes]
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()
                p.communicate()
    return outs[0]


def run_taut(place, sizes, budget_ms, setting):
    del budget_ms, setting  # it takes about 300 ms a size
    o = place.options
    words = [o.taut, "bench", "allreduce", "--json", "--in-place"]
    words += ["--sizes", ",".join(map(str, sizes))]
    env = {**plain_environment(), **o.taut_env}
    if isinstance(place, Host):
        out = finish([place.start(0, [*words, "--ranks", str(place.ranks)], env)])
    else:
        env["TAUT_SECRET"] = secrets.token_hex(16)
        env["TAUT_MEET"] = f"{place.address(0)}:{next(PORTS)}"
        env["TAUT_RANKS"] = str(place.ranks)
        ranks = range(place.ranks)
        out = finish([place.start(r, words, {**env, "TAUT_RANK": str(r)}) for r in ranks])
    return {row["bytes"]: row["time_us"] for row in json.loads(out)["rows"]}


def run_openmpi(place, sizes, budget_ms, setting):
    tried = OPENMPI if isinstance(place, Host) else OPENMPI_LAB
    words = place.openmpi(tried[setting]) + ["-n", str(place.ranks)]
    words += [place.options.programs["openmpi"], str(budget_ms), *map(str, sizes)]
    return table_of(finish([place.start(0, words, plain_environment())]))


def run_mpich(place, sizes, budget_ms, setting):
    words = place.mpich() + ["-n", str(place.ranks)]
    words += [place.options.programs["mpich"], str(budget_ms), *map(str, sizes)]
    env = {**plain_environment(), **MPICH[setting], **place.mpich_env}
    return table_of(finish([place.start(0, words, env)]))


def run_gloo(place, sizes, budget_ms, setting):
    del setting
    script = os.path.join(common.HERE, "coll_gloo.py")
    words = [place.options.python, script, str(budget_ms), *map(str, sizes)]
    env = {
        **plain_environment(),
        "WORLD_SIZE": str(place.ranks),
        "MASTER_ADDR": place.address(0),
        "MASTER_PORT": str(next(PORTS)),
        "GLOO_SOCKET_IFNAME": "lo" if isinstance(place, Host) else "eth0",
        "OMP_NUM_THREADS": "1",
    }
    ranks = range(place.ranks)
    return table_of(finish([place.start(r, words, {**env, "RANK": str(r)}) for r in ranks]))


def peers_of(place):
    """[(name, function, settings)] of those that are here."""
    o = place.options
    peers = [("Taut", run_taut, ["default"])]
    if "openmpi" in o.programs:
        tried = OPENMPI if isinstance(place, Host) else OPENMPI_LAB
        peers.append(("Open MPI", run_openmpi, list(tried)))
    if "mpich" in o.programs:
        peers.append(("MPICH", run_mpich, list(MPICH)))
    if o.python:
        peers.append(("Gloo", run_gloo, ["default"]))
    return [p for p in peers if p[0] in o.peers or p[0] == "Taut"]


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def worth(place, name, run, settings, sizes):
    """The settings, at most MOST_KEPT, that are the best at most sizes in a brief
    trial; and those that failed, with why."""
    if len(settings) == 1:
        return settings, {}
    found, failed = {}, {}
    largest = LARGEST_TRIAL if not getattr(place, "mbit", None) else LARGEST_TRIAL >> 4
    sizes = [size for size in sizes if size <= largest]
    for setting in settings:
        try:
            found[setting] = run(place, sizes, place.options.trial_ms, setting)
        except Failed as fault:
            failed[setting] = str(fault)
            say(f"  {name}, {setting}: {fault}")
    if not found:
        raise Failed(f"{name}: no setting works: {failed}")
    won = dict.fromkeys(settings, 0)
    for size in sizes:
        won[min(found, key=lambda setting: found[setting].get(size, math.inf))] += 1
    # What is best for the largest is best for what is larger still, and counts.
    won[min(found, key=lambda setting: found[setting].get(sizes[-1], math.inf))] += len(sizes)
    most = sorted((s for s in settings if won[s]), key=lambda s: -won[s])
    return most[:MOST_KEPT], failed


def kind_of(place):
    if isinstance(place, Host):
        return "host"
    return "shaped" if place.mbit else "lab"


class Outcome:
    def __init__(self, place):
        self.ranks, self.mbit = place.ranks, getattr(place, "mbit", None)
        self.kind = kind_of(place)
        self.times = {}  # name: {setting: {bytes: [us of each turn]}}
        self.failed = {}
        self.trips = {}  # bytes: [us of half a round trip, of each turn]
        self.turns = 0
        self.load = os.getloadavg()[0]

    def median(self, name, size):
        """(us, setting) with the setting that is best here."""
        of_settings = [
            (statistics.median(by_size[size]), setting)
            for setting, by_size in self.times.get(name, {}).items()
            if by_size.get(size)
        ]
        return min(of_settings, default=(math.nan, ""))

    def half_trip_us(self, size):
        return statistics.median(self.trips[size]) if self.trips.get(size) else None

    def best_peer(self, size):
        peers = [(self.median(n, size)[0], n) for n in self.times if n != "Taut"]
        return min((p for p in peers if p[0] == p[0]), default=(math.nan, "none"))


def half_trips(place, sizes):
    """{bytes: microseconds of a message} over the engine alone."""
    program = place.options.pingpong
    # Between hosts, what short messages go by there.
    engine = "shm" if isinstance(place, Host) else "tcp"
    words = [program, engine, ",".join(str(s) for s in sizes if s <= SMALL)]
    env = {**plain_environment(), "TAUT_SECRET": secrets.token_hex(16)}
    if isinstance(place, Host):
        out = finish([place.start(0, words, env)])
    else:
        meet = f"{place.address(0)}:{next(PORTS)}"
        out = finish([place.start(rank, [*words, str(rank), meet], env) for rank in range(2)])
    rows = [line.split() for line in out.splitlines()]
    return {int(row[0]): float(row[1]) for row in rows if row and row[0].isdigit()}


def note_trips(place, sizes, outcome):
    try:
        for size, us in half_trips(place, sizes).items():
            outcome.trips.setdefault(size, []).append(us)
    except Failed as fault:
        say(f"  round trips: {fault}")


def compare(place, sizes, end):
    """end: time.monotonic() after which no turn but the first begins; None: never."""
    outcome, turn_s = Outcome(place), 0
    say(f"{outcome.kind}, {place.ranks} ranks")
    chosen = []
    for name, run, settings in peers_of(place):
        try:
            kept, outcome.failed[name] = worth(place, name, run, settings, sizes)
        except Failed as fault:
            outcome.failed[name] = {"all": str(fault)}
            say(f"  {name}: {fault}")
            continue
        chosen += [(name, run, setting) for setting in kept]
        outcome.times[name] = {s: {size: [] for size in sizes} for s in kept}
    for turn in range(place.options.turns):
        if turn and end and time.monotonic() + turn_s > end:
            say("  time is up")
            break
        say(f"  turn {turn + 1} of {place.options.turns}: {len(chosen)} programs")
        begin = time.monotonic()
        for name, run, setting in chosen:
            try:
                found = run(place, sizes, place.options.budget_ms, setting)
            except Failed as fault:
                outcome.failed[name][setting] = str(fault)
                say(f"  {name}, {setting}: {fault}")
                continue
            for size, us in found.items():
                outcome.times[name][setting][size].append(us)
        note_trips(place, sizes, outcome)
        outcome.turns += 1
        turn_s = time.monotonic() - begin
    return outcome


# --- tables ---------------------------------------------------------------------------------


def microseconds(us):
    if us != us:
        return "-"
    return f"{us:.2f}" if us < 100 else f"{us:,.0f}"


def limit_us(outcome, size):
    """What the links allow: 2 (n-1)/n of the buffer out of each host."""
    rate = outcome.mbit * 1e6 / 8 * PAYLOAD
    return 2 * (outcome.ranks - 1) / outcome.ranks * size / rate * 1e6


def last_column(outcome, size, ours):
    if outcome.kind == "shaped" and size >= 1 << 16:
        return f"{limit_us(outcome, size) / ours:.1%} of the link"
    trip = outcome.half_trip_us(size)
    if trip:
        return f"{ours / (math.log2(outcome.ranks) * trip):.2f}x lg n messages of {trip:.2f} us"
    return ""


def table(outcome, sizes):
    names = [n for n in ("Taut", "Open MPI", "MPICH", "Gloo") if n in outcome.times]
    place = "one host" if outcome.kind == "host" else "namespaces, unshaped"
    if outcome.mbit:
        place = f"namespaces, {outcome.mbit:g} Mbit/s"
    head = f"**{outcome.ranks} ranks, {place}**; {outcome.turns} turns; load {outcome.load:.1f}"
    lines = [head, ""]
    lines.append("| size | " + " | ".join(f"{n}, us" for n in names) + " | best peer / Taut | |")
    lines.append("|---" * (len(names) + 3) + "|")
    for size in sizes:
        ours = outcome.median("Taut", size)[0]
        best = outcome.best_peer(size)[0]
        cells = [microseconds(outcome.median(n, size)[0]) for n in names]
        ratio = f"{best / ours:.2f}" if best == best and ours == ours else "-"
        last = last_column(outcome, size, ours) if ours == ours else ""
        lines.append(f"| {short(size)} | {' | '.join(cells)} | {ratio} | {last} |")
    return "\n".join(lines)


def losses(outcomes, sizes):
    lost, n = [], 0
    for outcome in outcomes:
        for size in sizes[outcome.kind]:
            ours, (best, name) = outcome.median("Taut", size)[0], outcome.best_peer(size)
            if ours != ours or best != best:
                continue
            n += 1
            if best < ours:
                where = f"{outcome.kind}, {outcome.ranks} ranks, {short(size)}"
                lost.append(f"{where}: {name} takes {best / ours:.2f} of it")
    head = f"Taut is slower than the best peer in {len(lost)} of {n}"
    return head + (":\n\n" + "\n".join(f"- {line}" for line in lost) if lost else ".")


def settings_lines(outcomes):
    lines = []
    of_openmpi = OPENMPI if any(o.kind == "host" for o in outcomes) else OPENMPI_LAB
    for name, tried in (("Open MPI", of_openmpi), ("MPICH", MPICH)):
        used = sorted({s for o in outcomes for s in o.times.get(name, {})})
        failed = sorted({s for o in outcomes for s in o.failed.get(name, {})})
        lines.append(
            f"- {name}: tried {', '.join(tried)}; best at some size: {', '.join(used) or 'none'}"
            + (f"; failed: {', '.join(failed)}" if failed else "")
        )
    lines.append("- Gloo: PyTorch's process group, as it is")
    return "\n".join(lines)


def page(options, outcomes, sizes):
    parts = [
        f"`bench/coll_compare.py`, {options.turns} turns at most.",
        machine_lines(),
        losses(outcomes, sizes),
        settings_lines(outcomes),
    ]
    parts += [table(outcome, sizes[outcome.kind]) for outcome in outcomes]
    return "\n\n".join(parts)


def write_doc(options, outcomes, sizes):
    """What is of one host and what is of several have places of their own."""
    for name, kinds in PLACES_OF_DOC.items():
        of_it = [outcome for outcome in outcomes if outcome.kind in kinds]
        if of_it:
            text = page(options, of_it, sizes)
            marks = (f"<!-- {name}: begin -->", f"<!-- {name}: end -->")
            common.write_between(DOC, *marks, text)


# --- all of it --------------------------------------------------------------------------------


def compiled(options, folder):
    """{flavour: program} of coll_mpi.c for the libraries that are here."""
    programs = {}
    for flavour in ("openmpi", "mpich"):
        if not (shutil.which(f"mpicc.{flavour}") and shutil.which(f"mpirun.{flavour}")):
            say(f"{flavour} is not here")
            continue
        programs[flavour] = os.path.join(folder, f"coll_{flavour}")
        source = os.path.join(common.HERE, "coll_mpi.c")
        words = [f"mpicc.{flavour}", "-O2", "-o", programs[flavour], source]
        subprocess.run(words, check=True)
    options.programs = programs


def places(options):
    """(how to make it, kind) one after another."""
    for kind in options.places:
        for ranks in options.ranks:
            if kind == "host":
                yield lambda r=ranks: Host(options, r)
            else:
                mbit = options.mbit if kind == "shaped" else None
                yield lambda r=ranks, m=mbit: Lab(options, r, m)


def measure_all(options, sizes):
    outcomes = []
    all_places = list(places(options))
    begin, share_s = time.monotonic(), options.minutes * 60 / len(all_places)
    for number, make in enumerate(all_places):
        end = begin + share_s * (number + 1) if share_s else None
        try:
            place = make()
        except cluster.Unavailable as fault:
            say(f"no namespaces: {fault}")
            continue
        try:
            outcomes.append(compare(place, sizes[kind_of(place)], end))
        finally:
            place.close()
    return outcomes


def parsed():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    split = lambda text: text.split(",")
    p.add_argument("--taut", default=os.path.join(common.ROOT, "build", "taut"))
    p.add_argument("--pingpong", default=os.path.join(common.ROOT, "build/bench/coll_pingpong"))
    p.add_argument("--places", type=split, default=["host", "lab", "shaped"])
    p.add_argument(
        "--ranks", type=lambda t: [int(n) for n in t.split(",")], help="default: 2,4"
    )
    p.add_argument("--sizes", help="on the host (default: 4:256M:4,32M)")
    p.add_argument("--lab-sizes", help="over unshaped links (default: 4:64M:16,16M,32M,256M)")
    p.add_argument("--shaped-sizes", help="default: 4:4M:16,16M,32M")
    p.add_argument("--minutes", type=float, default=0, help="all of it; 0: as long as it takes")
    p.add_argument("--mbit", type=float, default=1000, help="of shaped links")
    p.add_argument("--peers", type=split, default=["Open MPI", "MPICH", "Gloo"])
    p.add_argument("--turns", type=int, help="default: 3")
    p.add_argument("--table", help="of `taut bench --tune`, for Taut")
    p.add_argument("--quick", action="store_true", help="fewer sizes, one turn")
    p.add_argument("--json", help="write all times to this file too")
    p.add_argument("--write", action="store_true", help="into docs/performance.md")
    options = p.parse_args()
    quick = options.quick
    options.budget_ms, options.trial_ms = 60 if quick else 100, 30
    options.turns = options.turns or (1 if quick else 3)
    options.ranks = options.ranks or [2, 4]
    options.sizes = options.sizes or ("4:64M:16" if quick else "4:256M:4,32M")
    options.lab_sizes = options.lab_sizes or ("4:4M:16" if quick else "4:64M:16,16M,32M,256M")
    options.shaped_sizes = options.shaped_sizes or ("4:4M:16" if quick else "4:4M:16,16M,32M")
    options.taut = os.path.abspath(common.taut_of(options))
    options.pingpong = os.path.abspath(options.pingpong)
    options.python = runner.find_python()
    options.taut_env = {}
    if options.table:
        options.taut_env["TAUT_COLL_TABLE"] = os.path.abspath(options.table)
    return options


def main():
    options = parsed()
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: sys.exit(1))
    if not options.python:
        say("no interpreter with PyTorch: set TAUT_TORCH_PYTHON; Gloo is left out")
    of_places = {"host": options.sizes, "lab": options.lab_sizes, "shaped": options.shaped_sizes}
    sizes = {kind: sizes_of(text) for kind, text in of_places.items()}
    with tempfile.TemporaryDirectory() as folder:
        compiled(options, folder)
        outcomes = measure_all(options, sizes)
    text = page(options, outcomes, sizes)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([vars(outcome) for outcome in outcomes], file, indent=1)
    if options.write:
        write_doc(options, outcomes, sizes)
    return 0 if outcomes else 1


if __name__ == "__main__":
    sys.exit(main())
