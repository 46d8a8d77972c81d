# SPDX-License-Identifier: Apache-2.0
"""window.py RUN PID: the files by which the recorder of a framework tells others of
its window, as of that process, written by its own code; prints the window's path."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from taut import _process, _window  # noqa: E402

run, pid = sys.argv[1], int(sys.argv[2])
os.getpid = lambda: pid
_process.ProcessFile(run, 0).write()
print(_window.Window(_window.path_of(run, pid), create=True).path)
