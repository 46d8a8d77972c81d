# SPDX-License-Identifier: Apache-2.0
"""Batches in micro-batches, in jobs that know nothing of it: that what they train is what
they trained before, that less memory is kept, and what is refused."""

import tempfile
import unittest

from ranks import JOBS, PYTHON, end, environment, lines, main, start

JOB = [PYTHON, str(JOBS / "microbatches.py")]
STOCK = "same together dropout memory refused one_rank later evaluated"
TAUT = "same together dropout refused later evaluated"
BEGINS = "microbatches=2: "
REASONS = {
    "norm": "body.7 (BatchNorm1d) normalizes over all samples of a batch",
    "hook": "body has hooks of the job's, which would see parts of a batch",
    "centred": "what it returns for a sample depends on the others of its batch",
    "loss": "it returns a tensor of [] for 5 samples: not a row for each",
    "noise": "its forward pass draws random numbers, and not by dropout alone",
    "random": "its forward pass draws random numbers that are not PyTorch's",
    "buffer": "its forward pass changes the buffer seen",
    "kept": "its forward pass changes extra, and would do so for each part",
    "turns": "its forward pass changes turn, and would do so for each part",
    "size": "its forward pass fails on some rows of a batch: shape '[10, 8]' is invalid for "
    "input of size 40",
    "pairs": "it returns rows of [2] for 2 samples, and of [3] for 3",
    "one": "its first batch has one sample",
    "none": "it is given no tensor with a row for each sample",
}


class Microbatches(unittest.TestCase):
    """All of it in one group of two processes, on PyTorch's own class, and in another
    on Taut's exchange."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.seen = {}
        for how, names in (("off", STOCK), ("on", TAUT)):
            own = environment(True, TAUT_RUN_SCHEDULE=how, TAUT_RUN_MEASURE=folder.name)
            own.update(TAUT_RUN_GATE="off")
            cls.seen[how] = lines(end(start([*JOB, *names.split()], 2, own), 200))

    def each(self, name):
        """What each rank of both groups saw, and which rank it is."""
        for ranks in self.seen.values():
            for rank, seen in enumerate(ranks):
                if name in seen:
                    yield seen[name], rank

    def near(self, seen, made=("microbatches=3",)):
        """In double precision: sums in another order are all that there is."""
        self.assertEqual(seen["made"], list(made), seen["not_made"])
        for key, far in seen["far"].items():
            self.assertLess(far, 1e-10, key)

    def test_same(self):
        """The parts that are done again come last first; of a job that is cut nothing else
        is called more often."""
        for seen, _ in self.each("same"):
            for name, kind in seen.items():
                if name != "name":
                    with self.subTest(name=name):
                        self.near(kind)
            self.assertEqual(seen["rows"]["calls"], [[10] * 4, [4, 2, 2] + [4, 3, 3, 3, 4] * 4])
            cut = [4, 2, 2] + [4, 3, 3, 3, 4] + [3, 2, 2, 2, 3] + [1, 1, 1] + [1]
            self.assertEqual(seen["uneven"]["calls"], [[10, 7, 2, 1], cut])

    def test_together(self):
        for seen, _ in self.each("together"):
            changes = ("recompute=nn.Module: body", "microbatches=3", "optimizer=fused")
            self.near(seen, changes)
            self.assertEqual(seen["narrow"], ["microbatches=2", "amp=bf16"])

    def test_dropout(self):
        """Each part draws its own numbers, and the same ones again."""
        for seen, _ in self.each("dropout"):
            self.assertEqual(seen["made"], ["microbatches=3"], seen["not_made"])
            first, second, third, *again = seen["drawn"]
            self.assertEqual(again, [second, first])
            self.assertEqual([n for n, _ in (first, second, third)], [4, 3, 3])
            self.assertNotEqual(second, third)

    def test_memory(self):
        """A quarter of the activations, and what is whole: a tenth of them."""
        for seen, _ in self.each("memory"):
            self.assertEqual(seen["made 4"], ["microbatches=4"])
            self.assertGreater(seen["1"], 100 << 20)
            self.assertLess(seen["4"], 0.5 * seen["1"])

    def test_refused(self):
        for seen, rank in self.each("refused"):
            for name, why in REASONS.items():
                self.assertEqual(seen[name], "" if rank else BEGINS + why)
            for line, text in zip(seen["value"], ("0", "two", "9999")):
                why = "TAUT_RUN_MICROBATCHES: expected a number from 1 to 1024, found '%s'" % text
                self.assertEqual(line, "" if rank else why)
            why = "compile=nn.Module: body: microbatches=2 computes the passes of its modules again"
            self.assertEqual(seen["compile"], "" if rank else why)

    def test_one_rank(self):
        for seen, rank in self.each("one_rank"):
            why = "rank 1: microbatches=2: its first batch has one sample"
            self.assertEqual(seen["said"], "" if rank else why)

    def test_later(self):
        for seen, _ in self.each("later"):
            why = "from some step on batches were whole: " + REASONS["norm"]
            self.assertEqual((seen["made"], seen["not_made"]), ([], {"microbatches=2": why}))
            self.assertLess(max(seen["far"].values()), 1e-10)
            self.assertEqual(seen["calls"][1][-2:], [10, 10])

    def test_evaluated(self):
        for seen, _ in self.each("evaluated"):
            self.assertEqual(seen["calls"], [10, 10, 10])


if __name__ == "__main__":
    main()
