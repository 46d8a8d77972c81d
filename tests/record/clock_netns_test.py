# SPDX-License-Identifier: Apache-2.0
"""Four hosts with four wrong clocks: what the recorder finds of them, against
the truth that was injected."""

import ctypes
import os
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import Cluster
from record_lib import Offset, Options

LIMIT_NS = 20_000
SECONDS = 2.0
# The first one's clock is what the others are compared with.
HOSTS = [
    (1_500_000, 20_000),
    (-3_000_000, -50_000),
    (40_000_000, 80_000),
    (250_000, -10_000),
]


def serve(lib):
    server, port = ctypes.c_void_p(), ctypes.c_uint16()
    if lib.taut_clock_serve(ctypes.byref(server), ctypes.byref(port), None):
        sys.exit("cannot serve")
    print(port.value, flush=True)
    sys.stdin.read()
    lib.taut_clock_stop(server)


def ask(lib, log, address, port):
    offset = Offset()
    if lib.taut_clock_ask(address, port, 0, 0, ctypes.byref(offset), None):
        sys.exit("no answer")
    lib.taut_log_clock(log, ctypes.byref(offset))


def compare(lib, rank, address, port, path):
    log = ctypes.c_void_p()
    options = Options(b"test", rank, len(HOSTS), 0, 64)
    if lib.taut_log_open(path, ctypes.byref(options), ctypes.byref(log), None):
        sys.exit("cannot write a log")
    ask(lib, log, address, port)
    time.sleep(SECONDS)
    ask(lib, log, address, port)
    lib.taut_log_close(log)


def be_a_host(rank, address, port, path):
    lib = ctypes.CDLL(os.environ["TAUT_RECORD_LIB"])
    lib.taut_log_clock.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.taut_log_close.argtypes = [ctypes.c_void_p]
    lib.taut_clock_stop.argtypes = [ctypes.c_void_p]
    if rank == 0:
        serve(lib)
    else:
        compare(lib, rank, address.encode(), port, path.encode())


def read_log(path):
    """Host, clock and the comparisons: (at_ns, offset_ns, half_width_ns)."""
    with open(path, "rb") as file:
        data = file.read()
    samples = []
    for at in range(4096, len(data), 128):
        kind, _, start_ns = struct.unpack_from("<IIq", data, at)
        if kind == 6:
            samples.append((start_ns, *struct.unpack_from("<qq", data, at + 40)))
    host, clock = struct.unpack_from("<64s64s", data, 96)
    return host.rstrip(b"\0").decode(), clock.rstrip(b"\0").decode(), samples


class Clocks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(HOSTS)
        cls.addClassCleanup(cls.cluster.close)
        folder = tempfile.TemporaryDirectory(prefix="taut-clock-")
        cls.addClassCleanup(folder.cleanup)
        cls.paths = [f"{folder.name}/rank{rank}.tautlog" for rank in range(len(HOSTS))]
        cls.record(cls.cluster)
        cls.logs = [None] + [read_log(path) for path in cls.paths[1:]]

    @classmethod
    def record(cls, cluster):
        def start(rank, port, **options):
            words = [sys.executable, __file__, "host", rank, cluster.address(0), port]
            words.append(cls.paths[rank])
            return cluster.start(rank, *map(str, words), **options)

        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with start(0, 0, **pipes) as server:
            port = server.stdout.readline().strip()
            others = [start(rank, port) for rank in range(1, len(HOSTS))]
            statuses = [other.wait(60) for other in others]
            server.stdin.close()
            statuses.append(server.wait(60))
        assert statuses == [0] * len(HOSTS), statuses

    def truth_ns(self, rank, clock_ns):
        true_ns = self.cluster.true_ns(rank, clock_ns)
        return self.cluster.clock_ns(0, true_ns) - clock_ns

    def test_each_sample_is_right_within_its_own_bound(self):
        for rank in range(1, len(HOSTS)):
            samples = self.logs[rank][2]
            self.assertEqual(len(samples), 2)
            for at_ns, offset_ns, half_width_ns in samples:
                error_ns = offset_ns - self.truth_ns(rank, at_ns)
                self.assertLessEqual(abs(error_ns), half_width_ns)

    def test_start_middle_and_end(self):
        for rank in range(1, len(HOSTS)):
            (begin, first, _), (end, last, _) = self.logs[rank][2]
            self.assertGreater(end - begin, SECONDS * 1e9)
            for part in (0, 0.5, 1):
                at_ns = begin + part * (end - begin)
                found_ns = first + part * (last - first)
                error_ns = found_ns - self.truth_ns(rank, at_ns)
                print(f"rank {rank} at {part:.0%}: {error_ns / 1e3:+.1f} us")
                self.assertLess(abs(error_ns), LIMIT_NS)

    def test_the_injection_is_larger_than_what_is_allowed(self):
        """Else the tests above could not fail: of the offset, and of the
        drift over the recording."""
        for rank in range(1, len(HOSTS)):
            (begin, *_), (end, *_) = self.logs[rank][2]
            self.assertGreater(abs(self.truth_ns(rank, begin)), 10 * LIMIT_NS)
            change_ns = self.truth_ns(rank, end) - self.truth_ns(rank, begin)
            self.assertGreater(abs(change_ns), 2 * LIMIT_NS)

    def test_hosts_have_clocks_of_their_own(self):
        names = [log[0] for log in self.logs[1:]]
        self.assertEqual(names, ["host1", "host2", "host3"])
        clocks = {log[1] for log in self.logs[1:]}
        self.assertEqual(len(clocks), 3)
        for name, clock in zip(names, sorted(clocks)):
            self.assertTrue(clock.endswith("/" + name), clock)


if __name__ == "__main__":
    if sys.argv[1:2] == ["host"]:
        be_a_host(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5])
    else:
        unittest.main(verbosity=2)
