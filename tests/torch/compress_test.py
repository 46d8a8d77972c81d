# SPDX-License-Identifier: Apache-2.0
"""`taut run --compress`: sums that are the bits of rounding and adding by hand, half
the bytes or a quarter, losses near to those of 32 bits, and what is refused."""

import unittest

from ranks import JOBS, LATE, PYTHON, end, environment, lines, main, programs, start

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

    def check_losses(self, row, most):
        plain = row["plain"]
        self.assertLess(sum(plain[-5:]), 0.7 * sum(plain[:5]))
        self.assertFalse(row["same"])
        for a, b in zip(row["losses"], plain, strict=True):
            self.assertLess(abs(a - b), most)

    def test_across_the_barrier(self):
        """One step goes before, without crossing."""
        names = ["mixed", "mixed_read", "accumulates", "unused"]
        seen, _ = programs("compress", *names, n_ranks=3, TAUT_RUN_COMPRESS="fp16", **ACROSS)
        self.check_sums(seen, 4)
        self.assertEqual(len({rank["mixed"]["seen"] for rank in seen}), 1)
        self.assertGreater(seen[0]["mixed"]["late"], 0)

    def test_halves(self):
        seen, _ = programs("compress", "mixed", "unused", "learns", TAUT_RUN_COMPRESS="bf16",
                           TAUT_RUN_HALVES="on", **ACROSS)
        self.check_losses(seen[0]["learns"], 2e-2)
        for rank in seen:
            del rank["learns"]
        self.check_sums(seen, 4)
        self.assertGreater(seen[0]["mixed"]["late"], 0)

    def test_blocks(self):
        """32 numbers that share a scale, from each gradient's begin on, whatever is cut."""
        names = ["mixed", "mixed_read", "accumulates", "unused", "learns"]
        seen, _ = programs("compress", *names, n_ranks=3, TAUT_RUN_COMPRESS="mxint8", **ACROSS)
        self.check_losses(seen[0]["learns"], 2e-2)
        for rank in seen:
            del rank["learns"]
        self.check_sums(seen, 4)
        self.assertGreater(seen[0]["mixed"]["late"], 0)

    def test_measured(self):
        """While the gate measures whole gradients go, in the order of declaration."""
        names = ["mixed", "accumulates", "overflows", "learns", "refusals"]
        seen, log = programs("compress", *names, TAUT_RUN_COMPRESS="fp16", **CALL)
        self.assertNotIn("PyTorch's own", log)
        self.assertRegex(log, "cross(es)? the barrier: forward")
        self.check_losses(seen[0]["learns"], 2e-3)
        self.assertEqual(seen[0]["refusals"]["whys"], [
            "--compress: engine process-group sums gradients as they are",
            "--compress: servers sum gradients as they are",
            "--ordered: engine process-group sums gradients in an order of its own",
        ])
        over = [rank["overflows"]["seen"] for rank in seen]
        self.assertEqual(over[0], over[1])
        (beyond, one), (within, _) = over[0]
        self.assertEqual((beyond, one), (float("inf"), 1.0))
        # 0.4 * 65504 * 2 is narrowed when it is halved.
        self.assertEqual(within, 26208.0)
        kept = [{name: rank[name] for name in ("mixed", "accumulates")} for rank in seen]
        self.check_sums(kept, 5)

    def test_a_rank_differs(self):
        """Then no gradient is summed by Taut, on any rank."""
        command = [PYTHON, str(JOBS / "simple.py"), "--lacks", "compress"]
        ended = end(start(command, 2, environment(True, TAUT_RUN_COMPRESS="fp16")))
        lines(ended)
        said = [line for line in ended[0][2].splitlines() if "PyTorch's own" in line]
        self.assertEqual(len(said), 1)
        self.assertIn("rank 1 has other options than rank 0", said[0])


if __name__ == "__main__":
    main()
