#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of 8 GPUs (2 replicas, 4 pipeline stages) whose operations were
published with what its authors found by what-if analysis: the last stage is
too long. Skipped where the files do not lie beside the checkout."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
STUDY = (pathlib.Path(__file__).resolve().parents[3] / "shared" / "traces" /
         "straggler-study")


class Study(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run(
            [TAUT, "report", STUDY / "trace-ST.csv.gz", "--json"],
            capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cls.report = json.loads(done.stdout)
        cls.answers = json.loads((STUDY / "result-ST.json").read_text())

    def test_every_step_takes_what_was_published(self):
        for row in self.report["steps"]:
            self.assertAlmostEqual(
                row["measured_ms"] / 1000,
                self.answers["step_t_base"][str(row["step"])], places=6)
        self.assertEqual(len(self.report["steps"]), 32 * 8)

    def test_every_communication_is_matched(self):
        """6 ranks of 3 neighbours send 4 micro-batches each way; 4 stages have
        2 collectives, 2 replicas one, and all ranks one together, in each of 32
        steps."""
        want = 32 * (6 * 4 * 2 + 4 * 2 + 2 + 1)
        got = self.report["collectives"]
        self.assertEqual((got["count"], got["complete"]), (want, want))

    def test_replay(self):
        for row in self.report["steps"]:
            self.assertAlmostEqual(row["replayed_ms"] / row["measured_ms"], 1,
                                   delta=0.03)

    def test_the_last_stage_computes_longest(self):
        """The published root cause. Ranks 6 and 7 are stage 3."""
        compute = {}
        for row in self.report["breakdown"]:
            compute.setdefault(row["rank"], []).append(row["ms"]["compute"])
        mean = {rank: sum(ms) / len(ms) for rank, ms in compute.items()}
        self.assertEqual(set(sorted(mean, key=mean.get)[-2:]), {6, 7})
        worst = max(self.answers["blocking_decompose_by_stage"],
                    key=self.answers["blocking_decompose_by_stage"].get)
        self.assertEqual(worst, "3")
        excess = {row["rank"]: row["excess_ms"]["compute"]
                  for row in self.report["late"]}
        self.assertEqual(set(sorted(excess, key=excess.get)[-2:]), {6, 7})

    def test_the_last_stage_is_named(self):
        found = {f["id"]: f for f in self.report["findings"]}
        self.assertEqual(set(found["late-ranks"]["ranks"]), {6, 7})
        caused = sum(row["caused_ms"] for row in self.report["late"])
        self.assertLess(caused / 32, self.report["steady_step_ms"])

    def test_every_published_figure(self):
        """Of 723; theirs are sums of 32-bit numbers."""
        done = subprocess.run(
            [TAUT, "stragglers", STUDY / "trace-ST.csv.gz", "--json"],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        ours, theirs, seen = json.loads(done.stdout), self.answers, 0

        def near(value, want):
            nonlocal seen
            seen += 1
            self.assertLess(abs(value / want - 1), 1e-6)

        near(ours["slowdown"], theirs["blocking_slowdown"])
        near(ours["launch_slowdown"], theirs["launch_slowdown"])
        for step in ours["steps"]:
            key = str(step["step"])
            near(step["measured_ms"] / 1e3, theirs["step_t_base"][key])
            near(step["nodelay_ms"] / 1e3, theirs["step_t_nodelay"][key])
            near(step["ideal_ms"] / 1e3, theirs["step_t_noblk"][key])
            near(step["slowdown"], theirs["blocking_step_slowdown"][key])
            near(step["launch_slowdown"], theirs["launch_step_slowdown"][key])
        for by, name in (("stage", "stage"), ("replica", "dp_rank"),
                         ("type", "optype")):
            whole = theirs["blocking_decompose_by_" + name]
            each = theirs["blocking_decompose_by_" + name + "_per_step"]
            rows = {str(row[by]).replace("-send/recv", "-pp-comm"): row
                    for row in ours["by_" + by]}
            self.assertEqual(set(rows), set(whole))
            for member, row in rows.items():
                near(row["slowdown"], whole[member])
                for step, ms in zip(ours["steps"], row["steps_ms"]):
                    near(ms / step["ideal_ms"],
                         each[str(step["step"])][member])
        self.assertEqual(seen, 723)
        self.assertEqual((ours["cause"]["place"], ours["cause"]["number"]),
                         ("stage", 3))
        self.assertIn("the last, is too slow", ours["cause"]["sentence"])

    def test_the_timeline_of_the_same_job_is_refused(self):
        done = subprocess.run([TAUT, "report", STUDY / "timeline-ST.json.gz"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("none is of a kind", done.stderr)


if __name__ == "__main__":
    if not STUDY.is_dir():
        print("no traces beside the checkout: skipped")
        sys.exit(77)
    done = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    sys.exit(0 if done.wasSuccessful() else 1)
