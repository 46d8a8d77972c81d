# SPDX-License-Identifier: Apache-2.0
"""What a plan decides, in jobs that know nothing of it: that each decision is really
made, what it does to the job's numbers, what is refused; and how steps are measured."""

import json
import pathlib
import signal
import tempfile
import unittest

from ranks import JOBS, PYTHON, end, environment, lines, main, start

PLAN = [PYTHON, str(JOBS / "plan.py")]
SIMPLE = [PYTHON, str(JOBS / "simple.py")]
MEASURED = [PYTHON, str(JOBS / "measured.py")]
KEYS = "rank world steps step_ns applied not_applied warm peak_memory_bytes".split()
STOCK = (
    "plain bucket groups workers no_workers heap recompute recompute_buffers compress optimizer amp "
    "all_together refused compiled"
)
TAUT = "plain groups_of_taut workers recompute optimizer all_together given_back refused_by_taut compiled"
# Bytes of the gradients of Net in plan.py.
GRADIENTS = [32768] * 6 + [4096, 1024] + [512] * 9 + [256] * 4 + [16]


def buckets_of(sizes, first, cap):
    """As the reducer fills them: one is full when it has come to its size."""
    found, held = [], 0
    for n_bytes in sizes:
        held += n_bytes
        if held >= (cap if found else first):
            found.append(held)
            held = 0
    return found + ([held] if held else [])


def groups_of(sizes, caps):
    """The same where each has a size of its own, the last for all behind it."""
    found, held = [], 0
    for n_bytes in sizes:
        held += n_bytes
        if held >= caps[min(len(found), len(caps) - 1)]:
            found.append(held)
            held = 0
    return found + ([held] if held else [])


