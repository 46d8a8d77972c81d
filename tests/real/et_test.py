#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Execution traces of real jobs beside their profiler traces, where they lie
beside the checkout. How many operators there are to find, and what was
communicated, is counted here from the files themselves."""
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TAUT = os.environ.get("TAUT", "build/taut")
TRACES = pathlib.Path(__file__).resolve().parents[3] / "shared" / "traces"
MEGATRON = TRACES / "pytorch" / "megatron-tp8-a100"
MEGATRON_ET = TRACES / "pytorch-et" / "megatron-tp8"
PARAM = TRACES / "pytorch" / "param"


def report(*paths):
    done = subprocess.run([TAUT, "report", *map(str, paths), "--json"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def nodes(path):
    return json.loads(gzip.decompress(path.read_bytes()))["nodes"]


def operators(path):
    """What a profiler can have seen: not the marks of the writer itself."""
    return [n for n in nodes(path)
            if not n["name"].startswith("[pytorch|profiler|")]


def joined(got, path):
    note = next(n for n in got["notes"] if n.startswith(str(path)))
    found = re.search(r"(\d+) of its (\d+) operators are found .* \((.*)\), "
                      r"and (\d+) collectives", note)
    return int(found[1]), int(found[2]), found[3], int(found[4])


class Megatron(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.et = [MEGATRON_ET / f"et_rank{r}.json.gz" for r in (0, 1)]
        cls.kineto = [MEGATRON / f"rank{r}.pt.trace.json.gz" for r in (0, 1)]
        cls.got = report(*cls.kineto, *cls.et)

    def test_every_operator_is_found(self):
        for path in self.et:
            found, of, way, gained = joined(self.got, path)
            self.assertEqual(of, len(operators(path)))
            self.assertEqual(found, of)
            self.assertEqual(way, "by Ev Idx")
            transfers = [n for n in nodes(path)
                         if n["name"] == "record_param_comms"
                         and n["input_types"][0].startswith("GenericList")]
            self.assertEqual(gained, len(transfers))

    def test_bytes_are_those_of_the_tensors(self):
        """Added up over what the graph takes for collectives: all but the
        operators that ran before the first kernel."""
        size = {"c10::Half": 2, "float": 4}
        total = 0
        for n in nodes(self.et[0]):
            kind = re.match(r"GenericList\[Tensor\((.*)\)\]",
                            n.get("input_types", [""])[0]
                            if n["name"] == "record_param_comms" else "")
            if kind:
                total += n["inputs"][0][0][3] * size[kind[1]]
        row, = self.got["collectives"]["kinds"]
        self.assertLessEqual(row["bytes"], total)
        self.assertGreater(row["bytes"], total * 0.99)

    def test_a_folder(self):
        """Files of both kinds in one folder, paired by the ranks in their
        names."""
        with tempfile.TemporaryDirectory() as folder:
            for path in (*self.kineto, *self.et):
                os.symlink(path, os.path.join(folder, path.name))
            got = report(folder)
            self.assertEqual(len(got["steps"]), 2)
            for path in self.et:
                self.assertEqual(
                    joined(got, os.path.join(folder, path.name))[0], 5422)

    def test_the_report_is_otherwise_the_same(self):
        alone = report(*self.kineto)
        self.assertEqual(alone["steps"], self.got["steps"])
        self.assertEqual(alone["breakdown"], self.got["breakdown"])

    def test_alone_it_is_refused(self):
        done = subprocess.run([TAUT, "report", self.et[0]],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("give the Kineto trace of the same run", done.stderr)


class Param(unittest.TestCase):
    def test_one_step_of_forty(self):
        path = PARAM / "linear_et.json.gz"
        got = report(PARAM / "linear_kineto.json.gz", path)
        found, of, way, _ = joined(got, path)
        self.assertEqual((found, of), (len(operators(path)),) * 2)
        self.assertEqual(way, "in every step")

    def test_another_run(self):
        """Its execution trace has DistributedDataParallel, the other none."""
        path = PARAM / "resnet_et.json.gz"
        got = report(PARAM / "resnet_kineto.json.gz", path)
        note = next(n for n in got["notes"] if n.startswith(str(path)))
        self.assertIn("of another run", note)

    def test_simple_add(self):
        folder = TRACES / "pytorch" / "hta" / "execution_trace"
        path = folder / "benchmark_simple_add_et.json.gz"
        found, of, way, _ = joined(report(folder), path)
        self.assertEqual((found, of), (36, len(operators(path))))


if __name__ == "__main__":
    if not TRACES.is_dir():
        print("no traces beside the checkout: skipped")
        sys.exit(77)
    done = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    sys.exit(0 if done.wasSuccessful() else 1)
