# SPDX-License-Identifier: Apache-2.0
"""Changes of computation and data on real recordings: the direction and about the size of what they give, the same
bytes every time, and one clear line where they do not apply."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TAUT = os.environ["TAUT"]
TWO, LATE = ROOT / "examples/ddp-gloo-2host", ROOT / "examples/ddp-gloo-late-rank"
TRACES = ROOT.parent / "shared/traces/pytorch"
RESNET = TRACES / "resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"
CHECKPOINTED = TRACES / "tracelens/resnet_act_checkpoint.json.gz"
BERT = TRACES / "tracelens/gaunernst_bert-small-uncased__1016001.json.gz"


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

    def ratio(self, run, *changes):
        p = self.predict(run, *changes)
        return p["after_ms"] / p["before_ms"]

    def refused(self, run, change, words):
        result = whatif(run, change)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn(words, result.stderr)


class TwoHosts(Case):
    """A step of 557 ms: 300 ms of computing, most of it hidden behind 415 ms of transfer."""

    def test_more_work_takes_longer_and_less_shorter(self):
        ratios = [self.ratio(TWO, c) for c in ("batch=0.5x", "batch=1x", "batch=2x", "batch=4x")]
        self.assertEqual(ratios, sorted(ratios))
        self.assertAlmostEqual(ratios[1], 1, delta=1e-3)
        self.assertGreater(ratios[0], 0.75)  # the transfers stay
        self.assertLess(ratios[2], 1.5)

    def test_sizes_and_weights_agree_on_what_a_batch_costs(self):
        sizes, weights = (self.predict(TWO, f"batch=2x,by={by}") for by in ("sizes", "weights"))
        self.assertTrue(any("sizes tell" in note for note in sizes["notes"]), sizes["notes"])
        self.assertFalse(any("sizes tell" in note for note in weights["notes"]), weights["notes"])
        self.assertAlmostEqual(sizes["after_ms"] / weights["after_ms"], 1, delta=0.05)

    def test_a_tiny_batch_takes_no_less_than_nothing(self):
        times = [self.predict(TWO, f"batch={f}x,by=sizes")["after_ms"] for f in ("0.001", "0.02", "0.1", "0.5")]
        self.assertEqual(times, sorted(times))

    def test_by_sizes_that_are_not_there(self):
        self.refused(ROOT / "examples/tensorflow/mirrored", "batch=2x,by=sizes", "no sizes of inputs")

    def test_micro_batches_add_what_a_rank_computes(self):
        two, four = (self.predict(TWO, f"accumulate={k}") for k in (2, 4))
        one_more = two["after_ms"] - two["before_ms"]
        self.assertTrue(250 < one_more < 320, one_more)
        three_more = four["after_ms"] - four["before_ms"]
        self.assertAlmostEqual(three_more / one_more, 3, delta=0.1)
        self.assertEqual(two["samples_factor"], 2)

    def test_a_delay_adds_no_more_than_itself(self):
        p = self.predict(TWO, "slow=1,delay=50ms")
        self.assertTrue(0 < p["after_ms"] - p["before_ms"] <= 50.5, p["after_ms"])

    def test_bounds(self):
        self.assertLess(self.ratio(TWO, "host=1000x"), self.ratio(TWO, "host=2x"))
        self.assertLessEqual(self.ratio(TWO, "optimizer=free"), self.ratio(TWO, "optimizer=fused"))
        without = self.ratio(TWO, "remove=gloo:all_reduce")
        self.assertTrue(0.45 < without < 0.65, without)

    def test_recomputing_costs_at_most_a_forward_pass(self):
        p = self.predict(TWO, "recompute=nn.Module: block*")
        self.assertTrue(0 < p["after_ms"] - p["before_ms"] < 100, p["after_ms"])

    def test_what_the_recording_lacks(self):
        self.refused(TWO, "workers=4", "taut record")
        self.refused(TWO, "amp", "device")
        self.refused(TWO, "slow=7", "no rank 7")
        self.refused(TWO, "recompute=nothing", "module")
        self.refused(TWO, "scale=nothing,factor=2x", "name")
        self.refused(TWO, "merge=aten::conv2d", "found none")
        self.refused(ROOT / "examples/tensorflow/mirrored", "merge=MatMul", "no sizes")

    def test_the_same_bytes(self):
        for change in ("batch=2x", "accumulate=3", "repair=1", "slow=0", "recompute=nn.Module: *"):
            self.assertEqual(whatif(TWO, change).stdout, whatif(TWO, change).stdout)


class LateRank(Case):
    """Rank 2 is held up by 150 ms in every second step: 427 to 444 ms without, 566 to 576 ms with it."""

    def test_repair(self):
        p = self.predict(LATE, "repair=2")
        self.assertTrue(400 < p["after_ms"] < 450, p["after_ms"])

    def test_others_are_not_at_fault(self):
        self.assertGreater(self.ratio(LATE, "repair=1"), 0.93)


@unittest.skipUnless(RESNET.exists(), "the foreign traces are not here")
class Devices(Case):
    def test_a_job_held_back_by_host_and_loader(self):
        self.assertAlmostEqual(self.ratio(RESNET, "device=2x"), 1, delta=0.02)
        self.assertLess(self.ratio(RESNET, "graphs"), 0.7)
        self.assertLess(self.ratio(RESNET, "workers=4"), 0.8)
        self.assertLess(self.ratio(RESNET, "workers=4", "graphs"), self.ratio(RESNET, "workers=4"))
        self.assertLess(self.ratio(RESNET, "optimizer=fused"), 0.95)

    def test_a_job_held_back_by_its_device(self):
        """The host runs ahead, so that graphs give nothing."""
        self.assertAlmostEqual(self.ratio(CHECKPOINTED, "graphs"), 1, delta=0.02)
        self.assertLess(self.ratio(CHECKPOINTED, "device=2x"), 0.95)
        self.assertLess(self.ratio(CHECKPOINTED, "amp"), 1)
        self.assertGreater(self.ratio(CHECKPOINTED, "gist"), 1)

    def test_projections_of_one_tensor(self):
        """Four layers, each with three projections of 141 x 512 that stand behind each other."""
        p = self.predict(BERT, "merge=aten::linear")
        self.assertTrue(any("12 operators become 4," in note for note in p["notes"]), p["notes"])
        self.assertLess(p["after_ms"], p["before_ms"])
        self.refused(BERT, "merge=aten::conv2d", "found none")

    def test_several_micro_batches_already(self):
        self.refused(TRACES / "megatron-tp8-a100", "accumulate=2", "accumulate=2:")


HOROVOD = ROOT.parent / "shared/traces/horovod"


@unittest.skipUnless(HOROVOD.is_dir(), "the foreign traces are not here")
class Timelines(Case):
    """Of what a job does, Horovod's timelines have the transfers alone."""

    def test_there_is_no_computation(self):
        for name in ("bytescheduler_vgg_no_priority.json.gz", "timeline_cpu_n1.json.gz"):
            self.refused(HOROVOD / name, "slow=0", "slow=0: the recording has no computation of this rank")
            self.refused(HOROVOD / name, "batch=2x", "batch=2x: the recording has no computation of a forward")


