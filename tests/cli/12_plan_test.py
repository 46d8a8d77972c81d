# SPDX-License-Identifier: Apache-2.0
"""taut plan: what it searches, prints and writes, and what it refuses; taut run --plan:
what its job finds set. tests/torch has jobs that are planned and run."""

import json
import os
import re
import subprocess

import command
from command import EXAMPLE, ROOT

# The recording of the example is small: a search for this long sees enough of it.
BUDGET = ["--budget", "2s"]


def plan(*args):
    result = command.taut("plan", EXAMPLE, *BUDGET, *args, cwd=ROOT)
    assert result.returncode == 0 and not result.stderr, result.stderr
    return result.stdout


def keys_of(value):
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


class List(command.Case):
    def test_all_are_listed(self):
        text = self.done("plan", "--list")
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        kinds, strategies = text.split("\nStrategies:\n")
        names = re.findall(r"(?m)^  (\w+)", kinds)
        changes = json.loads(self.done("whatif", "--list", "--json"))["changes"]
        self.assertGreater(len(names), 5)
        self.assertLessEqual(set(names), {change["name"] for change in changes})
        for line in kinds.splitlines()[1:]:
            self.assertRegex(line, r" \((exact|reordered|lossy)\)$")
        self.assertRegex(strategies, r"(?m)^  joint  +\w")

    def test_a_run_is_not_needed(self):
        self.assertEqual(self.done("plan", EXAMPLE, "--list"), self.done("plan", "--list"))


class Search(command.Case):
    @classmethod
    def setUpClass(cls):
        cls.found = json.loads(plan("--json"))

    def test_is_no_worse_than_the_job(self):
        found = self.found
        self.assertGreater(found["before_ms"], 0)
        self.assertLessEqual(found["after_ms"], found["before_ms"])
        self.assertLessEqual(found["low_ms"], found["after_ms"])
        self.assertGreaterEqual(found["high_ms"], found["after_ms"])
        self.assertGreater(found["replayed"], 10)
        self.assertEqual((found["ranks"], found["hosts"]), (2, 2))
        self.assertGreater(found["gradients"], 0)
        self.assertIsNone(found["memory_before_bytes"])
        self.assertGreater(found["network_before_bytes"], 0)

    def test_before_is_what_a_report_says(self):
        report = json.loads(self.done("report", EXAMPLE, "--json"))
        self.assertEqual(self.found["before_ms"], report["steady_step_ms"])

    def test_whatif_predicts_the_same(self):
        """The decisions are changes, in the order in which they are laid."""
        changes = [decision["change"] for decision in self.found["decisions"]]
        self.assertTrue(changes)
        alone = json.loads(self.done("whatif", EXAMPLE, *changes, "--json"))
        for key in ["before_ms", "after_ms", "low_ms", "high_ms"]:
            self.assertEqual(alone[key], self.found[key], key)

    def test_without_is_slower(self):
        for decision in self.found["decisions"]:
            self.assertIn(decision["numerics"], ["exact", "reordered"])
            if "without_ms" in decision:
                self.assertGreaterEqual(
                    decision["without_ms"], self.found["after_ms"] * 0.998, decision
                )

    def test_frontier(self):
        points = self.found["frontier"]
        steps = [point["after_ms"] for point in points]
        self.assertEqual(steps, sorted(steps))
        self.assertLessEqual(steps[0], self.found["after_ms"] + 0.001)
        for i, point in enumerate(points):
            for other in points[:i]:  # faster: it must cost more of something
                self.assertGreater(other["network_bytes"], point["network_bytes"])
        for row in self.found["alone"]:
            self.assertGreaterEqual(row["after_ms"], steps[0] - 0.001, row)

    def test_keys_are_explained(self):
        section = (ROOT / "docs/report.md").read_text().split("## JSON")[1]
        words = set(re.findall(r"\w+", section))
        self.assertEqual(keys_of(self.found) - words, set())

    def test_keys_of_tune_are_explained(self):
        section = (ROOT / "docs/report.md").read_text().split("## JSON")[1]
        words = set(re.findall(r"\w+", section))
        golden = (ROOT / "tests/cli/golden/tuned.json").read_text()
        self.assertEqual(keys_of(json.loads(golden)) - words, set())

    def test_classes(self):
        lossy = json.loads(plan("--json", "--allow", "lossy"))
        self.assertEqual(lossy["allow"], "lossy")
        self.assertLess(lossy["after_ms"], self.found["after_ms"])
        self.assertTrue(any("compress=" in d["change"] for d in lossy["decisions"]))
        self.assertFalse(any("compress=" in d["change"] for d in self.found["decisions"]))

    def test_without_a_name(self):
        found = json.loads(plan("--json", "--allow", "lossy", "--without", "compress",
                                "--without", "schedule"))
        text = json.dumps([found["decisions"], found["frontier"]])
        self.assertNotIn("compress", text)
        self.assertNotIn("schedule", text)

    def test_given(self):
        """What is given holds before and after, and is no decision."""
        slow = json.loads(plan("link=0.5x", "--json"))
        self.assertEqual(slow["given"], ["link=0.5x"])
        self.assertGreater(slow["before_ms"], self.found["before_ms"] * 1.2)
        self.assertNotIn("link", json.dumps([slow["decisions"], slow["frontier"]]))
        changes = [decision["change"] for decision in slow["decisions"]]
        alone = json.loads(self.done("whatif", EXAMPLE, "link=0.5x", *changes, "--json"))
        self.assertEqual(alone["after_ms"], slow["after_ms"])

    def test_text(self):
        text = plan("--width", "80")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        for heading in ["The plan", "Each alone", "Not tried"]:
            self.assertRegex(text, rf"(?m)^{heading}")
        self.assertRegex(" ".join(text.split()), r"A step of [\d.]+ ms would take [\d.]+ ms")
        self.assertRegex(text, r"(?m)^  workers: ")

    def test_files(self):
        path, page = self.folder / "plan.json", self.folder / "plan.html"
        found = json.loads(plan("--json", "-o", path, "--html", page))
        written = json.loads(path.read_text())
        self.assertEqual(written["taut_plan"], 1)
        self.assertEqual(
            [d["change"] for d in written["decisions"]],
            [d["change"] for d in found["decisions"]],
        )
        self.assertEqual(written["predicted"]["after_ms"], found["after_ms"])
        self.assertEqual(written["job"]["ranks"], 2)
        self.assertEqual(sum(n for _, n in written["job"]["gradients"]), found["gradients"])
        html = page.read_text()
        self.assertIn("</html>", html)
        self.assertNotIn("{{", html)
        self.assertEqual(self.files(), ["plan.html", "plan.json"])


