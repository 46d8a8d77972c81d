# SPDX-License-Identifier: Apache-2.0
"""Gradients summed by parameter servers, which ranks start or which run already; servers
that train; ranks and servers that are killed."""

import json
import os
import signal
import subprocess
import unittest

from ranks import (
    JOBS,
    LATE,
    PACKAGE,
    PYTHON,
    SERVERS,
    Case,
    end,
    environment,
    free_port,
    lines,
    main,
    programs,
    start,
)

SIMPLE = str(JOBS / "simple.py")
TAUT = SERVERS["TAUT_RUN_COMMAND"]
SECRET = {"TAUT_SECRET": "sesame"}


class Same(Case):
    """Programs see what they see with PyTorch's own class. Two ranks, each of which
    starts a server for each model."""

    def test_gradients(self):
        names = "clip_norm reads_one_gradient writes_gradients accumulates_without_no_sync"
        on_time = {"clip_norm", "writes_gradients"}
        self.same_as_pytorch("gradients", *names.split(), on_time=on_time, engines=["server"])

    def test_models(self):
        names = ["tied", "attention", "half_parameters", "unused_and_unread", "static_graph"]
        either = {"unused_and_unread"}
        self.same_as_pytorch("models", *names, either=either, engines=["server"])

    def test_habits(self):
        names = ["forks", "models_come_and_go", "goes_before_the_others", "wrapped_again"]
        either = {"goes_before_the_others"}
        self.same_as_pytorch("habits", *names, either=either, engines=["server"])

    def test_declared_order(self):
        without, _ = programs("models", "attention", taut=False)
        own, _ = programs("models", "attention", TAUT_RUN_ORDER="declared", **LATE, **SERVERS)
        for rank in range(2):
            self.assertEqual(own[rank]["attention"]["seen"], without[rank]["attention"]["seen"])


class ByHand(unittest.TestCase):
    def test_counts(self):
        """Parts, one after another: the pull of each is a piece of its own."""
        own = dict(environment(False), PYTHONPATH=str(PACKAGE), TAUT_RUN_GATE="off")
        own.update(SERVERS, TAUT_RUN_PIECE="4096")
        for seen in lines(end(start([PYTHON, str(JOBS / "by_hand.py")], 2, own))):
            counts = seen["by hand"]["counts"]
            self.assertTrue(counts["crosses"])
            self.assertEqual(counts["engine"], "server: 2 started")
            # Weights of 16 KB are four parts, biases one; five iterations, there and back.
            self.assertEqual(counts["pieces"], 2 * 5 * 4 * (4 + 1))
            self.assertEqual(counts["pushed_bytes"], 5 * 4 * 4 * (64 * 64 + 64))
            self.assertEqual(counts["pulled_bytes"], counts["pushed_bytes"])

    def test_launcher(self):
        """The command's words, by torchrun; no server is left behind."""
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
        job = [PYTHON, *launcher, str(free_port()), SIMPLE]
        words = [TAUT, "run", "--servers", "2", "--gate", "off", "--", *job]
        own = environment(False)
        result = subprocess.run(words, env=own, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("taut: "), 1, result.stderr)
        # The pipe of its errors was at its end: whoever had it is gone.
        self.assertEqual(result.stdout.count('"total"'), 2)

    def test_wrong_words(self):
        for more, why in (
            ({"TAUT_RUN_ENGINE": "server"}, "engine server: TAUT_RUN_SERVER names servers"),
            ({"TAUT_RUN_SERVER": "a:1", "TAUT_SECRET": ""}, "set TAUT_SECRET"),
            ({"TAUT_RUN_SERVERS": "2", "TAUT_RUN_COMMAND": "/no/such"}, "/no/such cannot be run"),
            (dict(SERVERS, TAUT_RUN_HALVES="on"), "halves needs engine coll"),
            (dict(SERVERS, TAUT_RUN_UPDATE="sgd:lr=0.1"), "the servers train"),
        ):
            ended = end(start([PYTHON, SIMPLE], 2, environment(True, TAUT_RUN_GATE="off", **more)))
            lines(ended)
            self.assertIn(why, ended[0][2])


