# SPDX-License-Identifier: Apache-2.0
"""Runs a script of tools/ over a small tree that a test makes up."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


class ToolTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, content):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)
        return path

    def run_tool(self, name, *args):
        """(exit status, what it printed)"""
        run = subprocess.run(
            [sys.executable, TOOLS / name, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return run.returncode, run.stdout

    def check(self, name, *args):
        return self.run_tool(name, "--root", self.root, *args)
