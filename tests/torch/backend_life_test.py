# SPDX-License-Identifier: Apache-2.0
"""Process groups of the backend "taut" from init_process_group() to their end: one after
another, many, ranks that are late, an interpreter that ends first, children of fork()."""

import os
import pathlib
import stat
import tempfile
import unittest

from backend_ends_test import run
from ranks import JOBS, PACKAGE, PYTHON, end, environment, lines, main, start


class Life(unittest.TestCase):
    def test_in_one_process(self):
        """TAUT_TEST_GROUPS=1000: half a minute."""
        n = os.environ.get("TAUT_TEST_GROUPS", "60")
        own = dict(environment(False), PYTHONPATH=str(PACKAGE), TAUT_TEST_GROUPS=n)
        folder = tempfile.TemporaryDirectory()  # for the secret of groups that meet by a file
        self.addCleanup(folder.cleanup)
        own["XDG_CONFIG_HOME"] = folder.name
        command = [PYTHON, str(JOBS / "backend_ends.py"), "again", "late", "many_groups"]
        first, second = lines(end(start(command, 2, own, whole=True), 60 + int(n)))
        secret = pathlib.Path(folder.name, "taut", "secret")
        self.assertEqual(stat.S_IMODE(secret.stat().st_mode), 0o600)
        self.check_late(first["late"], second["late"])
        for rows in (first, second):
            self.assertEqual(rows["again"]["seen"], [2, 2, 2])
            self.check_groups(rows["many_groups"], int(n))

    def check_late(self, first, second):
        words = "taut: rank 0: a collective is not over within %s s"
        self.assertEqual((first["short"], first["own"]), (words % 0.1, words % 0.3))
        self.assertIn(words % 0.3, first["future"])
        self.assertEqual((first["sum"], second["sum"]), (2, 2))

    def check_groups(self, said, n):
        self.assertEqual((said["threads"], said["n"]), (0, n))
        self.assertLessEqual(said["fds"], 0)
        self.assertLess(said["maps"], 8)
        self.assertLess(said["bytes"], 4 << 20)

    def test_the_interpreter_ends(self):
        """With sums under way, futures asked for, a thread in a call: no hang, no crash,
        not a word."""
        for name in ("not_destroyed", "ends_in_a_call"):
            with self.subTest(name=name):
                for status, _, err in run(name):
                    self.assertEqual((status, err), (0, ""))

    def test_forks(self):
        for status, said, err in run("forks"):
            self.assertEqual((status, err), (0, ""))
            self.assertEqual((said["total"], said["status"], said["sum"]), (56, 0, 8))
            self.assertIn("was forked from the one that made it", said["child"])


if __name__ == "__main__":
    main()
