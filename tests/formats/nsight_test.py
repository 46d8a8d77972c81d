#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real export of Nsight Systems (two H100s, 300 ms of a training run cut
out by its authors), against queries of the same file by Python's sqlite3."""
import csv
import gzip
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
ROOT = os.path.dirname(os.path.abspath(__file__))
EXPORT = os.path.join(ROOT, "..", "..", "..", "shared", "traces", "nsys",
                      "mfu_2gpu_before.sqlite")


def run(*args):
    return subprocess.run([TAUT, *args], capture_output=True, text=True)


def report(path):
    done = run("report", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def union(spans):
    """Time covered by at least one of the spans."""
    total, end = 0, None
    for a, b in sorted(spans):
        total += max(0, b - (a if end is None else max(a, end)))
        end = b if end is None else max(end, b)
    return total


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.db = sqlite3.connect(
            "file:%s?mode=ro&immutable=1" % EXPORT, uri=True)
        cls.report = report(EXPORT)
        done = run("convert", EXPORT, "--to", "csv")
        assert done.returncode == 0, done.stderr
        cls.operations = list(csv.DictReader(io.StringIO(done.stdout)))

    def rows(self, sql, *args):
        return self.db.execute(sql, args).fetchall()

    def pids(self):
        return [r[0] for r in self.rows(
            "SELECT DISTINCT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL "
            "ORDER BY deviceId")]

    def test_two_ranks_and_one_step(self):
        self.assertEqual(self.report["rank_ids"], [0, 1])
        self.assertEqual([s["rank"] for s in self.report["steps"]], [0, 1])

    def test_every_collective_is_matched(self):
        n = [len(self.nccl(p)) for p in self.pids()]
        self.assertEqual(n, [33, 33])
        c = self.report["collectives"]
        self.assertEqual((c["count"], c["complete"]), (33, 33))

    def nccl(self, pid):
        return self.rows(
            "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL "
            "JOIN StringIds ON id = shortName WHERE globalPid = ? AND value "
            "LIKE 'nccl%' ORDER BY start", pid)

    def test_waiting_for_the_other_rank(self):
        """Until the later of the two kernels began, the earlier waited."""
        a, b = (self.nccl(p) for p in self.pids())
        wait = [0, 0]
        for x, y in zip(a, b):
            began = max(x[0], y[0])
            wait[0] += min(began, x[1]) - x[0]
            wait[1] += min(began, y[1]) - y[0]
        for got, want in zip(
                self.report["collectives"]["wait_ms_by_rank"], wait):
            self.assertAlmostEqual(got, want / 1e6, delta=0.05)

    def test_time_of_kernels(self):
        """Computing is what kernels other than NCCL's cover."""
        for row, pid in zip(self.report["breakdown"], self.pids()):
            spans = self.rows(
                "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL "
                "JOIN StringIds ON id = shortName WHERE globalPid = ? AND "
                "value NOT LIKE 'nccl%'", pid)
            self.assertAlmostEqual(row["ms"]["compute"], union(spans) / 1e6,
                                   delta=0.01)

    def test_categories_add_up(self):
        for row, step in zip(self.report["breakdown"],
                             self.report["steps"]):
            self.assertAlmostEqual(sum(row["ms"].values()),
                                   step["measured_ms"], places=3)

    def test_synchronisation_is_waiting_and_not_work(self):
        """16 waits of 10 ms for the device are no time of the host."""
        host = [o for o in self.report["critical_path"]
                if o["name"] == "cudaStreamSynchronize"]
        waited = self.rows(
            "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
            " WHERE syncType = 3")[0][0] / 2e6
        self.assertGreater(waited, 100)
        self.assertLess(sum(o["ms"] for o in host), 20)

    def of_device(self, rank, kinds):
        us = [float(o["duration_us"]) for o in self.operations
              if o["rank"] == str(rank) and o["kind"] in kinds
              and o["lane"].startswith("stream")]
        return len(us), sum(us)

    def test_counts_and_sums_of_each_stream(self):
        sql = ("SELECT count(*), sum(end - start) / 1e3 FROM "
               "CUPTI_ACTIVITY_KIND_%s WHERE globalPid = ?")
        for rank, pid in enumerate(self.pids()):
            n, us = self.rows(sql % "KERNEL", pid)[0]
            got = self.of_device(rank, ("kernel", "transfer", "arrive"))
            self.assertEqual(got[0] - 33, n)  # a collective is two
            waited = self.report["collectives"]["wait_ms_by_rank"][rank]
            self.assertAlmostEqual(got[1] + waited * 1e3, us, delta=5)
            copies = [self.rows(sql % table, pid)[0]
                      for table in ("MEMCPY", "MEMSET")]
            got = self.of_device(rank, ("copy",))
            self.assertEqual(got[0], copies[0][0] + copies[1][0])
            self.assertAlmostEqual(got[1], copies[0][1] + copies[1][1],
                                   delta=1)

    def test_replay(self):
        for step in self.report["steps"]:
            self.assertAlmostEqual(step["replayed_ms"] / step["measured_ms"],
                                   1, delta=0.01)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def strip(self, got):
        got.pop("notes", None)
        got.pop("path", None)
        return {k: got[k] for k in ("ranks", "steps", "breakdown")}

    def test_compressed_and_odd_names_and_nothing_left_behind(self):
        want = self.strip(report(EXPORT))
        odd = self.path("a b?c#d%20.sqlite")
        shutil.copy(EXPORT, odd)
        os.chmod(odd, 0o444)
        with open(EXPORT, "rb") as file:
            data = file.read()
        with gzip.open(self.path("e.sqlite.gz"), "wb") as file:
            file.write(data)
        for name in ("a b?c#d%20.sqlite", "e.sqlite.gz"):
            self.assertEqual(self.strip(report(self.path(name))), want)
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["a b?c#d%20.sqlite", "e.sqlite.gz"])

    def test_cut_in_the_middle(self):
        with open(EXPORT, "rb") as file:
            data = file.read()
        for part in (5000, len(data) // 3, len(data) - 5000):
            with open(self.path("cut"), "wb") as file:
                file.write(data[:part])
            done = run("report", self.path("cut"))
            if done.returncode:
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr.count("\n"), 1)
            else:
                self.assertIn("is lost", done.stdout)

    def test_another_database(self):
        db = sqlite3.connect(self.path("x.db"))
        db.execute("CREATE TABLE t (a)")
        db.commit()
        db.close()
        done = run("report", self.path("x.db"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no Nsight Systems export", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    if not os.path.isfile(EXPORT):
        print("no export beside the checkout: skipped")
        sys.exit(77)
    done = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    sys.exit(0 if done.wasSuccessful() else 1)
