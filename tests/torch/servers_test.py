# SPDX-License-Identifier: Apache-2.0
"""Gradients summed by parameter servers, which ranks start or which run already; servers
that train; ranks and servers that are killed. One start of Python with PyTorch takes
seconds, so that programs share jobs."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from ranks import (
    JOBS,
    PACKAGE,
    PYTHON,
    SERVERS,
    Case,
    end,
    environment,
    free_port,
    lines,
    main,
    start,
)

SIMPLE = str(JOBS / "simple.py")
TAUT = SERVERS["TAUT_RUN_COMMAND"]
SECRET = {"TAUT_SECRET": "sesame"}


class Served:
    """`taut server` processes that are there before the job."""

    def __init__(self, n_servers, *options, n_workers=2):
        self.places = ",".join("127.0.0.1:%d" % free_port() for _ in range(n_servers))
        words = [TAUT, "server", "--workers", str(n_workers), "--servers", self.places, *options]
        self.processes = [
            subprocess.Popen(
                [*words, "--index", str(i)],
                env=dict(os.environ, **SECRET),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for i in range(n_servers)
        ]
        self.told = {"TAUT_RUN_SERVER": self.places, "TAUT_RUN_GATE": "off", **SECRET}

    def ended(self):
        """Of each: its status, and what it said."""
        said = [process.communicate(timeout=20)[0] for process in self.processes]
        return [(process.returncode, text) for process, text in zip(self.processes, said)]

    def kill(self):
        for process in self.processes:
            process.kill()
            process.communicate()


class Same(Case):
    def test_programs(self):
        """Programs see what they see with PyTorch's own class. Two ranks, each of which
        starts a server for each model."""
        gradients = "clip_norm reads_one_gradient writes_gradients accumulates_without_no_sync"
        models = "tied attention half_parameters unused_and_unread static_graph declared_order"
        habits = "forks models_come_and_go goes_before_the_others wrapped_again"
        names = " ".join((gradients, models, habits)).split()
        on_time = {"clip_norm", "writes_gradients"}
        either = {"unused_and_unread", "goes_before_the_others"}
        self.same_as_pytorch("several", *names, on_time=on_time, either=either, engines=["server"])


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
        own = dict(environment(False), TAUT_TEST_MARK=os.urandom(8).hex())
        result = subprocess.run(words, env=own, capture_output=True, text=True, timeout=240)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("taut: "), 1, result.stderr)
        self.assertEqual(result.stdout.count('"total"'), 2)
        until = time.monotonic() + 20
        while marked(own["TAUT_TEST_MARK"]) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(marked(own["TAUT_TEST_MARK"]), [])


def marked(mark):
    """Processes that have it in their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append((path.parent / "cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            pass  # somebody else's, or gone meanwhile
    return found


class Job(unittest.TestCase):
    """Programs of jobs/servers.py, all of a class in one job of two ranks: `seen`, by
    rank and name, and what rank 0 logged."""

    @classmethod
    def run_job(cls, *words, **more):
        own = environment(True, **more)
        own["PYTHONPATH"] += ":" + str(PACKAGE)
        ended = end(start([PYTHON, str(JOBS / "servers.py"), *words], 2, own))
        cls.seen, cls.log = lines(ended), ended[0][2]

    @classmethod
    def serve(cls, *arguments):
        served = Served(*arguments)
        cls.addClassCleanup(served.kill)
        return served

    def of(self, name):
        return [seen[name] for seen in self.seen]


def words_of(name, settings):
    return [name, *("%s=%s" % row for row in settings.items())]


class Refused(Job):
    """Models that servers sum, and those that stay PyTorch's own, each with a line."""

    WRONG = (
        ({"TAUT_RUN_ENGINE": "server"}, "engine server: TAUT_RUN_SERVER names servers"),
        ({"TAUT_RUN_SERVER": "a:1", "TAUT_SECRET": ""}, "set TAUT_SECRET"),
        ({"TAUT_RUN_SERVERS": "2", "TAUT_RUN_COMMAND": "/no/such"}, "/no/such cannot be run"),
        (dict(SERVERS, TAUT_RUN_COMMAND="/bin/false"), "ended with status 1: it said nothing"),
        (dict(SERVERS, TAUT_RUN_HALVES="on"), "halves needs engine coll"),
        (dict(SERVERS, TAUT_RUN_UPDATE="sgd:lr=0.1"), "the servers train"),
    )

    @classmethod
    def setUpClass(cls):
        cls.sums, cls.trains = cls.serve(2), cls.serve(1, "--update", "sgd:lr=0.1")
        words = words_of("two_models", cls.sums.told) + words_of("wrapped", cls.trains.told)
        for number, (settings, _) in enumerate(cls.WRONG):
            words += words_of("wrapped:%d" % number, settings)
        cls.run_job(*words, *words_of("no_optimizer", SERVERS), TAUT_RUN_GATE="off")
        cls.own = [line for line in cls.log.splitlines() if "is PyTorch's own: " in line]

    def test_sums(self):
        """One model is theirs. What they were given is what the job said."""
        for seen in self.of("two_models"):
            engine, other = seen["engines"]
            self.assertEqual(engine, "server at " + self.sums.places)
            self.assertIsNone(other)
            self.assertEqual(seen["grads"], self.of("two_models")[0]["grads"])
        why = "is PyTorch's own: (rank [01]: )?server 0: .*is there already"
        self.assertRegex(self.own[0], why)
        for status, said in self.sums.ended():
            self.assertEqual(status, 0, said)
            self.assertIn("2 workers came, 0 were lost", said)

    def test_they_train(self):
        """A model whose gradients would be replaced by parameters stays PyTorch's."""
        self.assertEqual([seen["engine"] for seen in self.of("wrapped")], [None, None])
        self.assertIn("makes an optimizer's step each round", self.own[1])

    def test_wrong_words(self):
        """The job goes on without servers."""
        self.assertEqual(len(self.own), 2 + len(self.WRONG))
        for number, (_, why) in enumerate(self.WRONG):
            self.assertIn(why, self.own[2 + number])
            first, second = self.of("wrapped:%d" % number)
            self.assertIsNone(first["engine"])
            self.assertEqual(first["grads"], second["grads"])

    def test_no_optimizer(self):
        for seen in self.of("no_optimizer"):
            self.assertIn("--update RULE", seen["error"])


class Unlike(Job):
    """ServerOptimizers of which one cannot be: none is, and nobody waits for it."""

    @classmethod
    def setUpClass(cls):
        # Who has left its servers may not come again.
        first, second = (cls.serve(1, "--update", "sgd:lr=0.1").told for _ in range(2))
        cases = {
            "secret": (first, {"TAUT_SECRET": "semolina"}),
            "none": (second, {"TAUT_SECRET": ""}),
            "options": (first, {"TAUT_RUN_PIECE": "4096"}),
            "wrong": (first, {"TAUT_RUN_PIECE": "four"}),
            "others": (SERVERS, {"TAUT_RUN_COMMAND": "/no/such"}),
        }
        words = []
        for name, (settings, of_1) in cases.items():
            settings = dict(settings, TAUT_SECRET="sesame", TAUT_RUN_PIECE="0", TAUT_RUN_COMMAND=TAUT)
            words += words_of("unlike:" + name, dict(settings, TAUT_TEST_UNLIKE=json.dumps(of_1)))
        cls.run_job(*words)

    def hears(self, name, text):
        first, second = self.of("unlike:" + name)
        self.assertEqual(first["error"], second["error"])
        self.assertRegex(first["error"], text)
        self.assertLess(max(first["seconds"], second["seconds"]), 40)  # not a minute

    def test_one_cannot_join(self):
        self.hears("secret", "^OSError: rank 1 cannot join the servers: server 0: .*secret")
        self.hears("none", "^OSError: rank 1 cannot join the servers: servers: set TAUT_SECRET")
        self.hears("others", "^OSError: rank 1 cannot start a server: /no/such cannot be run")

    def test_other_options(self):
        self.hears("options", "^ValueError: rank 1 has other options than rank 0")
        self.hears("wrong", "^ValueError: rank 1: TAUT_RUN_PIECE: expected bytes, found 'four'")


class Training(Job):
    @classmethod
    def setUpClass(cls):
        slow = dict(SERVERS, TAUT_RUN_UPDATE="sgd:lr=0.125", TAUT_RUN_ASYNC="on")
        words = words_of("asynchronous", slow)
        words += words_of("asynchronous:bounded", dict(slow, TAUT_RUN_STALENESS="0"))
        trains = dict(SERVERS, TAUT_RUN_UPDATE="sgd:lr=0.1,momentum=0.9")
        words += words_of("momentum", trains) + words_of("credits:trains", trains)
        words += words_of("overflow", dict(SERVERS, TAUT_RUN_UPDATE="sgd:lr=1"))
        words += words_of("rule", dict(SERVERS, TAUT_RUN_UPDATE="sgd:lr=0.5"))
        words += words_of("empty", dict(SERVERS, TAUT_RUN_UPDATE="sgd:lr=0.5"))
        decays = dict(SERVERS, TAUT_RUN_UPDATE="adamw:lr=0.01,weight-decay=0.1")
        words += words_of("frozen", decays)
        words += words_of("credits:sums", SERVERS)
        words += words_of("credits:given", dict(trains, TAUT_RUN_CREDIT="65536"))
        cls.run_job(*words)

    def test_momentum(self):
        both = self.of("momentum")
        for seen in both:
            self.assertTrue(seen["same"])
            self.assertEqual(seen["contributors"], 2)
        self.assertEqual(both[0]["sums"], both[1]["sums"])
        self.assertNotIn("gone", self.log)  # they end without leave()

    def test_overflow(self):
        """The scale is each rank's own; a step is everybody's, or nobody's."""
        for seen, scales in zip(self.of("overflow"), ([4, 2, 2, 2], [4, 4, 4, 4])):
            self.assertEqual(seen["values"], [-1, -1, -101, -1101])
            self.assertEqual(seen["scales"], scales)

    def test_rule_is_the_servers(self):
        for seen in self.of("rule"):
            errors = seen["errors"]
            self.assertRegex(errors["given"], "^ValueError: param_groups: weight_decay: .*--update")
            self.assertRegex(errors["set"], "^ValueError: param_groups: lr: .*--update")
            self.assertRegex(errors["scheduled"], "^KeyError: .lr: .*--update")
            self.assertRegex(errors["added"], "^ValueError: parameters cannot be added")
            self.assertRegex(errors["loaded"], "^RuntimeError: .* none can be loaded")
            self.assertEqual(len(seen["said"]), 1)
            self.assertRegex(seen["said"][0], "none is saved")
            self.assertEqual(seen["values"], [1.0, 0.5])

    def test_frozen(self):
        for seen in self.of("frozen"):
            self.assertLess(seen["values"][0], 1)
            self.assertEqual(seen["values"][1:], [1, 5])
            self.assertRegex(seen["errors"][0], "^RuntimeError: a parameter is frozen now")
            self.assertRegex(seen["errors"][1], "^RuntimeError: a parameter is trained now")

    def test_empty(self):
        for seen in self.of("empty"):
            self.assertEqual(seen["value"], 0.5)

    def test_credit(self):
        """Under way is never more than docs/running.md says."""
        for name, credit in (("trains", 1 << 20), ("sums", 1 << 20), ("given", 65536)):
            for seen in self.of("credits:" + name):
                self.assertEqual(set(seen["credits"]), {credit}, name)

    def test_asynchronous(self):
        for name in ("asynchronous", "asynchronous:bounded"):
            for seen in self.of(name):
                self.assertEqual(seen["falls"], True)
            # The one that pulled last has seen all.
            self.assertTrue(any(seen["right"] for seen in self.of(name)))


class Others(unittest.TestCase):
    """Jobs of other frameworks, beneath: no PyTorch."""

    def sums(self, *of_rank, **more):
        """Status, output and errors. of_rank: more of the environment, of each."""
        own = dict(environment(False), PYTHONPATH=str(PACKAGE), **SECRET, **more)
        meet = {"TAUT_RANKS": "2", "TAUT_MEET": "127.0.0.1:%d" % free_port()}
        ranks = []
        for rank, own_more in enumerate(of_rank or ({}, {})):
            told = dict(own, **meet, TAUT_RANK=str(rank), **own_more)
            ranks += start([PYTHON, str(JOBS / "sums.py")], 1, told, whole=True)
        return end(ranks)

    def test_servers_of_each_gradient(self):
        for seen in lines(self.sums(**SERVERS)):
            self.assertEqual(seen["sums"]["sums"], [3.0] * 5)
            self.assertEqual(seen["sums"]["engines"], ["taut._job_server"] * 2)

    def test_server_ends(self):
        """All hear of it at once."""
        for status, _, err in self.sums(**dict(SERVERS, TAUT_RUN_COMMAND="/bin/false")):
            self.assertEqual(status, 1)
            self.assertRegex(err, r"OSError: rank 0 .* server 0 \(127.*\) ended with status 1: ")

    def test_server_goes_before_it_is_joined(self):
        """Where it said that it listens nobody does: no rank tries for a minute."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "taut"
            path.write_text('#!/bin/sh\necho "taut server $5: ready at $3"\nexec sleep 20\n')
            path.chmod(0o755)
            begun = time.monotonic()
            ended = self.sums(**dict(SERVERS, TAUT_RUN_COMMAND=str(path)))
        for status, _, err in ended:
            self.assertEqual(status, 1)
            self.assertRegex(err, r"OSError: rank 0 cannot join the servers: server 0: .* listens no more")
        self.assertLess(time.monotonic() - begun, 15)

    def test_other_options(self):
        """One rank was not told of servers."""
        for status, _, err in self.sums(SERVERS, {}):
            self.assertEqual(status, 1)
            why = "rank 1 has other options than rank 0: TAUT_RUN_ENGINE, TAUT_RUN_SERVERS"
            self.assertIn("ValueError: " + why, err)


class Ends(unittest.TestCase):
    """All jobs at once: most of their time is waiting."""

    @classmethod
    def setUpClass(cls):
        cls.jobs, cls.served = {}, {}
        cls.addClassCleanup(cls.kill)
        for how in ("kill", "exit"):
            cls.begin(how, ["--steps", "6", "--end", how], 2, **SERVERS)
        cls.serve("rest", 2, "--on-loss", "rescale", n_workers=3)
        cls.begin("rest", ["--steps", "6", "--end", "kill"], 3, **cls.served["rest"].told)
        cls.serve("server", 2)
        cls.begin("server", ["--steps", "100000"], 2, **cls.served["server"].told)

    @classmethod
    def begin(cls, name, words, n_ranks, **more):
        own = environment(True, **dict(more, TAUT_RUN_GATE="off"))
        cls.jobs[name] = start([PYTHON, SIMPLE, *words], n_ranks, own)

    @classmethod
    def serve(cls, name, *arguments, **more):
        cls.served[name] = Served(*arguments, **more)

    @classmethod
    def kill(cls):
        for process in (p for processes in cls.jobs.values() for p in processes):
            process.kill()
            process.communicate()
        for served in cls.served.values():
            served.kill()

    def test_a_rank_is_killed(self):
        first, second = end(self.jobs["kill"])
        self.assertEqual((first[0], second[0]), (1, -signal.SIGKILL))
        self.assertRegex(first[2], r"Failed: (worker 1 \(127.0.0.1\)|server 1 \(127.*) is gone")

    def test_a_rank_leaves(self):
        first, second = end(self.jobs["exit"])
        self.assertEqual((first[0], second[0]), (1, 3))
        self.assertRegex(first[2], "Failed: worker 1 ")

    def test_the_rest_goes_on(self):
        """Rank 1 of three is gone; sums of the two others are rescaled. They train on,
        and end well, with the same parameters."""
        ended = end(self.jobs["rest"])
        self.assertEqual([status for status, _, _ in ended], [0, -signal.SIGKILL, 0], ended[0][2])
        first, third = (json.loads(ended[rank][1])["total"] for rank in (0, 2))
        self.assertEqual(first, third)
        for _, said in self.served["rest"].ended():
            self.assertIn("3 workers came, 1 were lost", said)

    def test_a_server_is_killed(self):
        """The job hears which, at once."""
        job, served = self.jobs["server"], self.served["server"]
        self.assertIn("crosses the barrier", job[0].first_error())
        served.processes[1].kill()
        for status, _, err in end(job):
            self.assertEqual(status, 1)
            self.assertIn("server 1 (%s) is gone" % served.places.split(",")[1], err)


if __name__ == "__main__":
    main()
