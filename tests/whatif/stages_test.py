# SPDX-License-Identifier: Apache-2.0
"""Pipelines with another number of stages, order or number of micro-batches: against closed forms, against a second
simulation (made_job.py) of the job as it would have been, and as recorded where nothing is changed."""

import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TAUT = os.environ["TAUT"]
STUDY = ROOT.parent / "shared/traces/straggler-study/trace-ST.csv.gz"
MEGATRON = ROOT.parent / "shared/traces/pytorch/megatron-tp8-a100"
sys.path.insert(0, str(ROOT / "tests/stragglers"))
import made_job  # noqa: E402

MS = 1_000_000


def whatif(run, *changes):
    return subprocess.run(
        [TAUT, "whatif", "--json", str(run), *changes], capture_output=True, text=True, check=False, timeout=600
    )


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, lines):
        path = pathlib.Path(self.folder.name) / "job.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    def predict(self, run, *changes):
        result = whatif(run, *changes)
        self.assertEqual(result.returncode, 0, f"{changes}: {result.stderr}")
        p = json.loads(result.stdout)
        self.assertLessEqual(p["low_ms"], p["after_ms"])
        self.assertLessEqual(p["after_ms"], p["high_ms"])
        return p

    def after(self, run, *changes):
        return self.predict(run, *changes)["after_ms"]

    def refused(self, run, change, words):
        result = whatif(run, change)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(words, result.stderr)


def even(f=12, b=24, wire=0, first=0, last=0, pp=4, chunks=1):
    """Stages of f and b ms, the first and the last of so many more."""

    def durations(type_, dp, stage, step, batch, chunk):
        more = 1 + first * (stage == 0 and chunk == 0) + last * (stage == pp - 1 and chunk == chunks - 1)
        return round(
            {"forward-compute": f * MS * more, "backward-compute": b * MS * more}.get(
                type_, wire * MS if type_ in made_job.PAIRS else 0
            )
        )

    return durations


def uneven(seed, wire=0):
    """Every computation takes another time, and so does what closes a step."""
    draw = random.Random(seed)
    memory = {}

    def durations(type_, dp, stage, step, batch, chunk):
        key = type_, dp, stage, step, batch, chunk
        usual = {"forward-compute": 10, "backward-compute": 20, "optimizer": 3, "params-all-gather": 2}
        if type_ in made_job.PAIRS:
            return round(wire * MS)
        if key not in memory:
            memory[key] = round(usual.get(type_, 0.5) * MS * draw.uniform(0.8, 1.3))
        return memory[key]

    return durations


class ClosedForms(Case):
    """Equal stages and transfers of no time: (m + p - 1)(f + b), in 1F1B and in GPipe."""

    def test_more_and_fewer_stages(self):
        for pp, micro, now in ((4, 4, 8), (4, 8, 2), (4, 8, 1), (2, 6, 4), (3, 5, 6), (4, 4, 3), (3, 7, 5), (8, 3, 2)):
            job = made_job.Job(dp=2, pp=pp, micro=micro, steps=3, durations=even(pp=pp))
            for schedule in ("", ",schedule=gpipe", ",schedule=1f1b"):
                with self.subTest(pp=pp, micro=micro, now=now, schedule=schedule):
                    p = self.predict(self.write(job.study()), f"stages={now}{schedule}")
                    self.assertAlmostEqual(p["before_ms"], (micro + pp - 1) * 36, places=4)
                    self.assertAlmostEqual(p["after_ms"], (micro + now - 1) * 36 * pp / now, places=4)
                    self.assertEqual(p["samples_factor"], 1)

    def test_more_micro_batches(self):
        job = made_job.Job(dp=1, pp=4, micro=4, steps=3, durations=even())
        run = self.write(job.study())
        for micro in (1, 2, 3, 5, 8, 32, 100):
            p = self.predict(run, f"stages=1x,micro={micro}")
            self.assertAlmostEqual(p["after_ms"], (micro + 3) * 36, places=4)
            self.assertAlmostEqual(p["samples_factor"], micro / 4, places=6)
        self.assertAlmostEqual(self.after(run, "stages=8,micro=4x"), (16 + 7) * 18, places=4)

    def test_what_the_ends_have_beside_layers_goes_with_them(self):
        """The last stage takes 1.5: the half is no layer's, and does not get less with more stages."""
        job = made_job.Job(dp=1, pp=4, micro=8, steps=3, durations=even(last=0.5))
        for now in (8, 6, 3, 2):
            layers = 36 * 4 / now
            self.assertAlmostEqual(
                self.after(self.write(job.study()), f"stages={now}"),
                (now - 1) * layers + 8 * (layers + 18),
                places=4,
            )
        p = self.predict(self.write(job.study()), "stages=8")
        names = [u["name"] for u in p["uncertain"]]
        self.assertIn("what stages=8 assumes", names)

    def test_updates_do_not_grow_with_the_batch(self):
        def durations(type_, *at):
            return 10 * MS if type_ == "optimizer" else even()(type_, *at)

        run = self.write(made_job.Job(dp=2, pp=4, micro=4, steps=3, durations=durations).study())
        p = self.predict(run, "batch=2x")
        self.assertAlmostEqual(p["before_ms"], 7 * 36 + 10, places=4)
        # all of a computation grows but for three hundredths
        self.assertAlmostEqual(p["after_ms"], 7 * 36 * 1.97 + 10, delta=0.2)
        self.assertAlmostEqual(self.after(run, "optimizer=free"), 7 * 36, places=3)

    def test_chunks(self):
        """Of v chunks the bubble is a vth: m (f + b) + (p - 1)(f + b) / v."""
        job = made_job.Job(dp=1, pp=4, micro=8, steps=3, durations=even())
        for chunks in (2, 4):
            self.assertAlmostEqual(
                self.after(self.write(job.study()), f"stages=4,schedule=interleaved,chunks={chunks}"),
                8 * 36 + 3 * 36 / chunks,
                places=4,
            )
        job = made_job.Job(dp=1, pp=4, vpp=2, micro=8, steps=3, durations=even())
        run = self.write(job.study())
        self.assertAlmostEqual(self.after(run, "stages=4,schedule=1f1b"), 11 * 72, places=4)
        self.assertAlmostEqual(self.after(run, "stages=8"), 8 * 36 + 7 * 18, places=4)


