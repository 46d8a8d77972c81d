# SPDX-License-Identifier: Apache-2.0
"""Verbs, options, help, and what is said when they are wrong."""

import command
from command import ALL_VERBS, EXAMPLE, ROOT, VERBS


class Usage(command.Case):
    def test_version(self):
        self.assertRegex(self.done("--version"), r"\Ataut \d+\.\d+\.\d+\n\Z")

    def test_nothing_is_usage(self):
        result = command.taut()
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stdout, "")
        self.assertIn("Usage: taut VERB", result.stderr)

    def test_help_lists_the_verbs(self):
        text = self.done("help")
        self.assertEqual(text, self.done("--help"))
        self.assertEqual(text, self.done("-h"))
        for verb in ALL_VERBS:
            self.assertIn(f"\n  {verb} ", text)

    def test_help_of_a_verb(self):
        for verb in VERBS:
            text = self.done("help", verb)
            self.assertEqual(text, self.done(verb, "--help"))
            self.assertEqual(text, self.done(verb, "x", "-h", "--nonsense"))
            self.assertTrue(text.startswith(f"Usage: taut {verb} RUN..."))
            self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_help_of_record(self):
        golden = ROOT / "tests/cli/golden/record_help.txt"
        text = self.done("help", "record")
        self.assertEqual(text, golden.read_text())
        self.assertEqual(text, self.done("record", "--no-mpi", "-h", "--nonsense"))

    def test_unknown_verb(self):
        self.refused(2, "reprot", says="unknown verb 'reprot'; did you mean report")
        self.refused(2, "help", "reply", says="did you mean replay")
        self.refused(2, "elephant", says="taut help lists them")
        self.refused(2, "--verison", says="unknown verb '--verison'")

    def test_unknown_option(self):
        lines = self.refused(
            2,
            "report",
            EXAMPLE,
            "--jsn",
            says="report: unknown option --jsn; did you mean --json",
        )
        self.assertIn("taut report --help", lines[1])

    def test_wrong_values(self):
        for args, says in [
            (["--width", "10"], "--width: expected a number from 80 to 400"),
            (["--width=wide"], "found 'wide'"),
            (["--threads", "0"], "--threads: expected a number from 1 to 1024"),
            (["--ranks", "zero"], "--ranks: expected ranks like"),
            (["--html"], "--html wants FILE"),
            (["--json=yes"], "--json takes no value"),
        ]:
            with self.subTest(args=args):
                self.refused(2, "report", EXAMPLE, *args, says=says)

    def test_no_run(self):
        for verb in VERBS:
            self.refused(2, verb, says=f"{verb}: expected RUN...")

    def test_ranks_must_fit_the_files(self):
        run = self.make_run()
        self.refused(
            2,
            "report",
            run / "rank0.json",
            run / "rank1.json",
            "--ranks",
            "0",
            says="--ranks: expected one rank for each of the 2 files, found 1",
        )

    def test_ranks_are_of_files(self):
        self.refused(
            2, "report", EXAMPLE, "--ranks", "0", says="--ranks: .* is a folder"
        )

    def test_complaints_do_not_command_the_terminal(self):
        evil = "\033[31m\x07\u009b31m"
        for args in [
            [evil],
            ["help", evil],
            ["report", EXAMPLE, "--" + evil],
            ["convert", EXAMPLE, "--to", evil],
            ["report", EXAMPLE, "--ranks", evil],
        ]:
            with self.subTest(args=args):
                for line in self.refused(2, *args, says="31m"):
                    self.assertTrue(line.isprintable(), repr(line))

    def test_formats_of_convert(self):
        self.refused(2, "convert", EXAMPLE, says="--to: expected perfetto, csv or chakra")
        self.refused(
            2, "convert", EXAMPLE, "--to", "cvs", says="did you mean csv"
        )


if __name__ == "__main__":
    command.main()
