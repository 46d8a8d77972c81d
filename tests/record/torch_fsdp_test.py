# SPDX-License-Identifier: Apache-2.0
"""Unchanged FSDP jobs of both kinds on Gloo."""

import json
import unittest

from torch_case import Case, bare, launch, main, record, taut

BLOCKS = ["blocks.%d.%s" % (i, n) for i in range(3) for n in ("weight", "bias")]
OUTER = ["first.weight", "first.bias", "last.weight", "last.bias"]
BLOCKS_BYTES = 4 * 3 * (256 * 256 + 256)
OUTER_BYTES = 4 * (64 * 256 + 256 + 256 * 8 + 8)


class FsdpTest(Case):
    def record(self, kind):
        words = ["--kind", kind, "--steps", "13"]
        alone = bare(*words)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        recorded = record(launch(2, *words), self.run_folder)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        self.assertIn("weights ", alone.stdout)
        self.assertEqual(recorded.stdout, alone.stdout)
        told = self.told()
        self.assertEqual((told["ranks"], told["missing"], told["complete"]), ([0, 1], [], True))
        for rank in range(2):
            self.assertEqual(self.steps_of(rank), [8, 9, 10, 11])
            (log,) = self.logs(rank, "torch")
            self.check_units(log.fact("fsdp.units"), int(kind[-1]))
        self.check_modules()
        self.check_report()

    def check_units(self, fact, version):
        self.assertEqual(fact["module"], "Model")
        units = {u["name"]: u for u in fact["units"]}
        self.assertEqual(sorted(units), ["", "blocks"])
        for unit in units.values():
            self.assertEqual(unit["version"], version)
            self.assertEqual(unit["shard_bytes"] * 2, unit["bytes"])
        self.assertEqual(sorted(units[""]["parameters"]), sorted(OUTER))
        self.assertEqual(sorted(units["blocks"]["parameters"]), sorted(BLOCKS))
        self.assertEqual(units[""]["bytes"], OUTER_BYTES)
        self.assertEqual(units["blocks"]["bytes"], BLOCKS_BYTES)

    def check_modules(self):
        """Without what the wrappers put into the names."""
        names = [e["name"] for e in self.events() if e["name"].startswith("nn.Module: ")]
        self.assertEqual(names.count("nn.Module: blocks.1"), 4)
        self.assertFalse([n for n in names if "_fsdp" in n])

    def check_report(self):
        report = json.loads(taut("report", "--json", self.run_folder))
        found = report["collectives"]
        self.assertEqual(report["graph"]["unmatched_collectives"], 0, report["graph"])
        self.assertGreaterEqual(found["count"], 4 * 3)
        self.assertEqual(found["complete"], found["count"])
        for step, parts in zip(report["steps"], report["breakdown"]):
            self.assertAlmostEqual(sum(parts["ms"].values()), step["measured_ms"], 3)
        replay = json.loads(taut("replay", "--json", self.run_folder))
        for step in replay["steps"]:
            self.assertLess(abs(step["error_pct"]), 3)

    def test_first(self):
        self.record("fsdp1")

    def test_second(self):
        self.record("fsdp2")


if __name__ == "__main__":
    main()
