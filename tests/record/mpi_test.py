#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The MPI interposer under real launchers: programs of ours run as they did
without it, and the logs hold each call once, with equal names and numbers on
all ranks that took part. TAUT_MPI_LIB is the interposer."""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import mpiruns  # noqa: E402
import tautlog  # noqa: E402

SOURCE = pathlib.Path(__file__).with_name("mpi_calls.c")
LIBRARY = os.environ.get("TAUT_MPI_LIB", "")
TAUT = os.environ.get("TAUT", "")
SKEW = os.environ.get("TAUT_SKEW_CLOCK", "")
RANKS = 4
WORLD = "[0, 1, 2, 3]"
PATIENCE_S = 120


class Run:
    """One run of the program, recorded or not."""

    def __init__(
        self, flavour, program, folder, words, record=True, env=None, n=RANKS, wrap=()
    ):
        self.folder = pathlib.Path(folder) if record else None
        environ = mpiruns.environment(**(env or {}))
        options = []
        if record:
            self.folder.mkdir()
            own = {"TAUT_RECORD": str(folder), "LD_PRELOAD": LIBRARY, **(env or {})}
            if "LSAN_OPTIONS" in os.environ:
                own["LSAN_OPTIONS"] = os.environ["LSAN_OPTIONS"]
            options = ["env"] + ["%s=%s" % item for item in own.items()]
        self.done = subprocess.run(
            ["mpirun." + flavour, *mpiruns.LAUNCH[flavour], "-n", str(n), *options]
            + [str(w) for w in [*wrap, *program, *words]],
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        self.logs = tautlog.read_ranks(folder) if record else {}

    def comms(self, *names):
        return [e for log in self.logs.values() for e in log.comms(*names)]


def pairs_of(run):
    """{(group, src, dst, seq): [sends, receives]}"""
    found = collections.defaultdict(lambda: [[], []])
    for e in run.comms():
        if e.comm.collective in ("send", "recv"):
            c = e.comm
            key = (c.group, c.src, c.dst, c.seq)
            found[key][c.collective == "recv"].append(e)
    return found


class Common:
    flavour = ""

    @classmethod
    def setUpClass(cls):
        if not mpiruns.has(cls.flavour):
            raise unittest.SkipTest("no %s here" % cls.flavour)
        cls.room = tempfile.TemporaryDirectory()
        cls.program = [str(pathlib.Path(cls.room.name) / "mpi_calls")]
        subprocess.run(
            ["mpicc." + cls.flavour, "-O1", "-w", "-o", cls.program[0], SOURCE]
            + ["-lpthread"],
            check=True,
        )

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def run_parts(self, *parts, status=0, fails=False, **options):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.room.name)) / "run"
        run = Run(
            self.flavour,
            self.program,
            folder,
            [str(status), *parts],
            **options,
        )
        if not fails:
            self.assertEqual(run.done.returncode, status, run.done.stderr)
            self.assertEqual(
                run.done.stdout, "".join("%s done\n" % part for part in parts)
            )
            if run.folder:
                if status == 0:
                    self.assertEqual(run.done.stderr, "")
                self.check_logs(run, options.get("n", RANKS))
        return run

    def check_logs(self, run, n=RANKS):
        """What holds of every recording."""
        self.assertEqual(sorted(run.logs), list(range(n)))
        for rank, log in run.logs.items():
            self.assertEqual(log.world_size, n)
            self.assertLessEqual(log.reserved, log.capacity)
            self.assertGreater(log.closed_ns, log.opened_ns)
            self.assertEqual(log.state, "MPI_Finalize")
            self.check_lanes(log)
        for key, (sends, receives) in pairs_of(run).items():
            self.assertEqual((len(sends), len(receives)), (1, 1), key)
            self.assertGreaterEqual(key[3], 0, key)
            self.assertEqual(sends[0].comm.dtype, receives[0].comm.dtype)
            self.assertEqual(
                sends[0].comm.in_elements, receives[0].comm.out_elements, key
            )
        self.check_collectives(run)

    def check_lanes(self, log):
        """Requests on one lane never overlap, and their waits are there."""
        lanes = collections.defaultdict(list)
        waits = {
            e.correlation for e in log.events if e.kind == "runtime" and e.correlation
        }
        for e in log.events:
            self.assertGreaterEqual(e.end_ns, e.start_ns)
            if e.lane >= 1 << 32:
                self.assertTrue(log.lanes[e.lane].startswith("MPI requests "))
                lanes[e.lane].append((e.start_ns, e.end_ns))
                if e.correlation:
                    self.assertIn(e.correlation, waits)
        for events in lanes.values():
            events.sort()
            for before, after in zip(events, events[1:]):
                self.assertLessEqual(before[1], after[0])

    def check_collectives(self, run):
        places = collections.defaultdict(dict)
        for rank, log in run.logs.items():
            for e in log.comms():
                if e.comm.collective in ("send", "recv"):
                    continue
                c = e.comm
                self.assertNotIn(rank, places[c.group, c.seq])
                places[c.group, c.seq][rank] = e
        for (group, _), events in places.items():
            ranks = {e.comm.group_ranks for e in events.values()}
            self.assertEqual(len(ranks), 1, group)
            self.assertEqual(sorted(events), json.loads(ranks.pop()), group)
            self.assertEqual(len({e.name for e in events.values()}), 1, group)
            self.assertEqual(
                {e.comm.group_size for e in events.values()}, {len(events)}
            )

    # --- sends and receives -------------------------------------------------

    def test_ring(self):
        run = self.run_parts("ring")
        pairs = pairs_of(run)
        self.assertEqual(len(pairs), 10 * RANKS)
        for group, src, dst, seq in pairs:
            self.assertEqual(group, "MPI_COMM_WORLD")
            self.assertEqual(dst, (src + 1) % RANKS)
        for rank, log in run.logs.items():
            self.assertEqual(len(log.events), 20)
            for e in log.events:
                self.assertEqual((e.kind, e.lane), ("comm", log.pid))
                self.assertEqual((e.comm.dtype, e.comm.in_elements), ("Int", 1))
                self.assertEqual(e.comm.group_ranks, WORLD)

    def test_nonblocking(self):
        run = self.run_parts("nonblocking")
        self.assertEqual(len(pairs_of(run)), 8 * RANKS * 2)
        # a receive knows what came, not what it had room for
        for e in run.comms("MPI_Irecv"):
            want = 2 if e.comm.src == (e.comm.dst - 1) % RANKS else 1
            self.assertEqual(e.comm.out_elements, want)
            self.assertNotEqual(e.correlation, 0)
        for log in run.logs.values():
            self.assertLessEqual(len(log.lanes), 4)
            self.assertEqual(len(log.comms()), 32)
            waits = collections.Counter(
                e.name for e in log.events if e.kind == "runtime"
            )
            self.assertEqual(waits["MPI_Waitall"], 1)
            self.assertEqual(waits["MPI_Wait"], 4)
            self.assertEqual(waits["MPI_Waitany"], 5)
            self.assertEqual(waits["MPI_Test"], 4)
            self.assertEqual(waits["MPI_Testall"], 1)
            self.assertEqual(waits["MPI_Testany"], 4)
            self.assertEqual(waits["MPI_Irecv"], 16)
            self.assertEqual(waits["MPI_Issend"], 8)

    def test_persistent(self):
        run = self.run_parts("persistent")
        self.assertEqual(len(pairs_of(run)), 6 * RANKS)
        for log in run.logs.values():
            self.assertEqual(len(log.comms("MPI_Recv_init")), 6)
            self.assertEqual(len(log.comms("MPI_Send_init")), 6)

    def test_any_source_and_tag(self):
        run = self.run_parts("any_source")
        pairs = pairs_of(run)
        self.assertEqual(len(pairs), (4 * 4 + 2) * (RANKS - 1))
        # Rank 0 has its receives in the order in which they were posted, and
        # of one sender and tag this is the order of the messages.
        posted = collections.defaultdict(list)
        for e in sorted(run.logs[0].comms(), key=lambda e: e.start_ns):
            if e.comm.collective == "recv" and e.name != "MPI_Mrecv":
                posted[e.comm.src, e.comm.seq >> 20].append(e.comm.seq)
        for numbers in posted.values():
            self.assertEqual(numbers, sorted(numbers))

    def test_messages_to_nobody_and_cancelled_ones(self):
        run = self.run_parts("nobody", "ring")
        self.assertEqual(len(pairs_of(run)), 10 * RANKS)

    # --- collectives --------------------------------------------------------

    def test_collectives_of_all(self):
        run = self.run_parts("everyone")
        n = RANKS
        want = [
            ("MPI_Barrier", "barrier", "", -1, -1),
            ("MPI_Allreduce", "allreduce", "Int", 1, 1),
            ("MPI_Allreduce", "allreduce", "Float", 8, 8),
            ("MPI_Allgather", "allgather", "Float", 3, 3 * n),
            ("MPI_Allgather", "allgather", "Float", 3, 3 * n),
            ("MPI_Allgatherv", "allgather", "Float", 2, 2 * n),
            ("MPI_Alltoall", "alltoall", "Float", 2 * n, 2 * n),
            ("MPI_Alltoallv", "alltoall", "Float", 2 * n, 2 * n),
            ("MPI_Reduce_scatter", "reduce_scatter", "Float", 2 * n, 2),
            ("MPI_Reduce_scatter_block", "reduce_scatter", "Float", 3 * n, 3),
            ("MPI_Scan", "scan", "Float", 5, 5),
            ("MPI_Exscan", "exscan", "Float", 5, 5),
        ]
        for log in run.logs.values():
            found = [
                (
                    e.name,
                    e.comm.collective,
                    e.comm.dtype,
                    e.comm.in_elements,
                    e.comm.out_elements,
                )
                for e in log.events
            ]
            self.assertEqual(found, want)
            self.assertEqual([e.comm.seq for e in log.events], list(range(12)))
            self.assertEqual({e.comm.group for e in log.events}, {"MPI_COMM_WORLD"})

    def test_collectives_with_a_root(self):
        run = self.run_parts("rooted")
        for rank, log in run.logs.items():
            part = min(rank + 1, 4)
            whole = sum(min(i + 1, 4) for i in range(RANKS))
            root = rank == 0
            found = [
                (e.comm.collective, e.comm.root, e.comm.in_elements)
                + (e.comm.out_elements,)
                for e in log.events
            ]
            self.assertEqual(
                found,
                [
                    ("broadcast", 1, 4, 4),
                    ("reduce", 0, 4, 4),
                    ("gather", 0, 2, 2 * RANKS if root else 2),
                    ("gather", 0, part, whole if root else part),
                    ("scatter", 0, 2 * RANKS if root else 2, 2),
                    ("scatter", 0, whole if root else part, part),
                ],
            )

    def test_types(self):
        run = self.run_parts("types")
        for log in run.logs.values():
            self.assertEqual(
                [(e.comm.dtype, e.comm.in_elements) for e in log.events],
                [
                    ("Byte", 24),  # a type of their own: 2 of 3 floats
                    ("Double", 6),
                    ("Long", 3),
                    ("Short", 3),
                    ("Byte", 3),
                    ("Byte", 36),  # pairs of double and int
                ],
            )

    def test_nonblocking_collectives(self):
        run = self.run_parts("icollectives")
        for log in run.logs.values():
            found = sorted((e.comm.seq, e.name, e.comm.dtype) for e in log.comms())
            self.assertEqual(
                found,
                [
                    (0, "MPI_Iallreduce", "Double"),
                    (1, "MPI_Ibcast", "Double"),
                    (2, "MPI_Ibarrier", ""),
                ],
            )

    def test_communicators(self):
        run = self.run_parts("subcomms")
        groups = collections.defaultdict(set)
        for e in run.comms():
            groups[e.comm.group].add(e.comm.group_ranks)
        self.assertTrue(all(len(ranks) == 1 for ranks in groups.values()))
        names = collections.Counter(ranks for (ranks,) in groups.values())
        # two halves and their copies, two of the first two, world and line
        self.assertEqual(names, {"[0, 2]": 2, "[1, 3]": 2, "[0, 1]": 2, WORLD: 2})
        self.assertEqual({p[1:3] for p in pairs_of(run)}, {(2, 0), (3, 1)})

    # --- other languages ------------------------------------------------------

    def test_fortran(self):
        if not shutil.which("mpifort." + self.flavour) or not shutil.which("gfortran"):
            self.skipTest("no Fortran compiler")
        program = str(pathlib.Path(self.room.name) / "mpi_fortran")
        subprocess.run(
            ["mpifort." + self.flavour, "-w", "-o", program]
            + [SOURCE.with_suffix(".f90")],
            cwd=self.room.name,
            check=True,
        )
        run = Run(self.flavour, [program], self.room.name + "/fortran", [])
        self.assertEqual(run.done.stdout.split(), ["fortran", "done"])
        self.check_logs(run)
        self.assertEqual(len(pairs_of(run)), 2 * RANKS)
        for log in run.logs.values():
            self.assertEqual(
                [
                    (e.name, e.comm.dtype, e.comm.in_elements)
                    for e in log.comms("MPI_Allreduce", "MPI_Bcast")
                ],
                [
                    ("MPI_Allreduce", "Int", 1),
                    ("MPI_Allreduce", "Double", 4),
                    ("MPI_Bcast", "Double", 4),
                ],
            )
            names = collections.Counter(e.name for e in log.comms())
            self.assertEqual(names["MPI_Isend"] + names["MPI_Irecv"], 2)

    def test_mpi4py(self):
        """Python opens the library for itself alone, out of our sight."""
        python = os.environ.get("TAUT_MPI4PY", "/usr/bin/python3")
        found = subprocess.run(
            [python, "-c", "from mpi4py import MPI; print(MPI.Get_library_version())"],
            capture_output=True,
            text=True,
            check=False,
        )
        mark = {"openmpi": "Open MPI", "mpich": "MPICH"}[self.flavour]
        if mark not in found.stdout:
            self.skipTest("no mpi4py of this MPI")
        script = SOURCE.with_name("mpi_ring.py")
        run = Run(self.flavour, [python, script], self.room.name + "/py", [])
        self.assertEqual(run.done.stdout, "ring done\n", run.done.stderr)
        self.check_logs(run)
        # 5 laps of objects and 5 of arrays, and an all-reduce
        self.assertEqual(len(pairs_of(run)), 10 * RANKS)
        reduced = [e for e in run.comms() if e.comm.collective == "allreduce"]
        self.assertEqual(len(reduced), RANKS)

    def test_functions_that_the_library_does_not_have(self):
        """A program that looks for large counts finds ours: they must work."""
        run = self.run_parts("large")
        for log in run.logs.values():
            self.assertEqual(
                [(e.comm.collective, e.comm.in_elements) for e in log.comms()],
                [("allreduce", 3), ("send", 1), ("recv", 1)]
                if log.rank % 2 == 0
                else [("allreduce", 3), ("recv", 1), ("send", 1)],
            )

    # --- threads, steps ------------------------------------------------------

    def test_threads(self):
        run = self.run_parts("threads")
        self.assertEqual(len(pairs_of(run)), RANKS * 600)
        for log in run.logs.values():
            self.assertEqual(len(log.comms("MPI_Allreduce")), 30)
            self.assertEqual(len({e.lane for e in log.comms("MPI_Allreduce")}), 3)

    def test_requests_that_go_from_thread_to_thread(self):
        run = self.run_parts("threads_requests", n=2)
        sent = run.comms("MPI_Issend")
        self.assertEqual(len(sent), 2 * 4 * 1500)
        self.assertEqual([e for e in sent if not e.correlation], [])

    def test_children_of_threads_end(self):
        run = self.run_parts("threads_fork", n=2, fails=True)  # the log is full
        self.assertEqual(run.done.returncode, 0, run.done.stderr)
        self.assertEqual(run.done.stdout, "threads_fork done\n")

    def test_errors_that_come_back(self):
        """Each receive has its own times, whatever became of those before it."""
        run = self.run_parts("errors", fails=True)
        self.assertEqual(run.done.returncode, 0, run.done.stderr)
        for log in run.logs.values():
            received = sorted(log.comms("MPI_Irecv"), key=lambda e: e.start_ns)
            self.assertEqual([e.comm.seq >> 20 for e in received], list(range(8)))
            for one, other in zip(received, received[1:]):
                self.assertLessEqual(one.end_ns, other.start_ns)

    def test_intercommunicators(self):
        run = self.run_parts("groups")
        self.assertEqual(len(run.comms("MPI_Gatherv")), RANKS)
        sizes = {log.rank: log.comms("MPI_Allgatherv")[0] for log in run.logs.values()}
        self.assertEqual(
            [sizes[rank].comm.out_elements for rank in range(RANKS)], [3, 1, 1, 1]
        )

    def test_steps_of_pcontrol(self):
        run = self.run_parts("steps", env={"TAUT_RECORD_STEPS": "2:4"})
        for log in run.logs.values():
            steps = [e for e in log.events if e.kind == "step"]
            self.assertEqual([e.correlation for e in steps], [3, 4])
            reduced = log.comms("MPI_Allreduce")
            self.assertEqual(len(reduced), 2)
            for step, e in zip(steps, reduced):
                self.assertLessEqual(step.start_ns, e.start_ns)
                self.assertGreaterEqual(step.end_ns, e.end_ns)
            self.assertEqual(log.comms("MPI_Barrier"), [])

    def test_window_of_a_framework(self):
        """Where a recorder chooses the steps, its file opens and shuts ours."""
        command = "%s %s" % (sys.executable, SOURCE.with_name("jobs") / "window.py")
        run = self.run_parts("window", env={"TAUT_WINDOW_OF": command})
        for log in run.logs.values():
            self.assertEqual([e.comm.seq for e in log.comms()], [2, 3, 4])

    # --- what goes wrong -------------------------------------------------------

    def test_exit_status_is_the_programs(self):
        self.run_parts("ring", status=7)

    def test_killed_rank_leaves_its_log(self):
        run = self.run_parts("killed", fails=True)
        self.assertNotEqual(run.done.returncode, 0)
        log = run.logs[1]
        self.assertEqual(log.closed_ns, 0)
        self.assertEqual([e.name for e in log.events], ["MPI_Allreduce"])
        self.assertEqual(log.state, "between MPI_Init and MPI_Finalize")

    def test_full_log_loses_the_end_only(self):
        run = Run(
            self.flavour,
            self.program,
            pathlib.Path(tempfile.mkdtemp(dir=self.room.name)) / "run",
            ["0", "nonblocking", "ring"],
            env={"TAUT_RECORD_EVENTS": "64"},
        )
        self.assertEqual(run.done.returncode, 0)
        self.assertEqual(run.done.stdout, "nonblocking done\nring done\n")
        for log in run.logs.values():
            self.assertEqual(log.capacity, 64)
            self.assertGreater(log.reserved, 64)
            self.assertGreater(len(log.events), 10)

    def test_folder_that_cannot_be_written(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.room.name)) / "run"
        run = self.run_parts(
            "ring", record=False, env={"LD_PRELOAD": LIBRARY, "TAUT_RECORD": "/proc"}
        )
        self.assertEqual(run.done.stderr, "")
        self.assertFalse(folder.exists())

    # --- clocks ---------------------------------------------------------------

    OFFSETS_NS = {"host0": 0, "host1": 40_000_000, "host2": -25_000_000}

    def as_hosts(self, hosts, recorded=None):
        """A command before the program: rank i believes it is on hosts[i]."""
        script = 'rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}\ncase $rank in\n'
        for rank, host in enumerate(hosts):
            keep = recorded is None or rank in recorded
            script += "%d) host=%s offset=%d preload=%s;;\n" % (
                rank,
                host,
                self.OFFSETS_NS[host],
                LIBRARY + ":" + SKEW if keep else SKEW,
            )
        script += (
            "esac\n"
            "unset OMPI_COMM_WORLD_LOCAL_SIZE MPI_LOCALNRANKS\n"
            "export TAUT_SKEW_OFFSET_NS=$offset LD_PRELOAD=$preload\n"
            'hostname "$host" && exec "$@"\n'
        )
        return ["unshare", "--uts", "sh", "-c", script, "sh"]

    def need_hosts(self):
        done = subprocess.run(
            ["unshare", "--uts", "true"], capture_output=True, check=False
        )
        if done.returncode or not SKEW:
            self.skipTest("no UTS namespaces for hosts of our own")

    def test_clocks_of_hosts(self):
        self.need_hosts()
        hosts = ["host0", "host1", "host1", "host2"]
        run = self.run_parts("ring", wrap=self.as_hosts(hosts))
        self.assertEqual([run.logs[r].host for r in range(4)], hosts)
        for rank, log in run.logs.items():
            asked = rank in (1, 3)
            self.assertEqual(len(log.clocks), 2 if asked else 0, rank)
            truth = -self.OFFSETS_NS[hosts[rank]]
            for sample in log.clocks:
                self.assertLessEqual(
                    abs(sample.offset_ns - truth), sample.half_width_ns + 1000
                )

        best = min(c.half_width_ns for log in run.logs.values() for c in log.clocks)
        self.assertLess(best, 5_000_000)

    def test_rank_without_the_interposer_is_not_waited_for(self):
        self.need_hosts()
        hosts = ["host0", "host1", "host1", "host2"]
        for missing in (0, 2):
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.room.name)) / "run"
            recorded = set(range(RANKS)) - {missing}
            run = Run(
                self.flavour,
                self.program,
                folder,
                ["0", "ring"],
                wrap=self.as_hosts(hosts, recorded),
            )
            self.assertEqual(run.done.returncode, 0, run.done.stderr)
            self.assertEqual(run.done.stdout, "ring done\n")
            self.assertEqual(set(run.logs), recorded)
            for log in run.logs.values():
                self.assertEqual(log.clocks, [])
                self.assertEqual(len(log.comms()), 20)

    # --- the command --------------------------------------------------------

    def test_taut_record(self):
        if not TAUT:
            self.skipTest("TAUT is not set")
        out = pathlib.Path(self.room.name) / "recorded"
        done = subprocess.run(
            [TAUT, "record", "--out", out, "--", "mpirun." + self.flavour]
            + [*mpiruns.LAUNCH[self.flavour], "-n", str(RANKS), *self.program, "3", "ring"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        self.assertEqual((done.returncode, done.stdout), (3, "ring done\n"))
        told = json.loads((out / "recording.json").read_text())
        self.assertEqual(told["ranks"], list(range(RANKS)))
        self.assertEqual(told["missing"], [])
        self.assertEqual(
            [len(log.comms()) for log in tautlog.read_ranks(out).values()], [20] * 4
        )

    # --- the graph --------------------------------------------------------------

    def test_report_matches_all_and_replays(self):
        if not TAUT:
            self.skipTest("TAUT is not set")
        run = self.run_parts("stencil")
        told = subprocess.run(
            [TAUT, "report", run.folder, "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        report = json.loads(told.stdout)
        self.check_report(report)

    def check_report(self, report):
        found = report["collectives"]
        self.assertEqual(found["complete"], found["count"])
        kinds = {k["name"]: (k["count"], k["group_size"]) for k in found["kinds"]}
        self.assertEqual(
            kinds, {"all-reduce": (30, RANKS), "send/recv": (30 * RANKS * 2, 2)}
        )
        self.assertLess(report["replay"]["error_pct_max"], 3)


class OpenMpi(Common, unittest.TestCase):
    flavour = "openmpi"


class Mpich(Common, unittest.TestCase):
    flavour = "mpich"

    def test_collectives_prepared_outside_of_the_window(self):
        run = self.run_parts("prepared", env={"TAUT_RECORD_STEPS": "1:2"})
        reduced = run.comms("MPI_Allreduce_init")
        self.assertEqual(
            [(e.comm.dtype, e.comm.in_elements) for e in reduced],
            [("Double", 1)] * RANKS,
        )


class WithoutMpi(unittest.TestCase):
    def test_nothing_happens(self):
        """No file, no output, and MPI's names answer with an error."""
        code = (
            "import ctypes, os\n"
            "print(ctypes.CDLL(None).MPI_Init(None, None) != 0)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=dict(os.environ, LD_PRELOAD=LIBRARY, TAUT_RECORD=folder),
                capture_output=True,
                text=True,
                check=True,
            )
            self.assertEqual((done.stdout, done.stderr), ("True\n", ""))
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    if not LIBRARY or not (mpiruns.has("openmpi") or mpiruns.has("mpich")):
        print("no MPI here: neither Open MPI nor MPICH with compiler and launcher")
        sys.exit(77)
    unittest.main(verbosity=2)
