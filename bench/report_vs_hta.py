#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""Times `taut report RUN --json` against Holistic Trace Analysis.

Both on the same files, whole processes, start-up and imports counted, taking
turns. HTA runs as bench/hta_run.py says, in these ways:

  manual   as its manual shows: its own worker pool for loading, then the
           critical path of the first step, one rank after another
  forked   the same, with the ranks' critical paths in forked workers, which
           HTA does not offer: bench/hta_run.py does that for it
  every    forked, and the critical path of every step, as taut does
  equal    as its manual shows, and the critical path of every step: the work
           that taut does, in the way that HTA offers

Memory is the peak of the largest process, and for HTA also that of all its
processes together (see bench/measure.py), from one more run that is not timed.
"""

import argparse
import json
import os
import sys
import tempfile

import common
import measure

WAYS = {
    "manual": ["--jobs", "1"],
    "forked": [],
    "every": ["--steps", "all"],
    "equal": ["--jobs", "1", "--steps", "all"],
}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    common.add_places(parser)
    parser.add_argument("--times", default="1,10", help="multiples of the events (1,10)")
    parser.add_argument("--runs", type=int, default=5, help="turns at 1x (default 5)")
    parser.add_argument("--runs-more", type=int, default=2, help="turns above 1x (default 2)")
    parser.add_argument("--ways", default="manual,forked", help="of HTA (manual,forked)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to FILE as well")
    parser.add_argument("--scratch", help="folder for multiplied traces (default: temporary)")
    parser.add_argument(
        "--demand",
        action="append",
        default=[],
        metavar="TIMES:SPEED:WAY",
        help="fail unless taut is SPEED times as fast as that way, and holds at\n"
        "most a tenth of the memory of all its processes, as in\n"
        "--demand 1:50:manual --demand 10:100:manual",
    )
    return parser.parse_args()


def take_turns(commands, runs):
    """{name: rows}: one run of each command, then again, so drift hits all."""
    rows = {name: [] for name in commands}
    for name, command in commands.items():  # the files into the page cache
        if name == "taut":
            measure.run_once(command)
    for turn in range(runs):
        for name, command in commands.items():
            print(f"  {turn + 1}/{runs} {name}", file=sys.stderr)
            # Short commands repeat within a turn, so that noise averages out.
            again = 5 if name == "taut" else 1
            rows[name] += [measure.run_once(command) for _ in range(again)]
    return rows


def held(commands):
    peak = {}
    for name, command in commands.items():
        print(f"  memory {name}", file=sys.stderr)
        if name != "taut":  # one process: its largest is all of it
            peak[name] = measure.run_once(command, sample_tree=True)["tree_mb"]
    return peak


def compare(run, options, runs):
    taut = [common.taut_of(options), "report", run, "--json"]
    hta = [common.hta_of(options), os.path.join(common.HERE, "hta_run.py"), run, "--json"]
    commands = {"taut": taut}
    for way in options.ways.split(","):
        commands["hta " + way] = hta + WAYS[way]
    rows = take_turns(commands, runs)
    tree = held(commands)
    return {
        name: measure.summed_up(rows[name], tree.get(name, 0.0)) for name in commands
    }


def print_table(results):
    print("| events | program | runs | wall s: median (least .. most) | CPU s |"
          " largest process MB | all processes MB | taut is faster | taut holds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for times, rows in results.items():
        taut = rows["taut"]
        for name, row in rows.items():
            ratio = "" if name == "taut" else f"{row['wall_s'] / taut['wall_s']:.1f}x"
            share = "" if name == "taut" else f"1/{row['rss_mb'] / taut['rss_mb']:.1f}"
            print(
                f"| {times}x | {name} | {row['runs']} | {row['wall_s']:.3f} "
                f"({row['least_s']:.3f} .. {row['most_s']:.3f}) | {row['cpu_s']:.2f} | "
                f"{row['rss_mb']:.0f} | {row['tree_mb']:.0f} | {ratio} | {share} |"
            )


def verdict(good, words):
    print(f"{'met' if good else 'NOT MET'}: {words}")
    return good


def demanded(results, demands):
    """Prints, for each demand, whether speed and memory meet it; True if all do.

    Memory is judged by all processes together. The largest process is named
    beside it: for a program of many processes it is the harder measure.
    """
    met = True
    for demand in demands:
        times, speed, way = demand.split(":")
        taut, hta = results[int(times)]["taut"], results[int(times)]["hta " + way]
        name = f"{times}x against {way}"
        faster = hta["wall_s"] / taut["wall_s"]
        share = taut["tree_mb"] / hta["tree_mb"]
        single = taut["rss_mb"] / hta["rss_mb"]
        met &= verdict(
            faster >= float(speed), f"{name}: {faster:.1f}x as fast ({speed}x wanted)"
        )
        met &= verdict(
            share <= 0.1,
            f"{name}: {share:.3f} of its memory (0.1 wanted; "
            f"{single:.3f} of its largest process)",
        )
    return met


def main():
    options = arguments()
    common.taut_of(options)
    common.hta_of(options)
    if any(way not in WAYS for way in options.ways.split(",")):
        sys.exit(f"report_vs_hta: --ways are some of {', '.join(WAYS)}")
    if not os.path.isdir(options.run):
        sys.exit(f"report_vs_hta: no folder {options.run}")
    print(measure.machine_lines())
    print(f"run: {os.path.basename(os.path.normpath(options.run))}")
    results = {}
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="taut-bench-") as scratch:
        for times in (int(one) for one in options.times.split(",")):
            run, runs = options.run, options.runs
            if times > 1:
                runs = options.runs_more
                run, words = common.multiplied(
                    options.run, times, os.path.join(scratch, f"{times}x")
                )
                print(f"{times}x: {words}")
            try:
                results[times] = compare(run, options, runs)
            except measure.CommandFailed as problem:
                sys.exit(f"report_vs_hta: {problem}")
    print()
    print_table(results)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as target:
            json.dump(results, target, indent=1)
    print(f"load at end: {os.getloadavg()[0]:.2f}")
    if not demanded(results, options.demand):
        sys.exit(1)


if __name__ == "__main__":
    main()
