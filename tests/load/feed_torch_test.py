#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules by which taut/feed.h plays PyTorch's DataLoader (TAUT_FEED_BY_BATCH), beside a real
one: which worker makes a batch, and how many are made ahead."""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import frameworks

PYTHON = frameworks.find_python("torch")
JOB = pathlib.Path(__file__).resolve().parent / "jobs" / "feed_torch.py"
ITEMS, BATCH = 48, 2


class Rules(unittest.TestCase):
    def test_rules(self):
        done = subprocess.run(
            [PYTHON, str(JOB)], capture_output=True, text=True, timeout=300, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(lines), 3)
        for line in lines:
            with self.subTest(workers=line["workers"], ahead=line["ahead"]):
                self.check(line)

    def check(self, line):
        n = line["workers"]
        # A batch is begun as soon as it is one of `depth` that are not taken; without
        # workers, when it is taken.
        depth = n * line["ahead"] if n else 0
        expected = [BATCH * (taken + depth) for taken in range(1, 1 + len(line["made"]))]
        self.assertEqual(line["made"], expected)
        for i, makers in enumerate(line["makers"]):
            self.assertEqual(makers, [i % n if n else -1] * BATCH)
        self.assertEqual(line["all"], ITEMS)


if __name__ == "__main__":
    frameworks.main(None if PYTHON else "no torch: tools/ensure-python torch makes it")
