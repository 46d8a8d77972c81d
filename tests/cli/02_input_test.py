# SPDX-License-Identifier: Apache-2.0
"""Inputs that are not what they should be: one line each, exit status 1."""

import gzip
import json

import command
from command import VERBS


class Input(command.Case):
    def each_verb(self, *args, says, **options):
        for verb in VERBS:
            more = ["--to", "csv"] if verb == "convert" else []
            with self.subTest(verb=verb):
                self.refused(1, verb, *args, *more, says=says, **options)

    def put(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def test_no_such_path(self):
        path = self.folder / "none"
        self.each_verb(path, says=f"{path}.*No such file")

    def test_empty_folder(self):
        self.each_verb(self.folder, says=f"{self.folder}")

    def test_empty_file(self):
        self.each_verb(self.put("a.json", ""), says="a.json")

    def test_text(self):
        self.each_verb(self.put("a.txt", "Dear diary,\n"), says="a.txt")

    def test_json_that_is_no_trace(self):
        self.each_verb(self.put("a.json", '{"hello": [1, 2]}'), says="a.json")

    def test_broken_gzip(self):
        whole = gzip.compress(json.dumps(command.trace(0)).encode())
        self.each_verb(self.put("a.json.gz", whole[:12]), says="a.json.gz")

    def test_binary(self):
        self.each_verb(self.put("a.json", bytes(range(256)) * 64), says="a.json")

    def test_no_permission(self):
        path = self.put("a.json", json.dumps(command.trace(0)))
        path.chmod(0)
        somebody = self.as_somebody()
        self.each_verb(path, says="a.json.*Permission denied", **somebody)

    def test_folder_without_permission(self):
        run = self.make_run()
        somebody = self.as_somebody()
        run.chmod(0)
        self.each_verb(run, says="run.*Permission denied", **somebody)
        run.chmod(0o755)

    def test_same_rank_twice(self):
        text = json.dumps(command.trace(0))
        self.each_verb(
            self.put("a.json", text), self.put("b.json", text), says="rank 0"
        )

    def test_one_bad_among_good(self):
        run = self.make_run()
        bad = self.put("bad.json", '{"traceEvents": 7}')
        self.each_verb(run, bad, says="bad.json")

    def test_control_characters_in_a_name(self):
        path = self.folder / "line\nbreak\033[31m"
        self.refused(1, "report", path, says="No such file")

    def test_cut_recording_is_read(self):
        """As a killed process leaves it: what is whole is reported, and what
        is lost is said."""
        run = self.make_run()
        text = (run / "rank1.json").read_text()
        (run / "rank1.json").write_text(text[: len(text) - 40])
        report = json.loads(self.done("report", run, "--json"))
        self.assertEqual(report["ranks"], 2)
        self.assertRegex(" ".join(report["notes"]), "rank1.json")
        self.assertIn("rank1.json", self.done("report", run))


if __name__ == "__main__":
    command.main()
