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
import tarfile
import tempfile
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
ROOT = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(ROOT, "..", "..", "..", "shared", "traces")
PYTORCH = os.path.join(TRACES, "pytorch")


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


# How the line that refuses a file goes on behind its name.
UNKNOWN = "; expected a trace of a known format (taut help report lists them)"
NO_JSON = "byte 0: is text that is not JSON" + UNKNOWN
TAR = "byte 0: is a tar archive; unpack it first" + UNKNOWN
ET = (
    "is a PyTorch execution trace (schema %s), which holds no times; give "
    "the Kineto trace of the same run beside it, and of several ranks name "
    "both by the rank"
)
REFUSED = {
    "README.md": NO_JSON,
    "chakra/1.0.2-chakra.0.0.4.tgz": TAR,
    "chakra/1.0.2-chakra.0.0.4.tgz/1.0.2-chakra.0.0.4.json":
        ET % "1.0.2-chakra.0.0.4",
    "chakra/1.0.2-chakra.0.0.4.tgz/._1.0.2-chakra.0.0.4.json":
        "byte 0: is what macOS keeps beside a file (AppleDouble), not the "
        "file" + UNKNOWN,
    "chakra/feeder_tests_trace.tar.gz": TAR,
    "chakra/json_trace.tar.gz": TAR,
    "pytorch-et/megatron-tp8/et_rank0.json.gz": ET % "1.0.1",
    "pytorch-et/megatron-tp8/et_rank1.json.gz": ET % "1.0.1",
    "pytorch/hta/execution_trace/benchmark_simple_add_et.json.gz": ET % "1.0.1",
    "pytorch/param/linear_et.json.gz": ET % "1.0.1",
    "pytorch/param/resnet_et.json.gz": ET % "1.1.0-chakra.0.0.4",
    "straggler-study/README.md": NO_JSON,
    "straggler-study/meta-ST.yaml": NO_JSON,
    "straggler-study/result-ST.json":
        "is JSON without traceEvents; expected a PyTorch profiler trace",
    "straggler-study/timeline-ST.json.gz":
        "of its 6866 events none is of a kind that PyTorch's profiler writes",
}


class Everything(unittest.TestCase):
    """Each file that lies there, and each in its archives."""

    def check(self, name, path):
        done = run("report", path, "--json")
        with self.subTest(path=name):
            if name in REFUSED:
                self.assertEqual(
                    (done.returncode, done.stdout, done.stderr),
                    (1, "", "taut: %s: %s\n" % (path, REFUSED[name])))
                return
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            got = json.loads(done.stdout)
            for row, step in zip(got["breakdown"], got["steps"]):
                self.assertAlmostEqual(sum(row["ms"].values()),
                                       step["measured_ms"], places=3)

    def test_each_file_is_read_or_refused(self):
        checked = set()
        for folder, _, names in os.walk(TRACES):
            for path in (os.path.join(folder, name) for name in names):
                name = os.path.relpath(path, TRACES)
                checked.add(name)
                self.check(name, path)
        self.assertGreater(len(checked), 40)
        self.assertEqual({name for name in REFUSED if "gz/" not in name}
                         - checked, set())

    def test_what_is_in_the_archives(self):
        checked = 0
        for archive in glob.glob(os.path.join(TRACES, "chakra", "*gz")):
            with tempfile.TemporaryDirectory() as folder, \
                    tarfile.open(archive) as tar:
                for i, member in enumerate(tar.getmembers()):
                    if not member.isfile():
                        continue
                    path = os.path.join(folder, "%d.%s" % (
                        i, os.path.basename(member.name)))
                    with open(path, "wb") as out:
                        out.write(tar.extractfile(member).read())
                    name = os.path.join(os.path.relpath(archive, TRACES),
                                        os.path.basename(member.name))
                    self.check(name, path)
                    checked += 1
        self.assertEqual(checked, 5)


if __name__ == "__main__":
    if not os.path.isdir(PYTORCH):
        print("no traces beside the checkout: skipped")
        sys.exit(77)
    done = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    sys.exit(0 if done.wasSuccessful() else 1)
