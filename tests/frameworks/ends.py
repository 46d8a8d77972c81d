# SPDX-License-Identifier: Apache-2.0
"""How jobs end: what both frameworks' tests ask of the job `job`, whose first argument
says what rank 1 does in its third step."""

import tempfile

import world

SECONDS = 200  # of a job; a rank that is lost is noticed within 2, as the job asks


class Ends:
    killed_among = 2

    def ranks(self, what, n_ranks=2, **more):
        return world.end(world.start([self.python, self.job, what], n_ranks, **more), SECONDS)

    def raised_on_others(self, ended, text):
        """All but rank 1 saw a RuntimeError or one of the framework's, with that text."""
        for rank, (status, out, err) in enumerate(ended):
            if rank != 1:
                self.assertEqual(status, 0, err[-2000:])
                self.assertIn("raised", out)
                self.assertRegex(out, text)

    def test_rank_is_killed(self):
        ended = self.ranks("killed", self.killed_among)
        self.assertEqual(ended[1][0], -9)
        self.raised_on_others(ended, "rank 1")

    def test_rank_is_late(self):
        """The other says once what it waits for, and goes on."""
        ended = self.ranks("late", TAUT_RUN_SAY_AFTER="1")
        for status, out, err in ended:
            self.assertEqual(status, 0, err[-2000:])
            self.assertIn("ok end", out)
        said = [line for line in ended[0][2].splitlines() if "has waited" in line]
        self.assertEqual(len(said), 1, ended[0][2])
        self.assertRegex(said[0], r"taut: rank 0 has waited 1 s for gradient \d: do all ranks make")

    def test_rank_raises(self):
        ended = self.ranks("raises")
        self.assertEqual(ended[1][0], 1)
        self.assertIn("of this rank's own", ended[1][2])
        self.raised_on_others(ended, "rank 1")

    def test_nobody_calls_shutdown(self):
        """All ranks end after their last step, and a forked process is told that it has
        no part in the job. mpirun's variables, and the secret that the first job makes."""
        with tempfile.TemporaryDirectory() as home:

            def told(rank):
                return {
                    "OMPI_COMM_WORLD_RANK": str(rank),
                    "OMPI_COMM_WORLD_SIZE": "2",
                    "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
                    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                    "PMIX_NAMESPACE": home,
                    "XDG_CONFIG_HOME": home,
                    "TAUT_SECRET": "",
                }

            ended = world.end(world.start([self.python, self.job, "ends"], 2, told), SECONDS)
        for status, out, err in ended:
            self.assertEqual(status, 0, err[-2000:])
            self.assertIn("ok forked", out)
            self.assertIn("ok end", out)
