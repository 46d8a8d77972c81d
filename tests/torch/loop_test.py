# SPDX-License-Identifier: Apache-2.0
"""The whole loop on an unchanged job: `taut tune` records it, plans, runs it as it is and
with the plan, and writes what stays; `taut run --plan` makes that again, and refuses
another job."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from ranks import LAUNCH, PYTHON, ROOT, environment, main

JOB = str(ROOT / "bench" / "lab" / "job.py")
STEPS = "40"  # 20 are left out
TAUT = os.environ.get("TAUT", "")


def ranks(n_ranks, model, steps=STEPS):
    return [
        PYTHON, LAUNCH, str(n_ranks), JOB, "--model", model, "--steps", steps, "--batch", "2",
    ]


def run(*words, seconds=240):
    return subprocess.run(
        [TAUT, *map(str, words)], env=environment(False), capture_output=True, text=True,
        timeout=seconds, check=False,
    )


@unittest.skipUnless(TAUT, "no TAUT: the command was not built")
class Loop(unittest.TestCase):
    def test_loop(self):
        with tempfile.TemporaryDirectory(prefix="taut-loop-") as parent:
            folder = pathlib.Path(parent) / "tuned"
            ended = run(
                "tune", "--out", folder, "--budget", "2s", "--allow", "lossy", "--whole",
                "--json", "--", *ranks(2, "vgg"),
            )
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.check_told(json.loads(ended.stdout))
            plan = json.loads((folder / "plan.json").read_text())
            tuned = json.loads((folder / "tuned.json").read_text())
            self.assertEqual((plan["job"]["ranks"], tuned["job"]), (2, plan["job"]))
            self.assertGreater(len(plan["decisions"]), 0, "narrow gradients alone are a gain")
            self.assertGreater(tuned["measured"]["before_ms"], 0)
            self.refuse(folder / "plan.json", ranks(2, "gpt", "3"), "largest gradient is")

    def check_told(self, told):
        runs = told["runs"]
        names = ["the job as it is", "with the plan", "the job as it is, again"]
        self.assertEqual([r["run"] for r in runs], names[: len(runs)])
        self.assertGreaterEqual(len(runs), 2)
        self.assertEqual(runs[0]["changes"], [])
        self.assertGreater(len(runs[1]["changes"]), 0)
        for r in runs:
            self.assertGreater(r["measured_ms"], 0)
            self.assertGreater(r["predicted_ms"], 0)
        kept = [d["change"] for d in told["decisions"]]
        self.assertIn(kept, ([], runs[1]["changes"]))
        as_it_is = [r["measured_ms"] for r in runs if not r["changes"]]
        self.assertAlmostEqual(told["before_ms"], sum(as_it_is) / len(as_it_is), places=5)
        self.assertLessEqual(2 if kept else 1, len(as_it_is))

    def refuse(self, plan, command, why):
        """Before the first step, with one line that says what is other."""
        ended = run("run", "--plan", plan, "--", *command)
        self.assertNotEqual(ended.returncode, 0)
        said = re.findall(r"^taut: .*" + re.escape(why) + ".*$", ended.stderr, re.M)
        self.assertEqual(len(said), 1, ended.stderr)


if __name__ == "__main__":
    main()