class Decisions(unittest.TestCase):
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
            cls.seen[how] = lines(end(start([*PLAN, *names.split()], 2, own), 200))

    def each(self, name, schedule="off"):
        """Of each rank: what was seen with the decision, and without any."""
        return [(seen[name], seen["plain"]) for seen in self.seen[schedule]]

    def same(self, seen, plain):
        """The same bits, of losses, parameters, buffers and random numbers."""
        for key in ("losses", "digest", "rng"):
            self.assertEqual(seen[key], plain[key])

    def close(self, seen, plain, most):
        self.assertNotEqual(seen["digest"], plain["digest"])
        for mine, theirs in zip(seen["losses"], plain["losses"]):
            self.assertAlmostEqual(mine, theirs, delta=most)

    def test_gradients(self):
        for seen, _ in self.each("plain"):
            self.assertEqual(seen["gradients"], GRADIENTS)

    def test_bucket(self):
        for seen, plain in self.each("bucket"):
            self.same(seen, plain)
            # The order of the backward pass is the reverse of the forward pass's.
            expected = buckets_of(seen["bytes"], 9000, 20000)
            self.assertEqual(seen["sizes"], ", ".join(map(str, expected)))
            self.assertGreater(len(expected), 5)
            self.assertEqual(seen["cap"], [20000, 25 << 20])  # and undone
            self.assertEqual(seen["made"], ["bucket=20000,first=9000"])

    def test_groups(self):
        caps = [9000, 500, 40000, 20000]
        for seen, plain in self.each("groups"):
            self.same(seen, plain)
            expected = groups_of(seen["bytes"], caps)
            self.assertEqual(seen["sizes"], ", ".join(map(str, expected)))
            self.assertGreater(len(expected), 5)
            self.assertEqual(seen["cap"], [caps, caps, []])  # and undone
            self.assertEqual(seen["made"], ["bucket=9000+500+40000+20000"])

    def test_groups_of_taut(self):
        """From the second step on each is one message."""
        for seen, plain in self.each("groups_of_taut", "on"):
            self.same(seen, plain)
            expected = groups_of(seen["bytes"], [9000, 500, 40000, 20000])
            self.assertEqual(seen["messages"], 3 * len(expected))

    def test_workers(self):
        for schedule in ("off", "on"):
            for seen, plain in self.each("workers", schedule):
                self.same(seen, plain)
                self.assertEqual((plain["children"], seen["children"]), (0, 2))
                self.assertEqual(seen["made"], ["workers=2"])
                self.assertTrue(seen["same"])
                self.assertEqual(seen["given"], [2, True, 4])
                self.assertEqual(seen["evaluated"], [0, 0])

    def test_no_workers(self):
        for seen, plain in self.each("no_workers"):
            self.same(seen, plain)
            self.assertEqual((seen["children"], seen["made"]), (0, ["workers=0"]))
            self.assertEqual(seen["undone"], [2, True, 60])
            self.assertEqual(
                seen["reasons"],
                [
                    "the data set is iterable: what comes depends on the workers",
                    "the DataLoader has a worker_init_fn, which only workers call",
                    "no DataLoader was iterated in training",
                ],
            )

    def test_heap(self):
        for seen, plain in self.each("heap"):
            self.same(seen["seen"], plain)
            self.assertLess(max(seen["kept"]), 2 + seen["plain"] / 200)
            self.assertGreater(seen["plain"], 30)
            self.assertGreater(seen["given"], seen["plain"] / 2)  # and undone
            self.assertEqual((seen["made"], seen["not_made"]), (["heap=keep"], {}))
            self.assertEqual(seen["theirs"], ["jemalloc", None])
        said = [seen["heap"]["refused"] for seen in self.seen["off"]]
        line = "TAUT_RUN_HEAP: the job's malloc is that of jemalloc"
        self.assertEqual(said, [line, ""])

    def test_recompute(self):
        """Two of three blocks: four steps of three calls, and of two more."""
        for schedule in ("off", "on"):
            for seen, plain in self.each("recompute", schedule):
                self.same(seen, plain)
                self.assertEqual((seen["calls"], seen["evaluated"]), (4 * (3 + 2), 3))
                self.assertLess(seen["packed"], 0.6 * plain["packed"])
                self.assertEqual(seen["made"], ["recompute=nn.module: BLOCKS.[02]"])
                self.assertEqual(seen["kept"], [])  # of ours in a module
                self.assertRegex(seen["norm"], "^has a SyncBatchNorm, whose sums ")
                self.assertEqual((seen["undone"], seen["forgotten"]), (True, [True, 0]))

    def test_recompute_buffers(self):
        for seen, _ in self.each("recompute_buffers"):
            self.assertEqual(len(set(seen["found"])), 1)

    def test_compiled(self):
        """The same random numbers. Blocks that are alike are one graph; a model that keeps
        the types that it sees, as a whole, several."""
        for schedule in ("off", "on"):
            for seen, plain in self.each("compiled", schedule):
                for name, pattern in (("blocks", "blocks.*"), ("whole", "DistributedDataParallel")):
                    mine = seen[name]
                    for a, b in zip(mine["losses"], plain["losses"]):
                        self.assertAlmostEqual(a, b, delta=1e-4)
                    self.assertEqual(mine["rng"], plain["rng"])
                    self.assertEqual(mine["made"], ["compile=nn.Module: " + pattern])
                    self.assertEqual(mine["evaluated"], mine["graphs"])
                    self.assertEqual(mine["kept"], [])
                    self.assertFalse([s for s in mine["said"] if "no longer" in s], mine["said"])
                self.assertEqual(seen["blocks"]["graphs"], 1)
                self.assertGreater(seen["whole"]["graphs"], 1)
                self.assertTrue(seen["undone"])
                self.assertEqual(seen["wrapper"], ["compile=nn.Module: Own*"])
                for a, b in zip(*seen["twice"]):
                    self.assertAlmostEqual(a, b, delta=1e-4 * max(1, abs(a)))

    def test_compress(self):
        for seen, plain in self.each("compress"):
            for how, most in (("fp16", 0.01), ("bf16", 0.05)):
                self.close(seen[how], plain, most)
                self.assertEqual(seen[how]["made"], ["compress=" + how])
                # On two ranks half of the gradients twice, and some headers.
                self.assertGreater(plain["sent"], sum(GRADIENTS))
                self.assertLess(seen[how]["sent"], 0.55 * plain["sent"])

    def test_optimizer(self):
        for schedule in ("off", "on"):
            for seen, plain in self.each("optimizer", schedule):
                self.assertEqual(seen["made"], ["optimizer=fused"])
                self.assertEqual(seen["kernels"], ["aten::_fused_adamw_"])
                for mine, theirs in zip(seen["seen"]["losses"], plain["losses"]):
                    self.assertAlmostEqual(mine, theirs, delta=1e-4)
                self.assertEqual(seen["mixed"], [[True, False]] * 2)
                given = [[False, True], [None, True]]
                self.assertEqual(seen["saved"], [[None, None], *given])
                self.assertEqual(seen["loaded"], [[True, False], 0.5, [None, True]])
                self.assertEqual(seen["foreach"], [[None, True]])
                self.assertEqual(seen["named"], [[True, False]] * 3)
                self.assertEqual(seen["undone"], given)

    def test_amp(self):
        for seen, plain in self.each("amp"):
            self.close(seen["seen"], plain, 0.05)
            self.assertEqual(set(plain["types"]), {"torch.float32"})
            self.assertEqual(seen["seen"]["types"], ["torch.bfloat16"] * 4)
            self.assertEqual((seen["out"], seen["evaluated"]), ("torch.float32", ["torch.float32"]))
            self.assertEqual(seen["made"], ["amp=bf16"])
            why = {"amp=bf16": "the job has an autocast of its own"}
            self.assertEqual(seen["own"], ["torch.float16", why])

    def test_all_together(self):
        for schedule, more in (("off", ["bucket=20000", "compress=bf16"]), ("on", [])):
            for seen, plain in self.each("all_together", schedule):
                made = ["workers=1", "recompute=nn.Module: blocks.*", "amp=bf16", "optimizer=fused"]
                self.assertEqual((seen["made"], seen["not_made"]), (made + more, {}))
                self.close(seen, plain, 0.1)
                self.assertEqual((seen["children"], seen["types"][0]), (1, "torch.bfloat16"))
                self.assertEqual(seen["taut"], schedule == "on")

    def test_given_back(self):
        why = "PyTorch, which sums this model, has no hook for it"
        for seen, _ in self.each("given_back", "on"):
            self.assertEqual(seen["made"], ["compress=fp16"])
            self.assertEqual(seen["ours"], {"made": [], "not_made": {"compress=mxint8": why}})
            self.assertEqual(seen["of_one"], ["compress=mxint8"])
        line = "compress=fp16: the job registers a hook of its own"
        self.assertEqual([s["given_back"]["line"] for s in self.seen["on"]], [line, ""])

    # --- what is refused ------------------------------------------------------------------

    def test_refused(self):
        """Rank 0 says so, for all."""
        first, second = (seen["refused"]["found"] for seen in self.seen["off"])
        self.assertEqual(first, REFUSED)
        self.assertEqual(second, {k: v and "" for k, v in REFUSED.items()})

    def test_refused_by_taut(self):
        seen = self.seen["on"][0]["refused_by_taut"]
        self.assertEqual(
            (seen["bucket"], seen["compress"], seen["blocks"], seen["hook"]),
            (
                "bucket=4096: Taut's exchange has no buckets: expected --no-schedule",
                "compress=fp16: Taut's exchange does not do it: expected --no-schedule",
                "compress=mxint8: Taut's exchange does not do it",
                None,
            ),
        )


