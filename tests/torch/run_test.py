# SPDX-License-Identifier: Apache-2.0
"""What the gate says of given times, Taut's class by hand, and a wrong variable."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from ranks import JOBS, PACKAGE, PYTHON, end, environment, lines, main, start

SIMPLE = str(JOBS / "simple.py")
LISTENER = "rank 1 cannot be met: 127.0.0.1: there is no socket for it"
TAUT = os.environ.get("TAUT", "")


class ByHand(unittest.TestCase):
    def by_hand(self, command, own, engine):
        """Four layers, of which each iteration after the first is summed as the
        scheduler says. What PyTorch's own class was told, by rank."""
        own.update(TAUT_RUN_GATE="off", TAUT_RUN_PIECE="4096", TAUT_RUN_ENGINE=engine)
        ended = end(start([*command, PYTHON, str(JOBS / "by_hand.py")], 2, own))
        plain = []
        for seen in lines(ended):
            seen = seen["by hand"]
            counts = seen["counts"]
            self.assertEqual(seen["kinds"], ["Parameter"])
            self.assertEqual(seen["after"]["pieces"], counts["pieces"])
            self.assertTrue(counts["crosses"])
            self.assertTrue(counts["engine"].startswith(engine))
            # Weights of 16 KB are four pieces, biases one; in four iterations.
            self.assertEqual(counts["pieces"], 4 * 4 * (4 + 1))
            plain.append(seen["plain"])
        return plain

    def test_by_hand(self):
        """PyTorch's own class stays where it is."""
        for engine in ("coll", "process-group"):
            own = dict(environment(False), PYTHONPATH=str(PACKAGE))
            self.assertEqual(self.by_hand([], own, engine), [None, None])

    @unittest.skipUnless(TAUT, "no TAUT: the command was not built")
    def test_by_hand_under_run(self):
        """The job imports taut.torch before torch; all of it is there once."""
        own = dict(environment(False), PYTHONPATH=str(PACKAGE))
        for plain in self.by_hand([TAUT, "run", "--"], own, "coll"):
            self.assertFalse(plain["crosses"])


