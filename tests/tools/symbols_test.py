# SPDX-License-Identifier: Apache-2.0
import os
import shlex
import subprocess
import unittest

from tool import ToolTest

HEADER = """
#define TAUT_API __attribute__((visibility("default")))
/* TAUT_API int taut_in_a_comment(void); */
#define TAUT_TRICK(x) \\
	taut_trick(x)
struct taut_a;
TAUT_API struct taut_a *taut_one(int (*callback)(void *state));
TAUT_API __attribute__((format(printf, 1, 2))) int taut_two(
	const char *fmt, ...);
"""
ONE = "struct taut_a *taut_one(int (*f)(void *)) { return (void *)(f != 0); }\n"
TWO = "int taut_two(const char *fmt, ...) { return fmt != 0; }\n"


class Symbols(ToolTest):
    def check_library(self, source):
        self.write("include/taut/a.h", HEADER)
        path = self.write("a.c", "#include <taut/a.h>\n" + source)
        library = self.root / "liba.so"
        cc = shlex.split(os.environ.get("CC", "cc"))
        flags = ["-shared", "-fPIC", "-I", self.root / "include"]
        subprocess.run([*cc, *flags, path, "-o", library], check=True)
        return self.check("check-symbols", library)

    def test_what_is_declared_is_exported(self):
        status, output = self.check_library(ONE + TWO)
        self.assertEqual(status, 0, output)
        self.assertIn("2 functions, 0 faults", output)

    def test_a_header_of_another_library(self):
        header = "#define TAUT_API\nTAUT_API int taut_log_four(void);\n"
        self.write("include/taut/record.h", header)
        status, output = self.check_library(ONE + TWO)
        self.assertEqual(status, 0, output)
        status, output = self.check_library(
            ONE + TWO + "int taut_log_four(void) { return 4; }\n"
            "__attribute__((visibility(\"default\"))) int taut_log_four(void);\n"
        )
        self.assertEqual(status, 1, output)
        self.assertIn("taut_log_four: exported, but no public header", output)

    def test_a_symbol_too_many(self):
        status, output = self.check_library(ONE + TWO + "int tauti_three;\n")
        self.assertEqual(status, 1, output)
        self.assertIn("tauti_three: exported, but no public header", output)

    def test_a_symbol_too_few(self):
        status, output = self.check_library(ONE)
        self.assertEqual(status, 1, output)
        self.assertIn("taut_two: declared in a.h, but not exported", output)


if __name__ == "__main__":
    unittest.main()
