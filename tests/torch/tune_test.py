# SPDX-License-Identifier: Apache-2.0
"""`taut run --tune` in whole jobs: the search comes to its end on all ranks, the job's
results stay the same, and what was found can be taken again."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from ranks import JOBS, PACKAGE, PYTHON, end, environment, lines, main, start

SIMPLE = [PYTHON, str(JOBS / "simple.py")]
STEPS = "124"  # 12 trials of 8, and those before: of the gate, and of crossing
FAILS = """
import types
from taut import _search, _tune
def plan():
    yield
    raise RuntimeError("no more")
control = types.SimpleNamespace(process_group=None, sums=types.SimpleNamespace(limits=
    types.SimpleNamespace(piece=1, credit=2, fuse=3, way="ring")))
tuner = _tune.Tuner(control, None)
tuner.plan, tuner.start = plan(), _search.Setting(1, 2, 3, "ring")
next(tuner.plan)
_tune.dist = types.SimpleNamespace(get_global_rank=lambda *_: 0,
    broadcast_object_list=lambda *_, **__: None)
print(*tuner.decide([1.0]), tuner.is_found)
"""
TAUT = os.environ.get("TAUT", "")


def total(ended):
    return [seen["simple"]["total"] for seen in lines(ended)]


class Tune(unittest.TestCase):
    def check_log(self, text):
        """At most 12 settings, and a last word."""
        said = [line for line in text.splitlines() if line.startswith("taut: tune: ")]
        self.assertEqual(said[0], "taut: tune: at most 12 trials of 8 steps")
        tried = [line for line in said if re.search(r"way \w+: [\d.]+ ms", line)]
        self.assertTrue(1 <= len(tried) <= 10, said)
        self.assertRegex(said[-1], "stays: |better than how it is")

    def test_same_results(self):
        """Two ranks: PyTorch's own bits. Three, in the order of the ranks: the bits of
        the same job without a search."""
        for n_ranks, reference, more in (
            (2, environment(False), {}),
            (3, environment(True, TAUT_RUN_GATE="off", TAUT_RUN_ORDERED="on"),
             {"TAUT_RUN_ORDERED": "on"}),
        ):
            with self.subTest(n_ranks=n_ranks):
                own = environment(True, TAUT_RUN_GATE="off", TAUT_RUN_TUNE="on", **more)
                command = [*SIMPLE, "--steps", STEPS]
                ended = end(start(command, n_ranks, own))
                self.assertEqual(total(ended), total(end(start(command, n_ranks, reference))))
                self.check_log(ended[0][2])
                self.assertEqual([e for _, _, e in ended[1:]], [""] * (n_ranks - 1))

    def test_not_crossing(self):
        """Where the barrier stays, fusion and way are what there is."""
        own = environment(True, TAUT_RUN_TUNE="on")
        command = [*SIMPLE, "--steps", "130", "--times", "20,30,0,0"]
        ended = end(start(command, 2, own))
        lines(ended)
        self.check_log(ended[0][2])
        self.assertNotRegex(ended[0][2], "piece [1-9]")

    def test_another_engine(self):
        own = environment(
            True, TAUT_RUN_GATE="off", TAUT_RUN_TUNE="on", TAUT_RUN_ENGINE="process-group"
        )
        ended = end(start([*SIMPLE, "--steps", "6"], 2, own))
        lines(ended)
        self.assertIn("taut: tune: needs engine coll\n", ended[0][2])

    def test_search_fails(self):
        """The job goes on as it was before the trial, and nothing is saved."""
        told = subprocess.run(
            [PYTHON, "-c", FAILS], env=dict(environment(False), PYTHONPATH=str(PACKAGE)),
            capture_output=True, text=True, check=True,
        )
        self.assertEqual(told.stdout, "Setting(piece=1, credit=2, fuse=3, way='ring') True False\n")
        self.assertEqual(told.stderr, "taut: tune: no more\n")

    def test_a_rank_ends(self):
        """In the middle of a search: as without one."""
        own = environment(True, TAUT_RUN_GATE="off", TAUT_RUN_TUNE="on")
        command = [*SIMPLE, "--steps", "20", "--end", "kill"]
        ended = end(start(command, 2, own), 60)
        self.assertNotEqual(ended[0][0], 0)

    @unittest.skipUnless(TAUT, "no TAUT: the command was not built")
    def test_saved(self):
        """The file that is written is one that --tuned takes."""
        with tempfile.TemporaryDirectory(prefix="taut-tune-") as folder:
            path = pathlib.Path(folder) / "found"
            own = environment(False, TAUT_RUN_GATE="off")
            words = [TAUT, "run", "--tune", "--save", str(path), "--"]
            ended = end(start([*words, *SIMPLE, "--steps", STEPS], 2, own))
            lines(ended)
            text = path.read_text()
            self.assertEqual(re.findall(r"^(\w+) ", text, re.M), ["piece", "credit", "fuse", "way"])
            show = "import os; print([os.environ['TAUT_RUN_' + n] for n in"
            show += " ('PIECE', 'CREDIT', 'FUSE', 'WAY')])"
            told = subprocess.run(
                [TAUT, "run", "--tuned", str(path), "--", PYTHON, "-c", show],
                env=own, capture_output=True, text=True, check=True,
            )
            self.assertEqual(told.stdout.strip(), str(re.findall(r"^\w+ (\w+)$", text, re.M)))


if __name__ == "__main__":
    main()
