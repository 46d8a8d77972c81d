# SPDX-License-Identifier: Apache-2.0
"""Ranks of a process group of the backend "taut" that are killed, fail, leave, or cannot
take part: the others are told, soon and by name."""

import json
import tempfile
import unittest

from ranks import JOBS, PACKAGE, PYTHON, end, environment, main, start


def run(*names, **more):
    """Exit status, what was said last and standard error, by rank."""
    own = dict(environment(False), PYTHONPATH=str(PACKAGE), **more)
    command = [PYTHON, str(JOBS / "backend_ends.py"), *names]
    found = []
    for status, out, err in end(start(command, 2, own, whole=True)):
        found.append((status, json.loads(out.splitlines()[-1]) if out else None, err))
    return found


class Ends(unittest.TestCase):
    def lost(self, name, status, words):
        """Rank 0 is told in whatever it waits in, with the line that names rank 1."""
        first, second = run(name)
        self.assertEqual((first[0], second[0]), (0, status), first[2])
        found = first[1]
        for key in ("work", "again", "future", "then", "call", "barrier"):
            self.assertIn(words, found[key]["error"], key)
            self.assertTrue(found[key]["soon"], key)
        self.assertTrue(found["is over"])
        return second

    def test_killed(self):
        self.lost("killed", -9, "rank 1 (127.0.0.1) is lost")

    def test_raised(self):
        second = self.lost("raised", 1, "rank 1 has left")
        self.assertIn("ValueError: the job's own error", second[2])

    def test_left(self):
        self.lost("left", 0, "rank 1 has left")

    def test_ddp(self):
        first, _ = run("ddp_killed")
        self.assertEqual(first[0], 0, first[2])
        self.assertIn("rank 1 (127.0.0.1) is lost", first[1]["error"])
        self.assertTrue(first[1]["soon"])

    def test_a_rank_has_no_library(self):
        for status, said, _ in run("lacks"):
            self.assertEqual(status, 0)
            self.assertIn("there is no such process group: rank 1: /nowhere/libtaut.so", said["error"])

    def test_told_on_one_rank_alone(self):
        for name, words in (
            ("wrong_option", "rank 1: TAUT_RUN_PIECE: expected bytes, found 'many'"),
            ("other_order", "TAUT_RUN_ORDERED: rank 1 has another than rank 0"),
            ("other_secret", "the user's secret: rank 1 has another than rank 0"),
        ):
            with self.subTest(name=name), tempfile.TemporaryDirectory() as home:
                for status, said, err in run(name, XDG_CONFIG_HOME=home):
                    self.assertEqual(status, 0, err)
                    self.assertIn("there is no such process group: " + words, said["error"])
                    self.assertTrue(said["soon"])


if __name__ == "__main__":
    main()
