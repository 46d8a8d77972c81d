# SPDX-License-Identifier: Apache-2.0
"""Four hosts with wrong clocks send a token round a ring: what `taut report`
makes of their logs, against the truth that was injected. Every receive must
end behind its send, and each clock be right to 20 us all along."""

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import Cluster
from record_lib import Offset, Options

LIMIT_US = 20.0
ROUNDS = 150
PAUSE_S = 0.01
PORT = 7300
KIND_COMM = 12
# The first one's clock is what the others are compared with.
HOSTS = [
    (-2_000_000, 30_000),
    (7_000_000, -60_000),
    (-35_000_000, 15_000),
    (400_000, 90_000),
]


class Comm(ctypes.Structure):
    _fields_ = [
        ("collective", ctypes.c_uint32),
        ("group", ctypes.c_uint32),
        ("group_ranks", ctypes.c_uint32),
        ("dtype", ctypes.c_uint32),
        ("in_elements", ctypes.c_int64),
        ("out_elements", ctypes.c_int64),
        ("seq", ctypes.c_int64),
        ("group_size", ctypes.c_int32),
        ("src", ctypes.c_int32),
        ("dst", ctypes.c_int32),
        ("root", ctypes.c_int32),
    ]


# --- a host ------------------------------------------------------------------


class Host:
    """One rank of the ring, with its log."""

    def __init__(self, rank, path):
        lib = self.lib = ctypes.CDLL(os.environ["TAUT_RECORD_LIB"])
        handle, number = ctypes.c_void_p, ctypes.c_int64
        lib.taut_log_now.restype = number
        lib.taut_log_text.argtypes = [handle, ctypes.c_char_p]
        lib.taut_log_comm.argtypes = [handle, ctypes.c_uint32, ctypes.c_uint32, number]
        lib.taut_log_comm.argtypes += [number, number, ctypes.c_uint32, handle]
        lib.taut_log_clock.argtypes = [handle, handle]
        lib.taut_log_close.argtypes = [handle]
        lib.taut_clock_stop.argtypes = [handle]
        self.rank, self.log = rank, handle()
        options = Options(b"test", rank, len(HOSTS), 0, 4096)
        if lib.taut_log_open(path, ctypes.byref(options), ctypes.byref(self.log), None):
            sys.exit("cannot write a log")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("", PORT))
        self.socket.settimeout(30)

    def write(self, name, start_ns, source, to):
        end_ns = self.lib.taut_log_now()
        text = self.lib.taut_log_text(self.log, name)
        comm = Comm(text, self.lib.taut_log_text(self.log, b"ring"), 0, 0, 1, 1)
        comm.seq, comm.group_size, comm.root = -1, len(HOSTS), -1
        comm.src, comm.dst = source, to
        lane = os.getpid()
        self.lib.taut_log_comm(
            self.log, text, KIND_COMM, lane, start_ns, end_ns, 0, ctypes.byref(comm)
        )

    def send(self, to, address, token):
        start_ns = self.lib.taut_log_now()
        self.socket.sendto(token, (address, PORT))
        self.write(b"send", start_ns, self.rank, to)

    def receive(self, source):
        start_ns = self.lib.taut_log_now()
        token = self.socket.recv(16)
        self.write(b"recv", start_ns, source, self.rank)
        return token

    def ask(self, address, port):
        found = Offset()
        if self.lib.taut_clock_ask(address, port, 0, 0, ctypes.byref(found), None):
            sys.exit("no answer")
        self.lib.taut_log_clock(self.log, ctypes.byref(found))


def lead(host, following):
    server, port = ctypes.c_void_p(), ctypes.c_uint16()
    lib = host.lib
    if lib.taut_clock_serve(ctypes.byref(server), ctypes.byref(port), None):
        sys.exit("cannot serve")
    print(port.value, flush=True)
    sys.stdin.readline()
    for left in reversed(range(ROUNDS)):
        host.send(1, following, b"on" if left else b"end")
        host.receive(len(HOSTS) - 1)
        time.sleep(PAUSE_S)
    sys.stdin.read()
    lib.taut_clock_stop(server)


def follow(host, following, leader, port):
    host.ask(leader, port)
    print("ready", flush=True)
    token = b"on"
    while token == b"on":
        token = host.receive(host.rank - 1)
        host.send((host.rank + 1) % len(HOSTS), following, token)
    host.ask(leader, port)


def be_a_host(rank, following, leader, port, path):
    host = Host(rank, path.encode())
    if rank == 0:
        lead(host, following)
    else:
        follow(host, following, leader.encode(), port)
    host.lib.taut_log_close(host.log)


