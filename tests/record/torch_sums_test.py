# SPDX-License-Identifier: Apache-2.0
"""What `taut record` of a PyTorch job under `taut run` tells of the gradients that Taut
sums: each is handed over and waited for once a step, what of it went when is there,
matched over the ranks, and what follows from that is right."""

import collections
import csv
import io
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

from torch_case import LAUNCH, PYTHON, ROOT, clean_environment, main

JOB = [str(ROOT / "bench" / "lab" / "job.py"), "--model", "vgg", "--batch", "2", "--steps", "20"]
MODELS = [str(ROOT / "tests" / "record" / "jobs" / "torch_two_models.py"), "16"]
TAUT = os.environ.get("TAUT", "")
GRADIENTS = 20  # of the lab's VGG
BYTES = 4 * 7193188
HEADER_BYTES, RECORD_BYTES, SUM_CALL = 4096, 128, 10  # of an event log


def taut(*words, variables=None):
    environment = clean_environment(**(variables or {}))
    return subprocess.run(
        [TAUT, *map(str, words)], env=environment, capture_output=True, text=True,
        timeout=240, check=False,
    )


@unittest.skipUnless(TAUT, "no TAUT: the command was not built")
class Sums(unittest.TestCase):
    def record(self, steps, job=JOB, **variables):
        """The recording's folder, and its rows by rank."""
        parent = tempfile.TemporaryDirectory(prefix="taut-sums-")
        self.addCleanup(parent.cleanup)
        folder = pathlib.Path(parent.name) / "run"
        job = [PYTHON, LAUNCH, "2", *job]
        ended = taut(
            "record", "--steps", steps, "-o", folder, "--", TAUT, "run", "--", *job,
            variables=variables,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        rows = collections.defaultdict(list)
        for row in csv.DictReader(io.StringIO(self.told("convert", folder, "--to", "csv"))):
            rows[int(row["rank"])].append(row)
        return folder, rows

    def told(self, *words):
        ended = taut(*words)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def calls(self, folder, rank):
        """How many hand-overs and waits the rank's log tells (src/base/log_format.h)."""
        (path,) = (folder / ("rank%d" % rank)).glob("sums-*.tautlog")
        data, found = path.read_bytes(), [0, 0]
        for at in range(HEADER_BYTES, len(data), RECORD_BYTES):
            if struct.unpack_from("<I", data, at)[0] == SUM_CALL:
                found[struct.unpack_from("<I", data, at + 48)[0]] += 1
        return found

    def test_across_the_barrier(self):
        folder, rows = self.record("10:14", TAUT_RUN_GATE="off")
        for rank in range(2):
            own = rows[rank]
            ready, waits = self.calls(folder, rank)
            self.assertEqual(ready, 4 * GRADIENTS)
            # In the step, where the sum was there when it ended, or in the next.
            self.assertGreaterEqual(waits, 3 * GRADIENTS)
            self.assertLessEqual(waits, 5 * GRADIENTS)
            sums = [r for r in own if (r["name"], r["kind"]) == ("taut_sum", "transfer")]
            sent = sum(int(r["bytes"]) for r in sums)
            # Three steps are there from the first piece to the last.
            self.assertGreaterEqual(sent, 3 * BYTES)
            self.assertLessEqual(sent, 5 * BYTES)
        report = json.loads(self.told("report", folder, "--json"))
        told = [c for c in report["collectives"]["kinds"] if c["kernel"] == "taut_sum"]
        self.assertEqual([c["name"] for c in told], ["all-reduce"])
        self.assertEqual(told[0]["group_size"], 2)
        told = json.loads(self.told("whatif", folder, "link=2x,between=ranks", "--json"))
        self.assertGreater(told["after_ms"], 0)
        ended = taut("whatif", folder, "bucket=1MB")
        self.assertNotEqual(ended.returncode, 0)
        # The second where all waits of the other steps came to be in them.
        self.assertRegex(ended.stderr, r"^taut: step 1\d of rank \d (waits for gradient \d+ of the "
                         "step before: .*record the job without taut run"
                         r"|has no taut_sync_wait .*, or updates that cross its end)")
        self.assertEqual(ended.stderr.count("\n"), 1)

    def test_within_steps(self):
        """While the gate measures: sums are waited for where backward() ends."""
        folder, rows = self.record("2:4")
        for rank in range(2):
            self.assertEqual(self.calls(folder, rank), [2 * GRADIENTS] * 2)
        # Other groups of gradients, in place of those that there were.
        for change in "bucket=1MB", "schedule=priority":
            told = json.loads(self.told("whatif", folder, change, "--json"))
            self.assertGreater(told["after_ms"], 0)
        # What a plan decides would be told to a job that is summed by DDP.
        ended = taut("plan", folder)
        self.assertNotEqual(ended.returncode, 0)
        self.assertRegex(ended.stderr, r"^taut: .*recorded under 'taut run'.*record it without$")

    def test_two_models(self):
        """Whose gradients have the same numbers: each model's messages are its own."""
        folder, rows = self.record("2:4", MODELS)
        sums = [r for r in rows[0] if (r["name"], r["kind"]) == ("taut_sum", "transfer")]
        groups = collections.defaultdict(set)
        for r in sums:
            groups[r["group"]].add(int(r["bytes"]))
        self.assertEqual(sorted(groups), ["taut 1.1", "taut 2.1"])
        sizes = [4 * (64 * width + width + width + 1) for width in (256, 64)]
        self.assertEqual([sum(sizes) for sizes in groups.values()], sizes)
        report = json.loads(self.told("report", folder, "--json"))["collectives"]
        self.assertEqual(report["complete"], report["count"])
        ended = taut("whatif", folder, "bucket=1MB")
        self.assertNotEqual(ended.returncode, 0)
        self.assertRegex(ended.stderr, r"^taut: step \d+ of rank 0 sums gradients of several models")

    def test_nothing_of_it(self):
        """A job as it is has no log of sums."""
        folder, rows = self.record("2:4", TAUT_RUN_SCHEDULE="off")
        self.assertFalse(list(folder.glob("rank*/sums-*")))
        self.assertFalse([r for r in rows[0] if r["name"].startswith("taut_")])


if __name__ == "__main__":
    main()
