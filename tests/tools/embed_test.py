# SPDX-License-Identifier: Apache-2.0
import os
import shlex
import subprocess
import unittest

from tool import TOOLS, ToolTest

PRINT_ALL = """
#include <stdio.h>
int main(void)
{
	const struct tauti_asset *a;
	for (a = tauti_assets; a->name; a++) {
		printf("%s %zu\\n", a->name, a->len);
		fwrite(a->text, 1, a->len + 1, stdout);
	}
	return 0;
}
"""


class Embed(ToolTest):
    def embed(self, *files):
        out = self.root / "assets.c"
        return out, self.run_tool("embed.py", "--output", out, *files)

    def run_program(self, assets):
        source = self.write("all.c", assets.read_text() + PRINT_ALL)
        cc = shlex.split(os.environ.get("CC", "cc"))
        tree = TOOLS.parent
        flags = ["-I", tree / "include", "-I", tree / "src", "-o", self.root / "all"]
        subprocess.run([*cc, *flags, source], check=True)
        return subprocess.run([self.root / "all"], capture_output=True, check=True).stdout

    def test_bytes_come_out_as_they_went_in(self):
        every = bytes(range(256)) * 3
        b = self.write("x/b.js", every)
        a = self.write('y/a "\\.html', "")
        assets, (status, output) = self.embed(b, a)
        self.assertEqual(status, 0, output)
        expected = b'a "\\.html 0\n\0b.js 768\n' + every + b"\0"
        self.assertEqual(self.run_program(assets), expected)

    def test_no_files(self):
        assets, (status, output) = self.embed()
        self.assertEqual(status, 0, output)
        self.assertEqual(self.run_program(assets), b"")

    def test_one_file_as_a_text(self):
        text = "a\\n\"b\" // c\n"
        out = self.root / "text.c"
        one = self.write("one.cu", text)
        done = self.run_tool("embed.py", "--text", "some_text", "--output", out, one)
        self.assertEqual(done[0], 0, done[1])
        source = out.read_text().replace('#include "gpu/gpu.h"', "#include <stdio.h>")
        source += "int main(void)\n{\n\treturn fputs(some_text, stdout) < 0;\n}\n"
        cc = shlex.split(os.environ.get("CC", "cc"))
        program = self.root / "text"
        subprocess.run([*cc, "-o", program, self.write("main.c", source)], check=True)
        told = subprocess.run([program], capture_output=True, text=True, check=True)
        self.assertEqual(told.stdout, text)
        odd = self.write("odd.cu", "\xe9")
        done = self.run_tool("embed.py", "--text", "some_text", "--output", out, odd)
        self.assertEqual(done[0], 1)
        self.assertIn("expected plain text", done[1])

    def test_one_name_twice(self):
        _, (status, output) = self.embed(self.write("x/a", ""), self.write("y/a", ""))
        self.assertEqual(status, 1)
        self.assertIn("same name", output)

    def test_file_that_is_not_there(self):
        _, (status, output) = self.embed(self.root / "none.js")
        self.assertEqual(status, 1)
        self.assertIn("none.js", output)


if __name__ == "__main__":
    unittest.main()
