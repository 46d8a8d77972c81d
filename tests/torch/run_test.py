# SPDX-License-Identifier: Apache-2.0
"""`taut run`: the job's results, output, exit status and signals are its own, under
torchrun, inside it and by mpirun; and what the gate says."""

import os
import re
import shutil
import subprocess
import unittest

from ranks import JOBS, PACKAGE, PYTHON, end, environment, free_port, lines, main, start

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

    def test_wrong_variable(self):
        own = environment(True, TAUT_RUN_GATE="maybe")
        ended = end(start([PYTHON, SIMPLE], 2, own))
        lines(ended)
        self.assertIn("TAUT_RUN_GATE: expected on or off, found 'maybe'", ended[0][2])


class ByHand(unittest.TestCase):
    def test_by_hand(self):
        """Four layers, of which each iteration after the first is summed as the
        scheduler says; PyTorch's own class stays where it is."""
        own = environment(False)
        own.update(PYTHONPATH=str(PACKAGE), TAUT_RUN_GATE="off", TAUT_RUN_PIECE="4096")
        for engine in ("coll", "process-group"):
            own["TAUT_RUN_ENGINE"] = engine
            ended = end(start([PYTHON, str(JOBS / "by_hand.py")], 2, own))
            for seen in lines(ended):
                seen = seen["by hand"]
                self.assertEqual((seen["kinds"], seen["plain"]), (["Parameter"], None))
                counts = seen["counts"]
                self.assertTrue(counts["crosses"])
                self.assertTrue(counts["engine"].startswith(engine))
                # Weights of 16 KB are four pieces, biases one; in four iterations.
                self.assertEqual(counts["pieces"], 4 * 4 * (4 + 1))


class Gate(unittest.TestCase):
    def gate(self, times):
        """The line of the log that says what was decided."""
        command = [PYTHON, SIMPLE, "--steps", "14", "--times", times]
        ended = end(start(command, 2, environment(True)))
        lines(ended)
        (line,) = ended[0][2].splitlines()
        return line

    def test_gate(self):
        """f + max(b, C) over max(f + b, C), by hand."""
        self.assertEqual(
            self.gate("20,30,60"),
            "taut: DistributedDataParallel crosses the barrier: forward 20.0 ms, backward "
            "30.0 ms, communication 60.0 ms: at most 1.33 times as fast",
        )
        self.assertEqual(
            self.gate("20,30,30.5"),
            "taut: DistributedDataParallel does not cross the barrier: forward 20.0 ms, "
            "backward 30.0 ms, communication 30.5 ms: at most 1.01 times as fast",
        )


if __name__ == "__main__":
    main()
