# SPDX-License-Identifier: Apache-2.0
import unittest

from tool import ToolTest

GUARDED = "#ifndef A_H\n#define A_H\n{}\n#endif\n"


class Headers(ToolTest):
    def assert_fault(self, body, expected):
        self.write("include/taut/a.h", body)
        status, output = self.check("check-headers")
        self.assertEqual(status, 1, output)
        self.assertIn(expected, output)

    def test_a_good_header_passes(self):
        self.write("include/taut/a.h", GUARDED.format("int taut_a(void);"))
        status, output = self.check("check-headers")
        self.assertEqual(status, 0, output)
        self.assertIn("1 headers, 0 faults", output)

    def test_a_type_that_is_not_included(self):
        self.assert_fault(GUARDED.format("uint32_t taut_a(void);"), "uint32_t")

    def test_c_that_is_not_c_plus_plus(self):
        body = GUARDED.format("int taut_a(int class);")
        self.assert_fault(body, "taut/a.h does not compile alone as C++17")

    def test_a_header_without_guard(self):
        self.assert_fault("struct a { int b; };\n", "redefinition")

    def test_nothing_to_check(self):
        self.assertEqual(self.check("check-headers")[0], 1)


if __name__ == "__main__":
    unittest.main()