class AsItWouldHaveBeen(Case):
    """The same job, simulated with so many stages from the start."""

    def pair(self, wire, changes, **now):
        kind = {"dp": 2, "pp": 4, "micro": 8, "steps": 3}
        job = made_job.Job(**kind, durations=even(wire=wire))
        factor = 4 / now.get("pp", 4)
        other = made_job.Job(**{**kind, **now}, durations=even(12 * factor, 24 * factor, wire))
        want = other.step_times(lambda m: m.dur)[-1] / MS
        return self.after(self.write(job.study()), changes), want

    def test_without_wire(self):
        for now in (1, 2, 3, 5, 8):
            got, want = self.pair(0, f"stages={now}", pp=now)
            self.assertAlmostEqual(got, want, places=4)
        got, want = self.pair(0, "stages=2,micro=12", pp=2, micro=12)
        self.assertAlmostEqual(got, want, places=4)

    def test_with_wire(self):
        """Transfers out of one host share its link, which the simulation leaves out."""
        for now in (2, 3, 5, 8):
            got, want = self.pair(0.5, f"stages={now}", pp=now)
            self.assertAlmostEqual(got / want, 1, delta=0.01)


class AsRecorded(Case):
    def check(self, job, *changes):
        run = self.write(job.study())
        p = self.predict(run, *changes)
        self.assertAlmostEqual(p["after_ms"], p["before_ms"], delta=1e-3, msg=str(changes))

    def test_as_many_stages(self):
        for dp, pp, vpp, micro, overlap, stray in (
            (2, 4, 1, 4, False, False),
            (1, 3, 1, 5, False, True),
            (2, 2, 1, 6, True, False),
            (2, 4, 2, 8, False, False),
            (1, 3, 3, 6, True, False),
        ):
            # of several chunks, transfers that nobody answers are left out
            with self.subTest(pp=pp, vpp=vpp, overlap=overlap, stray=stray):
                job = made_job.Job(
                    dp=dp,
                    pp=pp,
                    vpp=vpp,
                    micro=micro,
                    steps=4,
                    overlap=overlap,
                    stray=stray,
                    durations=uneven(pp, 0.3 if vpp == 1 else 0),
                    delays=(lambda *a: hash(a[1:]) % 5 * 10000) if vpp == 1 else None,
                )
                self.check(job, f"stages={pp}")
                self.check(job, "stages=1x,micro=1x")

    def test_there_and_back(self):
        job = made_job.Job(dp=2, pp=4, micro=8, steps=4, durations=even(wire=0.2, first=0.1, last=0.4))
        self.check(job, "stages=2x", "stages=0.5x")
        self.check(job, "stages=12", "stages=4")
        self.check(job, "stages=4,schedule=gpipe", "stages=4,schedule=1f1b")
        self.check(job, "stages=4,schedule=interleaved,chunks=2", "stages=4,schedule=1f1b")

    @unittest.skipUnless(STUDY.exists(), "no study")
    def test_study(self):
        p = self.predict(STUDY, "stages=4")
        self.assertAlmostEqual(p["after_ms"], p["before_ms"], delta=1e-3)
        self.assertIn("order 1f1b as recorded", " ".join(p["notes"]))


