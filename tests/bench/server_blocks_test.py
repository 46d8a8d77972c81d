# SPDX-License-Identifier: Apache-2.0
"""Ranks of bench/server_compare.py (bench/servers/blocks.py): what they do when they are
told, and what they answer."""

import contextlib
import io
import json
import pathlib
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "servers"))

import blocks  # noqa: E402


class Blocks(unittest.TestCase):
    def test_two_blocks(self):
        did, out = [], io.StringIO()
        lines = '{"steps": 3, "local": false}\n{"steps": 1, "local": true}\n'
        calls = [lambda name=name: did.append(name) for name in ("all", "summed", "alone")]
        with mock.patch("sys.stdin", io.StringIO(lines)), contextlib.redirect_stdout(out):
            blocks.run(*calls)
        self.assertEqual(did, ["all", "summed", "summed", "summed", "all", "alone"])
        told = [json.loads(line)["seconds"] for line in out.getvalue().splitlines()]
        self.assertEqual([len(seconds) for seconds in told], [3, 1])
        self.assertTrue(all(s >= 0 for seconds in told for s in seconds))


if __name__ == "__main__":
    unittest.main(verbosity=2)
