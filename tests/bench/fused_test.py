# SPDX-License-Identifier: Apache-2.0
"""bench/fused in small: fusions are compiled, timed and learned from, and C reads what was
learned."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "bench" / "fused"
sys.path[:0] = [str(TOOLS), str(ROOT / "tests" / "support")]
import frameworks
import operators

PYTHON = frameworks.find_python("torch")
FIRST, FUSIONS = 7, 3  # one to learn from, one to stop by, one to judge by


class Operators(unittest.TestCase):
    def test_fusions_hang_together(self):
        seen = set()
        for seed in range(500):
            nodes = operators.make(seed)
            self.assertEqual(nodes, operators.make(seed))
            self.assertTrue(2 <= len(nodes) <= 12)
            for i, node in enumerate(nodes):
                seen.add(node.type)
                before = [j for kind, j in node.reads if kind == "node"]
                self.assertTrue(all(j < i for j in before))
                self.assertTrue(bool(before) or i == 0)
                self.assertFalse([j for j in before if nodes[j].type in operators.SINKS])
            self.assertTrue(nodes[-1].kept)
            compile(operators.source(nodes), "fusion", "exec")
        self.assertEqual(seen, set(operators.OPERATORS))


class Learned(unittest.TestCase):
    def run_tool(self, *command):
        own = {k: v for k, v in os.environ.items() if k != "CXX"}  # Inductor's own choice
        words = [str(word) for word in command]
        done = subprocess.run(words, env=own, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_all(self):
        with tempfile.TemporaryDirectory() as folder:
            samples, model = f"{folder}/samples.jsonl", f"{folder}/model.json"
            batch = ["--batch", FUSIONS, "--seed", FIRST, "--minutes", 0]
            self.run_tool(PYTHON, TOOLS / "sample.py", samples, *batch)
            with open(samples) as file:
                lines = [json.loads(line) for line in file]
            self.check(lines)
            self.run_tool(PYTHON, TOOLS / "train.py", samples, "-o", model, "--epochs", 3)
            cost = pathlib.Path(os.environ["TAUT"]).parent / "bench" / "fused_cost"
            told = self.run_tool(cost, samples, model)
            self.assertIn(f"judged by {len(lines) // FUSIONS} of 1 fusions", told)
            self.assertIn("| the network |", told)

    def check(self, lines):
        """Each fusion in each shape; of what was drawn; nothing takes no time."""
        fusions = range(FIRST, FIRST + FUSIONS)
        self.assertEqual(sorted({line["fusion"] for line in lines}), list(fusions))
        self.assertEqual(len(lines) % FUSIONS, 0)
        for line in lines:
            nodes = operators.make(line["fusion"])
            self.assertEqual([n["type"] for n in line["nodes"]], [n.type for n in nodes])
            self.assertEqual([n["kept"] for n in line["nodes"]], [n.kept for n in nodes])
            self.assertTrue(all(n["ns"] > 0 for n in line["nodes"]))
            self.assertGreater(line["ns"], 0)
            rows, columns = line["shape"]
            self.assertTrue(all(size == 4 * rows * columns for *_, size in line["ties"]))


if __name__ == "__main__":
    frameworks.main(frameworks.needs(PYTHON, "TAUT_LIB"))
