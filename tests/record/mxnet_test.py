#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unchanged MXNet jobs under `taut record`: gluon and Module on a parameter
server, a job alone, a job that uses the profiler itself. Skipped where MXNet
is missing: tools/ensure-python mxnet makes an environment with it."""
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS = ROOT / "tests" / "record" / "jobs"
FIRST, END = 6, 10
# of the gluon job, by name, biases first: key -> bytes
SIZES = {
    "0": 256 * 4, "1": 256 * 512 * 4, "2": 256 * 4, "3": 256 * 256 * 4,
    "4": 10 * 4, "5": 10 * 256 * 4,
}
CATEGORIES = (
    "compute", "comm_exposed", "comm_wait", "host_bound", "data", "copy", "other"
)


def find_python():
    """An interpreter with MXNet, or None."""
    own = ROOT / "build-python" / "mxnet" / "bin" / "python"
    for path in (os.environ.get("TAUT_MXNET_PYTHON"), str(own)):
        if path and os.access(path, os.X_OK):
            done = subprocess.run([path, "-c", "import mxnet"], capture_output=True)
            return path if done.returncode == 0 else None
    return None


PYTHON = find_python()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="taut-mxnet-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_folder = self.folder / "run"

    def run_job(self, *words, record=True, status=0):
        command = [PYTHON, *map(str, words)]
        if record:
            steps = "%d:%d" % (FIRST, END)
            command = [os.path.abspath(TAUT), "record", "--steps", steps,
                       "--out", str(self.run_folder), "--", *command]
        own = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run(
            command, capture_output=True, text=True, env=own, cwd=self.folder,
            timeout=100,
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def run_workers(self, how, **options):
        job = JOBS / "mxnet_job.py"
        return self.run_job(JOBS / "mxnet_launch.py", job, how, **options)

    def recording(self):
        return json.loads((self.run_folder / "recording.json").read_text())

    def report(self):
        done = subprocess.run(
            [TAUT, "report", str(self.run_folder), "--json"],
            capture_output=True, text=True, timeout=100,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_report(self, ranks):
        """What must hold of each report: returns it."""
        report = self.report()
        self.assertEqual(report["rank_ids"], list(range(ranks)))
        steps = sorted((s["rank"], s["step"]) for s in report["steps"])
        want = [(r, s) for r in range(ranks) for s in range(FIRST, END)]
        self.assertEqual(steps, want)
        for step, row in zip(report["steps"], report["breakdown"]):
            parts = [row["ms"][c] for c in CATEGORIES]
            self.assertEqual(len(parts), len(row["ms"]))
            self.assertAlmostEqual(sum(parts), step["measured_ms"], delta=0.01)
        self.assertLessEqual(report["replay"]["error_pct_max"], 3)
        return report

    def profile(self, rank):
        path = self.run_folder / ("rank%d" % rank) / "mxnet.json"
        # the second dump of a process begins with a comma too many
        return json.loads(path.read_text().replace("[\n,", "[\n", 1))["traceEvents"]


class ParameterServer(Case):
    def test_gluon(self):
        plain = self.run_workers("gluon", record=False)
        self.assertEqual(plain.count("step "), 14)
        self.assertEqual(self.run_workers("gluon"), plain)
        said = self.recording()
        self.assertTrue(said["complete"], said)
        self.assertEqual((said["ranks"], said["world_size"]), ([0, 1], 2))
        report = self.check_report(2)
        self.check_exchanges(report, SIZES)
        self.check_times(report)
        self.check_left_over()

    def check_exchanges(self, report, sizes):
        """Each key once a step, on both workers, of the right size."""
        c = report["collectives"]
        n = len(sizes) * (END - FIRST)
        self.assertEqual((c["count"], c["complete"]), (n, n))
        self.assertEqual(report["graph"]["unmatched_collectives"], 0)
        got = {k["group"].split()[-1]: (k["bytes"], k["count"]) for k in c["kinds"]}
        steps = END - FIRST
        want = {k: (v * steps, steps) for k, v in sizes.items()}
        self.assertEqual(got, want)

    def check_times(self, report):
        """What is exposed lies within what the marks of the engine enclose."""
        for rank in (0, 1):
            ready, done = {}, {}
            for e in self.profile(rank):
                if e.get("cat") != "operator" or e["ph"] != "B":
                    continue
                kind, *rest = e["name"].split("|")
                if kind == "taut.ready":
                    ready[tuple(rest[:2])] = e["ts"]
                elif kind == "taut.done":
                    done[tuple(rest[:2])] = e["ts"]
            self.assertEqual(set(ready), set(done))
            self.assertEqual(len(ready), len(SIZES) * (END - FIRST))
            self.assertTrue(all(ready[k] <= done[k] for k in ready))
            most = sum(done[k] - ready[k] for k in ready) / 1e3
            exposed = sum(
                row["ms"]["comm_exposed"] + row["ms"]["comm_wait"]
                for row in report["breakdown"] if row["rank"] == rank
            )
            self.assertGreater(exposed, 0)
            self.assertLessEqual(exposed, most)

    def check_left_over(self):
        names = [p.name for p in self.run_folder.rglob("*")]
        self.assertFalse([n for n in names if ".part" in n or n == "profile.json"])
        self.assertFalse(list(self.folder.glob("*.json")))

    def test_module(self):
        plain = self.run_workers("module", record=False)
        self.assertEqual(self.run_workers("module"), plain)
        self.assertTrue(self.recording()["complete"])
        sizes = {
            "fc1_weight": 256 * 512 * 4, "fc1_bias": 256 * 4,
            "fc2_weight": 10 * 256 * 4, "fc2_bias": 10 * 4,
        }
        self.check_exchanges(self.check_report(2), sizes)

    def test_failure(self):
        """In the last of four steps: three are there, and it is said."""
        self.run_workers("fails", status=1)
        said = self.recording()
        self.assertFalse(said["complete"])
        self.assertEqual(said["exit_status"], 1)
        for path in glob.glob(str(self.run_folder / "processes" / "*.json")):
            state = json.loads(pathlib.Path(path).read_text())["state"]
            self.assertTrue(state.startswith("the job failed in step 9"), state)
        steps = sorted((s["rank"], s["step"]) for s in self.report()["steps"])
        self.assertEqual(steps, [(r, s) for r in (0, 1) for s in (6, 7, 8)])

    def test_profiler_of_the_job(self):
        """It is the job's: nothing is recorded, and that is said."""
        self.run_workers("profiles")
        self.assertFalse(self.recording()["complete"])
        for path in glob.glob(str(self.run_folder / "processes" / "*.json")):
            state = json.loads(pathlib.Path(path).read_text())["state"]
            self.assertEqual(
                state, "not recorded: the job uses MXNet's profiler itself"
            )
        for rank in (0, 1):
            own = json.loads((self.folder / ("own-%d.json" % rank)).read_text())
            names = [e.get("name", "") for e in own["traceEvents"]]
            self.assertIn("MXAutogradBackwardEx", names)
            self.assertFalse([n for n in names if n.startswith("taut.")])


class Alone(Case):
    def test_one_process(self):
        self.run_job(JOBS / "mxnet_job.py", "alone")
        self.assertTrue(self.recording()["complete"])
        report = self.check_report(1)
        self.assertEqual(report["collectives"]["count"], 0)
        self.assertGreater(report["breakdown"][0]["ms"]["compute"], 0)


if __name__ == "__main__":
    if PYTHON is None:
        print("no MXNet: tools/ensure-python mxnet makes an environment")
        sys.exit(77)
    unittest.main(verbosity=2)
