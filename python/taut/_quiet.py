# SPDX-License-Identifier: Apache-2.0
"""Keeps lines that a profiler of ours logs out of the job's stderr."""

import os
import re


class without_lines:
    """While it is entered, stderr goes into memory; at the end all of it but
    the lines that match goes on. It is held for milliseconds, so what other
    threads write meanwhile comes a little late, in its order."""

    def __init__(self, pattern):
        self.pattern = re.compile(pattern)
        self.real = self.held = None

    def __enter__(self):
        try:
            self.held = os.memfd_create("taut-stderr")
            self.real = os.dup(2)
            os.dup2(self.held, 2)
        except (OSError, AttributeError):
            self.close()
        return self

    def __exit__(self, *exception):
        if self.real is None:
            return
        os.dup2(self.real, 2)
        try:
            self.forward()
        except OSError:
            pass
        self.close()

    def forward(self):
        size = os.lseek(self.held, 0, os.SEEK_END)
        text = os.pread(self.held, size, 0)
        kept = [
            line
            for line in text.splitlines(keepends=True)
            if not self.pattern.search(line)
        ]
        rest = memoryview(b"".join(kept))
        while rest:
            rest = rest[os.write(self.real, rest) :]

    def close(self):
        for fd in (self.real, self.held):
            if fd is not None:
                os.close(fd)
        self.real = self.held = None
