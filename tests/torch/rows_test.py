# SPDX-License-Identifier: Apache-2.0
"""Sums of those rows of an embedding's gradient that were looked up are sums of all of it."""

import tempfile

from ranks import JOBS, LATE, PYTHON, Case, end, environment, main, programs, start

ROWS = {"TAUT_RUN_ROWS": "on"}
ERRORS = {
    "another_use": "words.weight has a gradient of another use than lookups, and had none before",
    "reads_in_backward": "words.weight or its gradient was read before backward() had all of it",
    "asks_for_one_gradient": "torch.autograd.grad() of words.weight would miss its lookups",
    "a_step_late": "words.weight: a backward() of lookups from before the last one that was summed",
    "a_hook_that_comes_later": "a hook of words.weight would miss its lookups",
}
OWN = [*ERRORS, "no_embedding", "backward_twice", "forgotten", "is_frozen_later", "how_much", "given_up"]


class Rows(Case):
    def test_all(self):
        at_once = {"tied_and_read", "values_are_clipped", "a_gradient_that_is_held"}
        self.same_as_pytorch("rows", but=OWN, on_time=at_once, engines=["coll"], variables=ROWS)

    def same_as_whole(self, n_ranks, **more):
        names = ["plain", "two", "few"]
        whole, _ = programs("rows", *names, n_ranks=n_ranks, **more, **LATE)
        rows, said = programs("rows", *names, n_ranks=n_ranks, **more, **LATE, **ROWS)
        self.assertEqual(said.count("by rows: words.weight"), 3, said)
        for name in names:
            for rank in range(n_ranks):
                self.assertEqual(rows[rank][name]["seen"], whole[rank][name]["seen"], name)

    def test_twice(self):
        name = "backward_twice"
        whole, _ = programs("rows", name, **LATE)
        rows, _ = programs("rows", name, **LATE, **ROWS)
        for rank in range(2):
            self.assertEqual(rows[rank][name]["seen"], whole[rank][name]["seen"])

    def test_forgotten(self):
        for seen in programs("rows", "forgotten", **LATE, **ROWS)[0]:
            self.assertTrue(seen["forgotten"]["stays"])
            self.assertTrue(seen["forgotten"]["goes"])

    def test_narrowed(self):
        self.same_as_whole(2, TAUT_RUN_COMPRESS="fp16", TAUT_RUN_PIECE="64")

    def test_blocks(self):
        """Of rows they are other ones than of the whole; on all ranks the same."""
        more = {"TAUT_RUN_COMPRESS": "mxint8", **LATE, **ROWS}
        rows, said = programs("rows", "plain", "two", "few", n_ranks=3, **more)
        self.assertEqual(said.count("by rows: words.weight"), 3, said)
        for name, of_first in rows[0].items():
            for of_rank in rows[1:]:
                # Behind the losses, what of parameters came of it.
                self.assertEqual(of_rank[name]["seen"][-1], of_first["seen"][-1], name)

    def test_three_ranks(self):
        """Means that are no longer exact, in the order of the ranks."""
        self.same_as_whole(3, TAUT_RUN_ORDERED="on")

    def test_given_up(self):
        more = {"TAUT_RUN_GATE": "on"}
        log = self.same_as_pytorch(
            "rows", "given_up", either={"given_up"}, engines=["coll"], variables={**ROWS, **more}
        )
        self.assertEqual(log.count("by rows: words.weight"), 3, log)
        self.assertEqual(log.count("crosses the barrier no longer"), 3, log)

    def test_errors(self):
        """A job that leaves in the middle of a backward pass may end with another error, when
        the other rank was faster."""
        own = environment(True, **LATE, **ROWS)
        for name, line in ERRORS.items():
            ended = end(start([PYTHON, str(JOBS / "rows.py"), name], 2, own))
            said = "".join(out for _, out, _ in ended)
            self.assertIn(line + ": TAUT_RUN_ROWS=off allows it", said)
            self.assertLessEqual({status for status, _, _ in ended}, {0, 1}, name)
        for seen in programs("rows", "is_frozen_later", **LATE, **ROWS)[0]:
            self.assertIn("requires_grad of a parameter", seen["is_frozen_later"]["error"])

    def test_how_much(self):
        """Of 40 rows some are looked up; beside them there are flags and a gradient."""
        own, _ = programs("rows", "how_much", **LATE, **ROWS)
        whole, _ = programs("rows", "how_much", **LATE)
        row, scale = 16, 16
        for sent in own[0]["how_much"]["sent"]:
            self.assertTrue(2 * row <= sent - scale <= 20 * row, sent)
        self.assertEqual(set(whole[0]["how_much"]["sent"]), {40 * row + scale})

    def test_groups(self):
        """What goes by rows goes with nothing else, and the others in their groups; but for two
        gradients in an iteration, for which those have no turn."""
        names = ["plain", "padded", "tied", "two", "few", "derived", "in_double", "most_rows"]
        names += ["two_passes", "passes_of_one_rank", "a_lookup_of_no_use", "evaluates", "copies"]
        names += ["come_and_go"]
        for groups in ("64+64", "1000000+1", "600+600"):
            log = self.same_as_pytorch(
                "rows", *names, engines=["coll"], variables={**ROWS, "TAUT_RUN_FUSE": groups}
            )
            self.assertIn("48 % of its rows; kinds.weight, 30 % of its rows", log)

    def test_planned(self):
        """What came of it is told: of several models one is enough."""
        with tempfile.TemporaryDirectory() as folder:
            more = {"TAUT_RUN_JOB": "ranks=2", "TAUT_RUN_MEASURE": folder, **LATE, **ROWS}
            own = environment(True, **more)
            said = "".join(log for _, _, log in end(start([PYTHON, str(JOBS / "simple.py")], 2, own)))
            self.assertIn("taut: rows was not made: no gradient by rows\n", said)
            _, said = programs("rows", "plain", "no_embedding", **more)
            self.assertNotIn("rows was not made", said)
            _, said = programs("rows", "no_embedding", "plain", **more)
            self.assertNotIn("rows was not made", said)

    def test_not(self):
        """Where it cannot be, a line says why, and all is summed as a whole."""
        for more, why in (
            ({"TAUT_RUN_ENGINE": "process-group"}, "engine coll sums them"),
            ({"TAUT_RUN_ORDER": "declared"}, "that needs order agreed"),
            ({"TAUT_RUN_HALVES": "on"}, "that needs order agreed"),
        ):
            _, said = programs("rows", "plain", **LATE, **ROWS, **more)
            self.assertIn("no gradient by rows: " + why, said)

    def test_models(self):
        """That have embeddings, and that have none."""
        self.same_as_pytorch(
            "models", on_time={"unused"}, either={"unused_and_unread", "unused_accumulates"},
            engines=["coll"], variables=ROWS,
        )


if __name__ == "__main__":
    main()
