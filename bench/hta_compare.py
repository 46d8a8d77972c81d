#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the temporal breakdown of taut with that of Holistic Trace Analysis.

Per rank: the span from the first kernel to the last (HTA: kernel_time), the
time in which a computing kernel runs, that in which none but some other does,
and that in which nothing runs; and the share of communication that computing
overlaps. Ends with 1 when any differs by more than the tolerance.

HTA cuts times to whole microseconds, so differences below --floor-ms are let
pass; overlap is compared in percentage points. HTA leaves the last of several
steps out unless told; here it is told to keep it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import common

# our key, HTA's column
FIELDS = [
    ("kernel_span_ms", "kernel_time(us)"),
    ("compute_ms", "compute_time(us)"),
    ("non_compute_ms", "non_compute_time(us)"),
    ("idle_ms", "idle_time(us)"),
]


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    common.add_places(parser)
    parser.add_argument("--percent", type=float, default=1.0, help="tolerance (default 1)")
    parser.add_argument(
        "--floor-ms", type=float, default=0.02, help="differences let pass (default 0.02)"
    )
    parser.add_argument("--hta-json", help="a kept result of hta_run.py --json, not a new run")
    parser.add_argument("--taut-json", help="a kept result of taut report --json")
    return parser.parse_args()


def output_of(command):
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=said, check=False)
        said.seek(0)
        tail = said.read()[-2000:].decode("utf-8", "replace")
    if done.returncode != 0:
        sys.exit(f"hta_compare: {command[0]} ended with {done.returncode}: {tail}")
    return json.loads(done.stdout)


def kept(path):
    with open(path, encoding="utf-8") as source:
        return json.load(source)


def hta_result(options):
    if options.hta_json:
        return kept(options.hta_json)
    script = os.path.join(common.HERE, "hta_run.py")
    command = [common.hta_of(options), script, options.run, "--json"]
    return output_of(command + ["--without-critical-path"])


def taut_result(options):
    if options.taut_json:
        return kept(options.taut_json)
    return output_of([common.taut_of(options), "report", options.run, "--json"])


def by_rank(rows):
    return {row["rank"]: row for row in rows}


def differences(ours, theirs, overlap, options):
    """Yields (field, ours, theirs, difference in percent, within tolerance)."""
    for key, column in FIELDS:
        mine, hta = float(ours[key]), float(theirs[column]) / 1000
        apart = abs(mine - hta)
        percent = 100 * apart / abs(hta) if hta else (0.0 if apart == 0 else 100.0)
        good = percent <= options.percent or apart <= options.floor_ms
        yield key, mine, hta, percent, good
    if overlap is not None and ours.get("overlap_pct") is not None:
        mine = float(ours["overlap_pct"])
        apart = abs(mine - overlap)
        yield "overlap_pct", mine, overlap, apart, apart <= options.percent


def main():
    options = arguments()
    hta, taut = hta_result(options), taut_result(options)
    if not hta["temporal"]:
        why = hta.get("errors", {}).get("temporal", "no rows")
        sys.exit(f"hta_compare: HTA has no temporal breakdown of this run: {why}")
    if "temporal" not in taut:
        sys.exit('hta_compare: taut report --json has no "temporal"')
    ours, theirs = by_rank(taut["temporal"]), by_rank(hta["temporal"])
    if sorted(ours) != sorted(theirs):
        sys.exit(f"hta_compare: ranks differ: taut {sorted(ours)}, HTA {sorted(theirs)}")
    overlap = {row["rank"]: row["comp_comm_overlap_pctg"] for row in hta["overlap"]}
    bad, worst = 0, 0.0
    print(f"{'rank':>4}  {'field':<15} {'taut':>12} {'HTA':>12} {'apart %':>8}")
    for rank in sorted(ours):
        for key, mine, other, percent, good in differences(
            ours[rank], theirs[rank], overlap.get(rank), options
        ):
            mark = "" if good else "  DIFFERS"
            print(f"{rank:>4}  {key:<15} {mine:>12.3f} {other:>12.3f} {percent:>8.3f}{mark}")
            bad += not good
            worst = max(worst, percent)
    print(f"{len(ours)} ranks, {bad} differences above {options.percent} %, largest {worst:.3f} %")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
