#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow recordings in examples/tensorflow, through the command."""
import json
import os
import subprocess
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                        "examples", "tensorflow")


class Common:
    @classmethod
    def setUpClass(cls):
        done = subprocess.run(
            [TAUT, "report", os.path.join(EXAMPLES, cls.name), "--json"],
            check=True, capture_output=True, text=True)
        cls.report = json.loads(done.stdout)

    def test_categories_add_up(self):
        steps = {(s["rank"], s["step"]): s["measured_ms"]
                 for s in self.report["steps"]}
        self.assertEqual(len(self.report["breakdown"]), len(steps))
        for row in self.report["breakdown"]:
            self.assertAlmostEqual(sum(row["ms"].values()),
                                   steps[row["rank"], row["step"]], places=3)

    def test_all_is_matched(self):
        told = self.report["collectives"]
        self.assertEqual(told["count"], self.count)
        self.assertEqual(told["complete"], self.count)
        self.assertEqual(self.report["graph"]["unmatched_collectives"], 0)

    def test_replay(self):
        self.assertLess(self.report["replay"]["error_pct_max"], 3)


class Mirrored(Common, unittest.TestCase):
    name, count = "mirrored", 16

    def test_bytes(self):
        """In each of four steps all gradients once, and three numbers."""
        parameters = 256 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10
        moved = sum(k["bytes"] for k in self.report["collectives"]["kinds"])
        self.assertEqual(moved, 4 * 4 * (parameters + 3))


    def test_plan(self):
        """taut run would make none of its decisions of such a job."""
        done = subprocess.run(
            [TAUT, "plan", os.path.join(EXAMPLES, self.name), "--json"],
            check=True, capture_output=True, text=True)
        told = json.loads(done.stdout)
        self.assertEqual(told["decisions"], [])
        said = " ".join(told["not_tried"])
        self.assertIn("optimizer, rows: 'taut run' does not make them of a job of tensorflow", said)


class Server(Common, unittest.TestCase):
    name, count = "server", 98

    def test_steps(self):
        """Six closures, all of them run by the second worker."""
        steps = [s for s in self.report["steps"] if s["rank"] == 2]
        self.assertEqual(len(steps), 6)


class Json(unittest.TestCase):
    """The same profile as trace.json.gz, which tells no clock and no host."""
    OTHER = {"run", "notes", "hosts", "clock", "clock_origin_ns", "graph"}

    def report(self, path):
        done = subprocess.run([TAUT, "report", "--json",
                               os.path.join(EXAMPLES, path)],
                              check=True, capture_output=True, text=True)
        return {key: value for key, value in json.loads(done.stdout).items()
                if key not in self.OTHER}

    def test_same(self):
        for xplane, other in (
                ("mirrored/rank0.xplane.pb.gz", "mirrored0.trace.json.gz"),
                ("server/rank3.xplane.pb.gz", "server3.trace.json.gz")):
            told = self.report(xplane)
            self.assertTrue(told["breakdown"])
            self.assertEqual(told, self.report("json/" + other))


if __name__ == "__main__":
    unittest.main(verbosity=2)
