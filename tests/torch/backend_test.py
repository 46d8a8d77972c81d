# SPDX-License-Identifier: Apache-2.0
"""The backend "taut" of torch.distributed: every collective against Gloo's, and
against what one process makes of the same numbers."""

import os
import subprocess
import unittest

from ranks import JOBS, PACKAGE, PYTHON, end, environment, lines, main, start

TAUT = os.environ.get("TAUT", "")
COMMON = (
    "all_reduce shapes broadcast all_gather reduce_scatter rooted all_to_all objects "
    "at_once coalesced groups functional"
).split()
NOT_FLOATS = ("BAND", "BOR", "BXOR")


def begin(backend, n_ranks, names, command=(), job="backend", **more):
    own = dict(environment(False), PYTHONPATH=str(PACKAGE), **more)
    return start([*command, PYTHON, str(JOBS / (job + ".py")), backend, *names], n_ranks, own)


def is_refused(kind, op):
    """What libtaut has no sum of, and what is no sum at all."""
    if kind == "int16":
        return True
    if kind == "complex64":
        return op not in ("SUM", "AVG")
    if kind.startswith(("float", "bfloat")):
        return op in NOT_FLOATS
    return op == "AVG"


class Verbs(unittest.TestCase):
    def same_as_gloo(self, n_ranks):
        """Where Gloo has such a thing, and has it right for a bool."""
        taut = begin("taut", n_ranks, COMMON)
        gloo = lines(end(begin("gloo", n_ranks, COMMON)))
        taut = lines(end(taut))
        n_compared = 0
        for rank in range(n_ranks):
            self.assertEqual(list(taut[rank]), COMMON)
            for name, row in taut[rank].items():
                for key, seen in row.items():
                    theirs = gloo[rank][name][key]
                    if not str(theirs).startswith("refused: ") and "bool " not in key:
                        self.assertEqual(seen, theirs, (rank, name, key))
                        n_compared += 1
        self.assertGreater(n_compared, 80 * n_ranks)
        return taut

    def refusals(self, row):
        for key, seen in row.items():
            kind, _, op = key.partition(" ")
            if op:
                words = "refused: taut: there is no %s of torch.%s" % (op, kind)
                if kind == "complex64":  # PyTorch refuses before it asks
                    words = "refused: all_reduce does not support"
                self.assertEqual(seen.startswith(words), is_refused(kind, op), (key, seen))

    def test_two_ranks(self):
        for rows in self.same_as_gloo(2):
            self.refusals(rows["all_reduce"])
            self.refusals({k[6:]: v for k, v in rows["reduce_scatter"].items() if " " in k})
            for name in set(COMMON) - {"all_reduce", "reduce_scatter"}:
                self.assertNotIn("refused", str(rows[name]), name)

    def test_three_ranks(self):
        for rows in self.same_as_gloo(3):
            self.refusals(rows["all_reduce"])

    def test_own(self):
        """What is Taut's alone: sums in the order of the ranks, elements with others
        between them, and words of refusal, after which all goes on."""
        names = ["ordered", "with_gaps", "chained", "freed", "refused"]
        for rows in lines(end(begin("taut", 3, names, TAUT_RUN_ORDERED="on"))):
            refused = rows["refused"]
            self.assertTrue(rows["chained"]["right"])
            self.assertEqual(rows["freed"]["alive"], [False] * 4)
            self.assertEqual(refused.pop("after"), 3)
            self.assertEqual({key: seen.replace("refused: taut: ", "") for key, seen in
                              refused.items() if key != "name"}, WORDS)

    def test_refused_when_begun(self):
        for row in lines(end(begin("taut", 2, ["dropped"]))):
            seen = row["dropped"]
            self.assertIn("all_gather: 1 tensors for 2 ranks", seen["short"])
            self.assertEqual((seen["sum"], seen["under_way"], seen["alive"]), (2, 0, False))

    def test_no_backend(self):
        """DistributedDataParallel is Taut's all the same."""
        said = subprocess.run(
            [PYTHON, "-c", NO_BACKEND], env=dict(environment(False), PYTHONPATH=str(PACKAGE)),
            capture_output=True, text=True, check=True,
        )
        self.assertEqual(said.stdout, "installed\n")
        self.assertRegex(said.stderr, "^taut: the backend taut is not there: .*_backend.*\n$")

    @unittest.skipUnless(TAUT, "no TAUT: the command was not built")
    def test_under_run(self):
        """A job of `taut run` that says its backend's name, and imports nothing."""
        names = ["all_gather", "at_once", "objects"]
        for command in ([TAUT, "run", "--no-schedule", "--"], [TAUT, "run", "--"]):
            for rows in lines(end(begin("cpu:taut", 2, names, command))):
                self.assertEqual(list(rows), names)


    @unittest.skipUnless(TAUT, "no TAUT: the command was not built")
    def test_in_the_place_of_gloo(self):
        """A job that knows of Gloo alone: sums in the order of the ranks are Taut's."""
        command = [TAUT, "run", "--backend", "taut", "--ordered", "--no-schedule", "--"]
        for rows in lines(end(begin("gloo", 3, ["ordered", "refused", "groups"], command))):
            self.assertIn("refused: taut: ", rows["refused"]["send"])
        for rows in lines(end(begin("mesh", 2, ["refused"], command))):
            self.assertIn("refused: taut: ", rows["refused"]["send"])


NO_BACKEND = """
import sys, torch, types
sys.modules["taut._backend"] = None
sys.modules["taut._ddp"] = types.SimpleNamespace(install=lambda: print("installed"))
import taut
taut._ddp = sys.modules["taut._ddp"]
from taut import _run
_run.framework_imported("torch", torch)
"""
WORDS = {
    "meta": "a tensor is on meta: the backend is for tensors in the host's memory; "
    "dist.new_group(backend='nccl') has others",
    "sparse": "a tensor is torch.sparse_coo: the backend has none but torch.strided; "
    "dist.new_group(backend='gloo') has",
    "int16": "there is no SUM of torch.int16",
    "bits": "there is no BOR of torch.float32",
    "average": "there is no AVG of torch.int32",
    "sizes": "all_gather_into_tensor: a tensor has 20 bytes where others have 48",
    "halves": "reduce_scatter_tensor: a tensor is of torch.float16 where others are of torch.bfloat16",
    "scattered": "reduce_scatter_tensor: a tensor is of torch.float32 where others are of torch.int32",
    "gathered": "all_gather_into_tensor: a tensor is of torch.float32 where others are of torch.int32",
    "send": "the backend has no send: a group of Gloo has, dist.new_group(backend='gloo')",
    "recv": "the backend has no recv: a group of Gloo has, dist.new_group(backend='gloo')",
}


if __name__ == "__main__":
    main()
