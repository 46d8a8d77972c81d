# SPDX-License-Identifier: Apache-2.0
"""An unchanged DistributedDataParallel job on Gloo under torchrun: the same
results as without a recording, and a recording that the report understands."""

import collections
import json
import unittest

from torch_case import Case, bare, main, record, taut, torchrun

KIND_LOAD, KIND_LOAD_WAIT = 14, 15
# Of the job's model: weights and biases, 4 bytes each, last layer first.
LAST = ["last.weight", "last.bias"]
BLOCK = ["blocks.%d.%s" % (i, n) for i in (2, 1, 0) for n in ("weight", "bias")]
FIRST = ["first.weight", "first.bias"]
SIZES = {"last.weight": 8 * 256, "last.bias": 8, "first.weight": 64 * 256, "first.bias": 256}
SIZES.update({n: 256 * 256 if n.endswith("weight") else 256 for n in BLOCK})


class DdpTest(Case):
    def test_recording_and_results(self):
        words = ["--kind", "ddp", "--workers", "2"]
        alone = bare(*words)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        recorded = record(torchrun(2, *words), self.run_folder)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        self.assertIn("weights ", alone.stdout)
        self.assertEqual(recorded.stdout, alone.stdout)
        told = self.told()
        self.assertEqual((told["ranks"], told["missing"], told["complete"]), ([0, 1], [], True))

        self.check_processes()
        self.assertEqual(self.left_over(), [])
        for rank in range(2):
            self.check_trace(rank)
            self.check_loader(rank)
            self.check_buckets(rank)
        self.check_report()

    def check_processes(self):
        told = self.processes()
        self.assertEqual([p["state"] for p in told], ["recorded steps 8:12"] * 2)
        self.assertEqual(sorted(p["rank"] for p in told), [0, 1])
        for p in told:
            self.assertEqual(p["framework"], "torch")
            self.assertEqual((p["world_size"], p["local_rank"]), (2, p["rank"]))
            self.assertEqual((p["recorded"], p["steps_seen"]), ([8, 12], 14))
            self.assertGreater(p["ended_ns"], p["started_ns"])
            self.assertGreater(p["step_ms"]["recorded"], 0)
            self.assertGreater(p["step_ms"]["unrecorded"], p["step_ms"]["unrecorded_issue"])
            self.assertGreater(p["step_ms"]["unrecorded_issue"], 0)

    def check_trace(self, rank):
        self.assertEqual(self.steps_of(rank), [8, 9, 10, 11])
        info = self.trace(rank)["distributedInfo"]
        self.assertEqual((info["rank"], info["world_size"]), (rank, 2))
        events = self.events(rank)
        names = [e["name"] for e in events]
        for name in ("first", "blocks", "blocks.1", "last", "Model"):
            self.assertEqual(names.count("nn.Module: " + name), 4, name)
        # The step that ends with the window ended in its optimiser's step.
        self.assertEqual(names.count("Optimizer.step#SGD.step"), 4)
        self.assertEqual(names.count("aten::addmm"), 4 * 5)
        self.check_shapes(rank, events)

    def check_shapes(self, rank, events):
        """They are in the trace of the step before the last unrecorded one, which
        ran the same operators on the thread of the loop."""
        self.assertEqual([e["name"] for e in events if "Input Dims" in e["args"]], [])
        shapes = self.shapes(rank)
        (step,) = [e for e in shapes if e["name"].startswith("ProfilerStep#")]
        self.assertEqual(step["name"], "ProfilerStep#6")
        linear = [e for e in shapes if e["name"] == "aten::addmm"]
        self.assertEqual(len(linear), 5)
        self.assertIn([16, 64], [e["args"]["Input Dims"][1] for e in linear])
        once = [e["name"] for e in shapes if e["cat"] == "cpu_op"]
        every = [e["name"] for e in events if e["cat"] == "cpu_op"]
        more = collections.Counter(once * 4)
        more.subtract(every)
        self.assertEqual({name: n for name, n in more.items() if n}, {})

    def check_loader(self, rank):
        (log,) = self.logs(rank, "torch")
        self.assertEqual((log.rank, log.world, log.local), (rank, 2, rank))
        waits = [s for s in log.spans if s.kind == KIND_LOAD_WAIT]
        self.assertEqual([s.correlation for s in waits], [9, 10, 11, 12])
        made = {}
        logs = self.logs(rank, "loader")
        self.assertEqual(len(logs), 2)
        for loader in logs:
            self.assertEqual((loader.rank, loader.world), (rank, 2))
            self.assertNotEqual(loader.closed_ns, 0)
            for s in loader.spans:
                self.assertEqual((s.kind, s.lane), (KIND_LOAD, loader.pid))
                self.assertNotIn(s.correlation, made)
                made[s.correlation] = s
        for wait in waits:
            # Made before it was taken, by the clock of another process.
            self.assertLessEqual(made[wait.correlation].start, wait.end)
            self.assertLessEqual(made[wait.correlation].end, wait.end)

    def check_buckets(self, rank):
        (log,) = self.logs(rank, "torch")
        fact = log.fact("ddp.buckets")
        self.assertTrue(fact["rebuilt"])
        names = [n for b in fact["buckets"] for n in b["parameters"]]
        self.assertEqual(sorted(names), sorted(SIZES))
        for bucket in fact["buckets"]:
            self.assertEqual(bucket["bytes"], 4 * sum(SIZES[n] for n in bucket["parameters"]))
        # In the order in which gradients become ready.
        self.assertLess(names.index("last.weight"), names.index("blocks.1.weight"))
        self.assertEqual(set(names[-2:]), set(FIRST))
        # What was reduced says the same.
        reduced = [e for e in self.shapes(rank) if e["name"] == "c10d::allreduce_"]
        reduced.sort(key=lambda e: e["ts"])
        elements = [e["args"]["Input Dims"][0][0][0] for e in reduced]
        self.assertEqual(elements, [b["bytes"] // 4 for b in fact["buckets"]])

    def check_report(self):
        report = json.loads(taut("report", "--json", self.run_folder))
        found = report["collectives"]
        self.assertEqual(report["graph"]["unmatched_collectives"], 0, report["graph"])
        self.assertEqual((found["complete"], found["count"]), (found["count"],) * 2)
        self.assertGreaterEqual(found["count"], 2 * 4)
        # Each gradient once a step: what was lent is of the right buckets.
        self.assertEqual(sum(k["bytes"] for k in found["kinds"]), 4 * 4 * sum(SIZES.values()))
        self.assertEqual([n for n in report["notes"] if "sizes" in n], [])
        for step, parts in zip(report["steps"], report["breakdown"]):
            self.assertAlmostEqual(sum(parts["ms"].values()), step["measured_ms"], 3)
        replay = json.loads(taut("replay", "--json", self.run_folder))
        for step in replay["steps"]:
            self.assertLess(abs(step["error_pct"]), 3)


if __name__ == "__main__":
    main()