class Wrong(command.Case):
    def test_options(self):
        for words, says in (
            ([], r"plan: expected RUN\.\.\.: a folder or files of traces"),
            ([EXAMPLE, "--budget", "soon"], "--budget: expected a time, like 30s, found 'soon'"),
            ([EXAMPLE, "--budget", "-1s"], "--budget: expected a time"),
            ([EXAMPLE, "--budget", "0"], "--budget: expected a time"),
            ([EXAMPLE, "--budget", "nan"], "--budget: expected a time"),
            ([EXAMPLE, "--budget", "inf"], "--budget: expected a time"),
            ([EXAMPLE, "--budget", "0x10"], "--budget: expected a time"),
            ([EXAMPLE, "--budget", "5 s"], "--budget: expected a time"),
            ([EXAMPLE, "--allow", "all"], "--allow: expected exact, reordered or lossy, found 'all'"),
            ([EXAMPLE, "--memory", "lots"], "--memory: expected bytes, like 16G, found 'lots'"),
            ([EXAMPLE, "--memory", "16Gx"], "--memory: expected bytes, like 16G, found '16Gx'"),
            ([EXAMPLE, "--strategy", "luck"], "no strategy 'luck'; 'taut plan --list' shows all"),
            ([EXAMPLE, "--without", "link"], "--without: 'link' is not decided on"),
            ([EXAMPLE, "--width", "20"], "--width"),
        ):
            with self.subTest(words=words[1:]):
                self.refused(2, "plan", *words, says=says)

    def test_options_of_tune(self):
        """Before the job is run for the first time."""
        for words, says in (
            (["--budget", "soon"], "tune: --budget: expected a time, like 30s, found 'soon'"),
            (["--allow", "all"], "tune: --allow: expected exact, reordered or lossy, found 'all'"),
            (["--memory", "lots"], "tune: --memory: expected bytes, like 16G, found 'lots'"),
            (["--without", "link"], "tune: --without: 'link' is not decided on"),
            (["--steps", "x"], "tune: --steps: expected A:B with A below B, like 10:14, found 'x'"),
            (["--steps", "9:9"], "tune: --steps: expected A:B with A below B"),
        ):
            with self.subTest(words=words):
                out = self.folder / "tuned"
                self.refused(2, "tune", *words, "-o", out, "--", "touch", self.folder / "x", says=says)
                self.assertEqual(self.files(), [])

    def test_tune_of_what_fails(self):
        """A job that cannot be recorded: one line more than its own, and the folder stays."""
        if "TAUT_RECORD_LIB" not in os.environ:
            self.skipTest("no program loads a library with a sanitizer")
        out = self.folder / "tuned"
        result = command.taut("tune", "-o", out, "--", "sh", "-c", "exit 3")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"taut: tune: recording the job ended with exit status 3; ")
        result = command.taut("tune", "-o", out, "--", "true")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "cannot be made: File exists")

    def test_runs_and_changes(self):
        self.refused(1, "plan", "/no/such", says="/no/such")
        self.refused(1, "plan", EXAMPLE, "lnik=2x", says="unknown change 'lnik'; did you mean")
        self.refused(1, "plan", EXAMPLE, "workers=2", says="workers=2: ")

    def test_memory_that_is_not_known(self):
        """No recording of memory: no plan could be said to keep a limit."""
        self.refused(1, "plan", EXAMPLE, *BUDGET, "--memory", "16G", says="memory")

    def test_unwritable(self):
        for option in ["-o", "--html"]:
            self.refused(1, "plan", EXAMPLE, option, "/no/such/file", says="/no/such")
        self.refused(1, "plan", EXAMPLE, *BUDGET, "-o", "/dev/full", says="/dev/full")

    def test_two_results_in_one_file(self):
        """Before the search, however the file is written."""
        path = self.folder / "same"
        for other in [path, self.folder / ".." / self.folder.name / "same"]:
            self.refused(2, "plan", EXAMPLE, "-o", path, "--html", other,
                         says="plan: --out and --html: expected two files, found '.*same' for both")
        self.assertEqual(self.files(), [])
        self.done("plan", EXAMPLE, "--budget", "1ms", "-o", "/dev/null", "--html", "/dev/null")

    def test_a_recording_is_not_overwritten(self):
        run = self.make_run()
        before = (run / "rank0.json").read_bytes()
        self.refused(1, "plan", run, *BUDGET, "-o", run / "rank0.json", says="rank0.json")
        self.assertEqual((run / "rank0.json").read_bytes(), before)


