# SPDX-License-Identifier: Apache-2.0
"""What tests of jobs with Taut's loader share. A job checks itself, and says `ok NAME` for
what held."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import frameworks
from frameworks import ROOT, find_python  # noqa: F401

JOBS = pathlib.Path(__file__).resolve().parent / "jobs"


def main(framework, python, *modules):
    """unittest.main(), or exit status 77 with the reason."""
    why = frameworks.needs(python, "TAUT_LIB", framework)
    for module in () if why else modules:
        found = subprocess.run([python, "-c", "import " + module], capture_output=True)
        if found.returncode:
            why = "no %s beside %s" % (module, framework)
    frameworks.main(why)


def start(*words, **more):
    """The process of a job."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("TAUT_R", "RANK", "WORLD"))}
    own.pop("MALLOC_PERTURB_", None)
    own.update(
        PYTHONPATH=str(ROOT / "python"),
        PYTHONDONTWRITEBYTECODE="1",
        OMP_NUM_THREADS="1",
        CUDA_VISIBLE_DEVICES="",
        TF_CPP_MIN_LOG_LEVEL="2",
        TAUT_SECRET="of the tests",
    )
    own.update(more)
    words = [str(word) for word in words]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=own, stdout=pipe, stderr=pipe, text=True)


def held(case, processes, *names):
    """Each process held what it has names of; what they said on stderr."""
    ended = frameworks.end(processes, 600)
    for (status, out, err), expected in zip(ended, names):
        case.assertEqual(status, 0, "\n".join(err[-3000:] for _, _, err in ended))
        said = [line[3:] for line in out.splitlines() if line.startswith("ok ")]
        case.assertEqual(said, expected)
    return "".join(err for _, _, err in ended)


class Feeds:
    """Of a job that feeds one framework: python, job, alone (what rank 0 does by itself then).
    One test, for it is the imports that take time."""

    def test_job(self):
        meet = "127.0.0.1:%d" % frameworks.free_port()
        programs = ["ranks", *self.alone], ["ranks"]
        ranks = [
            start(self.python, self.job, *mine, TAUT_RANK=rank, TAUT_RANKS="2", TAUT_MEET=meet)
            for rank, mine in zip("01", programs)
        ]
        held(self, ranks, *programs)
