# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed, fail or leave: the others end with an error, soon."""

import json
import unittest

from ranks import JOBS, PYTHON, end, environment, main, start

SIMPLE = str(JOBS / "simple.py")


class Ends(unittest.TestCase):
    def ends(self, how, gate):
        own = environment(True, TAUT_RUN_GATE=gate)
        return end(start([PYTHON, SIMPLE, "--steps", "6", "--end", how], 2, own), 40)

    def test_a_rank_is_killed(self):
        first, second = self.ends("kill", "off")
        self.assertEqual(second[0], -9)
        self.assertEqual(first[0], 1)
        self.assertRegex(first[2], "gradients cannot be summed: .*rank 1|rank 1")

    def test_a_rank_fails(self):
        first, second = self.ends("raise", "off")
        self.assertIn("ValueError: the job's own error", second[2])
        self.assertEqual((first[0], second[0]), (1, 1))

    def test_a_rank_changes_its_model(self):
        command = [PYTHON, str(JOBS / "left.py"), "pruned_by_one"]
        first, second = end(start(command, 2, environment(True, TAUT_RUN_GATE="off")), 40)
        self.assertIn("RuntimeError: 2.weight has 16 elements", second[2])
        self.assertIn("rank 1 has left", first[2])
        self.assertEqual((first[0], second[0]), (1, 1))

    def test_a_rank_leaves(self):
        first, second = self.ends("exit", "on")
        self.assertEqual(second[0], 3)
        self.assertEqual(first[0], 1)

    def test_what_nobody_reads_is_lost(self):
        """The last updates wait for a rank that is gone, and the job has not heard of
        it: its exit status says so."""
        for engine in ("coll", "process-group"):
            own = environment(True, TAUT_RUN_GATE="off", TAUT_RUN_ENGINE=engine)
            command = [PYTHON, SIMPLE, "--steps", "4", "--end", "early"]
            first, second = end(start(command, 2, own), 60)
            self.assertEqual(second[0], -9)
            self.assertEqual(first[0], 1, first[2])
            self.assertIn("RuntimeError: updates under way are lost: ", first[2])

    def test_the_others_leave_their_group(self):
        """What cannot be summed any more is told, and keeps no group from its end."""
        for engine in ("coll", "process-group"):
            own = environment(True, TAUT_RUN_GATE="off", TAUT_RUN_ENGINE=engine)
            command = [PYTHON, SIMPLE, "--steps", "6", "--end", "kill", "--catches"]
            first, _ = end(start(command, 2, own), 40)
            self.assertEqual(first[0], 0, first[2])
            self.assertEqual(json.loads(first[1]), {"name": "left", "is_there": False})


if __name__ == "__main__":
    main()