class Servers(Case):
    """Workers of a parameter server do not wait for each other, so that one alone need not move the median."""

    def test_that_is_told(self):
        p = self.predict(ROOT / "examples/tensorflow/server", "slow=3")
        self.assertEqual(p["before_ms"], p["after_ms"])
        self.assertTrue([n for n in p["notes"] if "do not wait for each other" in n])
        self.assertFalse([n for n in self.predict(TWO, "slow=1")["notes"] if "do not wait" in n])


class Scatter(Case):
    """Of a job whose steps differ as much as one takes, the median tells little."""

    def test_that_is_told(self):
        p = self.predict(ROOT / "examples/tensorflow/mirrored", "host=2x")
        self.assertTrue([n for n in p["notes"] if "their median" in n], p["notes"])
        self.assertGreaterEqual(min(u["low_ms"] for u in p["uncertain"]), 0)
        self.assertFalse([n for n in self.predict(TWO, "host=2x")["notes"] if "their median" in n])


class Size(Case):
    """More operations than a prediction takes are not made."""

    def test_stacks_are_bounded(self):
        for changes in (["world=64", "accumulate=256"], ["accumulate=256", "world=64"], ["world=512", "partition=1kB"],
                        ["world=512", "schedule,partition=1kB"]):
            result = whatif(TWO, *changes)
            self.assertEqual(result.returncode, 1, result.stdout[:200])
            self.assertRegex(result.stderr, rf"^taut: {changes[-1]}: the job would have [0-9]+ million operations: expected at most [0-9]+ [a-z -]+\n$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