class Servers(unittest.TestCase):
    def serve(self, n_servers, *options):
        places = ",".join("127.0.0.1:%d" % free_port() for _ in range(n_servers))
        words = [TAUT, "server", "--workers", "2", "--servers", places, *options]
        self.servers = [
            subprocess.Popen(
                [*words, "--index", str(i)],
                env=dict(os.environ, **SECRET),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for i in range(n_servers)
        ]
        self.addCleanup(self.kill)
        return {"TAUT_RUN_SERVER": places, "TAUT_RUN_GATE": "off", **SECRET}

    def kill(self):
        for server in self.servers:
            server.kill()
            server.communicate()

    def programs(self, *names, **more):
        own = dict(environment(True, **more))
        own["PYTHONPATH"] += ":" + str(PACKAGE)
        ended = end(start([PYTHON, str(JOBS / "servers.py"), *names], 2, own))
        return lines(ended), ended[0][2]


class Running(Servers):
    """Servers that somebody has started."""

    def test_sums(self):
        """One model is theirs. What they were given is what the job said."""
        more = self.serve(2)
        both, log = self.programs("two_models", **more)
        for seen in both:
            engine, other = seen["two_models"]["engines"]
            self.assertEqual(engine, "server at " + more["TAUT_RUN_SERVER"])
            self.assertIsNone(other)
            self.assertEqual(seen["two_models"]["grads"], both[0]["two_models"]["grads"])
        self.assertIn("is PyTorch's own: rank 0: server 0: ", log.replace("rank 1", "rank 0"))
        self.assertIn("is there already", log)
        for server in self.servers:
            said = server.communicate(timeout=20)[0]
            self.assertEqual(server.returncode, 0, said)
            self.assertIn("2 workers came, 0 were lost", said)

    def test_they_train(self):
        """A model whose gradients would be replaced by parameters stays PyTorch's."""
        more = self.serve(1, "--update", "sgd:lr=0.1")
        both, log = self.programs("wrapped", **more)
        self.assertEqual([seen["wrapped"]["engine"] for seen in both], [None, None])
        self.assertIn("makes an optimizer's step each round", log)


class Training(Servers):
    def test_momentum(self):
        both, log = self.programs("momentum", TAUT_RUN_UPDATE="sgd:lr=0.1,momentum=0.9", **SERVERS)
        for seen in both:
            self.assertTrue(seen["momentum"]["same"])
            self.assertEqual(seen["momentum"]["contributors"], 2)
        self.assertEqual(both[0]["momentum"]["sums"], both[1]["momentum"]["sums"])
        self.assertNotIn("gone", log)  # they end without leave()

    def test_asynchronous(self):
        for more in ({}, {"TAUT_RUN_STALENESS": "0"}):
            how = {"TAUT_RUN_UPDATE": "sgd:lr=0.125", "TAUT_RUN_ASYNC": "on"}
            both, _ = self.programs("asynchronous", **how, **more, **SERVERS)
            for seen in both:
                self.assertEqual(seen["asynchronous"]["falls"], True)
            # The one that pulled last has seen all.
            self.assertTrue(any(seen["asynchronous"]["right"] for seen in both))

    def test_no_optimizer(self):
        both, _ = self.programs("no_optimizer", **SERVERS)
        for seen in both:
            self.assertIn("--update RULE", seen["no_optimizer"]["error"])


class Ends(Servers):
    def ends(self, how, n_ranks=2, **more):
        own = environment(True, TAUT_RUN_GATE="off", **more)
        return end(start([PYTHON, SIMPLE, "--steps", "6", "--end", how], n_ranks, own), 40)

    def test_a_rank_is_killed(self):
        first, second = self.ends("kill", **SERVERS)
        self.assertEqual((first[0], second[0]), (1, -signal.SIGKILL))
        self.assertRegex(first[2], r"Failed: (worker 1 \(127.0.0.1\)|server 1 \(127.*) is gone")

    def test_a_rank_leaves(self):
        first, second = self.ends("exit", **SERVERS)
        self.assertEqual((first[0], second[0]), (1, 3))
        self.assertRegex(first[2], "Failed: worker 1 ")

    def test_the_rest_goes_on(self):
        """Rank 1 of three is gone; sums of the two others are rescaled. They train on,
        and end well, with the same parameters."""
        more = self.serve_three("--on-loss", "rescale")
        command = [PYTHON, SIMPLE, "--steps", "6", "--end", "kill"]
        ended = end(start(command, 3, environment(True, **more)), 40)
        self.assertEqual([status for status, _, _ in ended], [0, -signal.SIGKILL, 0], ended[0][2])
        first, third = (json.loads(ended[rank][1])["total"] for rank in (0, 2))
        self.assertEqual(first, third)
        for server in self.servers:
            self.assertIn("3 workers came, 1 were lost", server.communicate(timeout=20)[0])

    def serve_three(self, *options):
        return self.serve(2, "--workers", "3", *options)

    def test_a_server_is_killed(self):
        """The job hears which, at once."""
        more = self.serve(2)
        own = environment(True, **more)
        job = start([PYTHON, SIMPLE, "--steps", "100000"], 2, own)
        name = more["TAUT_RUN_SERVER"].split(",")[1]
        self.assertIn("crosses the barrier", job[0].stderr.readline())
        self.servers[1].kill()
        for status, _, err in end(job, 40):
            self.assertEqual(status, 1)
            self.assertIn("server 1 (%s) is gone" % name, err)


if __name__ == "__main__":
    main()
