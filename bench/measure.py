#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a command several times and says how long it took and what it held.

  wall    median, least and most of the runs, start-up counted
  cpu     user and system time of the command and its children, median
  rss     peak resident memory of its largest process (never below this
          script's own 12 MB or so, which the kernel counts for every child)
  tree    with --memory, one run more: the most that the command and all its
          descendants held at once, as the sum of proportional set sizes
          (shared pages counted once), sampled every 20 ms; that run is not timed

Prints one line of tab-separated values, or JSON with --json:
  wall_s  least_s  most_s  cpu_s  rss_mb  tree_mb
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time


class CommandFailed(Exception):
    """A measured command that ended badly, with the end of what it said."""


def machine_lines():
    """The machine in words, by its own account: for the head of every table."""
    model, memory_kb = platform.processor() or platform.machine(), 0
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as source:
            names = [l.split(":", 1)[1].strip() for l in source if l.startswith("model name")]
        model = names[0] if names else model
        with open("/proc/meminfo", encoding="utf-8") as source:
            memory_kb = int(source.readline().split()[1])
    except OSError:
        pass
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count()
    return (
        f"machine: {model}, {cores} cores, {memory_kb / 1048576:.1f} GiB, "
        f"{platform.system()} {platform.release()} {platform.machine()}\n"
        f"load at start: {os.getloadavg()[0]:.2f} (other work disturbs timings)"
    )


def tree_of(root):
    """Process ids of root and its descendants, as /proc has them now."""
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as source:
                fields = source.read().rsplit(")", 1)[1].split()
            parents.setdefault(int(fields[1]), []).append(int(name))
        except (OSError, IndexError):
            continue
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += parents.get(pid, [])
    return found


def held_kb(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as source:
            for line in source:
                if line.startswith("Pss:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def watch(pid, over, peak):
    while not over.is_set():
        peak[0] = max(peak[0], sum(held_kb(one) for one in tree_of(pid)))
        over.wait(0.02)


def run_once(command, sample_tree=False, keep_output=None):
    """{wall_s, cpu_s, rss_mb, tree_mb} of one run; CommandFailed if it fails.

    keep_output: a path for its standard output; else that is thrown away.
    """
    output = open(keep_output, "wb") if keep_output else subprocess.DEVNULL
    over, peak = threading.Event(), [0]
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=said
        )
        watcher = threading.Thread(target=watch, args=(child.pid, over, peak))
        if sample_tree:
            watcher.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        over.set()
        if sample_tree:
            watcher.join()
        if keep_output:
            output.close()
        if child.returncode != 0:
            said.seek(0)
            tail = said.read()[-2000:].decode("utf-8", "replace")
            raise CommandFailed(f"{command[0]} ended with {child.returncode}: {tail}")
    return {
        "wall_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "rss_mb": usage.ru_maxrss / 1024,
        "tree_mb": peak[0] / 1024,
    }


def summed_up(rows, tree_mb=0.0):
    """One row for several runs; largest memory, median time."""
    walls = [row["wall_s"] for row in rows]
    rss = max(row["rss_mb"] for row in rows)
    return {
        "runs": len(rows),
        "wall_s": statistics.median(walls),
        "least_s": min(walls),
        "most_s": max(walls),
        "cpu_s": statistics.median(row["cpu_s"] for row in rows),
        "rss_mb": rss,
        "tree_mb": max(tree_mb, 0.0) or rss,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="timed runs (default 5)")
    parser.add_argument("--warm", type=int, default=0, help="runs before, not counted")
    parser.add_argument("--memory", action="store_true", help="sample the process tree")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--machine", action="store_true", help="name the machine, end")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- command ...")
    options = parser.parse_args()
    if options.machine:
        print(machine_lines())
        return
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command or options.runs < 1:
        parser.error("a command is wanted after --, and at least one run")
    try:
        for _ in range(options.warm):
            run_once(command)
        rows = [run_once(command) for _ in range(options.runs)]
        tree = run_once(command, sample_tree=True)["tree_mb"] if options.memory else 0.0
    except (CommandFailed, OSError) as problem:
        sys.exit(f"measure: {problem}")
    row = summed_up(rows, tree)
    if options.json:
        print(json.dumps(row))
    else:
        names = ("wall_s", "least_s", "most_s", "cpu_s", "rss_mb", "tree_mb")
        print("\t".join(f"{row[name]:.4f}" for name in names))


if __name__ == "__main__":
    main()
