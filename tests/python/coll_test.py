# SPDX-License-Identifier: Apache-2.0
"""libtaut's collectives and sums by ctypes (python/taut/_coll.py, _job.py): threads that
are inside when something ends, signals, and what a rank that is gone leaves behind."""

import array
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "tests" / "support"))

import frameworks  # noqa: E402
from taut import _coll, _lib, _options  # noqa: E402

LOST_NS = 1_000_000_000


def limits(**more):
    return _options.Options({}).limits("agreed")._replace(**more)


def alone():
    return _coll.Comm(0, 1, None, None, LOST_NS)


def two():
    """Both ranks of a job, in this process."""
    meet, made = "127.0.0.1:%d" % frameworks.free_port(), [None, None]

    def join(rank):
        made[rank] = _coll.Comm(rank, 2, meet, "of the tests", LOST_NS)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return made


def allreduce(sync, numbers):
    address, count = numbers.buffer_info()
    sync.run(_coll.ALLREDUCE, "float32", address, numbers, count)


class Ends(unittest.TestCase):
    def test_closed(self):
        comm = alone()
        sync = _coll.Sync(comm, limits())
        numbers = array.array("f", [1, 2])
        allreduce(sync, numbers)
        self.assertEqual(list(numbers), [1, 2])
        self.assertIn("pieces", sync.counts())
        for _ in range(2):
            sync.close()
        sync.fail("nobody is there to hear it")
        for call in (sync.counts, lambda: sync.wait(0), lambda: allreduce(sync, numbers)):
            with self.assertRaisesRegex(RuntimeError, "ended"):
                call()
        comm.close()
        for call in (comm.barrier, comm.engine, lambda: _coll.Sync(comm, limits())):
            with self.assertRaisesRegex(RuntimeError, "ended"):
                call()

    def hold(self, call):
        """Rank 0 of two is in call(sync, begins), which rank 1 never answers, in a thread."""
        comms = two()
        sync, seen, begins = _coll.Sync(comms[0], limits()), [], threading.Event()

        def inside():
            try:
                call(sync, begins)
            except RuntimeError as why:
                seen.append(str(why))

        thread = threading.Thread(target=inside)
        thread.start()
        begins.wait()
        while not sync.inside:
            time.sleep(0.001)
        closing = threading.Thread(target=sync.close)
        closing.start()
        thread.join()
        comms[1].close()  # or rank 0 would wait for it to hear
        closing.join()
        comms[0].close()
        self.assertEqual(len(seen), 1)
        self.assertIn("ended", seen[0])

    def test_closed_while_a_thread_runs(self):
        def run(sync, begins):
            begins.set()
            allreduce(sync, array.array("f", [1]))

        self.hold(run)

    def test_closed_while_a_thread_waits(self):
        numbers = array.array("f", [1])

        def wait(sync, begins):
            task = sync.declare("float32", 1, 0, 1)
            sync.ready(task, numbers.buffer_info()[0])
            begins.set()
            sync.wait(task)

        self.hold(wait)

    def test_interrupted(self):
        comms = two()
        sync, numbers = _coll.Sync(comms[0], limits()), array.array("f", [1])

        def interrupt():
            while not sync.inside:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            allreduce(sync, numbers)
            time.sleep(1)  # where the signal comes late
        thread.join()
        self.assertEqual(len(sync.left), 1, "the library may write it yet")
        self.assertFalse(sync.running)
        comms[1].close()
        sync.close()
        comms[0].close()


class Ways(unittest.TestCase):
    def test_carried(self):
        """The way is the library's: it refuses one that does not sum in order."""
        comm = alone()
        for way in _options.NAMES["WAY"]:
            _coll.Sync(comm, limits(way=way)).close()
        with self.assertRaises(_lib.Failed) as refused:
            _coll.Sync(comm, limits(way="ring", ordered=True))
        self.assertEqual(refused.exception.status, _lib.EINVAL)
        comm.close()

    def test_groups_are_not_tuned(self):
        told = {"TAUT_RUN_TUNE": "on", "TAUT_RUN_FUSE": "64+64"}
        with self.assertRaisesRegex(ValueError, "TAUT_RUN_TUNE: .* TAUT_RUN_FUSE has groups"):
            _options.Options(told)
        self.assertEqual(_options.Options(dict(told, TAUT_RUN_FUSE="64")).fuse, 64)


class Tables(unittest.TestCase):
    def test_with_torch(self):
        """Both faces in one process: each call still takes its own structures."""
        python = frameworks.find_python("torch")
        if python is None:
            self.skipTest("no PyTorch")
        text = """
import array, types, torch.distributed as dist
from taut import _channel, _coll, _options, _sync
limits = _options.Options({}).limits("agreed")
comm = _coll.Comm(0, 1, None, None, 0)
sync = _coll.Sync(comm, limits)
other = _coll.Comm(0, 1, None, None, 0)
engine = types.SimpleNamespace(lib=_coll.library(), comm=other.handle, compress="none")
exchange = _sync.Exchange(engine, limits)
channel = _channel.Channel(dist.HashStore(), 0, 1, 10)
numbers = array.array("f", [3])
for _ in range(2):
    sync.run(_coll.ALLREDUCE, "float32", numbers.buffer_info()[0], numbers, 1)
    assert set(sync.counts()) == set(exchange.counts())
    assert channel.finish(channel.start(), 10**9)
    assert _coll.bound(forward_ns=1, backward_ns=1, exposed_ns=1).most_gain == 1.5
    assert _coll.window([(3, 1, 0, 5), (9, 0, 4, 4)]).bound_ns == 12
exchange.close()
channel.close(1)
sync.close()
"""
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
        ended = subprocess.run([python, "-c", text], env=environment, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stderr[-2000:])


class Jobs(unittest.TestCase):
    TEXT = """
import os, sys
from taut import _job
job = _job.start(2, "tensorflow")
job.barrier()
if job.rank == 1:
    sys.stdin.readline()  # its end may take the barrier's last words from rank 0
    os._exit(0)
print("met", flush=True)
try:
    job.declare([("float32", 4, 0, 1.0)])
except RuntimeError as why:
    print("declare:", why)
try:
    job.barrier()
except RuntimeError as why:
    print("then:", why)
assert _job.start(2, "tensorflow") is job
raise ValueError("the job's own")
"""

    def test_rank_is_gone_at_declare(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("no NumPy")
        meet = "127.0.0.1:%d" % frameworks.free_port()
        ranks = []
        for rank in range(2):
            told = dict(TAUT_RANK=str(rank), TAUT_RANKS="2", TAUT_MEET=meet, TAUT_SECRET="x")
            environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), **told)
            ranks.append(
                subprocess.Popen(
                    [sys.executable, "-c", self.TEXT],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        met = ranks[0].stdout.readline()
        ranks[1].communicate("\n", timeout=60)
        out, err = ranks[0].communicate(timeout=60)
        self.assertEqual((met, ranks[0].returncode), ("met\n", 1), err[-2000:])
        self.assertRegex(out, "declare: .*rank 1")
        self.assertIn("then: the job is over", out)
        self.assertIn("the job's own", err)


if __name__ == "__main__":
    frameworks.main(None if os.environ.get("TAUT_LIB") else "no TAUT_LIB: not built")
