# SPDX-License-Identifier: Apache-2.0
"""bench/peers_compare.py in small: two hosts of the lab with half of the set each read it once
between them, and not at all after the first epoch."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "lab"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
import cluster
from frameworks import find_python

SKIP = 77
ITEMS = 60
PYTHON = sys.executable if importlib.util.find_spec("numpy") else find_python("torch")


class PeersTest(unittest.TestCase):
    def test_storage_is_read_once(self):
        words = [PYTHON, str(ROOT / "bench" / "peers_compare.py"), "--items", str(ITEMS)]
        words += ["--side", "64", "--batch", "5", "--epochs", "3"]
        told = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=100
        )
        self.assertEqual(told.returncode, 0, told.stderr)
        rows = [line.split("|")[1:-1] for line in told.stdout.splitlines() if line[:2] == "| "]
        reads = {row[0].strip(): [float(cell) for cell in row[3:]] for row in rows[1:]}
        first, later, remote = reads["one over both"]
        self.assertEqual((first, later), (ITEMS, 0))
        self.assertGreater(remote, 0)
        # What two hosts read that do not know of each other.
        self.assertGreater(reads["a cache a host"][1], 0)
        self.assertEqual(reads["no cache"][2], 0)


def main():
    try:
        with cluster.Cluster([0, 0]):
            pass
    except cluster.Unavailable as why:
        print(why)
        return SKIP
    if not PYTHON:
        print("no interpreter with numpy")
        return SKIP
    if "TAUT_LIB" not in os.environ:
        print("no libtaut.so that a plain interpreter can load: skipped")
        return SKIP
    return not unittest.main(exit=False).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
