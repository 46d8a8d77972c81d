# SPDX-License-Identifier: Apache-2.0
"""The recorder without a framework: an adapter made here ends the steps."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[1] / "python"))

from torch_case import EventLog  # noqa: E402

from taut import _adapter, _clocks, _imports, _nccl, _process, _recorder, _window  # noqa: E402


class Adapter(_adapter.Adapter):
    framework = "fake"
    output = "fake.json"

    def __init__(self, ranks=(1, 2, 0), fails_in=None):
        super().__init__(None)
        self.told_ranks = ranks
        self.began = self.updated = None
        self.fails_in = fails_in
        self.calls = []

    def ranks(self):
        return self.told_ranks

    def issue_began(self, since):
        return self.began if self.began and self.began > since else None

    def update_began(self, since):
        return self.updated if self.updated and self.updated > since else None

    def call(self, name, *more):
        self.calls.append((self.job.steps_seen, name) + more)
        if name == self.fails_in:
            raise RuntimeError("no\nmore")

    def start(self, discard):
        self.call("start", discard)

    def prepare(self):
        self.call("prepare")

    def between_steps(self):
        self.call("between")

    def stop(self, folder):
        self.call("stop", folder and os.path.basename(folder))


class RecorderTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="taut-recorder-")
        self.addCleanup(holder.cleanup)
        self.run_folder = pathlib.Path(holder.name)
        (self.run_folder / "processes").mkdir()

    def job(self, adapter, steps=(4, 6)):
        adapter.job = job = _recorder.Job(str(self.run_folder), steps)
        job.add(adapter)
        return job

    def process(self):
        (path,) = (self.run_folder / "processes").glob("*.json")
        return json.loads(path.read_text())

    def test_window(self):
        adapter = Adapter()
        job = self.job(adapter)
        self.assertEqual(self.process()["state"], "waits for the first step to end")
        for _ in range(8):
            adapter.step_ended()
        job.end()
        self.assertEqual(
            adapter.calls,
            [
                (2, "start", True),
                (3, "stop", None),
                (3, "prepare"),
                (4, "start", False),
                (5, "between"),
                (6, "stop", "rank1"),
            ],
        )
        told = self.process()
        self.assertEqual((told["state"], told["recorded"]), ("recorded steps 4:6", [4, 6]))
        self.assertEqual(told["steps_seen"], 8)

    @unittest.skipIf(
        not os.environ.get("TAUT_NCCL_LIB") or os.environ.get("TAUT_NCCL_SANITIZED") == "1",
        "no plugin of NCCL, or one with a sanitizer",
    )
    def test_switch_of_the_nccl_plugin(self):
        """It is on in the window, not in the one that is thrown away, and off again."""
        os.environ["NCCL_PROFILER_PLUGIN"] = os.environ["TAUT_NCCL_LIB"]
        self.addCleanup(os.environ.pop, "NCCL_PROFILER_PLUGIN")
        word = _nccl._find()
        adapter, seen = Adapter(), []
        job = self.job(adapter)
        for _ in range(8):
            adapter.step_ended()
            seen.append(word[0])
        job.end()
        self.assertEqual(seen, [0, 0, 0, 1, 1, 0, 0, 0])
        os.environ["NCCL_PROFILER_PLUGIN"] = "/of/the/user/libnccl-profiler.so"
        self.assertIsNone(_nccl._find())

    def window(self):
        """What others see of it: from, to, rank, world size, rank on the host."""
        path = _window.path_of(str(self.run_folder), os.getpid())
        return _window.Window(path).get() if os.path.exists(path) else None

    def test_others_see_the_window(self):
        """Of every framework."""
        adapter, seen = Adapter(), []
        job = self.job(adapter)
        for _ in range(8):
            adapter.step_ended()
            seen.append(self.window())
        self.assertEqual(seen[:3], [None] * 3)
        begin_ns = seen[3][0]
        self.assertEqual(seen[3:5], [(begin_ns, 0, 1, 2, 0)] * 2)
        self.assertLess(begin_ns, seen[5][1])
        self.assertEqual(seen[5:], [seen[5]] * 3)
        job.end()
        self.assertIsNone(self.window())

    def test_window_that_is_thrown_away(self):
        adapter = Adapter(fails_in="between")
        job = self.job(adapter)
        for _ in range(8):
            adapter.step_ended()
        begin_ns, end_ns, *_ = self.window()
        self.assertEqual(begin_ns, end_ns)
        job.end()

    def test_window_that_takes_too_long(self):
        """It ends with a step, or behind one; elsewhere nobody may end it."""
        for step, others, state, recorded in (
            (4, False, "not recorded: step 4 took more than 600 s", None),
            (5, False, "ended in step 5: the window took more than 600 s", [4, 5]),
            (5, True, "recorded steps 4:6", [4, 6]),
        ):
            self.setUp()
            adapter = Adapter()
            job = self.job(adapter)
            for seen in range(8):
                if seen == step:
                    job.bound.end = job.bound.next_look = 0
                    if others:
                        thread = threading.Thread(target=job.look)
                        thread.start()
                        thread.join()
                    else:
                        job.look()
                adapter.step_ended()
            told = self.process()
            self.assertEqual((told["state"], told["recorded"]), (state, recorded))
            job.end()

    # Its argument is a folder in which all is full but for what has been written.
    FULL = """
