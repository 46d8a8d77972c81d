#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The published study's job told in other ways: what says nothing else must give the
same figures, and less of it must give those of its part. Skipped where the files do
not lie beside the checkout."""

import csv
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
STUDY = pathlib.Path(__file__).resolve().parents[3] / "shared/traces/straggler-study"
TABLES = ("by_stage", "by_replica", "by_rank", "by_type")


def figures(done):
    """All numbers of the answer that do not depend on its unit of time."""
    told = json.loads(done.stdout)
    found = {"slowdown": told["slowdown"], "launch": told["launch_slowdown"]}
    for row in told["steps"]:
        found["step", row["step"]] = row["slowdown"]
    for table in TABLES:
        for row in told[table]:
            (name,) = set(row) & {"stage", "replica", "rank", "type"}
            found[table, str(row[name])] = row["slowdown"]
    return found


class Variants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with gzip.open(STUDY / "trace-ST.csv.gz", "rt", encoding="ascii") as file:
            cls.rows = list(csv.DictReader(file))
        cls.header = list(cls.rows[0])
        cls.known = figures(cls.ask(STUDY / "trace-ST.csv.gz"))

    @staticmethod
    def ask(path):
        return subprocess.run(
            [TAUT, "stragglers", path, "--json"], capture_output=True, text=True, check=False
        )

    def told(self, rows, newline="\n"):
        with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
            table = csv.DictWriter(file, self.header, lineterminator=newline)
            table.writeheader()
            table.writerows(rows)
            file.flush()
            done = self.ask(file.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return figures(done)

    def same(self, found, known=None, within=1e-6):
        known = known or self.known
        self.assertEqual(set(found), set(known))
        for key, value in known.items():
            self.assertLess(abs(found[key] / value - 1), within, key)

    def test_rows_in_any_order(self):
        rows = list(self.rows)
        random.Random(1).shuffle(rows)
        self.assertEqual(self.told(rows), self.known)

    def test_another_line_end(self):
        self.assertEqual(self.told(self.rows, "\r\n"), self.known)

    def test_another_unit_of_time(self):
        for factor in (0.01, 3, 1000):
            with self.subTest(factor=factor):
                slower = [
                    {**r, **{k: repr(float(r[k]) * factor) for k in ("start_ts", "duration")}}
                    for r in self.rows
                ]
                self.same(self.told(slower), within=1e-5 if factor < 1 else 1e-6)

    def test_other_numbers_of_ranks(self):
        """Ranks are told by stage and replica."""
        named = [{**r, "rank": 7 - int(r["rank"])} for r in self.rows]
        found = self.told(named)
        for key, value in self.known.items():
            if key[0] == "by_rank":
                key = (key[0], str(7 - int(key[1])))
            self.assertLess(abs(found[key] / value - 1), 1e-9, key)

    def test_twice_the_replicas(self):
        """Means and medians of twice as many of each are the same, and who comes last
        comes as late."""
        more = [{**r, "dp_rank": int(r["dp_rank"]) + 2, "rank": int(r["rank"]) + 8} for r in self.rows]
        found = self.told(self.rows + more)
        for key, value in self.known.items():
            if key[0] not in ("by_replica", "by_rank"):
                self.assertLess(abs(found[key] / value - 1), 1e-6, key)

    def test_steps_that_are_missing(self):
        """Steps stand by themselves: which others there are changes what is usual, and
        no more."""
        every = sorted({int(r["step"]) for r in self.rows})
        for name, left in (
            ("the first ten", every[:10]),
            ("every third", every[::3]),
            ("one", every[8:9]),
        ):
            with self.subTest(left=name):
                rows = [r for r in self.rows if int(r["step"]) in left]
                found = self.told(rows)
                steps = [key for key in found if key[0] == "step"]
                self.assertEqual(len(steps), len({r["step"] for r in rows}))
                for key in steps:
                    self.assertLess(abs(found[key] / self.known[key] - 1), 0.05, key)
                self.assertLess(abs(found["launch"] / self.known["launch"] - 1), 0.02)

    def test_one_replica(self):
        found = self.told([r for r in self.rows if r["dp_rank"] == "1"])
        self.assertLess(abs(found["slowdown"] / self.known["slowdown"] - 1), 0.03)
        self.assertGreater(found["by_stage", "3"], 1.2)

    def test_a_step_twice(self):
        """The same step under two numbers has the same figures twice."""
        step = int(self.rows[0]["step"])
        once = [r for r in self.rows if int(r["step"]) == step]
        found = self.told(once + [{**r, "step": 5000} for r in once])
        alone = self.told(once)
        for number in (step, 5000):
            self.assertAlmostEqual(found["step", number], alone["step", step], places=9)
        self.assertAlmostEqual(found["slowdown"], alone["slowdown"], places=9)

    def test_an_operation_that_is_missing(self):
        """As where a tracer lost a row: other figures, but an answer."""
        chosen = random.Random(2)
        for _ in range(6):
            lost = chosen.randrange(len(self.rows))
            found = self.told(self.rows[:lost] + self.rows[lost + 1 :])
            self.assertLess(abs(found["slowdown"] / self.known["slowdown"] - 1), 0.02)


if __name__ == "__main__":
    if not STUDY.is_dir():
        print("no traces beside the checkout: skipped")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=0)