@unittest.skipUnless(TAUT, "no TAUT: the command was not built")
class Seen(unittest.TestCase):
    """Whether a process of the job imports PyTorch where Taut sees it."""

    LINE = (
        "no process on this host imported PyTorch, TensorFlow or MXNet where Taut could see it "
        "(PYTHONPATH replaced, or a Python with -I, -E or -S)\n"
    )

    def said(self, *words):
        own = environment(False)
        for name in ("PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "FLUX_URI", "SLURM_JOB_ID"):
            own.pop(name, None)
        with tempfile.TemporaryDirectory() as folder:
            own["TMPDIR"] = folder
            command = [TAUT, "run", *words]
            done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=120)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_seen(self):
        for words in (
            [PYTHON, "-c", "import torch"],
            ["sh", "-c", PYTHON + " -c 'import torch' & wait; exit 0"],
            ["--graphs", "--", PYTHON, "-c", "import os, torch; os._exit(0)"],
        ):
            self.assertEqual(self.said(*words), (0, ""), words)

    def test_a_framework_that_cannot_be_imported(self):
        """Taut saw it; the job's own fault is all that is said."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "torch.py").write_text("raise SystemExit(3)\n")
            more = "import sys; sys.path.insert(0, %r); import torch" % folder
            self.assertEqual(self.said(PYTHON, "-B", "-c", more), (3, ""))

    def test_not_seen(self):
        isolated = [PYTHON, "-I", "-c", "import torch"]
        self.assertEqual(self.said(*isolated), (0, "taut: " + self.LINE))
        self.assertEqual(self.said("--mpi", *isolated), (0, ""))
        replaced = ["sh", "-c", "PYTHONPATH=/x " + PYTHON + " -c 'import torch'"]
        line = "taut: --amp was not done: " + self.LINE
        self.assertEqual(self.said("--amp", "bf16", *replaced), (1, line))


class Alike(unittest.TestCase):
    def test_a_rank_has_no_engine(self):
        """Then none has, and the job is PyTorch's."""
        without = lines(end(start([PYTHON, SIMPLE], 2, environment(False))))
        for lacks, engine, why in (
            ("library", "auto", "rank 1: there is no libtaut: TAUT_LIB names it"),
            ("engine", "coll", "rank 1: there is no memory for it"),
            ("engine", "process-group", "rank 1: there is no memory for it"),
            ("gate", "auto", "rank 1 has other options than rank 0, or another engine"),
            ("reason", "auto", "rank 1: a reason of its own"),
            ("listener", "process-group", LISTENER),
            ("taut", "auto", "rank 1 has not said in 5 s whether Taut sums its gradients"),
        ):
            with self.subTest(lacks=lacks, engine=engine):
                own = environment(True, TAUT_RUN_GATE="off", TAUT_RUN_ENGINE=engine)
                ended = end(start([PYTHON, SIMPLE, "--lacks", lacks], 2, own), 30)
                for seen, bare in zip(lines(ended), without):
                    self.assertEqual(seen["simple"]["total"], bare["simple"]["total"])
                line = "taut: DistributedDataParallel is PyTorch's own: " + why
                self.assertEqual((ended[0][2].splitlines(), ended[1][2]), ([line], ""))


    def test_a_rank_cannot_cross(self):
        """Then none does."""
        own = environment(True, TAUT_RUN_GATE="off")
        ended = end(start([PYTHON, SIMPLE, "--lacks", "eyes"], 2, own), 30)
        lines(ended)
        line = "taut: DistributedDataParallel does not cross the barrier: rank 1: it is not seen"
        self.assertEqual(ended[0][2].splitlines(), [line])

    def test_the_package_is_broken(self):
        """A line says so, and the job goes on."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(PACKAGE / "taut", folder + "/taut")
            pathlib.Path(folder, "taut", "_run.py").write_text("import no_such_thing\n")
            own = environment(True, PYTHONPATH=folder + "/taut/inject")
            words = [PYTHON, "-c", "import torch; print(torch.nn.parallel.DistributedDataParallel)"]
            done = subprocess.run(words, env=own, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertIn("torch.nn.parallel.distributed.DistributedDataParallel", done.stdout)
        line = "taut: PyTorch's DistributedDataParallel stays as it is: ModuleNotFoundError"
        self.assertEqual(done.stderr.splitlines()[0][: len(line)], line)


class Gate(unittest.TestCase):
    def test_wrong_variable(self):
        own = environment(True, TAUT_RUN_GATE="maybe")
        ended = end(start([PYTHON, SIMPLE], 2, own))
        lines(ended)
        self.assertIn("TAUT_RUN_GATE: expected on or off, found 'maybe'", ended[0][2])

    def gate(self, times, **variables):
        """What the log says of the decision."""
        command = [PYTHON, SIMPLE, "--steps", "22", "--times", times]
        ended = end(start(command, 2, environment(True, **variables)))
        lines(ended)
        return ended[0][2].splitlines()

    def test_gate(self):
        """f + max(b + e, C) over max(f + b, C), by hand. The few gradients of this job
        take as long as on a slow link."""
        slow_link = "; pieces of 32 KiB, 64 KiB under way"
        for times, said in (
            (
                "20,30,60,30,59",
                "crosses the barrier: forward 20.0 ms, backward 30.0 ms, communication 60.0 ms, "
                "of which it waits for 30.0 ms: at most 1.33 times as fast" + slow_link,
            ),
            (
                "20,30,30.5,0.5",
                "does not cross the barrier: forward 20.0 ms, backward 30.0 ms, communication "
                "30.5 ms, of which it waits for 0.5 ms: at most 1.01 times as fast",
            ),
            (
                "20,30,25,10,50",
                "crosses the barrier: forward 20.0 ms, backward 30.0 ms, communication 25.0 ms, "
                "of which it waits for 10.0 ms: at most 1.20 times as fast" + slow_link,
            ),
        ):
            self.assertEqual(self.gate(times), ["taut: DistributedDataParallel " + said])

    def test_pieces_that_are_given(self):
        for variables, said in (
            ({"TAUT_RUN_PIECE": "65536"}, "pieces of 64 KiB, 128 KiB under way"),
            ({"TAUT_RUN_CREDIT": "0"}, "pieces of 32 KiB, any size under way"),
        ):
            line = self.gate("20,30,60,30,59", **variables)[0]
            self.assertTrue(line.endswith("; " + said), line)

    def test_crossing_that_did_not_pay(self):
        _, *after = self.gate("20,30,60,30,90")
        self.assertEqual(
            after,
            [
                "taut: DistributedDataParallel crosses the barrier no longer: a step took 90.0 "
                "ms, and 80.0 ms before"
            ],
        )

    def known(self, *words, **variables):
        """What the gate says of a job whose every time is known."""
        command = [PYTHON, str(JOBS / "tied.py"), *words]
        ended = end(start(command, 2, environment(True, **variables)))
        lines(ended)
        return ended[0][2].splitlines()

    def test_tied(self):
        """20 ms of communication between the end of the last layer backward, 50 ms,
        and the begin of the first forward, 0, and half the update: 71 ms, beside
        max(20 + 30 + 2, 40). Overlapped it is 20 + 30 + 20 + 2."""
        line = (
            "taut: DistributedDataParallel does not cross the barrier: forward 20.0 ms, backward "
            "30.0 ms, update 2.0 ms, communication 40.0 ms, of which it waits for 20.0 ms: at most "
            "1.01 times as fast; 19.0 ms cannot be hidden: the gradient of words.weight is there "
            "last and needed first"
        )
        self.assertEqual(self.known("--tied"), [line])
        # Where another pass is slow in each step, times are still of one step.
        self.assertEqual(self.known("--tied", "--uneven"), [line])

    def test_not_tied(self):
        """20 + max(30 + 20, 60) + 2 over 20 + 50 + 2/3: it pays. What was measured is
        told where it is asked for."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "measured")
            said = self.known("--steps", "10", TAUT_RUN_MEASURED=path)
            told = json.loads(pathlib.Path(path).read_text())
        self.assertIn("DistributedDataParallel crosses the barrier: ", said[0])
        self.assertIn(": at most 1.16 times as fast; 10.7 ms cannot be hidden: ", said[0])
        rows = [(t["name"], t["need_ns"], t["ready_ns"]) for t in told["tasks"]]
        ms = 1e6
        expected = [("words.weight", 0, 50 * ms), ("middle.weight", 10 * ms, 35 * ms)]
        self.assertEqual(rows, [*expected, ("head.weight", 20 * ms, 20 * ms)])
        self.assertEqual((told["communication_ns"], told["step_ns"]), (60 * ms, 52 * ms))
        self.assertEqual({t["bytes"] for t in told["tasks"]}, {32 * 32 * 4})
        self.assertAlmostEqual(told["window_ns"], (20 + 50 + 2 / 3) * ms, delta=5)

    def test_measured_has_no_file(self):
        said = self.known("--tied", TAUT_RUN_MEASURED="/nowhere/at/all")
        self.assertEqual(
            said[0],
            "taut: TAUT_RUN_MEASURED: [Errno 2] No such file or directory: '/nowhere/at/all'",
        )


if __name__ == "__main__":
    main()
