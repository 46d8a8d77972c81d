# SPDX-License-Identifier: Apache-2.0
"""Where a job on several hosts meets: two hosts that are network namespaces. On the
one that has rank 0, its name in MASTER_ADDR means loopback, as Debian sets it up. And
that the port of a meeting is nobody else's until it is listened at."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import types
import unittest

from ranks import (
    JOBS,
    PACKAGE,
    PYTHON,
    ROOT,
    SERVERS,
    end,
    environment,
    free_port,
    lines,
    main,
)

sys.path.insert(0, str(ROOT / "tests" / "record"))
sys.path.insert(0, str(PACKAGE))
from taut import _place  # noqa: E402

SIMPLE = str(JOBS / "simple.py")
HOSTS = (
    "127.0.0.1 localhost\n127.0.1.1 node\n10.78.0.1 host0\n10.78.0.2 host1\n",
    "127.0.0.1 localhost\n10.78.0.1 node host0\n10.78.0.2 host1\n",
)


class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from cluster import Cluster

        try:
            cls.net = Cluster([(0, 0), (0, 0)])
        except SystemExit:  # it has said why
            raise unittest.SkipTest("no network namespaces") from None
        cls.addClassCleanup(cls.net.close)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.files = [pathlib.Path(folder.name, "hosts%d" % i) for i in range(2)]
        for path, text in zip(cls.files, HOSTS):
            path.write_text(text)

    def start(self, rank, own, program=SIMPLE):
        own = dict(own, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0", MASTER_ADDR="node")
        mounts = 'mount --bind "$0" /etc/hosts && hostname host%d && exec "$@"' % rank
        return subprocess.Popen(
            ["ip", "netns", "exec", "%s-%d" % (self.net.name, rank), "unshare", "--mount"]
            + ["--uts", "sh", "-c", mounts, str(self.files[rank]), PYTHON, program],
            env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )

    def job(self, *of_rank, **more):
        """What rank 0 logged. of_rank: more of the environment, of each."""
        own = environment(True, TAUT_RUN_GATE="off", MASTER_PORT=str(free_port()), **more)
        of_rank = of_rank or ({}, {})
        ended = end([self.start(rank, dict(own, **of_rank[rank])) for rank in range(2)], 100)
        self.assertEqual([status for status, _, _ in ended], [0, 0], ended)
        return ended[0][2]

    def test_the_name_means_loopback(self):
        for engine in ({"TAUT_RUN_ENGINE": "coll"}, {"TAUT_RUN_ENGINE": "process-group"}, SERVERS):
            log = self.job(**engine)
            self.assertIn("taut: DistributedDataParallel crosses the barrier\n", log)

    def test_of_another_framework(self):
        """A server on each host, of what taut.tensorflow and taut.mxnet do beneath."""
        own = dict(environment(False), MASTER_PORT=str(free_port()), TAUT_SECRET="sesame")
        own.update(SERVERS, PYTHONPATH=str(PACKAGE))
        program = str(JOBS / "sums.py")
        for seen in lines(end([self.start(rank, own, program) for rank in range(2)], 100)):
            self.assertEqual(seen["sums"]["sums"], [3.0] * 5)

    def test_address_on_one_host(self):
        log = self.job({}, {"TAUT_RUN_ADDRESS": "10.78.0.2"})
        self.assertIn("taut: DistributedDataParallel crosses the barrier\n", log)

    def test_loopback_is_refused(self):
        log = self.job(TAUT_RUN_ADDRESS="127.0.0.1")
        self.assertIn("PyTorch's own: rank 0 would be met at 127.0.0.1, which other", log)


class Place(unittest.TestCase):
    def setUp(self):
        self.place = _place
        self.addCleanup(os.environ.update, dict(os.environ))

    def test_port_is_taken(self):
        """By others it cannot be had, whatever they do; the library listens there."""
        with self.place.Port("127.0.0.1") as port:
            host, number = port.where.split(":")
            with socket.socket() as other:
                with self.assertRaises(OSError):
                    other.bind((host, int(number)))
            with socket.socket() as other:
                with self.assertRaises(ConnectionRefusedError):
                    other.connect((host, int(number)))
            with socket.create_server((host, int(number))) as library:
                self.assertEqual(library.getsockname(), (host, int(number)))

    def test_no_such_address(self):
        with self.place.Port("192.0.2.1") as port:
            self.assertIsNone(port.where)
            self.assertIn("192.0.2.1: ", port.why)

    def test_interface(self):
        os.environ.pop("TAUT_RUN_ADDRESS", None)
        os.environ["GLOO_SOCKET_IFNAME"] = "none0,lo"
        self.assertEqual(self.place._asked_for(), "127.0.0.1")
        os.environ["GLOO_SOCKET_IFNAME"] = "none0"
        with self.assertRaisesRegex(ValueError, "no interface none0 has an address"):
            self.place._asked_for()
        os.environ["TAUT_RUN_ADDRESS"] = "127.0.0.2"
        self.assertEqual(self.place._asked_for(), "127.0.0.2")
        os.environ["TAUT_RUN_ADDRESS"] = "192.0.2.1"  # another host's
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        self.assertEqual(self.place._asked_for(), "127.0.0.1")
        del os.environ["TAUT_RUN_ADDRESS"], os.environ["GLOO_SOCKET_IFNAME"]

    def test_address_of_some_ranks(self):
        """All gather as often as those that have none, and judge the same."""
        ranks = types.SimpleNamespace(rank=lambda: 0)
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        os.environ["TAUT_RUN_ADDRESS"] = "127.0.0.2"
        named = self.place._own("127.0.0.1")
        del os.environ["TAUT_RUN_ADDRESS"]
        for other, words in (
            (named, None),
            ((*named[:3], "127.0.0.2", False), "127.0.0.2 is on no host of the job"),
        ):
            said = []

            def gather(mine):
                said.append(mine)
                return [mine, other if len(said) == 1 else "127.0.0.2"]

            if words:
                self.assertRaisesRegex(ValueError, words, self.place.addresses, ranks, gather)
            else:
                found = self.place.addresses(ranks, gather)
                self.assertEqual((found, len(said)), (["127.0.0.1", "127.0.0.2"], 2))

    def test_name_of_another_host(self):
        """One that means nothing here, where there is no DNS."""
        os.environ["TAUT_RUN_ADDRESS"] = "no.such.name.invalid"
        _, address, why, name, is_here = self.place._own("127.0.0.1")
        del os.environ["TAUT_RUN_ADDRESS"]
        self.assertEqual((address, why, is_here), ("127.0.0.1", None, False))
        self.assertEqual(name, "no.such.name.invalid")

    def test_store_is_the_master(self):
        os.environ.pop("MASTER_ADDR", None)
        inner = types.SimpleNamespace(host="127.0.0.1")
        store = types.SimpleNamespace(underlying_store=inner)
        self.assertEqual(self.place._master(store), "127.0.0.1")
        self.assertEqual(self.place._own(self.place._master(store))[1], "127.0.0.1")

    def test_towards(self):
        self.assertEqual(self.place.towards("127.0.0.1"), "127.0.0.1")
        self.assertIsNone(self.place.towards("no.such.name.invalid"))
        self.assertTrue(self.place.is_loopback("::1"))
        self.assertTrue(self.place.is_loopback("127.0.1.1"))
        self.assertFalse(self.place.is_loopback("fe80::1%eth0"))


if __name__ == "__main__":
    main()
