# SPDX-License-Identifier: Apache-2.0
"""Changes of communication on the recordings of this tree: what is as recorded changes nothing, the direction and about
the size of the others, the same bytes every time, and one clear line where they do not apply."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TAUT = os.environ["TAUT"]
TWO, LATE = ROOT / "examples/ddp-gloo-2host", ROOT / "examples/ddp-gloo-late-rank"
MEGATRON = ROOT.parent / "shared/traces/pytorch/megatron-tp8-a100"


def whatif(run, *changes):
    return subprocess.run(
        [TAUT, "whatif", "--json", str(run), *changes], capture_output=True, text=True, check=False, timeout=600
    )


class Case(unittest.TestCase):
    def predict(self, run, *changes):
        result = whatif(run, *changes)
        self.assertEqual(result.returncode, 0, result.stderr)
        p = json.loads(result.stdout)
        self.assertLessEqual(p["low_ms"], p["after_ms"])
        self.assertLessEqual(p["after_ms"], p["high_ms"])
        return p

    def after(self, run, *changes):
        return self.predict(run, *changes)["after_ms"]

    def refused(self, run, change, words):
        result = whatif(run, change)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn(words, result.stderr)


class AsRecorded(Case):
    """train.py was recorded with bucket_cap_mb=4 on 2 and on 4 ranks."""

    def test_nothing_changes(self):
        for run, world in ((TWO, "world=2"), (LATE, "world=4")):
            for change in ("bucket=4MiB", world, "algorithm=ring", "partition=1GB", "schedule=fifo"):
                p = self.predict(run, change)
                self.assertAlmostEqual(p["after_ms"], p["before_ms"], delta=0.02, msg=f"{run} {change}")

    def test_same_bytes(self):
        for change in ("world=5", "bucket=1MiB", "compress=topk", "server=2,per=tensor", "schedule,partition=1MB"):
            self.assertEqual(whatif(LATE, change).stdout, whatif(LATE, change).stdout)


class Algorithms(Case):
    def test_of_two_ranks(self):
        """A ring of two moves S out of each, in two messages: so do these; a doubling or all at once need one."""
        as_it_is = self.after(TWO, "algorithm=ring")
        for way in ("direct", "halving-doubling", "hierarchical", "tree"):
            self.assertAlmostEqual(self.after(TWO, "algorithm=" + way), as_it_is, delta=0.02, msg=way)
        for way in ("flat", "doubling"):
            self.assertLessEqual(self.after(TWO, "algorithm=" + way), as_it_is + 0.02, msg=way)

    def test_bytes_decide_large_ones(self):
        """Of four ranks: 3 S all at once, 2 S by doubling and in trees, 3/2 S of the others."""
        ring, direct, doubling, flat = (
            self.after(LATE, "algorithm=" + way) for way in ("ring", "direct", "doubling", "flat")
        )
        self.assertLessEqual(direct, ring)
        self.assertGreater(doubling, ring)
        self.assertGreater(flat, doubling)


class Buckets(Case):
    def test_one_bucket_hides_nothing(self):
        one = self.after(TWO, "bucket=100MiB")
        self.assertGreater(one, 1.15 * self.after(TWO, "bucket=4MiB"))
        # it is the sum of all, behind the backward pass
        self.assertAlmostEqual(one, self.after(TWO, "overlap=none"), delta=0.06 * one)

    def test_bounds(self):
        """No bucket size beats a network that takes no time, or ideal overlap."""
        ideal, hidden = self.after(TWO, "ideal-network"), self.after(TWO, "overlap=full")
        for size in ("100kB", "1MiB", "8MiB", "25MiB"):
            step = self.after(TWO, "bucket=" + size)
            self.assertGreater(step, ideal)
            self.assertGreater(step, hidden)


class Schedules(Case):
    def test_past_the_end_of_the_step(self):
        """Finer tasks by priority come nearer to the bound, and none beats it; behind the barrier little is gained."""
        bound = self.after(TWO, "overlap=full")
        kept = self.after(TWO, "bucket=1MiB", "schedule,partition=1MB")
        crossed = self.after(TWO, "bucket=1MiB", "schedule,partition=1MB,barrier=cross")
        self.assertLess(crossed, 0.9 * kept)
        self.assertGreater(crossed, 0.99 * bound)
        fifo = self.after(TWO, "bucket=1MiB", "schedule=fifo,barrier=cross")
        self.assertLess(crossed, 0.95 * fifo)
        self.assertLess(crossed, self.after(TWO, "schedule,barrier=cross"))

    def test_rounds_cost(self):
        changes = "schedule,partition=500kB,barrier=cross,message="
        free, slow = self.after(TWO, changes + "0us"), self.after(TWO, changes + "20ms")
        self.assertGreater(slow, free + 20)

    def test_stacks(self):
        """In the recorded order it is what it was without, whatever else changes; what it moved cannot change behind."""
        for change in ("compress=fp16", "accumulate=2", "slow=1,factor=1.5", "link=2x", "overlap=none", "world=3"):
            plain = self.after(TWO, change, "partition=1GB")
            self.assertAlmostEqual(self.after(TWO, change, "schedule=fifo"), plain, delta=0.005 * plain, msg=change)
        half = self.after(TWO, "bucket=1MiB", "compress=fp16", "schedule,partition=500kB,barrier=cross")
        self.assertLess(half, 0.75 * self.after(TWO, "bucket=1MiB", "schedule,partition=1MB,barrier=cross"))
        for change in ("compress=fp16", "partition=500kB", "world=3", "bucket=1MiB"):
            result = whatif(TWO, "schedule", change)
            self.assertEqual(result.returncode, 1)
            self.assertIn("put schedule behind it", result.stderr)

    def test_refused(self):
        self.refused(TWO, "schedule,barrier=none", "keep|cross")
        self.refused(TWO, "schedule,order=declared", "schedule=fifo")


class Ranks(Case):
    def test_ring(self):
        """400 Mbit/s are the bottleneck: a step grows by the law of a ring, 2 (n - 1)/n."""
        transfer = 400  # ms for 19.8 MB, from one rank of two
        two = self.after(TWO, "world=2")
        for n in (3, 4, 8):
            more = transfer * (2 * (n - 1) / n - 1)
            self.assertAlmostEqual(self.after(TWO, f"world={n}") - two, more, delta=0.15 * more)

    def test_fewer(self):
        """What is left of one rank is its computation: README has 300 ms."""
        p = self.predict(TWO, "world=1")
        self.assertAlmostEqual(p["after_ms"], 300, delta=25)
        self.assertEqual(p["samples_factor"], 0.5)

    def test_refused(self):
        self.refused(TWO, "world=0", "world")
        self.refused(TWO, "world=3,replica=2", "multiple of 2")
        self.refused(TWO, "world=4,per-host=4", "link=")

    @unittest.skipUnless(MEGATRON.is_dir(), "no traces")
    def test_replicas_of_eight(self):
        """Eight ranks hold one model; copies of all eight do not slow each other without gradients between them."""
        self.refused(MEGATRON, "world=12,replica=8", "multiple of 8")
        self.refused(MEGATRON, "world=16,replica=8,gradients=1GB", "link=")
        p = self.predict(MEGATRON, "world=16,replica=8,gradients=1GB,link=100gbit")
        # eight rings of 1 GB each share a link of 11.96 GB/s, and at most all of the step hides them
        rings = 8000 / 11.96
        self.assertLess(p["after_ms"], p["before_ms"] + rings)
        self.assertGreater(p["after_ms"], max(p["before_ms"], rings))
        self.assertFalse([n for n in p["notes"] if "replica=N" in n])

    @unittest.skipUnless(MEGATRON.is_dir(), "no traces")
    def test_sums_of_activations_hold_a_model_together(self):
        """Each layer waits for the sums of the one before: its ranks are copied together, and sum gradients with the copies."""
        said = self.predict(MEGATRON, "world=16,replica=8,gradients=1GB,link=100gbit")
        found = self.predict(MEGATRON, "world=16,gradients=1GB,link=100gbit")
        self.assertEqual(found["after_ms"], said["after_ms"])
        self.refused(MEGATRON, "world=12,gradients=1GB,link=100gbit", "multiple of 8")

    @unittest.skipUnless(MEGATRON.is_dir(), "no traces")
    def test_sums_of_activations_are_no_gradients(self):
        for change in ("bucket=1GB", "compress=fp16", "overlap=full", "partition=1MB"):
            self.refused(MEGATRON, change, "84 all-reduces of their own, as those of tensor parallelism")


class Compression(Case):
    def test_halves(self):
        """Half of the bytes is a link twice as fast, but for the casts."""
        fast = self.after(TWO, "link=2x")
        for kind in ("fp16", "bf16"):
            step = self.after(TWO, "compress=" + kind)
            self.assertAlmostEqual(step, fast, delta=0.08 * fast)

    def test_what_batch_norms_keep(self):
        """Taut sends it while nobody waits: as if nobody broadcast it. A framework goes on with that."""
        without = "remove=gloo:broadcast", "remove=c10d::broadcast_"
        for run in TWO, LATE:
            for by, same in ("taut", True), ("framework", False):
                change = f"schedule=priority,barrier=cross,by={by}"
                p = self.predict(run, change)
                self.assertEqual(p["after_ms"] == self.after(run, *without, change), same, (run, by))
                self.assertEqual(any("batch norms keep" in note for note in p["notes"]), same)

    def test_stack(self):
        both = self.after(TWO, "link=0.5x", "compress=fp16,cast=1000,core=1")
        self.assertAlmostEqual(both, self.after(TWO, "link=1x"), delta=0.01 * both)

    def test_refused(self):
        self.refused(TWO, "compress=fp8", "fp16")
        self.refused(TWO, "compress=topk,ratio=2", "ratio")
        self.refused(TWO, "compress=mxint8", "by: expected taut: frameworks have no hook")
        self.refused(TWO, "compress=int8,by=taut", "by: expected hook: Taut narrows to")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
