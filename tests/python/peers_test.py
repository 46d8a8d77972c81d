#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""taut.load over two processes that are told to be hosts, with half of the set each: every
item once in each epoch, and read once by both together. TAUT_LIB names the library."""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

if "TAUT_LIB" not in os.environ:
    print("no libtaut.so that a plain interpreter can load: skipped")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
try:
    import numpy  # noqa: F401
except ImportError:
    from frameworks import find_python

    other = find_python("torch")  # tools/ensure-python puts numpy beside it
    if other and "TAUT_PEERS_TEST" not in os.environ:
        os.environ["TAUT_PEERS_TEST"] = "elsewhere"
        os.execv(other, [other, __file__, *sys.argv[1:]])
    print("no numpy: skipped")
    sys.exit(77)

sys.path.insert(0, str(ROOT / "python"))

from ports import free_port  # noqa: E402
from taut.load import Image, Loader  # noqa: E402

N, SIDE, EPOCHS = 60, 8, 3
BYTES = SIDE * SIDE * 3
RANK = """
import json, sys
from taut.load import Image, Loader

folder, options = sys.argv[1], json.loads(sys.argv[2])
image = Image(8, crop="none", format="raw", raw_size=8, layout="HWC")
loader = Loader(folder, 4, transform=image, num_workers=1, items=True, arrays="numpy", **options)
seen = []
for _ in range(%d):
    seen.append([])
    for data, _, items in loader:
        assert all((one == item).all() for one, item in zip(data, items))
        seen[-1] += items
print("over", flush=True)
sys.stdin.readline()
print(json.dumps([seen, loader.counts()]), flush=True)
sys.stdin.readline()  # the other one reads ahead still
loader.close()
""" % EPOCHS


class Peers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for item in range(N):
            pathlib.Path(self.folder, "%03d.png" % item).write_bytes(bytes([item]) * BYTES)

    def start(self, who, environment, **options):
        options.update(cache_bytes=N // 2 * BYTES, cache_name=1 + who, shuffle=True)
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT / "python"), "TAUT_SECRET": "of the test",
            "TAUT_PEERS_HOST": "host %d" % who, **environment,
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-c", RANK, self.folder, json.dumps(options)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def check(self, ranks):
        for rank in ranks:
            self.assertEqual(rank.stdout.readline(), "over\n")
        for rank in ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()
        told = [json.loads(rank.stdout.readline()) for rank in ranks]
        for rank in ranks:
            rank.communicate("\n", timeout=60)
            self.assertEqual(rank.returncode, 0)
        for epoch in range(EPOCHS):
            seen = collections.Counter(item for seen, _ in told for item in seen[epoch])
            self.assertEqual(seen, dict.fromkeys(range(N), 1))
        counts = [counts for _, counts in told]
        self.assertEqual(sum(one["reads"] for one in counts), N)
        for one in counts:
            self.assertGreater(one["remote_hits"], 0)
            self.assertEqual(one["remote_bytes"], one["remote_hits"] * BYTES)
            self.assertGreater(one["peers_served"], 0)
            self.assertEqual((one["peers_n_hosts"], one["peers_lost"]), (2, 0))
            self.assertEqual(one["peers_share_items"], N // 2)

    def test_of_a_launcher(self):
        port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
        self.check([self.start(r, {**port, "RANK": str(r)}, peers=True) for r in range(2)])

    def test_by_addresses(self):
        where = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        self.check(
            [self.start(r, {}, peers=where, num_replicas=2, rank=r) for r in range(2)]
        )

    def test_what_is_refused(self):
        image = Image(SIDE, crop="none", format="raw", raw_size=SIDE)

        def refused(words, **options):
            with self.assertRaisesRegex(ValueError, words):
                Loader(self.folder, transform=image, arrays="numpy", **options)

        two = {"num_replicas": 2, "rank": 0}
        refused("say cache_bytes", peers="127.0.0.1:1", **two)
        refused("3 addresses for 2 ranks", peers=["a:1"] * 3, cache_bytes=1, **two)
        refused("say where they meet", peers=True, cache_bytes=1, **two)
        refused("HOST:PORT", peers="nowhere", cache_bytes=1, **two)

    def test_alone_there_are_none(self):
        image = Image(SIDE, crop="none", format="raw", raw_size=SIDE)
        with Loader(self.folder, transform=image, arrays="numpy", peers=True) as loader:
            self.assertNotIn("peers_lost", loader.counts())


if __name__ == "__main__":
    unittest.main()
