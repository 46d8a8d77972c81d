#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chakra traces: what Taut writes, run by a simulator that knows the schema
alone; and what others write, read by Taut."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

import chakra_schema as schema
import chakra_simulate as simulate

TAUT = os.environ.get("TAUT", "build/taut")
ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = ROOT.parent / "shared" / "traces"
MEGATRON = TRACES / "pytorch" / "megatron-tp8-a100"
SAMPLES = TRACES / "chakra"


def taut(*args):
    return subprocess.run([TAUT, *map(str, args)], capture_output=True,
                          text=True)


def report(*args):
    done = taut("report", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Written:
    """One recording, written as Chakra; subclasses say which."""

    sizes = True  # the recording tells how large its collectives are
    category_ms = 0.3  # of a step, that whole microseconds may shift
    categories = None  # that are told apart again; all
    ties = 0  # collectives whose last two arrive within a microsecond
    median_us = 1  # by which one node in two may start off its time
    late_us = 1  # by which one node in a hundred may start off its time

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.folder.name) / "out"
        done = taut("convert", cls.run_path, "--to", "chakra", "-o", cls.out)
        assert done.returncode == 0, done.stderr
        cls.ranks, cls.groups = simulate.read(cls.out)
        cls.times = simulate.simulate(cls.ranks, cls.groups)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def nodes(self):
        return ((rank, node) for rank, each in self.ranks.items()
                for node in each.nodes)

    def recorded_us(self):
        """The recording's makespan, from the table of its operations."""
        done = taut("convert", self.run_path, "--to", "csv")
        ends = []
        for line in done.stdout.splitlines()[1:]:
            start, dur = line.rsplit(",", 5)[1:3]
            ends.append(float(start) + float(dur))
        return max(ends)

    def test_one_file_a_rank(self):
        self.assertEqual(sorted(self.ranks), list(range(self.world)))
        for rank, each in self.ranks.items():
            self.assertEqual(each.metadata["rank"], rank)
            self.assertEqual(each.metadata["world_size"], self.world)

    def test_ids_are_unique_and_waits_exist(self):
        for each in self.ranks.values():
            ids = {node.id for node in each.nodes}
            self.assertEqual(len(ids), len(each.nodes))
            for node in each.nodes:
                self.assertLessEqual(node.waits, ids)
                self.assertNotIn(node.id, node.waits)

    def test_waits_lead_back(self):
        """Every wait is for a node before: there is no circle."""
        for _, node in self.nodes():
            self.assertTrue(all(wait < node.id for wait in node.waits))

    def test_simulated_makespan(self):
        recorded = self.recorded_us()
        simulated = max(end for _, end in self.times.values())
        print(f"{self.run_path.name}: recorded {recorded / 1e3:.3f} ms, "
              f"simulated {simulated / 1e3:.3f} ms")
        self.assertAlmostEqual(simulated / recorded, 1, delta=0.005)

    def test_waits_of_data_alone_are_enough(self):
        """As the feeder of the schema's authors runs a trace."""
        for waits in (lambda n: set(n.data), lambda n: set(n.ctrl)):
            times = simulate.simulate(self.ranks, self.groups, waits)
            self.assertEqual(times, self.times)

    def test_nodes_start_when_they_were_recorded(self):
        off = sorted(abs(self.times[(rank, node.id)][0] - node.start)
                     for rank, node in self.nodes())
        self.assertLessEqual(off[len(off) // 2], self.median_us)
        self.assertLessEqual(off[len(off) * 99 // 100], self.late_us)

    def test_no_collective_at_time_zero(self):
        starts = [self.times[(rank, node.id)][0]
                  for rank, node in self.nodes()
                  if node.type in (simulate.SEND, simulate.RECV,
                                   simulate.COLL)]
        self.assertEqual(len(starts), self.members)
        self.assertGreater(min(starts), 0)

    def test_collectives_are_described(self):
        for rank, node in self.nodes():
            if node.type != simulate.COLL:
                continue
            self.assertIn("comm_type", node.attrs)
            self.assertIn(rank, self.groups[node.attrs["pg_name"]])
            self.assertEqual(json.loads(node.attrs["pg_ranks"]),
                             self.groups[node.attrs["pg_name"]])
            self.assertEqual(node.attrs.get("comm_size", 0) > 0, self.sizes)

    def test_schema(self):
        """Every message, by another reader of protobuf, leaves nothing
        unknown and says the same once more."""
        if not schema.AVAILABLE:
            self.skipTest("python3-protobuf is not installed")
        for rank in self.ranks:
            every = list(simulate.messages(self.out / f"chakra.{rank}.et"))
            schema.check(every[0], "GlobalMetadata")
            for message in every[1:]:
                schema.check(message, "Node")

    def test_read_again(self):
        """The report of what was written is that of what was recorded. All
        ranks are on the common clock already."""
        was = report(self.run_path)
        now = report(self.out, "--no-clock-alignment")
        self.assertEqual(len(was["steps"]), len(now["steps"]))
        for a, b in zip(was["steps"], now["steps"]):
            self.assertAlmostEqual(a["measured_ms"], b["measured_ms"],
                                   delta=0.002)
        for key in ("count", "complete"):
            self.assertEqual(was["collectives"][key], now["collectives"][key])
        last = [r["collectives"]["last_arrivals_by_rank"] for r in (was, now)]
        self.assertEqual(sum(last[0]), sum(last[1]))
        for a, b in zip(*last):
            self.assertLessEqual(abs(a - b), self.ties)
        for a, b in zip(was["breakdown"], now["breakdown"]):
            for key in self.categories or a["ms"]:
                ms = a["ms"][key]
                self.assertAlmostEqual(ms, b["ms"][key], delta=self.category_ms, msg=key)


class TwoHosts(Written, unittest.TestCase):
    run_path = ROOT / "examples" / "ddp-gloo-2host"
    world, members = 2, 24 * 2


class LateRank(Written, unittest.TestCase):
    run_path = ROOT / "examples" / "ddp-gloo-late-rank"
    world, members = 4, 24 * 4


@unittest.skipUnless(MEGATRON.is_dir(), "no traces beside the checkout")
class Megatron(Written, unittest.TestCase):
    run_path = MEGATRON
    world, members = 8, 84 * 8


STUDY = TRACES / "straggler-study" / "trace-ST.csv.gz"


@unittest.skipUnless(STUDY.is_file(), "no traces beside the checkout")
class Pipeline(Written, unittest.TestCase):
    """Sends and receives between stages, collectives in seven groups, and one
    for each rank alone. Some computations began some microseconds before the
    receive that they wait for was over; a node has no parts to wait for when
    it is a receive, so that these add up."""

    run_path = STUDY
    world, members = 8, 32 * (96 + 8 * 4 + 4)
    sizes = False
    category_ms = 0.5  # one transfer of 0.38 ms, which waited for nothing
    ties = 2
    # time between operations is nobody's in a table; as a node it is a pause
    # of the host, also where a transfer runs beside it
    categories = ("compute", "comm_wait")
    median_us = 250
    late_us = 2500

    def test_sends_and_receives(self):
        ends = {simulate.SEND: "comm_dst", simulate.RECV: "comm_src"}
        for rank, node in self.nodes():
            if node.type not in ends:
                continue
            self.assertEqual(abs(node.attrs[ends[node.type]] - rank), 2)
            own = ({"comm_src", "comm_dst"} - {ends[node.type]}).pop()
            self.assertEqual(node.attrs[own], rank)


class Server(unittest.TestCase):
    """Workers of a parameter server, whose steps are on a lane without a
    number of its own."""

    def test_steps(self):
        run = ROOT / "examples" / "tensorflow" / "server"
        with tempfile.TemporaryDirectory() as folder:
            done = taut("convert", run, "--to", "chakra", "-o", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            again, before = report(folder), report(run)
        self.assertEqual(len(again["steps"]), len(before["steps"]))
        for one, other in zip(again["steps"], before["steps"]):
            self.assertEqual(one["rank"], other["rank"])
            self.assertAlmostEqual(one["measured_ms"],
                                   other["measured_ms"], delta=0.002)


class Refused(unittest.TestCase):
    def test_it_is_a_folder(self):
        example = TwoHosts.run_path
        done = taut("convert", example, "--to", "chakra")
        self.assertEqual(done.returncode, 2)
        self.assertIn("-o FOLDER", done.stderr)
        with tempfile.NamedTemporaryFile() as file:
            done = taut("convert", example, "--to", "chakra", "-o", file.name)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn("cannot be made", done.stderr)

    def test_a_full_disk(self):
        """Nothing is left of a file that could not be written whole."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", TAUT, "convert",
                 TwoHosts.run_path, "--to", "chakra", "-o", folder],
                capture_output=True, text=True,
                preexec_fn=ignore_file_limit)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertEqual(os.listdir(folder), [])


def ignore_file_limit():
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Large(unittest.TestCase):
    """No step of reading takes time that grows with the square."""

    def test_many_nodes_that_wait_for_one_thread(self):
        count = 200_000
        nodes = [{"Id": i + 1, "Name": "n", "NodeType": 4, "runtime": 5,
                  "data_deps": [1] if i else [], "is_cpu_op": True}
                 for i in range(count)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "fan.0.json"
            path.write_text(json.dumps({"workload_graph": nodes}))
            done = subprocess.run([TAUT, "report", path, "--json"],
                                  capture_output=True, timeout=30)
        step = json.loads(done.stdout)["steps"][0]
        self.assertAlmostEqual(step["measured_ms"], count * 5 / 1000)


@unittest.skipUnless(SAMPLES.is_dir(), "no traces beside the checkout")
class Samples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for path in SAMPLES.iterdir():
            with tarfile.open(path) as archive:
                archive.extractall(pathlib.Path(cls.folder.name) / path.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return next(pathlib.Path(self.folder.name).glob(f"**/{name}"))

    def test_archives_are_refused(self):
        for path in SAMPLES.iterdir():
            done = taut("report", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn("tar archive; unpack it first", done.stderr)

    def makespan_us(self, path):
        """By hand: nodes in the order of their ids, which is one in which
        they may run here, each on its lane after its waits of data."""
        lanes, ends = {}, {}
        for node in simulate.Rank(path).nodes:
            lane = (node.attrs["is_cpu_op"], node.attrs["tid"])
            start = max([lanes.get(lane, 0)] +
                        [ends.get(wait, 0) for wait in node.data])
            lanes[lane] = ends[node.id] = start + node.dur
        return max(ends.values())

    def test_protobuf(self):
        path = self.path("chakra.0.et")
        got = report(path)
        self.assertEqual(got["collectives"]["count"], 7)
        self.assertEqual(sum("without start times" in note
                             for note in got["notes"]), 1)
        self.assertAlmostEqual(got["steps"][0]["measured_ms"] * 1000,
                               self.makespan_us(path), delta=30)

    def test_json(self):
        for name in ("chakra.0.json", "small_chakra.0.json"):
            got = report(self.path(name))
            self.assertEqual(sum("without start times" in note
                                 for note in got["notes"]), 1)

    def test_what_is_no_chakra(self):
        done = taut("report", self.path("1.0.2-chakra.0.0.4.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("execution trace", done.stderr)
        done = taut("report", self.path("._1.0.2-chakra.0.0.4.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("AppleDouble", done.stderr)


if __name__ == "__main__":
    done = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    sys.exit(0 if done.wasSuccessful() else 1)
