#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real traces of other people's jobs, where they lie beside the checkout
(../shared/traces); skipped where they do not. Expected figures are those of
other tools or of the jobs' own authors, never of Taut."""
import glob
import json
import os
import subprocess
import sys
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
ROOT = os.path.dirname(os.path.abspath(__file__))
PYTORCH = os.path.join(ROOT, "..", "..", "..", "shared", "traces", "pytorch")


def run(*args):
    return subprocess.run([TAUT, *args], capture_output=True, text=True)


def report(*paths):
    done = run("report", *paths, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Megatron(unittest.TestCase):
    """8 ranks, one forward step, 84 all-reduces without metadata."""

    # Holistic Trace Analysis (f4d0062c), us: idle, compute, not compute, span
    HTA = [(222514, 131390, 241337, 595241), (7383, 131923, 481484, 620790),
           (65886, 131474, 413495, 610855), (20297, 132743, 472563, 625603),
           (3329, 131874, 495421, 630624), (7978, 131544, 491109, 630631),
           (208748, 133554, 263997, 606299), (11015, 132271, 482044, 625330)]

    @classmethod
    def setUpClass(cls):
        cls.report = report(os.path.join(PYTORCH, "megatron-tp8-a100"))

    def test_all_collectives_match(self):
        c = self.report["collectives"]
        self.assertEqual((c["count"], c["complete"]), (84, 84))
        self.assertEqual(c["last_arrivals_by_rank"],
                         [32, 4, 4, 15, 0, 1, 28, 0])

    def test_transfer_and_waiting(self):
        c = self.report["collectives"]
        self.assertAlmostEqual(c["transfer_ms"], 50.1, delta=0.5)
        for got, want in zip(c["wait_ms_by_rank"],
                             [191, 431, 363, 422, 445, 441, 214, 432]):
            self.assertAlmostEqual(got, want, delta=1)

    def test_late_ranks(self):
        late = next(f for f in self.report["findings"]
                    if f["id"] == "late-ranks")
        self.assertEqual(sorted(late["ranks"]), [0, 6])
        for row in self.report["late"][:2]:
            self.assertEqual(row["cause"], "host_bound")

    def test_replay(self):
        for step in self.report["steps"]:
            self.assertAlmostEqual(step["replayed_ms"] / step["measured_ms"],
                                   1, delta=0.01)
        self.assertLess(self.report["replay"]["unexplained_pct"], 2)

    def test_temporal_breakdown_is_that_of_hta(self):
        for row, (idle, compute, other, span) in zip(
                self.report["temporal"], self.HTA):
            for key, want in (("idle_ms", idle), ("compute_ms", compute),
                              ("non_compute_ms", other),
                              ("kernel_span_ms", span)):
                self.assertAlmostEqual(row[key] * 1000 / want, 1, delta=0.01)


class Resnet(unittest.TestCase):
    """2021 categories, six steps a file, a loader without workers."""

    def test_both_files(self):
        folder = os.path.join(PYTORCH, "resnet50_num_workers_0")
        for path in sorted(glob.glob(folder + "/*")):
            got = report(path)
            self.assertEqual(len(got["steps"]), 6)
            for step in got["steps"]:
                self.assertAlmostEqual(
                    step["replayed_ms"] / step["measured_ms"], 1, delta=0.01)
            self.assertLess(got["replay"]["unexplained_pct"], 2)
            found = {f["id"] for f in got["findings"]}
            self.assertLessEqual({"data", "host-bound"}, found)


class Everything(unittest.TestCase):
    def test_each_file_is_read_or_refused_in_one_line(self):
        paths = [p for p in glob.glob(PYTORCH + "/**/*", recursive=True)
                 if os.path.isfile(p)]
        self.assertGreater(len(paths), 20)
        for path in paths:
            done = run("report", path, "--json")
            with self.subTest(path=os.path.relpath(path, PYTORCH)):
                if done.returncode:
                    self.assertEqual(done.returncode, 1)
                    self.assertEqual(done.stderr.count("\n"), 1)
                    self.assertIn("execution trace", done.stderr)
                    continue
                for row, step in zip(json.loads(done.stdout)["breakdown"],
                                     json.loads(done.stdout)["steps"]):
                    self.assertAlmostEqual(sum(row["ms"].values()),
                                           step["measured_ms"], places=3)


if __name__ == "__main__":
    if not os.path.isdir(PYTORCH):
        print("no traces beside the checkout: skipped")
        sys.exit(77)
    done = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    sys.exit(0 if done.wasSuccessful() else 1)
