# SPDX-License-Identifier: Apache-2.0
import unittest

from tool import ToolTest


class Layers(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("include/taut/base.h", "#include <stddef.h>\n")
        self.write("include/taut/graph.h", "#include <taut/base.h>\n")
        self.write("src/base/vec.h", "")
        self.write("src/graph/build.h", "")
        self.write(
            "src/graph/build.c",
            '#include <taut/graph.h>\n#include "graph/build.h"\n'
            '#include "build.h"\n#include "base/vec.h"\n'
            '#include "../base/vec.h"\n',
        )

    def assert_fault(self, expected):
        status, output = self.check("check-layers")
        self.assertEqual(status, 1, output)
        self.assertIn(expected, output)
        self.assertIn(" 1 faults", output)

    def test_a_good_tree_passes(self):
        status, output = self.check("check-layers")
        self.assertEqual(status, 0, output)
        self.assertIn("5 files, 0 faults", output)

    def test_public_header_of_a_floor_above(self):
        self.write("src/base/vec.c", "\n#include <taut/graph.h>\n")
        self.assert_fault("src/base/vec.c:2: base (floor 0) includes taut/graph.h")

    def test_internal_header_of_a_floor_above(self):
        self.write("src/base/vec.c", '#  include "graph/build.h"\n')
        self.assert_fault("of graph (floor 2)")

    def test_relative_path_to_a_floor_above(self):
        self.write("src/base/deep/vec.c", '#include "../../graph/build.h"\n')
        self.assert_fault("of graph (floor 2)")

    def test_a_file_that_is_not_there_yet(self):
        self.write("src/base/vec.c", '#include "cli/opt.h"\n')
        self.assert_fault("of cli (floor 7)")

    def test_neighbours_on_one_floor(self):
        self.write("src/explain/a.c", '#include "whatif/b.h"\n')
        self.assert_fault("of whatif (floor 4)")

    def test_public_header_that_includes_upward(self):
        self.write("include/taut/trace.h", "#include <taut/replay.h>\n")
        self.assert_fault("include/taut/trace.h:1: trace (floor 1)")

    def test_explain_makes_the_report(self):
        self.write("include/taut/report.h", "#include <taut/graph.h>\n")
        self.write("src/explain/a.c", "#include <taut/report.h>\n")
        self.assertEqual(self.check("check-layers")[0], 0)

    def test_a_test_uses_any_public_header(self):
        self.write("src/base/vec_test.c", "#include <taut/graph.h>\n")
        self.assertEqual(self.check("check-layers")[0], 0)

    def test_a_test_uses_no_internal_header_of_a_floor_above(self):
        self.write("src/base/vec_test.c", '#include "graph/build.h"\n')
        self.assert_fault("src/base/vec_test.c:1: base (floor 0)")

    def test_room_without_a_floor(self):
        self.write("src/attic/a.c", "")
        self.assert_fault("room 'attic' has no floor")

    def test_nothing_to_check(self):
        status, _ = self.run_tool("check-layers", "--root", self.root / "none")
        self.assertEqual(status, 1)


if __name__ == "__main__":
    unittest.main()