def events(path, source, to):
    """(start_ns, end_ns) of the log's messages of that pair, in their order."""
    with open(path, "rb") as file:
        data = file.read()
    found = []
    for at in range(4096, len(data), 128):
        kind, _, start_ns, end_ns = struct.unpack_from("<IIqq", data, at)
        if kind == 4 and struct.unpack_from("<ii", data, at + 84) == (source, to):
            found.append((start_ns, end_ns))
    return found


# --- the test ------------------------------------------------------------------


class Ring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(HOSTS)
        cls.addClassCleanup(cls.cluster.close)
        folder = tempfile.TemporaryDirectory(prefix="taut-ring-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.run_ring()
        words = [os.environ["TAUT"], "report", "--json", cls.folder]
        cls.report = json.loads(subprocess.check_output(words))

    @classmethod
    def start(cls, rank, port):
        following = cls.cluster.address((rank + 1) % len(HOSTS))
        path = f"{cls.folder}/rank{rank}.tautlog"
        words = [sys.executable, __file__, "host", rank, following]
        words += [cls.cluster.address(0), port, path]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return cls.cluster.start(rank, *map(str, words), **pipes)

    @classmethod
    def run_ring(cls):
        with cls.start(0, 0) as leader:
            port = leader.stdout.readline().strip()
            others = [cls.start(rank, port) for rank in range(1, len(HOSTS))]
            for other in others:
                assert other.stdout.readline() == "ready\n"
            leader.stdin.write("go\n")
            leader.stdin.flush()
            statuses = [other.wait(60) for other in others]
            leader.stdin.close()
            statuses.append(leader.wait(60))
            for other in others:
                other.stdin.close()
                other.stdout.close()
        assert statuses == [0] * len(HOSTS), statuses

    def test_each_clock_is_right_all_along(self):
        origin_ns = self.report["clock_origin_ns"]
        self.assertEqual([row["rank"] for row in self.report["clock"]], [0, 1, 2, 3])
        for row in self.report["clock"][1:]:
            rank = row["rank"]
            for part in (0, 0.5, 1):
                clock_ns = origin_ns + part * ROUNDS * PAUSE_S * 1e9
                true_ns = self.cluster.true_ns(rank, clock_ns)
                truth_us = (self.cluster.clock_ns(0, true_ns) - clock_ns) / 1e3
                found_us = row["offset_us"]
                found_us += row["drift_ppm"] * (clock_ns - origin_ns) / 1e9
                error_us = found_us - truth_us
                print(f"rank {rank} at {part:.0%}: {error_us:+.1f} us")
                self.assertGreater(abs(truth_us), 10 * LIMIT_US)
                self.assertLess(abs(error_us), LIMIT_US)

    def common_ns(self, rank, clock_ns):
        """A host's time on the clock that the report found."""
        row = self.report["clock"][rank]
        passed_s = (clock_ns - self.report["clock_origin_ns"]) / 1e9
        return clock_ns + 1e3 * (row["offset_us"] + row["drift_ppm"] * passed_s)

    def messages(self, correct):
        """(begin of the send, end of the receive) of each, on that clock."""
        for source in range(len(HOSTS)):
            to = (source + 1) % len(HOSTS)
            sent = events(f"{self.folder}/rank{source}.tautlog", source, to)
            came = events(f"{self.folder}/rank{to}.tautlog", source, to)
            self.assertEqual(len(sent), ROUNDS)
            self.assertEqual(len(came), ROUNDS)
            for (begin, _), (_, end) in zip(sent, came):
                yield correct(source, begin), correct(to, end)

    def test_no_receive_before_its_send(self):
        found = list(self.messages(self.common_ns))
        self.assertEqual(sum(end < begin for begin, end in found), 0)
        recorded = self.messages(lambda rank, clock_ns: clock_ns)
        self.assertGreater(sum(end < begin for begin, end in recorded), ROUNDS)

    def test_all_messages_are_matched(self):
        graph = self.report["graph"]
        self.assertEqual(graph["unmatched_collectives"], 0)
        self.assertEqual(graph["backward_edges"], 0)
        self.assertEqual(
            self.report["collectives"]["count"], ROUNDS * len(HOSTS)
        )

    def test_the_replay_is_what_was_recorded(self):
        for step in self.report["steps"]:
            self.assertAlmostEqual(
                step["replayed_ms"], step["measured_ms"], delta=0.03 * step["measured_ms"]
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["host"]:
        be_a_host(int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6])
    else:
        unittest.main(verbosity=2)