class Ranks(Case):
    def test_stacks(self):
        job = made_job.Job(dp=2, pp=4, micro=4, steps=4, durations=even(wire=0.1))
        run = self.write(job.study())
        alone = self.after(run, "stages=8")
        self.assertAlmostEqual(self.after(run, "stages=8", "world=8") / alone, 1, delta=0.01)
        self.assertAlmostEqual(self.after(run, "stages=8", "world=32") / alone, 1, delta=0.01)
        self.assertAlmostEqual(self.after(run, "world=16"), self.after(run, "stages=4"), delta=1)
        self.assertLess(self.after(run, "stages=8", "link=4x"), alone)
        self.assertGreater(self.after(run, "slow=0,factor=2", "stages=8"), 1.2 * alone)
        self.assertAlmostEqual(self.after(run, "repair=0", "stages=8"), alone, delta=0.01)
        self.assertIn("16 ranks for 8", " ".join(self.predict(run, "stages=8")["notes"]))
        self.refused(run, "stages=0", "whole number")
        result = whatif(run, "world=16", "stages=8")
        self.assertEqual(result.returncode, 1)
        self.assertIn("before world", result.stderr)

    def test_gradients_follow_the_layers(self):
        """A stage's gradients take 40 ms, and half of that with half of its layers."""

        def durations(type_, *at):
            return 40 * MS if type_ == "grads-reduce-scatter" else even()(type_, *at)

        run = self.write(made_job.Job(dp=2, pp=4, micro=4, steps=3, durations=durations).study())
        self.assertAlmostEqual(self.after(run, "stages=8"), 11 * 18 + 20, places=3)
        self.assertAlmostEqual(self.after(run, "stages=2"), 5 * 72 + 80, places=3)

    def test_more_replicas_of_a_table_without_bytes(self):
        """Scattering over 4 in place of 2 moves 3/4 of the bytes for 1/2."""

        def durations(type_, *at):
            return 40 * MS if type_ == "grads-reduce-scatter" else even()(type_, *at)

        run = self.write(made_job.Job(dp=2, pp=4, micro=4, steps=4, durations=durations).study())
        self.assertAlmostEqual(self.after(run, "world=16"), 7 * 36 + 60, places=3)
        self.assertAlmostEqual(self.after(run, "stages=8", "world=32"), 11 * 18 + 30, places=3)

    def test_layers_shared_too(self):
        """Two ranks for each stage: pipelines beside each other."""
        lines = list(made_job.Job(dp=2, pp=3, micro=4, steps=3, durations=even(pp=3)).study())
        for i, line in enumerate(lines[1:], 1):
            f = line.split(",")
            lines[i] = "\n".join(",".join([*f[:2], str(2 * int(f[2]) + t), *f[3:]]) for t in (0, 1))
        run = self.write(lines)
        self.assertAlmostEqual(self.after(run, "stages=6"), 9 * 18, places=3)
        for changes, ranks in (
            (["tensor=1"], "6 ranks for 12"),
            (["stages=6", "tensor=1"], "12 ranks for 24"),
            (["stages=1", "tensor=4"], "8 ranks for 4"),
        ):
            self.assertIn(ranks, " ".join(self.predict(run, *changes)["notes"]))
        self.assertAlmostEqual(self.after(run, "stages=6", "tensor=4"), 9 * 18 * 0.525, delta=1)

    def test_layers_that_nobody_shared(self):
        """Sharing them needs sums that the recording has none of, and that is said."""
        run = self.write(made_job.Job(dp=2, pp=3, micro=4, steps=3, durations=even(pp=3)).study())
        for changes, said in ((["tensor=2,group=1"], True), (["tensor=1,group=2"], False)):
            notes = " ".join(self.predict(run, *changes)["notes"])
            self.assertEqual("nothing summed activations" in notes, said)

    def test_a_table_that_tells_its_waits(self):
        run = self.write(made_job.Job(dp=2, pp=3, micro=4, steps=3, durations=even(pp=3)).table(True))
        self.assertAlmostEqual(self.after(run, "stages=3"), 6 * 36, delta=0.1)
        self.assertAlmostEqual(self.after(run, "stages=6"), 9 * 18, delta=0.1)
        self.assertAlmostEqual(self.after(run, "stages=3,schedule=gpipe"), 6 * 36, delta=0.1)

    def test_same_bytes(self):
        job = made_job.Job(dp=2, pp=4, micro=4, steps=3, durations=uneven(1, 0.2))
        run = self.write(job.study())
        for change in ("stages=8", "stages=3,schedule=gpipe", "stages=4,micro=9"):
            self.assertEqual(whatif(run, change).stdout, whatif(run, change).stdout)


