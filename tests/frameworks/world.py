# SPDX-License-Identifier: Apache-2.0
"""What the tests of jobs with Taut's distributed optimizers share: interpreters, and the
ranks of a job. A job checks itself, and says `ok NAME` for what held."""

import os
import pathlib
import socket
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS = pathlib.Path(__file__).resolve().parent / "jobs"
SECRET = "of the tests"


def find_python(framework):
    """An interpreter with it, or None."""
    own = ROOT / "build-python" / framework / "bin" / "python"
    for path in (os.environ.get("TAUT_%s_PYTHON" % framework.upper()), str(own)):
        if path and os.access(path, os.X_OK):
            asks = "import importlib.util as u, sys; sys.exit(u.find_spec(%r) is None)"
            found = subprocess.run([path, "-c", asks % framework], capture_output=True)
            return path if found.returncode == 0 else None
    return None


def main(framework, python):
    """unittest.main(), or exit status 77 with the reason."""
    why = None
    if python is None:
        why = "no %s: tools/ensure-python %s makes an environment" % (framework, framework)
    elif not os.environ.get("TAUT_LIB"):
        why = "no TAUT_LIB: not built, or with a sanitizer"
    if why:
        print(why)
        sys.exit(77)
    unittest.main(verbosity=2)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


_TOLD = ("TAUT_R", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "TF_CONFIG")


def environment(**more):
    own = {k: v for k, v in os.environ.items() if not k.startswith(_TOLD)}
    own.pop("MALLOC_PERTURB_", None)
    own.update(
        PYTHONPATH=str(ROOT / "python"),
        PYTHONDONTWRITEBYTECODE="1",
        OMP_NUM_THREADS="1",
        CUDA_VISIBLE_DEVICES="",
        TF_CPP_MIN_LOG_LEVEL="2",
        TAUT_SECRET=SECRET,
        TAUT_RUN_ORDERED="on",
    )
    own.update(more)
    return own


def start(command, n_ranks, told=None, **more):
    """A process for each rank. told: what its launcher says, by rank."""
    meet = "127.0.0.1:%d" % free_port()
    processes = []
    for rank in range(n_ranks):
        if told:
            own = environment(**told(rank), **more)
        else:
            own = environment(
                TAUT_RANK=str(rank), TAUT_RANKS=str(n_ranks), TAUT_MEET=meet, **more
            )
        processes.append(
            subprocess.Popen(
                [str(word) for word in command],
                env=own,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return processes


def end(processes, seconds=400):
    """Exit status, output and errors of each; none is left behind."""
    ended = []
    try:
        for p in processes:
            out, err = p.communicate(timeout=seconds)
            ended.append((p.returncode, out, err))
    finally:
        for p in processes:
            p.kill()
    return ended


def said(ended):
    """By rank: what held. AssertionError: a rank failed."""
    for rank, (status, _, err) in enumerate(ended):
        if status:
            raise AssertionError(
                "\n".join("rank %d, status %d:\n%s" % (r, s, e[-3000:])
                          for r, (s, _, e) in enumerate(ended))
            )  # fmt: skip
    return [
        [line[3:] for line in out.splitlines() if line.startswith("ok ")] for _, out, _ in ended
    ]
