# SPDX-License-Identifier: Apache-2.0
"""The lab of bench/lab: links give the rate that they are shaped to, real jobs
run and are recorded, and nothing is left of a lab that was killed."""

import importlib.machinery
import importlib.util
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import unittest

LAB = pathlib.Path(__file__).resolve().parents[2] / "bench" / "lab"
sys.path[:0] = [str(LAB), str(LAB.parents[1] / "tests" / "support")]
import cluster
import runner
from undisturbed import undisturbed

SKIP = 77
FRAME, PAYLOAD = 1514, 1448
TINY = {"model": "rnn", "batch": 1, "steps": 6}
# Parameters of the LSTM model, and so what each of two ranks sends in a step.
TINY_BYTES = 4 * (4000 * 320 + 4 * 512 * (320 + 512 + 2) + 4 * 512 * (2 * 512 + 2) + 513 * 4000)


def load_lab():
    loader = importlib.machinery.SourceFileLoader("lab_command", str(LAB / "lab"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lab_command", loader))
    loader.exec_module(module)
    return module


def spaces():
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines()]


class LinkTest(unittest.TestCase):
    def test_goodput_is_that_of_the_rate(self):
        lab = load_lab()
        with cluster.Cluster([0, 1]) as net:
            for mbit in (250, 1000):
                net.shape(mbit)
                undisturbed(lambda mbit=mbit: self.check_goodput(lab, net, mbit))

    def check_goodput(self, lab, net, mbit):
        for one in lab.transfer(net, [(0, 1), (1, 0)], int(mbit * 1e6 / 8)):
            # Above the rate by what a bucket lets pass, at most.
            self.assertLess(one, mbit * PAYLOAD / FRAME * 1.01)
            self.assertGreater(one, mbit * PAYLOAD / FRAME * 0.9)

    def test_packets_are_of_the_size_that_a_burst_can_pass(self):
        """What is longer is cut, at the cost of the host's core."""
        lab = load_lab()
        with cluster.Cluster([0, 1], 8000) as net:
            most = cluster.burst_bytes(1000)
            version = tuple(map(int, os.uname().release.split(".")[:2]))
            if version >= (6, 3):  # with BIG TCP for IPv4
                self.assertGreater(self.packet_bytes(lab, net), 1.2 * most)
            net.shape(1000)
            self.assertLess(self.packet_bytes(lab, net), most)
            net.shape(8000)
            net.shape_host(1, 8000, 1000)
            self.assertLess(self.packet_bytes(lab, net), most)

    def packet_bytes(self, lab, net):
        def sent(what):
            path = f"/sys/class/net/eth0/statistics/tx_{what}"
            words = ["ip", "netns", "exec", net.space(0), "cat", path]
            return int(subprocess.run(words, capture_output=True, check=True).stdout)

        before = sent("bytes"), sent("packets")
        lab.transfer(net, [(0, 1)], 30_000_000)
        return (sent("bytes") - before[0]) / (sent("packets") - before[1])

    def test_trunk_is_shared(self):
        lab = load_lab()
        cores = [core % os.cpu_count() for core in range(4)]
        with cluster.Cluster(cores, 800, trunk_mbit=200, first_side=2) as net:
            undisturbed(lambda: self.check_trunk(lab, net))

    def check_trunk(self, lab, net):
        # Long enough that the two, which do not begin at once, overlap.
        got = lab.transfer(net, [(0, 2), (1, 3)], 25_000_000)
        self.assertLess(min(got), 150)
        self.assertLess(max(got), 200)
        (beside,) = lab.transfer(net, [(0, 1)], 20_000_000)
        self.assertGreater(beside, 400)

    def test_a_core_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(cluster.Unavailable, "needs core [0-9]+; this machine has 0 to"):
            cluster.Cluster([0, os.cpu_count()])

    def test_killed_lab_leaves_nothing_for_long(self):
        words = "import cluster, os, signal; net = cluster.Cluster([0]);"
        words += "print(net.name, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
        killed = subprocess.run(
            [sys.executable, "-c", words], cwd=LAB, capture_output=True, text=True, check=False
        )
        self.assertEqual(killed.returncode, -signal.SIGKILL)
        name = killed.stdout.strip()
        self.assertIn(f"{name}-0", spaces())
        cluster.clean()
        self.assertFalse([s for s in spaces() if s.startswith(name + "-")])


class JobTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.python = runner.find_python()
        if not cls.python:
            raise unittest.SkipTest("no interpreter with PyTorch")

    def test_blocks_of_a_serving_job(self):
        with cluster.Cluster([0, 1]) as net:
            jobs = runner.Runner(net, self.python)
            try:
                slow = jobs.block(TINY, 2, lambda: net.shape(500))
                alone = jobs.block(TINY, 1, lambda: net.shape(500))
            finally:
                jobs.close()
        for rank in slow:  # the fixed work, before and after
            self.assertEqual([ms > 0 for ms in rank["speed"]], [True, True])
        slow, alone = ([rank["seconds"] for rank in told] for told in (slow, alone))
        self.assertEqual([len(rank) for rank in slow], [6, 6])
        self.assertEqual([len(rank) for rank in alone], [6])
        least = TINY_BYTES * 8 / 500e6 * FRAME / PAYLOAD
        self.assertGreater(statistics.median(slow[0][2:]), 0.97 * least)
        self.assertLess(statistics.median(alone[0][2:]), statistics.median(slow[0][2:]))

    def test_others_compute_meanwhile(self):
        """All that the job leaves, each for itself, until the job is done."""
        with cluster.Cluster([0, 1, 0]) as net:
            jobs = runner.Runner(net, self.python)
            try:
                two = jobs.block(TINY, 2, lambda: net.shape(500), beside=True)
                others = jobs.load({**TINY, "accumulate": 2}, 1)
                told = jobs.tell("enough", others), jobs.answers(others)
                three = jobs.block(TINY, 3, lambda: net.shape(500), beside=True)
            finally:
                jobs.close()
        for answers, ranks in ((two, 2), (three, 3)):
            self.assertEqual([len(rank["seconds"]) for rank in answers], [6] * ranks)
        self.assertEqual(list(others), [1, 2])
        for rank in told[1]:
            self.assertGreater(len(rank["seconds"]), 0)

    def test_recorded_job(self):
        taut = os.environ.get("TAUT")
        if not taut or "TAUT_RECORD_LIB" not in os.environ:
            self.skipTest("no command to record with, or one with a sanitizer")
        with tempfile.TemporaryDirectory() as folder, cluster.Cluster([0, 1]) as net:
            run = os.path.join(folder, "run")
            options = {**TINY, "steps": 12}
            seconds = runner.record(net, self.python, os.path.abspath(taut), run, options, 2, "6:9")
            self.assertEqual([len(rank) for rank in seconds], [12, 12])
            for rank in range(2):
                self.assertTrue(os.path.exists(f"{run}/rank{rank}/torch.pt.trace.json.gz"))


if __name__ == "__main__":
    try:
        cluster.Cluster([0]).close()
    except cluster.Unavailable as why:
        print(why)
        sys.exit(SKIP)
    unittest.main()