@unittest.skipUnless(MEGATRON.is_dir(), "no traces")
class Megatron(Case):
    """Eight ranks share each layer; one forward pass was recorded."""

    def test_as_recorded(self):
        for changes in (["tensor=8"], ["tensor=1x,group=8"]):
            p = self.predict(MEGATRON, *changes)
            self.assertEqual(p["after_ms"], p["before_ms"])
        p = self.predict(MEGATRON, "tensor=2x", "tensor=0.5x")
        self.assertAlmostEqual(p["after_ms"] / p["before_ms"], 1, delta=0.001)

    def test_fewer(self):
        """Alone, a rank has eight times the products and waits for nobody."""
        p = self.predict(MEGATRON, "tensor=1")
        self.assertIn("1 ranks for 8", " ".join(p["notes"]))
        products = [o for o in p["operations"] if "gemm" in o["name"] or "cutlass" in o["name"]]
        before = sum(o["before_ms"] for o in products)
        self.assertGreater(sum(o["after_ms"] for o in products), max(2 * before, 100))
        self.assertGreater(p["after_ms"], p["before_ms"])
        self.assertEqual(sum(o["after_ms"] for o in p["operations"] if "nccl" in o["name"]), 0)

    def test_more(self):
        p = self.predict(MEGATRON, "tensor=16")
        self.assertIn("no transfer between hosts was recorded", " ".join(p["notes"]))
        self.assertEqual(whatif(MEGATRON, "tensor=16").stdout, whatif(MEGATRON, "tensor=16").stdout)

    def test_no_stages(self):
        self.refused(MEGATRON, "stages=2", "column stage")


class Refused(Case):
    def test_values(self):
        run = self.write(made_job.Job(dp=1, pp=4, micro=4, steps=2, durations=even()).study())
        for value in ("0", "0x", "0.3x", "1.5", "-2", "99999999", "x", "", "two", "1e9", "0.1x", "4,micro=0", "4,micro=0.3x"):
            self.assertEqual(whatif(run, f"stages={value}").returncode, 1, value)
        self.refused(run, "stages=60000", "from 1 to 1024")
        self.refused(run, "stages=1024,micro=1000", "million operations")
        self.refused(run, "stages=4,chunks=2,schedule=1f1b", "chunks")
        self.refused(run, "stages=4,schedule=interleaved", "chunks=2 or more")
        self.refused(run, "stages=3,schedule=interleaved,chunks=2", "multiple of 3")
        self.refused(run, "tensor=2", "share its layers")

    def test_recordings(self):
        self.refused(ROOT / "examples/ddp-gloo-2host", "stages=2", "column stage")
        one = made_job.Job(dp=2, pp=1, micro=4, steps=2, durations=even(pp=1))
        self.refused(self.write(one.study()), "stages=2", "one stage was recorded")
        lines = list(made_job.Job(dp=1, pp=3, micro=4, steps=2, durations=even()).study())
        self.refused(self.write(x for x in lines if not x.startswith("0,1,")), "stages=2", "stage")
        odd = [x for x in lines if not (x.startswith("0,1,") and "backward-compute" in x and x.split(",")[9] == "2")]
        self.refused(self.write(odd), "stages=2", "backward computations")

    def test_odd_ones_never_crash(self):
        draw = random.Random(5)
        lines = list(made_job.Job(dp=2, pp=3, vpp=1, micro=3, steps=2, durations=uneven(2, 0.1)).study())
        values = ("1", "2", "3", "7", "0.5x", "2x", "1x", "0", "1,micro=1", "5,micro=7,schedule=gpipe", "3,chunks=3")
        for seed, value in itertools.product(range(6), values):
            rows = lines[:1] + [x for x in lines[1:] if draw.random() > 0.02 * seed]
            draw.shuffle(rows[1:])
            result = whatif(self.write(rows), f"stages={value}")
            self.assertIn(result.returncode, (0, 1), (seed, value, result.stderr))
            self.assertLessEqual(result.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
