# SPDX-License-Identifier: Apache-2.0
"""taut tune: which decisions of a plan stay, by what the runs of a job took that has the
times of its steps from the test. tests/torch has jobs that compute."""

import json
import os
import signal
import subprocess
import sys

import command
from command import ROOT

JOB = ROOT / "tests" / "cli" / "tune_job.py"
# Neither stands for another, nor goes with it.
WORDS = ["--budget", "2s", "--allow", "lossy", "--without", "schedule"]


class Tune(command.Case):
    def setUp(self):
        super().setUp()
        if "TAUT_RECORD_LIB" not in os.environ:
            self.skipTest("no program loads a library with a sanitizer")
        self.out = self.folder / "tuned"

    def words(self, what, *more):
        return ["tune", *WORDS, "-o", self.out, "--json", *more, "--", sys.executable, JOB, what]

    def tune(self, what, *more, status=0):
        """What it printed; the job's runs take what the expression says."""
        ended = command.taut(*self.words(what, *more))
        self.assertEqual(ended.returncode, status, ended.stderr)
        self.said = ended.stderr
        return json.loads(ended.stdout) if ended.stdout else None

    def read(self, name):
        return json.loads((self.out / name).read_text())

    def planned(self):
        return [decision["change"] for decision in self.read("plan.json")["decisions"]]

    def kept(self):
        return [decision["change"] for decision in self.read("tuned.json")["decisions"]]

    def runs(self, told):
        return [run["run"] for run in told["runs"]]


class Keeps(Tune):
    def test_all(self):
        """Each decision is worth 5 %: none is left out."""
        told = self.tune("dict(ms=500 - 25 * len(made))")
        self.assertGreater(len(self.planned()), 1)
        self.assertEqual(self.kept(), self.planned())
        self.assertEqual(told["before_ms"], 500)
        self.assertEqual(self.runs(told)[-1], "the job as it is, again")
        tuned = self.read("tuned.json")
        self.assertEqual(tuned["measured"], {k: told[k] for k in ("before_ms", "after_ms")})

    def test_nothing(self):
        """The plan is no faster, and there is nothing to be proven."""
        told = self.tune("dict(ms=500)")
        self.assertEqual(self.kept(), [])
        self.assertNotIn("the job as it is, again", self.runs(told))
        told = self.read("tuned.json")["predicted"]
        self.assertEqual(told["network_after_bytes"], told["network_before_bytes"])

    def test_runs_that_differ(self):
        """By 2 %, as the plan does from the first of them."""
        told = self.tune("dict(ms=500 - 10 * (n > 0))", "--whole")
        self.assertEqual(self.kept(), [])
        self.assertEqual([run["measured_ms"] for run in told["runs"]], [500, 490, 490])
        self.assertEqual((told["before_ms"], told["after_ms"]), (495, 495))

    def test_runs_that_differ_by_less(self):
        """0.4 %, and the plan is 2.2 % faster than their mean."""
        told = self.tune("dict(ms=500 - 2 * (n > 1) - 12 * bool(made))", "--whole")
        self.assertEqual(self.kept(), self.planned())
        self.assertEqual((told["before_ms"], told["after_ms"]), (499, 488))

    def test_one(self):
        """What the others do not give goes."""
        self.tune("dict(ms=500 - 25 * ('optimizer' in made))")
        self.assertEqual(self.kept(), ["optimizer=fused"])

    def test_small_losses_add_up(self):
        """Each decision is worth 0.25 %, which is no loss by itself: one goes, not all."""
        self.tune("dict(ms=500 - 1.25 * len(made) - 25 * bool(made))")
        self.assertGreater(len(self.planned()), 2)
        self.assertEqual(len(self.kept()), len(self.planned()) - 1)

    def test_what_is_not_made_is_not_kept(self):
        """The run was one of the others, and what stays says so."""
        missed = "not_applied={'optimizer=fused': 'no optimizer was made'} if made else {}"
        told = self.tune(f"dict(ms=500 - 25 * len(made - {{'optimizer'}}), {missed})")
        self.assertIn("optimizer=fused", self.planned())
        self.assertNotIn("optimizer=fused", self.kept())
        self.assertEqual(len(self.kept()), len(self.planned()) - 1)
        self.assertEqual(told["runs"][1]["changes"], self.kept())

    def test_what_bursts_cost(self):
        """Three steps of four are shorter than with the plan, and the fourth pays for it."""
        told = self.tune("dict(ms=[60] if made else [50, 50, 50, 250], steps=80)", "--whole")
        self.assertEqual(self.kept(), self.planned())
        self.assertEqual((told["before_ms"], told["after_ms"]), (100, 60))
        self.assertEqual([run["median_ms"] for run in told["runs"]], [50, 60, 50])
        self.assertRegex(self.said, r"measured: 50\.0 ms, the median of 80 of 1 ranks, the mean 100\.0: ")
        self.assertRegex(self.said, r"measured: 60\.0 ms, the median of 80 of 1 ranks: ")

    def test_nothing_was_made(self):
        """The same job, which happened to be faster."""
        missed = "{name: 'no model was made' for name in made}"
        self.tune(f"dict(ms=500 - 25 * bool(made), not_applied={missed})")
        self.assertEqual(self.kept(), [])

    def test_whole(self):
        told = self.tune("dict(ms=500 - 25 * ('optimizer' in made))", "--whole")
        self.assertEqual(self.kept(), self.planned())
        self.assertEqual(self.runs(told)[:2], ["the job as it is", "with the plan"])


