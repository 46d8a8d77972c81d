# SPDX-License-Identifier: Apache-2.0
import unittest

from tool import ToolTest


class Tree(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("meson.build", "base = files('src/base/a.c')\n")
        self.write("src/base/a.c", "int a(void)\n{\n\treturn 1;\n}\n")

    def assert_fault(self, path, content, expected):
        self.write(path, content)
        status, output = self.check("check-tree")
        self.assertEqual(status, 1, output)
        self.assertIn(expected, output)
        self.assertIn(" 1 faults", output)

    def test_a_good_tree_passes(self):
        status, output = self.check("check-tree")
        self.assertEqual(status, 0, output)
        self.assertIn("2 files, 0 faults", output)

    def test_large_file(self):
        content = b"\0" * 1_000_001
        self.assert_fault("tests/a.bin", content, "1000001 bytes")

    def test_long_file(self):
        self.assert_fault("src/base/a.h", "\n" * 900, "901 lines")

    def test_long_function(self):
        body = "int a(void)\n{\n" + "\t;\n" * 101 + "}\n"
        self.assert_fault("src/base/a.c", body, "a.c:2: function of 101 lines")

    def test_function_of_the_longest_length(self):
        self.write("src/base/a.c", "int a(void)\n{\n" + "\t;\n" * 100 + "}\n")
        self.assertEqual(self.check("check-tree")[0], 0)

    def functions(self, *lengths):
        bodies = ["int f(void)\n{\n" + "\t;\n" * n + "}\n" for n in lengths]
        return "\n".join(bodies)

    def test_functions_long_on_the_whole(self):
        content = self.functions(13, 13, 13)
        self.assert_fault("src/base/a.c", content, "median function has 13")

    def test_too_many_long_functions(self):
        content = self.functions(*[1] * 8, 60, 60)
        self.assert_fault("src/base/a.c", content, "one function in ten has more")

    def test_functions_as_they_should_be(self):
        self.write("src/base/a.c", self.functions(*[12] * 18, 45, 60))
        self.assertEqual(self.check("check-tree")[0], 0)

    def test_unfinished_work(self):
        word = "TO" + "DO"
        self.assert_fault("docs/a.md", f"\n{word}: write\n", f"a.md:2: {word}")

    def test_space_at_the_end(self):
        self.assert_fault("tools/a.py", "a = 1 \n", "a.py:1: space")

    def test_no_newline_at_the_end(self):
        self.assert_fault("docs/a.md", "text", "no newline")

    def test_bytes_that_are_no_text(self):
        self.assert_fault("docs/a.md", b"abc\xff\n", "not UTF-8 at byte 3")

    def test_source_in_no_list(self):
        self.assert_fault("src/base/b.c", "", "src/base/b.c: not listed")

    def test_builds_are_not_read(self):
        self.write("build/a.md", "text")
        self.assertEqual(self.check("check-tree")[0], 0)


if __name__ == "__main__":
    unittest.main()
