# SPDX-License-Identifier: Apache-2.0
import json
import unittest

from tool import ToolTest


class Tally(ToolTest):
    def log(self, build, *results):
        rows = [json.dumps({"name": f"t/{r}", "result": r}) for r in results]
        text = "".join(row + "\n" for row in rows)
        return self.write(f"{build}/meson-logs/testlog.json", text).parents[1]

    def last_line(self, *args):
        status, output = self.run_tool("tally", *args)
        return status, output.splitlines()[-1]

    def test_adds_up_over_builds(self):
        builds = [self.log("a", "OK", "SKIP"), self.log("b", "OK", "EXPECTEDFAIL")]
        self.assertEqual(self.last_line(*builds), (0, "3 passed, 0 failed, 1 skipped"))

    def test_all_that_is_not_success_is_failure(self):
        build = self.log("a", "OK", "FAIL", "TIMEOUT", "ERROR", "UNEXPECTEDPASS")
        self.assertEqual(self.last_line(build), (1, "1 passed, 4 failed, 0 skipped"))

    def test_a_failure_is_told_with_what_it_said_last(self):
        lines = "".join(f"line {i}\n" for i in range(100))
        rows = [
            {"name": "bad", "result": "FAIL", "stdout": lines, "stderr": "why\n"},
            {"name": "good", "result": "OK", "stdout": "nothing of interest\n"},
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        build = self.write("a/meson-logs/testlog.json", text).parents[1]
        status, output = self.run_tool("tally", build)
        told = [line.strip() for line in output.splitlines()]
        self.assertEqual(told[:2], ["failed: a: bad", "line 61"])
        self.assertEqual(told[-3:], ["line 99", "why", "1 passed, 1 failed, 0 skipped"])

    def test_steps_count(self):
        args = ["--passed-step", "p", "--failed-step", "f", "--skipped-step", "s"]
        args.append(self.log("a", "OK"))
        self.assertEqual(self.last_line(*args), (1, "2 passed, 1 failed, 1 skipped"))

    def test_no_log_is_a_failure(self):
        args = [self.log("a", "OK"), self.root / "none"]
        self.assertEqual(self.last_line(*args), (1, "1 passed, 1 failed, 0 skipped"))

    def test_empty_log_is_a_failure(self):
        args = [self.log("a")]
        self.assertEqual(self.last_line(*args), (1, "0 passed, 1 failed, 0 skipped"))

    def test_broken_log_is_a_failure(self):
        self.write("a/meson-logs/testlog.json", '{"name": "x", "resu')
        args = [self.root / "a"]
        self.assertEqual(self.last_line(*args), (1, "0 passed, 1 failed, 0 skipped"))

    def test_nothing_at_all_is_a_failure(self):
        self.assertEqual(self.last_line(), (1, "0 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
