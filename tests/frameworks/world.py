# SPDX-License-Identifier: Apache-2.0
"""What the tests of jobs with Taut's distributed optimizers share: interpreters, and the
ranks of a job. A job checks itself, and says `ok NAME` for what held."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import forks
import frameworks
from frameworks import ROOT, find_python, free_port  # noqa: F401

JOBS = pathlib.Path(__file__).resolve().parent / "jobs"
SECRET = "of the tests"
_TOLD = ("TAUT_R", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "TF_CONFIG")


def main(framework, python):
    """unittest.main(), or exit status 77 with the reason."""
    frameworks.main(frameworks.needs(python, "TAUT_LIB", framework))


def tensorflow_ready(python, n_ranks=2):
    """Stands in for the interpreter where its start is not what is tested: TensorFlow's
    import takes longer than a small job."""
    own = {name: environment()[name] for name in ("CUDA_VISIBLE_DEVICES", "TF_CPP_MIN_LOG_LEVEL")}
    return python and forks.interpreter(python, n_ranks, ("tensorflow", "keras"), **own)


def environment(**more):
    own = {k: v for k, v in os.environ.items() if not k.startswith(_TOLD)}
    own.pop("MALLOC_PERTURB_", None)
    own.update(
        PYTHONPATH=str(ROOT / "python"),
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONFAULTHANDLER="1",
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
    return frameworks.end(processes, seconds)


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
