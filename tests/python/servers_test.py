# SPDX-License-Identifier: Apache-2.0
"""Servers that ranks start beside themselves (python/taut/_servers.py): they listen when
ranks go on, and one that does not is named to all of them, at once. Ranks are threads."""

import concurrent.futures
import contextlib
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from taut import _cores, _options, _server, _servers  # noqa: E402

RANKS = 2
SOON_S = 60  # for what takes no time, on a loaded machine
READY = 'echo "taut server $5 of 2: ready at its place for 2 workers"\n'
STAYS = "exec sleep 60\n"


class Gather:
    """What ranks say to each other."""

    def __init__(self):
        self.said, self.barrier = [None] * RANKS, threading.Barrier(RANKS, timeout=SOON_S)

    def __call__(self, rank, mine):
        self.said[rank] = mine
        self.barrier.wait()
        found = list(self.said)
        self.barrier.wait()
        return found


def start(*environments, **more):
    """By rank: its Beside, or what was raised there. environments: of each rank, where
    they are not all the same."""
    gather, found = Gather(), [None] * RANKS

    def rank(i):
        told = dict({"TAUT_RUN_SERVERS": "2"}, **(environments[i] if environments else {}))
        try:
            found[i] = _servers.Beside(
                i, RANKS, "127.0.0.1", lambda mine: gather(i, mine), _options.Options(told), **more
            )
        except Exception as why:
            found[i] = why

    threads = [threading.Thread(target=rank, args=(i,)) for i in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def eventually(holds):
    end = time.monotonic() + SOON_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def bind(cores):
    """All threads of this process, and those to come."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), cores)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@contextlib.contextmanager
def errors_into(path):
    """What this process says on its standard error."""
    kept = os.dup(2)
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


class Servers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(mock.patch.stopall)

    def use(self, command):
        mock.patch.dict(os.environ, TAUT_RUN_COMMAND=str(command)).start()

    def program(self, text):
        """In place of `taut`. It leaves its process number; $5 is which server it is."""
        path = self.folder / "taut"
        path.write_text('#!/bin/sh\necho $$ >"$0.$5"\n' + text)
        path.chmod(0o755)
        self.use(path)

    def pid(self, server):
        return int((self.folder / ("taut.%d" % server)).read_text())

    def kill(self, found):
        for its in found:
            if isinstance(its, _servers.Beside):
                its._kill()

    def fails(self, kind, text, *environments):
        """On all ranks alike. What they have started is gone."""
        with errors_into(self.folder / "errors"):
            found = start(*environments)
        self.kill(found)
        for why in found:
            self.assertIsInstance(why, kind)
            self.assertRegex(str(why), text)
        self.assertEqual(str(found[0]), str(found[1]))
        for path in self.folder.glob("taut.[01]"):
            pid = path.read_text()  # empty: it was ended before
            self.assertTrue(not pid or eventually(lambda: is_gone(int(pid))))

    def test_they_listen(self):
        self.use(os.environ["TAUT"])
        found = start()
        try:
            self.assertEqual(found[0].places, found[1].places)
            self.assertEqual(found[0].secret, found[1].secret)
            for place in found[0].places.split(","):
                host, port = place.split(":")
                socket.create_connection((host, int(port))).close()
        finally:
            self.kill(found)
        for its in found:
            self.assertEqual(len(its.servers), 1)
            self.assertTrue(eventually(lambda: its.servers[0].process.returncode is not None))

    def test_ends_at_its_start(self):
        """With its last line, which is in the log, too."""
        dies = 'if [ "$5" = 1 ]; then echo one >&2; echo "taut: no room" >&2; exit 3; fi\n'
        self.program(dies + READY + STAYS)
        which = r"rank 1 cannot start a server: server 1 \(127\.0\.0\.1:\d+\) "
        self.fails(OSError, which + "ended with status 3: taut: no room$")
        self.assertEqual((self.folder / "errors").read_text(), "one\ntaut: no room\n")

    def test_is_killed_at_its_start(self):
        self.program('if [ "$5" = 0 ]; then kill -9 $$; fi\n' + READY + STAYS)
        self.fails(OSError, r"rank 0 .*server 0 .* was ended by signal 9: it said nothing$")

    def test_says_nothing(self):
        self.program(STAYS)
        mock.patch.object(_servers, "START_S", 0.2).start()
        self.fails(OSError, r"rank 0 .*server 0 .* does not listen after 0\.2 s: it said nothing$")

    def test_is_no_program(self):
        self.program("")
        (self.folder / "taut").write_bytes(b"\0\1")
        self.fails(OSError, "rank 0 cannot start a server: .*format error")

    def test_ranks_want_others(self):
        self.program(READY + STAYS)
        self.fails(ValueError, "^rank 1 wants other servers", {}, {"TAUT_RUN_ON_LOSS": "continue"})
        self.assertEqual(list(self.folder.glob("taut.*")), [])

    def joins(self, found, *makes, leave=None):
        """By rank: what each has of join(), or what was raised; and who has left."""
        left = []

        def rank(i):
            try:
                return found[i].join(makes[i], leave or left.append)
            except (OSError, KeyboardInterrupt) as why:
                return why

        with concurrent.futures.ThreadPoolExecutor(RANKS) as pool:
            return list(pool.map(rank, range(RANKS))), left

    def test_all_join(self):
        self.program(READY + STAYS)
        found = start()
        self.assertEqual(self.joins(found, lambda: "a", lambda: "b"), (["a", "b"], []))
        self.assertFalse(is_gone(self.pid(0)) or is_gone(self.pid(1)))
        self.kill(found)

    def test_one_cannot_join(self):
        """Nobody has then, and the servers go."""
        self.program(READY + STAYS)
        whys, left = self.joins(start(), lambda: "a", lambda: 1 / 0)
        for why in whys:
            self.assertRegex(str(why), "^rank 1 cannot join the servers: division by zero$")
        self.assertEqual(left, ["a"])
        for server in (0, 1):
            self.assertTrue(eventually(lambda: is_gone(self.pid(server))))

    def test_ends_before_it_is_joined(self):
        waits = 'for i in $(seq 6000); do [ -e "$0.go" ] && break; sleep 0.01; done\n'
        self.program(READY + waits + 'echo "taut: no room" >&2; exit 3\n')
        found = start()
        process = found[0].servers[0].process
        with errors_into(self.folder / "errors"):
            (self.folder / "taut.go").touch()
            self.assertTrue(eventually(lambda: process.returncode is not None))
            whys, _ = self.joins(found, lambda: 1 / 0, lambda: "b")
        for why in whys:
            text = r"^rank 0 .* server 0 \(127.*\) ended with status 3: taut: no room; division"
            self.assertRegex(str(why), text)

    def joins_really(self, found):
        """By rank, as joins(), by libtaut; and how long it took."""

        def make(rank):
            its = found[rank]
            return _server.Worker(rank, RANKS, its.places, its.secret, listening=True)

        begun = time.monotonic()
        whys, _ = self.joins(found, lambda: make(0), lambda: make(1), leave=_server.Worker.leave)
        return whys, time.monotonic() - begun

    @unittest.skipUnless(os.environ.get("TAUT_LIB"), "a library with a sanitizer")
    def test_is_killed_before_it_is_joined(self):
        """After it has said that it is ready. All ranks hear the same, at once."""
        self.use(os.environ["TAUT"])
        for server in (0, 1):
            found = start()
            found[server].servers[0].process.kill()
            whys, seconds = self.joins_really(found)
            for why in whys:
                text = r"^rank 0 .*: server %d \(127\S*\) was ended by signal 9: it said nothing; "
                self.assertRegex(str(why), text % server)
            self.assertLess(seconds, 5)

    @unittest.skipUnless(os.environ.get("TAUT_LIB"), "a library with a sanitizer")
    def test_is_killed_while_it_is_joined(self):
        """At any moment of it."""
        self.use(os.environ["TAUT"])
        for milliseconds in (0, 2, 4, 8, 16, 32):
            found = start()
            its = found[1].servers[0].process
            threading.Timer(milliseconds / 1000, its.kill).start()
            whys, seconds = self.joins_really(found)
            self.assertLess(seconds, 5)
            self.assertEqual(len({type(why) for why in whys}), 1, whys)
            for worker in whys:
                if isinstance(worker, _server.Worker):
                    worker.leave()
            self.kill(found)

    def test_says_more(self):
        """What it says later its rank says; what it prints fills no pipe."""
        wall = "head -c 300000 /dev/zero\n"
        self.program(READY + wall + 'echo "worker 1 is gone" >&2\n' + STAYS)
        errors = self.folder / "errors"
        with errors_into(errors):
            found = start()
            said = eventually(lambda: errors.read_text().count("worker 1 is gone\n") == 2)
            self.kill(found)
        self.assertTrue(said)

    def cores_of(self, server):
        return os.sched_getaffinity(self.pid(server))

    def test_cores(self):
        """Of ranks that are bound, servers have what is left; these stay where they are."""
        self.program(READY + STAYS)
        before, all_cores = os.sched_getaffinity(0), os.sched_getaffinity(os.getppid())
        own = {min(before)}
        if not all_cores - own:
            self.skipTest("one core")
        bind(own)
        try:
            found = start()
            self.assertEqual(os.sched_getaffinity(0), own)
        finally:
            bind(before)
        for server in (0, 1):
            self.assertEqual(self.cores_of(server), all_cores - own)
        self.kill(found)

    def test_cores_of_ranks(self):
        """Ranks that are not bound leave none: servers have what these have."""
        self.program(READY + STAYS)
        found = start()
        for server in (0, 1):
            self.assertEqual(self.cores_of(server), os.sched_getaffinity(0))
        self.kill(found)

    def test_spare_cores(self):
        launcher = list(range(4))
        ranks = [("a", [0], launcher), ("a", [1, 2], launcher), ("b", [3], launcher)]
        self.assertEqual([_cores.spare(rank, ranks) for rank in range(3)], [[3], [3], [0, 1, 2]])
        self.assertEqual(_cores.spare(0, [("a", [0, 1], [0, 1])]), [])
        self.assertEqual(_cores.spare(0, [("a", [0, 1], [])]), [])  # a launcher that is gone
        _host, own, _found = _cores.of_rank()
        self.assertEqual(set(own), os.sched_getaffinity(0))

    def test_cores_that_are_gone(self):
        """It starts nonetheless."""
        here = os.sched_getaffinity(0)
        self.assertEqual(_cores.start([100_000], lambda: os.sched_getaffinity(0)), here)

    def test_words(self):
        for lost_after_ns, seconds in ((1, "1"), (2_000_000_001, "3"), (10**15, "86400")):
            words = _servers.words_of(_options.Options({}), lost_after_ns)
            self.assertEqual(words[-2:], ["--lost-after", seconds])
        self.assertNotIn("--lost-after", _servers.words_of(_options.Options({})))


if __name__ == "__main__":
    unittest.main(verbosity=2)
