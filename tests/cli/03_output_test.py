# SPDX-License-Identifier: Apache-2.0
"""Where results go: whole files or none, pipes, full disks, terminals."""

import hashlib
import json
import os
import pty
import re
import resource
import struct
import subprocess
import termios
import unittest
import fcntl

import command
from command import EXAMPLE

COLOUR = re.compile("\033\\[[0-9;]*m")


def in_terminal(args, columns, **environment):
    """Runs the command with standard output and error on a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm", **environment}
    env = {name: value for name, value in env.items() if value is not None}
    process = subprocess.Popen(
        [os.environ["TAUT"], *map(str, args)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=env,
    )
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            part = b""
        if not part:
            break
        text += part
    os.close(master)
    return process.wait(), text.decode().replace("\r\n", "\n")


class Files(command.Case):
    def test_html(self):
        path = self.folder / "report.html"
        text = self.done("report", EXAMPLE, "--html", path)
        self.assertEqual(text, self.done("report", EXAMPLE))
        page = path.read_text()
        self.assertIn("</html>", page)
        self.assertNotRegex(page, r'(src|href)="https?:')
        self.assertEqual(self.files(), ["report.html"])

    def test_convert_to_a_file_and_to_a_pipe(self):
        for form in ["csv", "perfetto"]:
            path = self.folder / form
            args = ["convert", EXAMPLE, "--to", form]
            self.assertEqual(self.done(*args, "-o", path), "")
            self.assertEqual(self.done(*args), path.read_text())
            self.assertEqual(self.done(*args, f"-o{path}"), "")
            self.assertEqual(self.done(*args, "-o", "-"), path.read_text())
        self.refused(2, "report", EXAMPLE, "--html", "-", says="found '-'")

    def test_an_input_is_never_overwritten(self):
        run = self.make_run()
        before = {
            path: hashlib.sha256(path.read_bytes()).digest()
            for path in run.iterdir()
        }
        trace = run / "rank0.json"
        other = self.folder / "other"
        os.link(trace, other)
        for path in [trace, run / ".." / "run" / "rank1.json", other]:
            self.refused(
                1, "report", run, "--html", path, says="is one of the traces"
            )
            self.refused(
                1,
                "convert",
                run,
                "--to",
                "csv",
                "-o",
                path,
                says="is one of the traces",
            )
        for path, digest in before.items():
            self.assertEqual(
                hashlib.sha256(path.read_bytes()).digest(), digest, path
            )
        self.assertEqual(len(list(run.iterdir())), len(before))

    def test_nothing_to_write_in(self):
        for path in [self.folder / "no" / "x", self.folder, "/proc/x"]:
            with self.subTest(path=path):
                self.refused(
                    1, "report", EXAMPLE, "--html", path, says=str(path)
                )

    def test_read_only_folder(self):
        somebody = self.as_somebody()
        self.folder.chmod(0o555)
        self.refused(
            1,
            "report",
            EXAMPLE,
            "--html",
            self.folder / "x",
            says="Permission denied",
            **somebody,
        )
        self.assertEqual(self.files(), [])
        self.refused(
            1,
            "convert",
            self.folder / "no-run",
            "--to",
            "chakra",
            "-o",
            self.folder,
            says="cannot be written in",
            **somebody,
        )

    def test_a_folder_of_another_job(self):
        folder = self.folder / "et"
        self.done("convert", EXAMPLE, "--to", "chakra", "-o", folder)
        self.done("convert", EXAMPLE, "--to", "chakra", "-o", folder)
        (folder / "chakra.99.et").write_bytes(b"")
        before = (folder / "chakra.0.et").stat().st_mtime_ns
        self.refused(
            1,
            "convert",
            EXAMPLE,
            "--to",
            "chakra",
            "-o",
            folder,
            says="has chakra.99.et, of a rank that this job does not have",
        )
        self.assertEqual(before, (folder / "chakra.0.et").stat().st_mtime_ns)

    def test_failure_keeps_the_old_file(self):
        path = self.folder / "report.html"
        path.write_text("old")
        self.refused(
            1, "report", self.folder / "none", "--html", path, says="none"
        )
        self.assertEqual(path.read_text(), "old")
        self.assertEqual(self.files(), ["report.html"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        for args in [
            ["report", EXAMPLE],
            ["report", EXAMPLE, "--json"],
            ["replay", EXAMPLE],
            ["convert", EXAMPLE, "--to", "csv"],
            ["help"],
        ]:
            with self.subTest(args=args), open("/dev/full", "w") as full:
                result = subprocess.run(
                    [os.environ["TAUT"], *map(str, args)],
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                self.assertEqual(result.returncode, 1)
                self.assertRegex(result.stderr, r"\Ataut: .*\n\Z")
        self.refused(
            1,
            "convert",
            EXAMPLE,
            "--to",
            "csv",
            "-o",
            "/dev/full",
            says="/dev/full.*No space left",
        )

    def test_file_that_may_not_grow(self):
        """The limit of the shell, as a full disk: nothing is left."""
        result = command.taut(
            "convert",
            EXAMPLE,
            "--to",
            "csv",
            "-o",
            self.folder / "x",
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (10_000, 10_000)
            ),
        )
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Ataut: .*x.*File too large\n\Z")
        self.assertEqual(self.files(), [])

    def test_reader_that_goes_away(self):
        """As with | head -1: no complaint, and no failure."""
        for args in [
            ["convert", EXAMPLE, "--to", "csv"],
            ["report", EXAMPLE, "--json"],
        ]:
            with self.subTest(args=args):
                process = subprocess.Popen(
                    [os.environ["TAUT"], *map(str, args)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                process.stdout.read(10)
                process.stdout.close()
                self.assertEqual(process.stderr.read(), b"")
                process.stderr.close()
                self.assertEqual(process.wait(), 0)

    def test_closed_standard_output(self):
        """A file must not be opened in its place."""
        path = self.folder / "x.html"
        script = f'"$TAUT" report "{EXAMPLE}" --html "{path}" >&-'
        result = subprocess.run(
            ["sh", "-c", script], capture_output=True, text=True
        )
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Ataut: .*\n\Z")
        self.assertTrue(path.read_text().rstrip().endswith("</html>"))


class Terminals(command.Case):
    def test_pipe_is_plain(self):
        self.assertNotIn("\033", self.done("report", EXAMPLE))

    def test_colour_on_a_terminal(self):
        status, text = in_terminal(["report", EXAMPLE], 100, NO_COLOR=None)
        self.assertEqual(status, 0)
        self.assertRegex(text, COLOUR)
        # after the progress, which erases itself, what a pipe gets
        shown = text.rsplit("\r\033[K", 1)[-1]
        self.assertEqual(COLOUR.sub("", shown), self.done("report", EXAMPLE))

    def test_no_colour_when_asked(self):
        for environment in [{"NO_COLOR": "1"}, {"TERM": "dumb"}]:
            with self.subTest(**environment):
                status, text = in_terminal(
                    ["report", EXAMPLE], 100, **environment
                )
                self.assertEqual(status, 0)
                self.assertNotRegex(text, COLOUR)

    def test_width_follows_the_terminal(self):
        for columns, widest in [(90, 90), (300, 100)]:
            _, text = in_terminal(
                ["report", EXAMPLE], columns, NO_COLOR="1"
            )
            shown = text.rsplit("\r\033[K", 1)[-1].splitlines()
            self.assertLessEqual(max(map(len, shown)), widest)
            self.assertGreaterEqual(max(map(len, shown)), widest - 2)

    def test_width_option(self):
        for width in [80, 120, 160]:
            lines = self.done(
                "report", EXAMPLE, "--width", width
            ).splitlines()
            self.assertLessEqual(max(map(len, lines)), width)


if __name__ == "__main__":
    command.main()
