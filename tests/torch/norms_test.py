# SPDX-License-Identifier: Apache-2.0
"""What batch norms keep is rank 0's on all ranks, whoever sends it and when."""

from ranks import LATE, Case, main, programs

ALONE = ["who_sends", "rank_0_changes_it", "runs_again"]


class Norms(Case):
    def test_all(self):
        self.same_as_pytorch("norms", but=ALONE)

    def test_while_the_gate_decides(self):
        """Which ends one exchange, and begins another."""
        names = ["each_step", "evaluates", "accumulates"]
        gate = {"TAUT_RUN_GATE": "on"}
        self.same_as_pytorch("norms", *names, either=names, engines=["coll"], variables=gate)

    def test_who_sends(self):
        for engine, sent in ("coll", 1), ("process-group", 12):
            for seen in programs("norms", "who_sends", **LATE, TAUT_RUN_ENGINE=engine)[0]:
                self.assertEqual(seen["who_sends"]["sent"], sent, engine)

    def test_a_change_between_passes(self):
        one, other = programs("norms", "rank_0_changes_it", **LATE, TAUT_RUN_ENGINE="coll")[0]
        self.assertEqual(one["rank_0_changes_it"]["seen"], [1, 2, 3, 1004, 1005, 1006])
        self.assertEqual(other["rank_0_changes_it"]["seen"], [1, 2, 3, 4, 1005, 1006])

    def test_a_norm_that_runs_again(self):
        """In the backward pass, which is a change between two passes; the second has it a
        pass later, and then PyTorch sends."""
        one, other = programs("norms", "runs_again", **LATE, TAUT_RUN_ENGINE="coll")[0]
        self.assertEqual(one["runs_again"]["seen"], [2, 4, 6, 8, 10, 12])
        self.assertEqual(other["runs_again"]["seen"], [2, 3, 6, 8, 10, 12])


if __name__ == "__main__":
    main()
