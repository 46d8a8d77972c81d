#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libtaut-nccl.so as NCCL has it: opened by dlopen() in a process of its own, in
every version, ended in every way; and its switch as a Python package turns it."""

import collections
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

PLUGIN = os.environ.get("TAUT_NCCL_LIB", "")
HOST = os.environ.get("TAUT_NCCL_HOST", "")
TAUT = os.environ.get("TAUT", "")
SANITIZED = os.environ.get("TAUT_NCCL_SANITIZED", "") == "1"
VERSIONS = range(1, 8)
COMMS, STEPS = 2, 4
TEXT, COMM, CHUNK, FACT = 1, 4, 5, 7

Record = collections.namedtuple("Record", "type name start end lane correlation u")


class Log:
    """An event log, read as src/base/log_format.h has it."""

    def __init__(self, path):
        data = path.read_bytes()
        self.magic, _, _, self.rank, self.world = struct.unpack_from("<8sIIii", data)
        capacity, reserved, _, self.closed_ns = struct.unpack_from("<QQqq", data, 32)
        self.reserved, self.texts, self.records = reserved, {0: ""}, []
        i = 0
        while i < min(capacity, reserved):
            at = 4096 + 128 * i
            kind, name, start, end, lane, _, correlation = struct.unpack_from(
                "<IIqqqII", data, at
            )
            if kind == TEXT:
                (n,) = struct.unpack_from("<I", data, at + 40)
                self.texts[name] = data[at + 128 : at + 128 + n].decode()
                i += (n + 127) // 128
            elif kind:
                u = data[at + 40 : at + 128]
                self.records.append(
                    Record(kind, name, start, end, lane, correlation, u)
                )
            i += 1

    def of(self, kind):
        return [record for record in self.records if record.type == kind]

    def facts(self):
        return {
            self.texts[r.name]: self.texts[struct.unpack_from("<I", r.u)[0]]
            for r in self.of(FACT)
        }


def environment(folder, rank=0):
    drop = ("TAUT_", "RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    env.update(TAUT_RECORD=str(folder), RANK=str(rank), WORLD_SIZE="2")
    return env


class PluginTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.run_folder = pathlib.Path(self.folder.name) / "run"

    def tearDown(self):
        self.folder.cleanup()

    def host(self, version, rounds, end, rank=0):
        return subprocess.run(
            [HOST, PLUGIN, str(version), str(rounds), end],
            env=environment(self.run_folder, rank),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def log(self):
        logs = sorted(self.run_folder.rglob("*.tautlog"))
        self.assertEqual(len(logs), 1, logs)
        self.assertEqual(logs[0].parent.name, "rank0")
        return Log(logs[0])

    def check_chunks(self, log, at_least):
        """Correlations of the collectives, and the chunks."""
        chunks = log.of(CHUNK)
        self.assertGreaterEqual(len(chunks), at_least)
        for chunk in chunks:
            _, _, step, sends, _, gpu, peer, net = struct.unpack_from(
                "<iiiiqqqq", chunk.u
            )
            self.assertEqual(gpu + peer + net, chunk.end - chunk.start)
            self.assertEqual(sends, 1)
            self.assertIn(step, range(STEPS))
        return {record.correlation for record in log.of(COMM)}, chunks

    def check_version(self, version):
        result = self.host(version, 300, "finalize")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        log = self.log()
        self.assertEqual((log.rank, log.world), (0, 2))
        self.assertNotEqual(log.closed_ns, 0)
        comms, chunks = self.check_chunks(log, 0)
        self.assertEqual(len(comms), COMMS * 300)
        self.assertEqual(len(chunks), COMMS * 300 * STEPS)
        self.assertEqual({chunk.correlation for chunk in chunks}, comms)
        # The host stops what is no event after the end; nothing else is lost.
        lost = {k: v for k, v in log.facts().items() if k.startswith("nccl.lost")}
        self.assertEqual(lost, {"nccl.lost.handles": str(COMMS)})

    def test_versions(self):
        for version in VERSIONS:
            with self.subTest(version=version):
                self.run_folder = pathlib.Path(self.folder.name) / f"v{version}"
                self.check_version(version)

    @unittest.skipIf(not TAUT, "TAUT is not set")
    def test_report(self):
        """Two ranks' logs alone are a trace: all collectives match, and each link
        has its chunks."""
        for rank in range(2):
            self.assertEqual(self.host(6, 50, "finalize", rank).returncode, 0)
        result = subprocess.run(
            [TAUT, "report", str(self.run_folder), "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        report = json.loads(result.stdout)
        collectives = report["collectives"]
        self.assertEqual(collectives["count"], COMMS * 50)
        self.assertEqual(collectives["complete"], COMMS * 50)
        groups = {kind["group"]: kind["bytes"] for kind in collectives["kinds"]}
        self.assertEqual(groups, {"0x1000": 50 * 4096, "0x1001": 50 * 4096})
        links = {(link["rank"], link["peer"]): link for link in report["links"]}
        self.assertEqual(set(links), {(0, 1), (1, 0)})
        for link in links.values():
            self.assertEqual(link["chunks"], COMMS * 50 * STEPS)

    def test_ends_without_finalize(self):
        result = self.host(6, 2000, "exit")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        log = self.log()
        self.check_chunks(log, 1)
        self.assertEqual(len(log.of(COMM)), COMMS * 2000)

    def test_killed(self):
        result = self.host(7, 1000, "crash")
        self.assertEqual(result.returncode, -signal.SIGKILL)
        log = self.log()
        self.assertEqual(log.closed_ns, 0)
        self.assertEqual(log.magic, b"TAUTLOG1")
        self.check_chunks(log, 400)
        self.assertGreater(len(log.of(COMM)), 50)

    def test_folder_that_cannot_be_made(self):
        blocked = pathlib.Path(self.folder.name) / "file"
        blocked.write_text("no folder")
        self.run_folder = blocked / "run"
        result = self.host(5, 100, "finalize")
        self.assertEqual(
            (result.returncode, result.stdout, result.stderr), (0, "", "")
        )

    def test_exports(self):
        output = subprocess.run(
            ["nm", "--dynamic", "--defined-only", "--format=posix", PLUGIN],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        names = {line.split()[0] for line in output.splitlines()}
        self.assertEqual(names, {f"ncclProfiler_v{version}" for version in VERSIONS})

    @unittest.skipIf(SANITIZED, "this Python cannot open what has a sanitizer")
    def test_switch(self):
        """As docs/recording.md has it. This process has Python in it, so that
        nothing is recorded until somebody turns the switch."""
        result = subprocess.run(
            [sys.executable, "-c", SWITCH.replace("PLUGIN", repr(PLUGIN))],
            env=environment(self.run_folder),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout.split(), ["False", "True", "False"])
        self.assertEqual(len(self.log().of(COMM)), 1)


SWITCH = """
import ctypes
from ctypes import c_int, c_uint64, c_void_p

