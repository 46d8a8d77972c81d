# SPDX-License-Identifier: Apache-2.0
"""`taut run`: the results, the output and the exit status of a job are its own, under
torchrun, inside it, and by mpirun."""

import os
import re
import shutil
import subprocess
import unittest

from ranks import JOBS, PYTHON, environment, free_port, main

SIMPLE = str(JOBS / "simple.py")
TAUT = os.environ.get("TAUT", "")


def torchrun(*words):
    launcher = [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    return [*launcher, "--master-port", str(free_port()), *words]


def run(command):
    own = environment(False)
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=60)


def totals(text):
    return sorted(re.findall(r'"total": ([-\d.e]+)', text))


class Run(unittest.TestCase):
    def test_launchers(self):
        bare = totals(run(torchrun(SIMPLE)).stdout)
        self.assertEqual(len(bare), 2)
        taut = [TAUT, "run", "--gate", "off", "--piece", "4K", "--"]
        outside = run([*taut, *torchrun(SIMPLE, "--status", "5")])
        inside = run(torchrun("--no-python", *taut, PYTHON, SIMPLE))
        for result in (outside, inside):
            self.assertEqual(totals(result.stdout), bare, result.stderr)
            self.assertEqual(result.stderr.count("taut: "), 1, result.stderr)
            self.assertIn("crosses the barrier", result.stderr)
        self.assertEqual(outside.returncode, 1)  # torchrun's own, of a 5
        self.assertIn("exitcode  : 5", outside.stderr)
        self.assertEqual(inside.returncode, 0)

    def test_mpirun(self):
        mpirun = shutil.which("mpirun.openmpi")
        if not mpirun:
            self.skipTest("no Open MPI")
        shell = (
            "RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
            "MASTER_PORT=%d exec %s %s" % (free_port(), PYTHON, SIMPLE)
        )
        words = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2", "sh", "-c", shell]
        result = run([TAUT, "run", "--gate", "off", "--", *words])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(totals(result.stdout)), 2)
        self.assertIn("crosses the barrier", result.stderr)


if __name__ == "__main__":
    main()
