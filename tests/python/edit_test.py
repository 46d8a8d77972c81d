#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""taut.edit over a recorded job: each call does what the C library does, and
mistakes are exceptions. TAUT_LIB names the library."""
import contextlib
import io
import os
import pathlib
import re
import sys
import textwrap
import unittest

if "TAUT_LIB" not in os.environ:
    print("no libtaut.so that a plain interpreter can load: skipped")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from taut.edit import Graph  # noqa: E402

RUN = ROOT / "examples" / "ddp-gloo-2host"


class Edits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.graph = Graph.open(RUN)
        cls.before = cls.graph.replay()

    def setUp(self):
        self.edit = self.graph.edit()

    def steady(self):
        return self.edit.build().replay().steady_ns

    def test_unchanged(self):
        after = self.edit.build().replay()
        self.assertEqual(after.start_ns, self.before.start_ns)
        self.assertEqual(after.end_ns, self.before.end_ns)
        self.assertEqual(after.steady_ns, self.before.steady_ns)
        self.assertGreater(after.steady_ns, 0)

    def test_select(self):
        ops = self.edit.select(name="aten::*", kinds=["host"], rank=1, least_ns=1000)
        self.assertTrue(ops)
        for op in ops:
            is_ = self.edit.op(op)
            self.assertTrue(is_.name.startswith("aten::"))
            self.assertEqual(self.edit.lane_rank(is_.lane), 1)
            self.assertGreaterEqual(is_.dur_ns, 1000)
        every = [
            op
            for lane in range(self.edit.n_lanes)
            if self.edit.lane_rank(lane) == 1
            for op in self.edit.lane(lane)
        ]
        expected = [
            op
            for op in every
            if self.graph.name(op).startswith("aten::")
            and self.edit.op(op).kind == "host"
            and self.edit.op(op).dur_ns >= 1000
        ]
        self.assertEqual(ops, expected)
        self.assertEqual(self.edit.select(name="no such name"), [])

    def test_free_transfers(self):
        ops = self.edit.select(kinds=["transfer"])
        self.edit.scale(ops, 0)
        self.assertLess(self.steady(), self.before.steady_ns)
        self.edit.undo()
        self.assertEqual(self.steady(), self.before.steady_ns)

    def test_twice_as_long(self):
        """All durations and gaps twice: so is the step, but for its lags."""
        self.edit.scale(range(self.edit.n_ops), 2)
        self.assertGreater(self.steady(), 1.9 * self.before.steady_ns)

    def test_insert_and_trial(self):
        main = self.edit.op(self.edit.select(kinds=["mark"], rank=0)[2])
        mark = self.edit.select(kinds=["mark"], lane=main.lane)[2]
        with self.edit.trial():
            new = self.edit.insert("sleep", 50_000_000, after=mark)
            self.assertEqual(self.edit.op(new).name, "sleep")
            self.assertEqual(self.edit.before(new), mark)
            changed = self.edit.build()
            at = changed.op_of[new]
            self.assertEqual(changed.name(at), "sleep")
            times = changed.replay()
            self.assertEqual(times.end_ns[at] - times.start_ns[at], 50_000_000)
        self.assertIsNone(self.edit.op(new))
        self.assertEqual(self.steady(), self.before.steady_ns)

    def test_waits(self):
        arrive = self.edit.members(0)[0]
        (wait,) = self.edit.waiting_for(arrive)
        self.assertEqual((wait.kind, wait.from_start), ("comm", False))
        self.assertEqual(self.edit.op(wait.op).kind, "join")
        self.assertIn(arrive, [w.op for w in self.edit.waits_of(wait.op)])
        self.edit.disconnect(arrive, wait.op)
        self.assertEqual(self.edit.waiting_for(arrive), [])
        self.edit.connect(arrive, wait.op, "comm", lag_ns=7)
        self.assertEqual(self.edit.waiting_for(arrive)[0].lag_ns, 7)

    def test_remove_and_move(self):
        op = self.edit.select(name="aten::*", kinds=["host"], rank=0)[10]
        before, after = self.edit.before(op), self.edit.next(op)
        self.edit.move(op, lane=self.edit.op(op).lane)
        self.assertIsNone(self.edit.before(op))
        self.assertEqual(self.edit.next(before), after)
        self.edit.remove(op)
        self.assertIsNone(self.edit.op(op))
        self.assertEqual(len(self.edit.build()), len(self.graph) - 1)

    def test_collectives_and_ranks(self):
        n = self.edit.n_collectives
        arrivals = self.edit.members(0)
        number, new = self.edit.add_collective(
            "more", [(self.edit.op(a).lane, self.edit.next(a), 1000) for a in arrivals]
        )
        self.assertEqual((number, self.edit.members(number)), (n, new))
        self.edit.remove_collective(0)
        self.assertEqual(self.edit.members(0), [])
        rank = self.edit.copy_rank(1)
        self.assertEqual(len(self.edit.members(number)), len(arrivals) + 1)
        alone = self.edit.copy_rank(1, joins=[])
        self.assertEqual(len(self.edit.members(number)), len(arrivals) + 1)
        self.edit.remove_rank(alone)
        self.assertEqual(rank + 1, alone)
        changed = self.edit.build()
        changed.settle(changed.replay())
        self.assertGreater(changed.replay().steady_ns, 0)

    def test_mistakes(self):
        with self.assertRaisesRegex(ValueError, "not there"):
            self.edit.remove(10**8)
        with self.assertRaisesRegex(ValueError, "kernel"):
            self.edit.select(kinds=["kernels"])
        with self.assertRaises(ValueError):
            self.edit.set_dur(0, -1)
        with self.assertRaises(ValueError):
            self.edit.undo(10**6)
        with self.assertRaises(OSError):
            Graph.open("/no/such/run")
        a, b = self.edit.select(kinds=["host"], rank=0)[5:7]
        self.edit.connect(b, a)
        with self.assertRaisesRegex(ValueError, "circle"):
            self.steady()


class Document(unittest.TestCase):
    def test_example(self):
        """What docs/whatif.md prints is what it says it prints."""
        text = (ROOT / "docs" / "whatif.md").read_text(encoding="utf-8")
        code = re.search(r"    from taut\.edit.*?(?=\n\n\S)", text, re.DOTALL).group()
        told = re.findall(r"print.*# (\d+)", code)
        out = io.StringIO()
        os.chdir(ROOT)
        with contextlib.redirect_stdout(out):
            exec(textwrap.dedent(code), {})
        self.assertEqual(out.getvalue().split(), told)
        self.assertEqual(len(told), 3)


if __name__ == "__main__":
    unittest.main()
