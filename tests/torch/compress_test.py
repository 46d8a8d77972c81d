# SPDX-License-Identifier: Apache-2.0
"""`taut run --compress`: sums that are the bits of rounding and adding by hand, half
the bytes, losses near to those without, and what is refused."""

import unittest

from ranks import JOBS, LATE, PYTHON, SERVERS, end, environment, lines, main, programs, start

CALL = {"TAUT_RUN_ENGINE": "coll", "TAUT_RUN_ORDERED": "on", "TAUT_TEST_STEPS": "5"}
# The gradients of a step go in pieces, across the barrier, as late as can be.
ACROSS = dict(CALL, TAUT_RUN_PIECE="256", TAUT_RUN_CREDIT="1024", TAUT_RUN_FUSE="200", **LATE)


class Compress(unittest.TestCase):
    def check_sums(self, seen, n_exchanges):
        for rank in seen:
            for name, row in rank.items():
                with self.subTest(program=name):
                    self.assertTrue(row["same"])
                    self.assertTrue(row.get("near", True))
                    if "bytes" in row:
                        self.assertEqual(row["bytes"], n_exchanges * row["expected"])
                        self.assertGreater(row["cast"], 0)

    def test_across_the_barrier(self):
        """In both types, whole and in halves; one step goes before, without crossing."""
        names = ["mixed", "mixed_read", "accumulates", "unused"]
        seen, _ = programs("compress", *names, n_ranks=3, TAUT_RUN_COMPRESS="fp16", **ACROSS)
        self.check_sums(seen, 4)
        self.assertEqual(len({rank["mixed"]["seen"] for rank in seen}), 1)
        self.assertGreater(seen[0]["mixed"]["late"], 0)
        seen, _ = programs("compress", *names, TAUT_RUN_COMPRESS="bf16", TAUT_RUN_HALVES="on",
                           **ACROSS)
        self.check_sums(seen, 4)
        self.assertGreater(seen[0]["mixed"]["late"], 0)

    def test_measured(self):
        """While the gate measures whole gradients go, in the order of declaration."""
        seen, log = programs("compress", "mixed", "accumulates", "overflows",
                             TAUT_RUN_COMPRESS="fp16", **CALL)
        over = [rank.pop("overflows")["seen"] for rank in seen]
        self.check_sums(seen, 5)
        self.assertNotIn("PyTorch's own", log)
        self.assertEqual(over[0], over[1])
        (beyond, one), (within, _) = over[0]
        self.assertEqual((beyond, one), (float("inf"), 1.0))
        # 0.4 * 65504 * 2 is narrowed when it is halved.
        self.assertEqual(within, 26208.0)

    def test_losses(self):
        """40 steps, with each and without."""
        own = {}
        for kind in ("none", "fp16", "bf16"):
            own[kind] = start(
                [PYTHON, str(JOBS / "compress.py"), "learns"], 2,
                environment(True, **dict(CALL, TAUT_RUN_COMPRESS=kind, TAUT_RUN_GATE="off")),
            )
        losses = {kind: lines(end(processes))[0]["learns"] for kind, processes in own.items()}
        plain = losses["none"]["losses"]
        self.assertLess(sum(plain[-5:]), 0.7 * sum(plain[:5]))
        for kind, most in (("fp16", 2e-3), ("bf16", 2e-2)):
            self.assertNotEqual(losses[kind]["seen"], losses["none"]["seen"])
            for a, b in zip(losses[kind]["losses"], plain):
                self.assertLess(abs(a - b), most)

    def test_refused(self):
        """By all, before anything is summed; the job goes on with PyTorch's own class."""
        refused = [
            ({"TAUT_RUN_ENGINE": "process-group"}, [], "--compress: engine process-group sums"),
            ({}, ["--lacks", "compress"], "rank 1 has other options than rank 0"),
        ]
        if SERVERS["TAUT_RUN_COMMAND"]:
            refused.append((SERVERS, [], "--compress: servers sum gradients"))
        for more, words, why in refused:
            own = environment(True, **dict({"TAUT_RUN_COMPRESS": "fp16"}, **more))
            ended = end(start([PYTHON, str(JOBS / "simple.py"), *words], 2, own))
            lines(ended)
            said = [line for line in ended[0][2].splitlines() if why in line]
            self.assertEqual(len(said), 1, ended[0][2])


if __name__ == "__main__":
    main()
