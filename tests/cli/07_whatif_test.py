# SPDX-License-Identifier: Apache-2.0
"""taut whatif: the list of changes, what is said when one is wrong, what a
prediction prints, and that it is the same every time."""

import csv
import io
import json
import os
import re
import subprocess

import command
from command import EXAMPLE, ROOT

GOLDEN = ROOT / "tests/cli/golden"


def run_in_root(*args):
    """As a user in the root of the tree would: paths in the output are short."""
    result = command.taut(*args, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return result.stdout


class List(command.Case):
    @classmethod
    def setUpClass(cls):
        cls.changes = json.loads(run_in_root("whatif", "--list", "--json"))["changes"]

    def test_all_are_listed(self):
        text = self.done("whatif", "--list")
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        groups = []
        for change in self.changes:
            self.assertRegex(text, rf"(?m)^  {change['name']}\b")
            if change["group"] not in groups:
                groups.append(change["group"])
        found = re.findall(r"(?m)^(\w+)$", text)
        self.assertEqual([name for name in found if name in groups], groups)

    def test_each_is_documented(self):
        self.assertTrue(self.changes)
        names = [change["name"] for change in self.changes]
        self.assertEqual(len(set(names)), len(names))
        for change in self.changes:
            with self.subTest(change=change["name"]):
                for key in ["group", "summary", "assumption", "source"]:
                    self.assertTrue(change[key], key)
                text = self.done("whatif", "--list", change["name"])
                self.assertTrue(text.startswith(f"{change['name']}: "))
                self.assertIn("\n  assumes  ", text)
                self.assertIn("\n  source   ", text)
                self.assertLessEqual(max(map(len, text.splitlines())), 100)
                for parameter in change["parameters"]:
                    name = parameter["name"] or change["name"]
                    self.assertIn(f"\n  {name}={parameter['form']}", text)
                    self.assertTrue(parameter["help"])

    def test_a_run_is_passed_over(self):
        self.assertEqual(
            self.done("whatif", EXAMPLE, "--list"), self.done("whatif", "--list")
        )
        self.assertEqual(
            self.done("whatif", EXAMPLE, "--list", "link"),
            self.done("whatif", "--list", "link"),
        )

    def test_nearest(self):
        self.refused(
            2, "whatif", "--list", "lnik", says="no change 'lnik'; did you mean link"
        )


class Wrong(command.Case):
    def test_usage(self):
        self.refused(2, "whatif", says=r"whatif: expected RUN... CHANGE...")
        self.refused(2, "whatif", EXAMPLE, says="expected a CHANGE behind the RUN")
        self.refused(2, "whatif", EXAMPLE, "link=2x", "--csv", "x", says="--csv is of")
        self.refused(
            2,
            "whatif",
            EXAMPLE,
            "--sweep",
            "link=1x,2x",
            "--perfetto",
            "x",
            says="--perfetto is of one prediction",
        )
        self.refused(
            2, "whatif", EXAMPLE, "link=2x", "--html", "-", says="--html.*found '-'"
        )

    def test_two_results_in_one_file(self):
        path = self.folder / "same"
        for change, option in (["link=2x", "--perfetto"], ["--sweep=link=1x,2x", "--csv"]):
            self.refused(
                2, "whatif", EXAMPLE, change, "--html", path, option, path,
                says=f"whatif: --html and {option}: expected two files, found '.*same' for both",
            )  # fmt: skip
        self.assertEqual(self.files(), [])

    def test_changes(self):
        for change, says in [
            ("lnik=2x", "unknown change 'lnik'; did you mean link"),
            ("link=2x,latncy=1ms", "link: unknown parameter 'latncy'; did you mean lat"),
            ("link=4gbot", "link: value: expected a rate .* found '4gbot'"),
            ("link=2x,latency=4gbit", "link: latency: expected a time"),
            ("link=2x,host=9", "link: host: expected a whole number from 0 to 1"),
            ("link=2x,host", "link: expected KEY=VALUE behind the comma"),
            ("link", "link: expected a rate"),
            ("batchnorm=nan", "batchnorm: value: expected one of fused, found 'nan'"),
            ("partition=999B", "partition: value: expected 1 kB or more"),
            ("world=65536", "world=65536: the job would have .* at most [0-9]+ ranks"),
            ("\033[31m=1", "unknown change"),
        ]:
            with self.subTest(change=change):
                for line in self.refused(1, "whatif", EXAMPLE, change, says=says):
                    self.assertTrue(line.isprintable(), repr(line))

    def test_sweeps(self):
        for sweep, says in [
            ("link", "--sweep: expected NAME=VALUE"),
            ("link=1x,,2x", "a value behind each comma"),
            ("link=1x..2x:1", "N from 2 to 1000"),
            ("lnik=1x,2x", "did you mean link"),
        ]:
            with self.subTest(sweep=sweep):
                self.refused(1, "whatif", EXAMPLE, "--sweep", sweep, says=says)

    def test_a_recording_without_a_network(self):
        run = self.make_run()
        trace = run / "rank1.json"
        trace.unlink()
        self.refused(1, "whatif", run, "link=2x", says="link: no transfer of this rec")


class Prediction(command.Case):
    def predict(self, *args):
        return json.loads(self.done("whatif", EXAMPLE, *args, "--json"))

    def test_no_change_is_the_recording(self):
        found = self.predict("link=1x")
        self.assertAlmostEqual(found["before_ms"], found["after_ms"], delta=0.01)
        self.assertAlmostEqual(found["speedup"], 1, delta=0.0001)
        for row in found["critical_path"] + found["operations"]:
            self.assertAlmostEqual(row["before_ms"], row["after_ms"], delta=0.02)

    def test_before_is_the_report(self):
        report = json.loads(self.done("report", EXAMPLE, "--json"))
        found = self.predict("link=2x")
        self.assertEqual(found["before_ms"], report["steady_step_ms"])

    def test_a_link_that_is_not_used(self):
        """The recording knows links between hosts: another one is another change."""
        notes = self.predict("world=4,link=10gbit")["notes"]
        self.assertTrue(any("link given here is not used" in note for note in notes), notes)

    def test_nothing_is_left(self):
        """A step of no time is no number of times as fast."""
        run = os.path.join(self.folder, "one.json")
        with open(run, "w") as f:
            events = [command.event("aten::mm", "cpu_op", 1, 0, 5)]
            json.dump({"schemaVersion": 1, "traceEvents": events}, f)
        said = json.loads(self.done("whatif", run, "remove=*", "--json"))
        self.assertEqual(said["after_ms"], 0)
        self.assertIsNone(said["speedup"])
        self.assertNotIn("times as fast", self.done("whatif", run, "remove=*"))

    def test_interval(self):
        for change in ["link=2x", "link=0.5x", "link,latency=2x"]:
            found = self.predict(change)
            self.assertLess(found["low_ms"], found["after_ms"])
            self.assertGreater(found["high_ms"], found["after_ms"])
            self.assertTrue(found["uncertain"])
            widest = max(u["high_ms"] - u["low_ms"] for u in found["uncertain"])
            self.assertGreaterEqual(
                found["high_ms"] - found["low_ms"], widest - 0.001
            )

    def test_a_faster_link_cannot_hurt(self):
        """No step is longer on a faster link, nor shorter than without one."""
        steps = [
            self.predict(change)["after_ms"]
            for change in ["link=0.5x", "link=1x", "link=2x", "link=100x"]
        ]
        self.assertEqual(steps, sorted(steps, reverse=True))
        removed = json.loads(self.done("report", EXAMPLE, "--json"))["removals"]
        [transfer] = [r["step_ms"] for r in removed if r["id"] == "transfer"]
        self.assertGreater(steps[-1], transfer * 0.9)

    def test_both_ways_of_saying_a_rate(self):
        self.assertEqual(
            self.predict("link=2gbit,from=1gbit")["after_ms"],
            self.predict("link=2x")["after_ms"],
        )

    def test_keys_are_explained(self):
        section = (ROOT / "docs/whatif.md").read_text().split("## JSON")[1]
        words = set(re.findall(r"\w+", section))
        for args in [
            ["link=2x"],
            ["--sweep", "link=1x,2x"],
            ["--list"],
        ]:
            found = json.loads(self.done("whatif", EXAMPLE, *args, "--json"))
            self.assertEqual(keys_of(found) - words, set())

    def test_text(self):
        text = run_in_root("whatif", "examples/ddp-gloo-2host", "link=1x")
        golden = GOLDEN / "whatif_link.txt"
        if os.environ.get("TAUT_WRITE_GOLDEN"):
            golden.write_text(text)
        self.assertEqual(text, golden.read_text())

    def test_sections(self):
        text = self.done("whatif", EXAMPLE, "link=2x", "--width", "80")
        for heading in [
            "What the interval is made of",
            "Where the difference comes from",
            "What limits next",
            "What was assumed",
        ]:
            self.assertRegex(text, rf"(?m)^{heading}")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_what_limits_next_is_a_share_of_what_it_is_saved_from(self):
        """A first step that waits long for its batch: what that costs is counted over all steps, and so is its share;
        the sentence has what the others wait, and where the rest is."""
        events, at = [], 0
        for step, data in enumerate([90_000, 1_000, 1_000]):
            loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
            events += [
                command.event(f"ProfilerStep#{step}", "user_annotation", 1, at, data + 9_000),
                command.event(loading, "user_annotation", 1, at, data),
                command.event("aten::mm", "cpu_op", 1, at + data, 8_900),
            ]
            at += data + 9_000
        run = self.folder / "rank0.json"
        run.write_text(json.dumps({"traceEvents": events, "distributedInfo": {"rank": 0, "world_size": 1}}))
        text = self.done("whatif", run, "host=2x").split("What limits next")[1]
        # of 119 ms in three steps, halved, 46 wait for batches
        self.assertRegex(text, r"(?m)^  15\.33 ms  77\.\d %  The step waits 0\.5 ms \(10 %\)")
        self.assertIn("Most of it is in the first step", " ".join(text.split()))
        self.assertIn("a step takes 19.83 ms: savings are counted from that", " ".join(text.split()))

    def test_same_bytes(self):
        args = ["whatif", EXAMPLE, "link=3gbit", "link,latency=50us"]
        first = self.done(*args)
        for threads in ["1", "4"]:
            self.assertEqual(self.done(*args, "--threads", threads), first)
            self.assertEqual(
                self.done(*args, "--json", "--threads", threads),
                self.done(*args, "--json"),
            )

    def test_pages(self):
        page = self.folder / "page.html"
        timeline = self.folder / "timeline.json"
        args = ["whatif", EXAMPLE, "link=2x"]
        text = self.done(*args, "--html", page, "--perfetto", timeline)
        self.assertEqual(text, self.done(*args))
        self.assertIn("</html>", page.read_text())
        self.assertIn("with link=2x (predicted)</title>", page.read_text())
        self.assertTrue(json.loads(timeline.read_text())["traceEvents"])

    def test_several_files_are_one_run(self):
        files = sorted(EXAMPLE.glob("rank*.gz"))
        found = json.loads(self.done("whatif", *files, "link=2x", "--json"))
        self.assertEqual(found["changes"], ["link=2x"])
        self.assertEqual(found["after_ms"], self.predict("link=2x")["after_ms"])


class Sweep(command.Case):
    def sweep(self, *args):
        text = self.done("whatif", EXAMPLE, *args)
        return list(csv.DictReader(io.StringIO(text)))

    def test_is_what_each_value_gives(self):
        rows = self.sweep("--sweep", "link=1x..3x:3")
        self.assertEqual([row["link"] for row in rows], ["1x", "2x", "3x"])
        found = json.loads(self.done("whatif", EXAMPLE, "link=2x", "--json"))
        for key in ["before_ms", "after_ms", "low_ms", "high_ms", "speedup"]:
            self.assertEqual(float(rows[1][key]), found[key])

    def test_is_monotone(self):
        """Up to the recorded rate. Faster transfers take more of the cores at a
        time, which may cost what computes beside them more than they gain."""
        rows = self.sweep("--sweep", "link=0.1x..1x:x11")
        steps = [float(row["after_ms"]) for row in rows]
        self.assertEqual(steps, sorted(steps, reverse=True))
        self.assertEqual(len(steps), 11)
        for row in self.sweep("--sweep", "link=1.5x..12x:x4"):
            self.assertLess(float(row["after_ms"]), steps[-1])

    def test_same_with_any_number_of_threads(self):
        args = ["--sweep", "link=0.5x..4x:x7"]
        self.assertEqual(
            self.sweep(*args, "--threads", "1"), self.sweep(*args, "--threads", "4")
        )

    def test_on_top_of_other_changes(self):
        rows = self.sweep("link,latency=2x", "--sweep", "link=1x,2x")
        found = json.loads(
            self.done("whatif", EXAMPLE, "link,latency=2x", "link=2x", "--json")
        )
        self.assertEqual(float(rows[1]["after_ms"]), found["after_ms"])

    def test_files(self):
        page, table = self.folder / "curve.html", self.folder / "curve.csv"
        args = ["--sweep", "link=1x..4x:x5"]
        text = self.done("whatif", EXAMPLE, *args, "--html", page, "--csv", table)
        self.assertIn("times as fast", text)
        rows = list(csv.DictReader(io.StringIO(table.read_text())))
        self.assertEqual(rows, self.sweep(*args))
        html = page.read_text()
        self.assertIn("</html>", html)
        self.assertNotIn("{{", html)
        self.assertNotRegex(html, r'(src|href)="')
        self.assertEqual(html.count("<circle"), 5)

    def test_text_in_the_page_is_text(self):
        run = self.folder / "<b>&run"
        subprocess.run(["cp", "-r", EXAMPLE, run], check=True)
        page = self.folder / "curve.html"
        self.done("whatif", run, "--sweep", "link=1x,2x", "--html", page)
        html = page.read_text()
        self.assertNotIn("<b>", html)
        self.assertIn("&lt;b&gt;&amp;run", html)


class Tune(command.Case):
    def test_settings(self):
        """Every one is told, the least first; the best is predicted the same alone."""
        found = json.loads(self.done("whatif", EXAMPLE, "link=0.5x", "--tune", "--json"))
        settings = found["settings"]
        steps = [s["after_ms"] for s in settings]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(sorted(s["point"] for s in settings), list(range(len(settings))))
        self.assertLess(found["replayed"], len(settings))
        best = next(s for s in settings if s["way"] == "ring")
        alone = json.loads(
            self.done(
                "whatif", EXAMPLE, "link=0.5x", "bucket=%dB" % best["fuse_bytes"],
                "algorithm=ring", "schedule=priority,partition=%dB,credit=%dB,barrier=cross,by=taut"
                % (best["piece_bytes"], best["credit_bytes"]),
                "--json",
            )
        )
        self.assertEqual(alone["after_ms"], best["after_ms"])

    def test_text_and_file(self):
        path = self.folder / "best"
        text = self.done("whatif", EXAMPLE, "--tune", "--save", path)
        self.assertRegex(text, r"A step of 556\.6 ms would take [\d.]+ ms with the best of")
        self.assertEqual(re.findall(r"(?m)^(\w+) ", path.read_text()), ["piece", "credit", "fuse", "way"])
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_refused(self):
        for args, says in (
            (["--save", "x"], "--save is of a --tune"),
            (["--tune", "--html", "x"], "--tune has no"),
            (["bucket=1MiB+4MiB", "--tune"], "--tune lays bucket= itself, and 'bucket=1MiB+4MiB'"),
            (["schedule=fifo,partition=1MiB", "--tune"], "--tune lays schedule= itself"),
        ):
            result = command.taut("whatif", EXAMPLE, "link=2x", *args)
            self.assertEqual(result.returncode, 2)
            self.assertIn(says, result.stderr)


def keys_of(value):
    """All keys of a JSON value, however deep."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    return set()


if __name__ == "__main__":
    command.main()
