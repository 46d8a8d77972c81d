# SPDX-License-Identifier: Apache-2.0
"""What tests of jobs of a framework share."""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

from ports import free_port  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
INJECT = ROOT / "python" / "taut" / "inject"
LAUNCH = str(ROOT / "tests" / "support" / "launch.py")


def find_python(framework):
    """An interpreter with it, or None."""
    own = ROOT / "build-python" / framework / "bin" / "python"
    for path in (os.environ.get("TAUT_%s_PYTHON" % framework.upper()), str(own)):
        if path and os.access(path, os.X_OK):
            asks = "import importlib.util as u, sys; sys.exit(u.find_spec(%r) is None)"
            found = subprocess.run([path, "-c", asks % framework], capture_output=True)
            return path if found.returncode == 0 else None
    return None


def main(*reasons):
    """unittest.main(), or exit status 77 with the first of the reasons that is one."""
    for why in filter(None, reasons):
        print(why)
        sys.exit(77)
    unittest.main(verbosity=2)


def needs(python, library, framework="torch"):
    """Why a test of the framework cannot run; None: it can."""
    if python is None:
        return "no %s: tools/ensure-python %s makes an environment" % (framework, framework)
    if not os.environ.get(library):
        return "no %s: not built, or with a sanitizer" % library
    return None


def end(processes, seconds):
    """Exit status, output and errors of each; none is left behind. Who hangs says where,
    if PYTHONFAULTHANDLER is set there."""
    ended = []
    try:
        for p in processes:
            out, err = p.communicate(timeout=seconds)
            ended.append((p.returncode, out, err))
    except subprocess.TimeoutExpired:
        late = processes[len(ended) :]
        for p in late:
            p.send_signal(signal.SIGABRT)
        said = [(out, err) for _, out, err in ended] + [p.communicate() for p in late]
        lines = ["".join(filter(None, each)) for each in said]
        raise AssertionError("\n---\n".join(["not over after %d s" % seconds, *lines])) from None
    finally:
        for p in processes:
            p.kill()
    return ended