REFUSED = {
    "others": "rank 1 has other decisions than rank 0",
    "ranks": "the plan is for 4 ranks, this job has 2",
    "caught": "the plan is for 1 rank, this job has 2",
    "larger": "the plan's 7th largest gradient is 5000 bytes, this job's 4096",
    "missing": "the plan's 7th largest gradient is 32768 bytes, this job's 4096",
    "fewer": "the plan is for 1 gradient, this job has 22",
    "wrong": "TAUT_RUN_JOB: expected BYTESxCOUNT, found 'ax2'",
    "right": None,
    "bytes": "TAUT_RUN_BUCKET: expected bytes, found '4M'",
    "row": "TAUT_RUN_BUCKET: expected bytes of each group, like 4096+65536, found '4096+0'",
    "row_first": "TAUT_RUN_BUCKET TAUT_RUN_BUCKET_FIRST: each bucket has a size: expected no "
    "other of the first",
    "row_unused": "bucket=4096+8192: with find_unused_parameters buckets are not made as "
    "gradients come",
    "word": "TAUT_RUN_COMPRESS: expected fp16 or bf16 or mxint8, found 'int8'",
    "hook": "compress=fp16: the job registers a hook of its own",
    "no such module": "recompute=blocks*: no model of the job has a module of this name",
    "compiled again": "compile=nn.Module: blocks.*: blocks.1, or a part of it, has "
    "recompute=nn.Module: *.1",
    "own forward": "recompute=nn.Module: blocks.*: blocks.1 has a forward() of its own, "
    "perhaps one that does this already",
    "fp16": "TAUT_RUN_AMP: fp16 needs losses that are scaled, which is the job's to do by a "
    "GradScaler: expected bf16",
    "narrow": "amp=bf16: parameters are of torch.bfloat16",
    "number": "TAUT_RUN_WORKERS: expected a number, found 'two'",
    "heap": "TAUT_RUN_HEAP: expected keep, found 'give'",
    "form": "TAUT_RUN_OPTIMIZER: expected fused, found 'foreach'",
    "LBFGS": "optimizer=fused: LBFGS has neither a fused nor a foreach form",
    "own step": "optimizer=fused: Own has a step() of its own",
    "foreign": "optimizer=fused: Foreign is no optimizer of torch.optim",
    "differentiable": "optimizer=fused: Adam is differentiable",
    "tensor": "optimizer=fused: the learning rate of RMSprop is a tensor",
    "sparse": "optimizer=fused: gradients are sparse",
    "sparse sums": "compress=fp16: gradients are sparse",
    "two models": None,
    "one of two": "the plan's 7th largest gradient is 32768 bytes, this job's 4096",
}


