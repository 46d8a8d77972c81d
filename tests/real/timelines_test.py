#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real timelines of communication, where they lie beside the checkout
(../shared/traces); skipped where they do not. What is expected is counted here
once more, by Python's json and the definitions of docs/formats.md alone."""
import collections
import gzip
import json
import os
import subprocess
import sys
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
ROOT = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(ROOT, "..", "..", "..", "shared", "traces", "horovod")
HOROVOD = os.path.join(FOLDER, "timeline_cpu_n1.json.gz")
SCHEDULER = os.path.join(FOLDER, "bytescheduler_vgg_no_priority.json.gz")


def events(path):
    with gzip.open(path, "rt") as file:
        text = file.read().rstrip().rstrip(",")
    return json.loads(text if text.endswith("]") else text + "]")


def report(path):
    done = subprocess.run(
        [TAUT, "report", path, "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def covered(spans, start, end):
    """Of start..end, what any span covers; us."""
    total, at = 0, start
    for s, e in sorted(spans):
        s, e = max(s, at), min(e, end)
        if e > s:
            total += e - s
            at = e
    return total


class ByteScheduler(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.report = report(SCHEDULER)
        opened, cls.spans = {}, collections.defaultdict(list)
        for e in events(SCHEDULER):
            name = e["name"]
            if e["ph"] == "B":
                opened[e["pid"], name] = e["ts"]
            elif e["ph"] == "E" and name.endswith("COMMUNICATION"):
                begin = opened.pop((e["pid"], name))
                cls.spans[e["pid"], name].append((begin, e["ts"]))
            elif e["ph"] == "E":
                opened.pop((e["pid"], name))
        cls.left = [k for k in opened if k[1].endswith("COMMUNICATION")]
        cls.all = [s for spans in cls.spans.values() for s in spans]

    def test_every_operation(self):
        self.assertEqual(self.left, [])
        self.assertEqual(len(self.all), 10229)
        c = self.report["collectives"]
        self.assertEqual(c["count"], 10229)
        us = sum(end - begin for begin, end in self.all)
        self.assertEqual(round(c["transfer_ms"] * 1000), us)

    def test_steps(self):
        most = max(len(spans) for spans in self.spans.values())
        marks = min(
            sorted(begin for begin, _ in spans)
            for spans in self.spans.values()
            if len(spans) == most
        )
        want = [b - a for a, b in zip(marks, marks[1:])]
        got = [round(s["measured_ms"] * 1000) for s in self.report["steps"]]
        self.assertEqual(len(got), 59)
        self.assertEqual(got, want)
        for i, row in enumerate(self.report["breakdown"]):
            us = covered(self.all, marks[i], marks[i + 1])
            self.assertEqual(round(row["ms"]["comm_exposed"] * 1000), us)
            self.assertEqual(round(sum(row["ms"].values()) * 1000), want[i])
            self.assertEqual(row["ms"]["compute"], 0)

    def test_is_whole_though_never_closed(self):
        self.assertEqual(len(self.report["notes"]), 1)
        self.assertIn("nothing of what computes", self.report["notes"][0])


class Horovod(unittest.TestCase):
    def test_every_operation(self):
        stacks, spans = collections.defaultdict(list), []
        for e in events(HOROVOD):
            if e["ph"] == "B":
                stacks[e["pid"]].append((e["name"], e["ts"]))
            elif e["ph"] == "E":
                name, begin = stacks[e["pid"]].pop()
                if not stacks[e["pid"]] and not name.startswith("NEGOTIATE"):
                    spans.append((begin, e["ts"]))
        self.assertEqual(len(spans), 25)
        got = report(HOROVOD)
        self.assertEqual(got["collectives"]["count"], 25)
        self.assertEqual(
            round(got["collectives"]["transfer_ms"] * 1000),
            sum(end - begin for begin, end in spans),
        )
        self.assertEqual(
            {kind["name"] for kind in got["collectives"]["kinds"]}, {"broadcast"}
        )
        # no tensor comes twice: one range over everything
        self.assertEqual(len(got["steps"]), 1)
        self.assertEqual(
            round(got["breakdown"][0]["ms"]["comm_exposed"] * 1000),
            covered(spans, 0, 1 << 60),
        )


if __name__ == "__main__":
    if not os.path.isdir(FOLDER):
        print("no real traces at %s" % FOLDER)
        sys.exit(77)
    unittest.main()