class Fails(Tune):
    def test_too_few_steps(self):
        """Nine of them have no error that a gain could be compared with."""
        self.tune("dict(ms=500 - 25 * bool(made), steps=9)", status=1)
        self.assertIn(
            "tune: the job as it is: 9 steps of 1 ranks were measured, expected 10 of each: the "
            "job makes too few",
            self.said,
        )
        self.assertFalse((self.out / "tuned.json").exists())

    def test_as_it_is(self):
        self.assertIsNone(self.tune("dict(ms=500, status=3)", status=1))
        self.assertIn("tune: the job as it is ended with exit status 3; what there is", self.said)
        self.assertFalse((self.out / "tuned.json").exists())

    def test_without_a_decision(self):
        """It stays, and the others are tried."""
        for name, how in (("3", "status=3 * ({})"), ("137", "before='os.kill(os.getpid(), 9)' * ({})")):
            with self.subTest(how=how):
                self.out = self.folder / name
                needs = how.format("bool(made) and 'optimizer' not in made")
                told = self.tune(f"dict(ms=500 - 25 * bool(made), {needs})")
                self.assertEqual(self.kept(), ["optimizer=fused"])
                said = f"tune: without optimizer=fused ended with exit status {name}; "
                self.assertIn(said, self.said)
                self.assertIn("taut: tune: optimizer=fused stays\n", self.said)
                self.assertNotIn("without optimizer=fused", self.runs(told))

    def test_with_the_plan(self):
        told = self.tune("dict(ms=500, status=3 * bool(made))", status=1)
        self.assertEqual(self.runs(told), ["the job as it is"])
        self.assertEqual(self.kept(), [])
        self.assertEqual((told["before_ms"], told["after_ms"]), (500, 500))
        self.assertIn("tune: with the plan ended with exit status 3; what there is", self.said)
        self.assertIn("taut: tune: the job stays as it is\n", self.said)

    def test_as_it_is_again(self):
        told = self.tune("dict(ms=500 - 25 * bool(made), status=n and not made)", "--whole", status=1)
        self.assertEqual(self.runs(told), ["the job as it is", "with the plan"])
        self.assertEqual((self.kept(), told["after_ms"]), ([], 500))


class Ends(Tune):
    """Told to end, though the job ends well: by that signal, and without another run."""

    JOB = """
import signal
def end(number, frame):
    signal.signal(number, signal.SIG_IGN)
    measure(folder, 500)
signal.signal(signal.{name}, end)
print('job: computes', file=sys.stderr, flush=True)
time.sleep(60)
"""

    def ended(self, name, send):
        what = f"dict(ms=500, before={self.JOB.format(name=name)!r})"
        started = subprocess.Popen(
            [os.environ["TAUT"], *map(str, self.words(what))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.addCleanup(started.kill)
        for line in started.stderr:
            if line == "job: computes\n":
                break
        send(started.pid)
        out, err = started.communicate(timeout=60)
        self.assertEqual(out, "")
        return started.returncode, err

    def test_the_group(self):
        status, err = self.ended("SIGINT", lambda pid: os.killpg(pid, signal.SIGINT))
        self.assertEqual(status, -signal.SIGINT, err)
        self.assertIn(f"taut: tune: ended by signal 2; what there is lies in {self.out}\n", err)
        self.assertNotIn("run 2", err)
        self.assertFalse((self.out / "tuned.json").exists())
        self.assertTrue((self.out / "measured-0" / "rank-0.json").exists())

    def test_the_command_alone(self):
        status, err = self.ended("SIGTERM", lambda pid: os.kill(pid, signal.SIGTERM))
        self.assertEqual(status, -signal.SIGTERM, err)
        self.assertNotIn("run 2", err)

    def test_what_it_ignores(self):
        """As nohup has it: the runs go on."""
        what = "dict(ms=500, before='import signal; os.killpg(0, signal.SIGHUP)')"
        ended = command.taut(
            *self.words(what, "--whole"),
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(len(json.loads(ended.stdout)["runs"]), 2)


if __name__ == "__main__":
    command.main()