import os, sys
sys.path[:0] = sys.argv[2:]
from recorder_test import Adapter, _recorder
job = _recorder.Job(sys.argv[1], (4, 6))
adapter = Adapter()
adapter.job = job
job.add(adapter)
job._prepare = lambda: None
for step in range(8):
    if step == 1:
        with open(sys.argv[1] + "/fill", "wb", 0) as full:
            try:
                while full.write(bytes(4096)):
                    pass
            except OSError:
                pass
    adapter.step_ended()
print(adapter.calls[-1], job.window_fault)
"""

    def test_full_memory(self):
        """A map of a file in memory has its signal when there is none left."""
        mount = 'mount -t tmpfs -o size=64k none "$0" && mkdir "$0/processes" && exec "$@"'
        inside = ["unshare", "-rm", "sh", "-c", mount, str(self.run_folder)]
        if subprocess.run([*inside, "true"], capture_output=True).returncode:
            self.skipTest("no file systems of our own here")
        paths = [str(HERE), str(HERE.parents[1] / "python")]
        script = [sys.executable, "-c", self.FULL, str(self.run_folder), *paths]
        ended = subprocess.run([*inside, *script], capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        why = "no file of the window: No space left on device"
        self.assertEqual(ended.stdout, "(6, 'stop', 'rank1') %s\n" % why)

    # A process that says something of itself, as does one of its own with NCCL's plugin,
    # where there is one; it prints its pid and what it is called.
    CONTAINED = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[2])
from taut import _process
_process.ProcessFile(sys.argv[1], 0).write()
host, plugin = os.environ.get("TAUT_NCCL_HOST"), os.environ.get("TAUT_NCCL_LIB")
if host and plugin:
    own = {"TAUT_RECORD": sys.argv[1], "TAUT_NCCL_ALWAYS": "1"}
    subprocess.run([host, plugin, "2", "3", "finalize"], env=own, check=True)
print(os.getpid(), _process.process_name(os.getpid()), flush=True)
sys.stdin.read()
"""

    def test_containers_that_agree_in_all(self):
        """In their names and in the pids of their processes: each has files of its own."""
        inside = ["unshare", "-rpf", "--mount-proc"]
        if subprocess.run([*inside, "true"], capture_output=True).returncode:
            self.skipTest("no namespaces of our own here")
        paths = [str(self.run_folder), str(HERE.parents[1] / "python")]
        script = [*inside, sys.executable, "-c", self.CONTAINED, *paths]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        jobs = [subprocess.Popen(script, **pipes) for _ in "12"]
        told = [job.stdout.readline().split() for job in jobs]
        for job in jobs:
            job.communicate()
        self.assertEqual([pid for pid, _ in told], ["1", "1"])
        names = {path.name for path in (self.run_folder / "processes").iterdir()}
        said = {name for name in names if name.endswith(".json")}
        self.assertEqual(said, {name + ".json" for _, name in told})
        self.assertEqual(len(said), 2)
        hosts = {name.rpartition("-")[0] for _, name in told}
        logs = {name.rpartition("-")[0] for name in names - said}
        self.assertEqual(logs, {"nccl-" + host for host in hosts} if logs else set())

    def test_adapter_that_fails(self):
        """Wherever it does, the job does not notice and the file says it."""
        for name in ("start", "prepare", "between", "stop"):
            self.setUp()
            adapter = Adapter(fails_in=name)
            job = self.job(adapter)
            for _ in range(8):
                adapter.step_ended()
            job.end()
            told = self.process()
            self.assertEqual(told["state"], "not recorded: RuntimeError: no more", name)
            self.assertEqual((told["steps_seen"], told["recorded"]), (8, None))

    def test_issue(self):
        """Of unrecorded steps, from where it began to the end, and to where the optimizer
        began; one that began before that is another step's."""
        clock = [0.0]
        perf_counter, _process.time.perf_counter = time.perf_counter, lambda: clock[0]
        self.addCleanup(setattr, _process.time, "perf_counter", perf_counter)
        adapter = Adapter()
        job = self.job(adapter)
        # Steps 2, 4 and 5 run while something records.
        for took in (None, 0.5, 0.001, -1, 0.002, 0.003, 0.25, None):
            clock[0] += 1
            adapter.began = clock[0] - took if took else None
            if took == -1:
                adapter.began = clock[0] - 1.5
            adapter.updated = clock[0] - 0.3125
            adapter.step_ended()
        job.end()
        self.assertEqual(
            self.process()["step_ms"],
            {
                "recorded": 1000,
                "unrecorded": 1000,
                "unrecorded_issue": 375,
                "unrecorded_passes": 187.5,
            },
        )

    def faults(self, own, recorded, behind, fault_ms=0.001):
        """What is told of steps of 1000 ms of which so many page faults were counted: before
        the window, while something recorded, and from then on."""
        clock, counted = [0.0], [0]
        perf_counter, _process.time.perf_counter = time.perf_counter, lambda: clock[0]
        self.addCleanup(setattr, _process.time, "perf_counter", perf_counter)
        saved, _process._heap = _process._heap, types.SimpleNamespace(
            faults=lambda: counted[0], fault_seconds=lambda: fault_ms / 1e3
        )
        self.addCleanup(setattr, _process, "_heap", saved)
        adapter = Adapter()
        job = self.job(adapter)
        # Step 2 is thrown away, 4 and 5 are recorded.
        for faults in (9999, own, 7777, behind, recorded, recorded, behind, behind):
            clock[0] += 1
            counted[0] += faults
            adapter.began = clock[0] - 0.5
            adapter.step_ended()
        job.end()
        told = self.process()
        return told["step_faults"], told["step_ms"]["unrecorded"]

    def test_faults(self):
        """A profiler leaves another heap: the steps behind it are taken for what they
        would have been."""
        told, ms = self.faults(own=20000, recorded=300, behind=0)
        self.assertEqual(told, {"recorded": 300, "unrecorded": 20000, "fault_ms": 0.001})
        self.assertEqual(ms, 1020)  # one of four steps is before

    def test_faults_of_the_recorder(self):
        told, ms = self.faults(own=10, recorded=5000, behind=20)
        self.assertEqual(told, {"recorded": 5000, "unrecorded": 10, "fault_ms": 0.001})
        self.assertEqual(ms, 1000)

    def test_few_faults(self):
        told, ms = self.faults(own=10, recorded=100, behind=90)
        self.assertEqual(told, {"recorded": 100, "unrecorded": 10, "fault_ms": None})
        self.assertEqual(ms, 1000)

    def test_faults_that_cannot_be_timed(self):
        told, ms = self.faults(own=20000, recorded=300, behind=0, fault_ms=0)
        self.assertEqual((told["unrecorded"], told["fault_ms"], ms), (20000, 0, 1000))

    def test_fault_is_timed(self):
        seconds = _process._heap.fault_seconds()
        self.assertTrue(1e-8 < seconds < 1e-2, seconds)  # huge pages take longer

    def test_memory_of_a_container(self):
        """What its limit leaves, or that of a group around it, not what the host has."""
        heap, mib = _process._heap, 1 << 20

        def put(path, text):
            path = self.run_folder / path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

        def group(folder, limit, used, names=("memory.max", "memory.current")):
            for name, number in zip(names, (limit, used)):
                put("sys/fs/cgroup%s/%s" % (folder, name), "%s\n" % number)
            stat = "anon 1\ninactive_file %d\ntotal_inactive_file 7\n" % (2 * mib)
            put("sys/fs/cgroup%s/memory.stat" % folder, stat)

        root = str(self.run_folder) + "/"
        self.assertEqual(heap.available_bytes(root), 0)
        put("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8192000 kB\n")
        self.assertEqual(heap.available_bytes(root), 8192000 << 10)
        put("proc/self/cgroup", "0::/job/step\n")
        group("/job/step", "max", 5 * mib)
        self.assertEqual(heap.available_bytes(root), 8192000 << 10)
        group("/job", 100 * mib, 40 * mib)
        self.assertEqual(heap.available_bytes(root), 62 * mib)
        group("", 30 * mib, 40 * mib)  # the container's own
        self.assertEqual(heap.available_bytes(root), 0)
        put("proc/self/cgroup", "4:memory:/\n3:cpu:/x\n")
        names = "memory.limit_in_bytes", "memory.usage_in_bytes"
        group("/memory", 50 * mib, 20 * mib, names)
        self.assertEqual(heap.available_bytes(root), 32 * mib)

    def test_no_issue(self):
        adapter = Adapter()
        job = self.job(adapter)
        for _ in range(8):
            adapter.step_ended()
        job.end()
        self.assertIsNone(self.process()["step_ms"]["unrecorded_issue"])

    def test_ranks_of_launchers(self):
        """By hand, as for Taut's sums, before what a launcher around it says."""
        torchrun = {"RANK": "5", "WORLD_SIZE": "9", "LOCAL_RANK": "1"}
        by_hand = {"TAUT_RANK": "1", "TAUT_RANKS": "2"}
        self.assertEqual(_adapter.launcher_ranks(torchrun), (5, 9, 1))
        self.assertEqual(_adapter.launcher_ranks({**torchrun, **by_hand}), (1, 2, None))
        self.assertEqual(_adapter.launcher_ranks({"TAUT_RANK": "1", **torchrun}), (5, 9, 1))
        self.assertIsNone(_adapter.launcher_ranks({"PMI_RANK": "one", "PMI_SIZE": "2"}))
        slurm = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "2"}
        self.assertIsNone(_adapter.launcher_ranks(slurm))  # a job's script
        slurm["SLURM_STEP_ID"] = "0"
        self.assertEqual(_adapter.launcher_ranks(slurm), (2, 4, 2))
        self.assertEqual(_adapter.launcher_ranks({**torchrun, **slurm}), (5, 9, 1))

    def test_rank_that_two_claim(self):
        """At once: what the first one leaves stays."""
        first, second = (self.run_folder / name for name in ("first", "second"))
        path = self.run_folder / "trace"
        first.write_text("first")
        second.write_text("second")
        _process.place(first, path)
        with self.assertRaisesRegex(FileExistsError, "another process was recorded as "):
            _process.place(second, path)
        self.assertEqual((path.read_text(), first.exists()), ("first", False))
        link = os.link
        self.addCleanup(setattr, os, "link", link)
        os.link = lambda own, path: os.stat("/nowhere")  # a file system without links
        with self.assertRaises(FileExistsError):
            _process.place(second, path)
        _process.place(second, self.run_folder / "other")
        self.assertEqual((self.run_folder / "other").read_text(), "second")

    def test_rank_that_is_learned_late(self):
        adapter = Adapter(ranks=None)
        (self.run_folder / "rank0").mkdir()  # another process is rank 0
        job = self.job(adapter)
        for step in range(8):
            if step == 5:
                adapter.told_ranks = (3, 4, None)
            adapter.step_ended()
        job.end()
        self.assertEqual(adapter.calls[-1], (6, "stop", "rank3"))
        (path,) = self.run_folder.rglob("fake-*.tautlog")
        self.assertEqual(path.parent.name, "rank3")
        self.assertEqual((EventLog(path).rank, EventLog(path).world), (3, 4))

    def test_second_framework(self):
        first, second = Adapter(), Adapter()
        job = self.job(first)
        second.job = job
        job.add(second)
        for _ in range(8):
            second.step_ended()
            first.step_ended()
        job.end()
        self.assertEqual((first.calls, job.steps_seen), ([], 8))

    def test_import_that_is_waited_for(self):
        """Looked for first, failing once, then there: told once."""
        (self.run_folder / "late_module.py").write_text("import late_helper\n")
        sys.path.insert(0, str(self.run_folder))
        self.addCleanup(sys.path.remove, str(self.run_folder))
        self.addCleanup(sys.modules.pop, "late_helper", None)
        self.addCleanup(sys.modules.pop, "late_module", None)
        told = []
        _imports.when_imported("late_module", told.append)
        importlib.util.find_spec("late_module")
        with self.assertRaises(ImportError):
            importlib.import_module("late_module")
        self.assertEqual(told, [])
        sys.modules["late_helper"] = sys
        module = importlib.import_module("late_module")
        importlib.reload(module)
        self.assertEqual(told, [module])

    def test_clocks(self):
        """Another host asks; the same one does not."""
        server = _clocks.Clocks(str(self.run_folder), Adapter())
        server.serve()
        self.addCleanup(server.stop)
        adapter = Adapter()
        job = self.job(adapter)
        identity = _clocks._identity
        _clocks._identity = lambda: "another host"
        try:
            for _ in range(8):
                adapter.step_ended()
            job.end()
        finally:
            _clocks._identity = identity
        (path,) = self.run_folder.rglob("fake-*.tautlog")
        data = path.read_bytes()
        kinds = [data[at] for at in range(4096, len(data), 128)]
        self.assertEqual(kinds.count(6), 2)  # before and after

        asked = []
        log = type("Log", (), {"clock": lambda self, offset: asked.append(offset)})()
        _clocks.Clocks(str(self.run_folder), adapter).ask(log)
        self.assertEqual(asked, [])


if __name__ == "__main__":
    if not os.environ.get("TAUT_RECORD_LIB"):
        print("no TAUT_RECORD_LIB: not built, or with a sanitizer")
        sys.exit(77)
    unittest.main(verbosity=2)