class Refused(unittest.TestCase):
    """The same in whole jobs: one line, and a status that is not 0."""

    def test_another_job(self):
        own = environment(True, TAUT_RUN_JOB="ranks=4", TAUT_RUN_GATE="off")
        ended = end(start(SIMPLE, 2, own))
        line = "taut: the plan is for 4 ranks, this job has 2\n"
        self.assertEqual(ended, [(1, "", line), (1, "", "")])

    def test_another_framework(self):
        own = environment(True, TAUT_RUN_JOB="framework=tensorflow ranks=2", TAUT_RUN_GATE="off")
        line = "taut: TAUT_RUN_JOB: the plan is for a job of tensorflow, this is one of pytorch\n"
        for status, out, err in end(start(SIMPLE, 2, own)):
            self.assertEqual((status, out), (1, ""))
            self.assertIn(err, ("", line))

    def test_of_one_rank(self):
        """Another was told of nothing."""
        own = environment(True, TAUT_RUN_SCHEDULE="off", TAUT_RUN_COMPRESS="fp16")
        ended = end(start([*SIMPLE, "--lacks", "decision"], 2, own))
        line = "taut: rank 1 has not said in 5 s what it is to change\n"
        self.assertEqual(ended[0], (1, "", line))
        self.assertEqual(ended[1][:2], (1, ""))


class Measure(unittest.TestCase):
    def test_ends(self):
        """Each way to end, as one rank of several that do not meet. The process that
        starts them has no steps."""
        hows = "end long short exit raise waits sleeps started gan hook nowhere".split()
        with tempfile.TemporaryDirectory() as folder:
            own = environment(True, TAUT_RUN_MEASURE=folder + "/new", TAUT_RUN_WORKERS="2")
            [ended] = end(start([*MEASURED, *hows], 1, own))
            files = {p.name: json.loads(p.read_text()) for p in pathlib.Path(folder, "new").iterdir()}
        [seen] = lines([ended])
        term = -signal.SIGTERM
        status = {"exit": 3, "raise": 1, "waits": term, "sleeps": term}
        self.assertEqual(seen["ends"]["ends"], {how: status.get(how, 0) for how in hows})
        self.assertLess(seen["hook"]["ns"], 1000)
        said = [line for line in ended[2].splitlines() if line.startswith("taut: ")]
        line = "taut: TAUT_RUN_MEASURE: [Errno 20] Not a directory: '/dev/null/x'"
        self.assertEqual(said, [line])
        ranks = {"rank-%d.json" % i: how for i, how in enumerate(hows) if how != "nowhere"}
        self.assertEqual(set(files), set(ranks))
        for name, how in ranks.items():
            if how != "hook":
                with self.subTest(how=how):
                    self.assertEqual("rank-%d.json" % files[name]["rank"], name)
                    self.check(files[name], len(hows), how)

    def test_on_another_host(self):
        """The folder that `taut run` made for itself is not there, and is not made."""
        with tempfile.TemporaryDirectory() as folder:
            new = folder + "/new"
            more = {"TAUT_RUN_MEASURE": new, "TAUT_RUN_MEASURE_HERE": new}
            [ended] = end(start([*MEASURED, "end"], 1, environment(True, **more)))
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])
        [seen] = lines([ended])
        self.assertEqual(seen["ends"]["ends"], {"end": 0})
        self.assertEqual([line for line in ended[2].splitlines() if line.startswith("taut: ")], [])

    def check(self, told, n_ranks, how):
        self.assertEqual(list(told), KEYS)
        steps = {"long": 4980, "short": 0}.get(how, 10)
        warm = 7 if how == "short" else 20
        self.assertEqual((told["world"], told["warm"]), (n_ranks, warm))
        self.assertEqual((told["steps"], len(told["step_ns"])), (steps, min(steps, 4096)))
        if steps == 10:
            self.assertGreaterEqual(min(told["step_ns"]), 1e6)
        self.assertTrue(all(0 < ns < 60e9 for ns in told["step_ns"]))
        self.assertEqual(told["applied"], [])
        self.assertEqual(
            told["not_applied"], {"workers=2": "no DataLoader was iterated in training"}
        )
        self.assertGreater(told["peak_memory_bytes"], 20 << 20)

    def test_on_taut_s_exchange(self):
        """The warm-up lasts until the gate has decided, and the updates stay late."""
        with tempfile.TemporaryDirectory() as folder:
            own = environment(True, TAUT_RUN_MEASURE=folder)
            command = [*SIMPLE, "--steps", "40", "--times", "20,30,60,30,59"]
            ended = end(start(command, 2, own))
            lines(ended)
            told = [json.loads(pathlib.Path(folder, "rank-%d.json" % r).read_text()) for r in (0, 1)]
        self.assertIn("crosses the barrier: ", ended[0][2])
        for rank, own in enumerate(told):
            self.assertEqual((own["rank"], own["world"], own["applied"]), (rank, 2, []))
            self.assertEqual(own["steps"] + own["warm"], 40)
            self.assertGreaterEqual(own["warm"], 20)


if __name__ == "__main__":
    main()
