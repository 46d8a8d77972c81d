# SPDX-License-Identifier: Apache-2.0
"""The documents say what the command does: every option of a verb is in its
page and no other, the pages are without a warning, the README shows what the
demo prints, and the keys of the JSON are explained."""

import json
import re
import shutil
import subprocess

import command
from command import ALL_VERBS, EXAMPLE, ROOT, VERBS

PAGES = ROOT / "docs" / "man"


def page(verb):
    return (PAGES / f"taut-{verb}.1").read_text()


def options_of_help(text):
    """{"--json": None, "--html": "FILE", "-o": "FILE", ...}"""
    options = {}
    body = text.split("\nOptions:\n")[1]
    for letter, name, value in re.findall(
        r"^  (?:-(\w), |    )--([\w-]+)(?: ([A-Z]+))?", body, re.MULTILINE
    ):
        options["--" + name] = value or None
        if letter:
            options["-" + letter] = value or None
    return options


def options_of_page(text):
    """The same of the list of options in a page."""
    options = {}
    for line in re.findall(r"^\.It (Fl .*)", text, re.MULTILINE):
        value = re.search(r" Ar (\w+)$", line)
        for name in re.findall(r"Fl (\S+)", line):
            options["-" + name] = value and value[1].upper()
    return options


class Manual(command.Case):
    def test_options_are_those_of_the_help(self):
        for verb in ALL_VERBS:
            with self.subTest(verb=verb):
                shown = options_of_help(self.done(verb, "--help"))
                self.assertIn("--help", shown)
                self.assertEqual(options_of_page(page(verb)), shown)

    def test_synopsis_has_every_option(self):
        for verb in ALL_VERBS:
            synopsis = page(verb).split(".Sh SYNOPSIS")[1].split(".Sh")[0]
            for name in options_of_help(self.done(verb, "--help")):
                if name in ("--help", "-h", "--output", "--out"):
                    continue
                with self.subTest(verb=verb, name=name):
                    self.assertIn("Fl " + name[1:], synopsis)

    def test_variables_of_run(self):
        """Each that the command sets is in its page, which has no other but Python's."""
        name = r"\bTAUT_RUN_[A-Z_]+\b"
        files = [ROOT / "src/cli/cmd_run.c", *(ROOT / "src/cli").glob("run_*.c")]
        files.append(ROOT / "src/plan/apply.c")
        found = {n for file in files for n in re.findall(f'"({name})"', file.read_text())}
        self.assertGreater(len(found), 30)
        shown = set(re.findall(name, page("run").split(".Sh ENVIRONMENT")[1]))
        self.assertEqual(found - shown, set())
        python = "".join(file.read_text() for file in (ROOT / "python/taut").glob("*.py"))
        self.assertEqual(shown - found - set(re.findall(name, python)), set())

    def test_every_verb_is_in_the_main_page(self):
        text = (PAGES / "taut.1").read_text()
        for verb in ALL_VERBS:
            self.assertIn(f".It Cm {verb}", text)
            self.assertIn(f".Xr taut-{verb} 1", text)

    def test_formats_of_convert(self):
        shown = self.done("help", "convert")
        for name in ["perfetto", "csv", "chakra"]:
            self.assertIn(name + ":", shown)
            self.assertIn(f".It {name}\n", page("convert"))

    def test_pages_without_a_warning(self):
        tool = shutil.which("mandoc") or shutil.which("groff")
        if not tool:
            self.skipTest("neither mandoc nor groff is here")
        for path in sorted(PAGES.iterdir()):
            with self.subTest(path=path.name):
                arguments = (
                    ["-T", "lint", "-W", "warning"]
                    if tool.endswith("mandoc")
                    else ["-mandoc", "-ww", "-Tutf8", "-z"]
                )
                result = subprocess.run(
                    [tool, *arguments, path], capture_output=True, text=True
                )
                self.assertEqual(result.stdout + result.stderr, "")
                self.assertEqual(result.returncode, 0)


def keys_of(value):
    """All keys of a JSON value, however deep."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    return set()


class Documents(command.Case):
    def test_readme_shows_what_the_demo_prints(self):
        shown = (ROOT / "README.md").read_text().split("```\n")[1]
        self.assertIn("Where a step goes", shown)
        printed = self.done("report", EXAMPLE.relative_to(ROOT), cwd=ROOT)
        self.assertEqual(printed[: len(shown)], shown)

    def test_readme_lists_every_verb(self):
        text = (ROOT / "README.md").read_text()
        for verb in VERBS:
            self.assertIn(f"| `taut {verb} RUN", text)
        self.assertIn("| `taut record ", text)

    def test_every_key_is_explained(self):
        section = (ROOT / "docs/report.md").read_text().split("## JSON")[1]
        words = set(re.findall(r"\w+", section))
        for verb in ["report", "replay"]:
            report = json.loads(self.done(verb, EXAMPLE, "--json"))
            self.assertEqual(keys_of(report) - words, set())


if __name__ == "__main__":
    command.main()