class Plugin(ctypes.Structure):
    _fields_ = [
        ("interface", c_void_p * 10),
        ("magic", ctypes.c_char * 8),
        ("recording", ctypes.POINTER(ctypes.c_uint32)),
    ]

plugin = Plugin.in_dll(ctypes.CDLL(PLUGIN), "ncclProfiler_v7")
assert plugin.magic == b"TAUTNCCL", plugin.magic
init = ctypes.CFUNCTYPE(
    c_int, c_void_p, c_uint64, c_void_p, ctypes.c_char_p, c_int, c_int, c_int, c_void_p
)(plugin.interface[1])
start = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)(plugin.interface[2])
stop = ctypes.CFUNCTYPE(c_int, c_void_p)(plugin.interface[3])
context, mask = c_void_p(), c_int()
assert not init(ctypes.byref(context), 5, ctypes.byref(mask), b"pg", 1, 2, 0, None)
event = ctypes.create_string_buffer(160)
event[0] = 2  # a collective
for on in 0, 1, 0:
    plugin.recording[0] = on
    handle = c_void_p()
    start(context, ctypes.byref(handle), event)
    stop(handle)
    print(bool(handle.value))
"""

if __name__ == "__main__":
    if not PLUGIN or not HOST:
        print("TAUT_NCCL_LIB and TAUT_NCCL_HOST are not set")
        sys.exit(77)
    unittest.main()