class Run(command.Case):
    """taut run --plan, and no job of a framework."""

    def run_plan(self, text, *words):
        path = self.folder / "plan.json"
        path.write_text(text)
        own = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_RUN")}
        own["TMPDIR"] = str(self.folder)
        return subprocess.run(
            [os.environ["TAUT"], "run", "--plan", path, *words],
            env=own, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def plan_of(self, *changes, **more):
        return json.dumps({
            "taut_plan": 1,
            "job": {"ranks": 2, "gradients": [[4096, 1], [8, 2]]},
            "allow": "lossy",
            "decisions": [{"change": change} for change in changes],
            **more,
        })  # fmt: skip

    def not_started(self, text, says, *words, status=1):
        """One line, and the command has not been there; nothing is left behind."""
        result = self.run_plan(text, *words, "--", "touch", self.folder / "was-here")
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("taut: "), result.stderr)
        self.assertIn(says, result.stderr)
        self.assertEqual(self.files(), ["plan.json"])

    def test_variables(self):
        result = self.run_plan(self.plan_of("workers=2", "compress=fp16"), "--", "env")
        # Nobody imported a framework: what was decided was not made.
        self.assertEqual(result.returncode, 1, result.stderr)
        found = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
        for name, value in (
            ("SCHEDULE", "off"),
            ("WORKERS", "2"),
            ("COMPRESS", "fp16"),
            ("JOB", "ranks=2 gradients=4096x1,8x2"),
        ):
            self.assertEqual(found["TAUT_RUN_" + name], value)
        self.assertTrue(found["TAUT_RUN_MEASURE"].startswith(str(self.folder)))
        self.assertEqual(found["TAUT_RUN_MEASURE_HERE"], found["TAUT_RUN_MEASURE"])
        self.assertRegex(result.stderr, "^taut: no step was measured: no process on this host .*\n$")
        self.assertEqual(self.files(), ["plan.json"])

    def test_what_the_command_says_counts_more(self):
        plan = self.plan_of("schedule=priority,partition=1MiB,credit=4MiB,barrier=cross,by=taut")
        result = self.run_plan(plan, "--piece", "4K", "--", "env")
        self.assertIn("TAUT_RUN_PIECE=4096\n", result.stdout)
        self.assertIn("TAUT_RUN_CREDIT=4194304\n", result.stdout)

    def test_measure(self):
        """What is there by the job's end is read: two ranks of the same steps."""
        folder = self.folder / "times"
        plan = self.plan_of("workers=2", predicted={"before_ms": 4, "after_ms": 2, "low_ms": 1, "high_ms": 3})
        ranks = [
            json.dumps({"step_ns": [2100000, 2200000, 2300000], "not_applied": {"workers=2": "no DataLoader"}})
        ] * 2
        script = 'for i in 0 1; do echo "$0" >"$TAUT_RUN_MEASURE/rank-$i.json"; done'
        result = self.run_plan(plan, "--measure", folder, "--", "sh", "-c", script, ranks[0])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            result.stderr.splitlines(),
            [
                "taut: predicted: 2.0 ms a step (1.0 to 3.0), before 4.0; measured: 2.2 ms, "
                "the median of 6 of 2 ranks: +10.0 %",
                "taut: not made: workers=2: no DataLoader",
            ],
        )
        self.assertEqual(sorted(os.listdir(folder)), ["rank-0.json", "rank-1.json"])
        result = self.run_plan(plan, "--measure", folder, "--", "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("expected a folder that is new or empty", result.stderr)

    def test_the_exit_status_is_the_jobs(self):
        result = self.run_plan(self.plan_of("workers=2"), "--", "sh", "-c", "exit 7")
        self.assertEqual(result.returncode, 7)

    def test_broken_file(self):
        self.not_started("{", "plan.json:1: expected a plan, which is one JSON object")
        self.not_started("", "plan.json:1: expected a plan")
        self.not_started("{}", "plan.json: taut_plan: expected 1")
        self.not_started(self.plan_of("compres=fp16"), "decisions[0]: unknown change 'compres'")
        self.not_started(self.plan_of("link=2x"), "decisions[0]: expected a change that a running job")
        self.not_started(self.plan_of("amp", allow="exact"), "amp is lossy, and the plan allows exact")

    def test_no_file(self):
        result = command.taut("run", "--plan", "/no/such", "--", "true")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "taut: /no/such: cannot be read: No such file or directory\n")

    def test_what_cannot_be_made(self):
        for changes, says in (
            (["algorithm=ring"], "algorithm=ring: a running job cannot be given this: without schedule="),
            (["compress=topk"], "compress=topk: a running job cannot be given this"),
            (["bucket=2x"], "bucket=2x: a running job cannot be given this: a plan has sizes in bytes"),
            (["workers=2", "workers=3"], "workers=3: a running job cannot be given this: it is decided twice"),
            (["workers=many"], "workers: value: expected a whole number"),
        ):
            with self.subTest(changes=changes):
                self.not_started(self.plan_of(*changes), says)

    def test_wrong_options_leave_nothing(self):
        self.not_started(self.plan_of("workers=2"), "--way: expected", "--way", "x", status=2)
        self.not_started(self.plan_of("workers=2"), "--save is of a --tune", "--save", "x", status=2)
        result = self.run_plan(self.plan_of("workers=2"), "--", "/no/such")
        self.assertEqual(result.returncode, 127)
        self.assertEqual(self.files(), ["plan.json"])


if __name__ == "__main__":
    command.main()
