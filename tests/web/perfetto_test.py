#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the Perfetto file as strictly as its trace processor does.

Chrome trace JSON is accepted with slices dropped or moved when those of one
thread overlap without nesting, and with arrows lost that begin or end in no
slice; here either is a failure. The program that makes up a run is given as
argument or as TAUT_SYNTHETIC; further arguments are files to check.
Exit status 77 means skipped.
"""

import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal

SKIPPED = 77
SYNTHETIC = os.environ.get("TAUT_SYNTHETIC", "")
FILES = []


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_float=Decimal)["traceEvents"]


def nanoseconds(value):
    number = Decimal(value) * 1000
    if number != int(number):
        raise ValueError(f"{value} us is no whole number of ns")
    return int(number)


def slices_by_thread(events):
    threads = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = nanoseconds(event["ts"])
            threads[event["pid"], event["tid"]].append(
                (start, start + nanoseconds(event["dur"]), event["name"])
            )
    for slices in threads.values():
        slices.sort(key=lambda s: (s[0], -s[1]))
    return threads


def overlaps(slices):
    """Slices that begin inside another and end after it."""
    found, open_ends = [], []
    for start, end, name in slices:
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if open_ends and end > open_ends[-1]:
            found.append((start, end, name))
        open_ends.append(end)
    return found


def faults(events):
    threads = slices_by_thread(events)
    for thread, slices in threads.items():
        for start, end, name in overlaps(slices):
            yield f"{thread}: {name} {start}..{end} overlaps"
        if any(end < start for start, end, _ in slices):
            yield f"{thread}: a slice ends before it begins"
        if slices[0][0] < 0:
            yield f"{thread}: {slices[0]} begins before 0"
    named = {
        (e["pid"], e["tid"]) for e in events
        if e["ph"] == "M" and e["name"] == "thread_name"
    }  # fmt: skip
    for thread in threads.keys() - named:
        yield f"{thread} has no name"
    yield from flow_faults(events, threads)


def flow_faults(events, threads):
    starts = {thread: {s[0] for s in slices} for thread, slices in threads.items()}
    ends = collections.defaultdict(list)
    for order, event in enumerate(events):
        if event["ph"] not in "sf":
            continue
        at = nanoseconds(event["ts"])
        if at not in starts.get((event["pid"], event["tid"]), ()):
            yield f"arrow {event['id']} at {at} touches no slice"
        ends[event["cat"], event["id"]].append((at, order, event["ph"]))
    for (category, number), found in ends.items():
        begun = [end for end in found if end[2] == "s"]
        if len(begun) != 1 or len(found) < 2:
            yield f"arrow {category} {number}: {found}"
        elif min(found) != begun[0]:  # at one time, the order of the file
            yield f"arrow {category} {number} ends before it begins"


class PerfettoTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "made-up.json")
        subprocess.run(
            [SYNTHETIC, "perfetto", "6", "3000", path],
            check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        cls.events = read(path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_has_no_faults(self):
        self.assertEqual(list(faults(self.events))[:5], [])

    def test_given_files_have_no_faults(self):
        for path in FILES:
            with self.subTest(path=path):
                self.assertEqual(list(faults(read(path)))[:5], [])

    def test_checker_sees_overlap_and_lost_arrow(self):
        slice_of = lambda at, dur: {
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "ts": at,
            "dur": dur,
            "name": "x",
        }
        arrow = {"ph": "s", "pid": 1, "tid": 1, "ts": 3, "id": 7, "cat": "launch"}
        found = list(faults([slice_of(0, 2), slice_of(1, 2), arrow]))
        self.assertEqual(len(found), 4)  # overlap, no name, no slice, no end

    def test_critical_path_is_a_track_of_its_own(self):
        process = [
            e["pid"] for e in self.events
            if e["name"] == "process_name" and e["args"]["name"] == "critical path"
        ]  # fmt: skip
        self.assertEqual(len(process), 1)
        path = slices_by_thread(self.events)[process[0], 1]
        self.assertGreater(len(path), 100)
        for before, after in zip(path, path[1:]):
            self.assertLessEqual(before[1], after[0])

    def test_waits_end_where_transfers_begin(self):
        for slices in slices_by_thread(self.events).values():
            if not any(name == "transfer" for _, _, name in slices):
                continue
            for before, after in zip(slices, slices[1:]):
                if before[2].startswith("waiting for rank"):
                    self.assertEqual((after[2], after[0]), ("transfer", before[1]))

    def test_every_kernel_has_its_arrow(self):
        kernels = sum(e["ph"] == "X" and e.get("cat") == "kernel" for e in self.events)
        arrows = sum(e["ph"] == "f" and e["cat"] == "launch" for e in self.events)
        self.assertGreater(kernels, 1000)
        self.assertEqual(kernels, arrows)


def main():
    global SYNTHETIC
    if len(sys.argv) > 1:
        SYNTHETIC = sys.argv[1]
        FILES.extend(sys.argv[2:])
    if not os.access(SYNTHETIC, os.X_OK):
        print("skipped: TAUT_SYNTHETIC names no program")
        return SKIPPED
    unittest.main(argv=sys.argv[:1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
