# SPDX-License-Identifier: Apache-2.0
"""What a batch consisted of: time on a core, in its queue, waiting, and what was
read, of workers and of a main thread that does without."""

import itertools
import json
import os
import statistics
import textwrap

from torch_case import PYTHON, ROOT, Case, main, record, recording_environment, run, taut
from undisturbed import undisturbed

KIND_LOAD, KIND_LOAD_WAIT = 14, 15
MS = 1_000_000

# Samples that wait for WAIT ms and compute for WORK ms of their thread's time.
# The job prints what each batch's samples have spent of it by their own clock.
JOB = """
import os, sys, threading, time
import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
WAIT, WORK, WORKERS = {wait}, {work}, {workers}

def others():
    return time.process_time_ns() - time.thread_time_ns()

def work(ms):
    end = time.thread_time_ns() + ms * 1e6
    while time.thread_time_ns() < end:
        pass

class Samples(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, i):
        begin = {clock}()
        time.sleep(WAIT / 1000)
        work(WORK)
{body}
        spent = {clock}() - begin
        return torch.tensor([spent, 1, 1, 1], dtype=torch.float64)

loader = iter(DataLoader(Samples(), {batch}, num_workers=WORKERS))
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
spent = []
for step in range(14):
    batch = next(loader)
    spent.append(batch[:, 0].sum().item())
    model(batch[:, 1:].float()).sum().backward()
    optimizer.step()
print(*spent)
"""

# The same of Taut's loader: storage takes 10 ms for a sample, one after the other. The job
# prints how long it waited for each batch.
OURS = """
import pathlib, sys, time
import numpy, torch

torch.set_num_threads(1)
sys.path.insert(0, sys.argv[2])
folder = pathlib.Path(sys.argv[1]) / "items" / "class"
folder.mkdir(parents=True, exist_ok=True)
for i in range(64):
    numpy.save(folder / ("%02d.npy" % i), numpy.ones(3, "float32"))

from taut.load import Loader, Set, Tensor

loader = iter(Loader(
    Set(str(folder.parent), "npy"), 4, transform=Tensor(), num_workers=1, num_reads=1,
    store="slow", slow_ns=10_000_000,
))
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
waited = []
for step in range(14):
    begin = time.perf_counter_ns()
    batch, _ = next(loader)
    waited.append(time.perf_counter_ns() - begin)
    model(batch).sum().backward()
    optimizer.step()
print(*waited)
"""


class LoaderTest(Case):
    def record_job(
        self, wait, work, workers, body="pass", batch=4, clock="time.thread_time_ns"
    ):
        """What that clock of the job's own says that a batch took, in ms."""
        path = self.folder / "script.py"
        body = textwrap.indent(textwrap.dedent(body), " " * 8)
        path.write_text(
            JOB.format(wait=wait, work=work, workers=workers, body=body, batch=batch, clock=clock)
        )
        ended = record([PYTHON, str(path)], self.run_folder, "6:12")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        spent = [float(word) for word in ended.stdout.splitlines()[0].split()][6:12]
        return sum(spent) / len(spent) / MS

    def batches(self, workers):
        """Those of the recorded steps: a worker's first ones are dearer."""
        source, kind = ("loader", KIND_LOAD) if workers else ("torch", KIND_LOAD_WAIT)
        found = [s for log in self.logs(0, source) for s in log.spans if s.kind == kind]
        return [s for s in found if not workers or 6 < s.correlation <= 12]

    def sums(self, workers):
        """(on a core, in its queue) of all batches, in ms a batch."""
        batches = self.batches(workers)
        self.assertGreaterEqual(len(batches), 6)
        core, queue = (sum(s.load[i] for s in batches) for i in (0, 1))
        return core / len(batches) / MS, queue / len(batches) / MS

    def wait(self, workers):
        """What is left of a batch, in ms: the median."""
        left = [(s.end - s.start - s.load[0] - s.load[1]) / MS for s in self.batches(workers)]
        return statistics.median(left)

    def undisturbed(self, check):
        """Time that a virtual machine's host keeps for itself is in no account, and
        others may come between two clocks."""
        tries = itertools.count()

        def once():
            self.run_folder = self.folder / f"run{next(tries)}"
            self.run_folder.mkdir()
            return check()

        return undisturbed(once)

    def gain(self, change, *before):
        """Against the same storage, so that no scatter of the steps is in it."""
        commands = [*before, "storage=1x"], [*before, change]
        same, other = (taut("whatif", "--json", self.run_folder, *c) for c in commands)
        return json.loads(same)["after_ms"] - json.loads(other)["after_ms"]

    # --- the split --------------------------------------------------------

    def test_waiting_and_computing(self):
        """Of 4 samples that sleep for 25 ms and compute for as many."""
        for workers in (0, 2):
            with self.subTest(workers=workers):
                self.folder = self.folder / str(workers)
                self.folder.mkdir()
                self.undisturbed(lambda: self.check_both(workers))

    def check_both(self, workers):
        spent = self.record_job(25, 25, workers)
        core, queue = self.sums(workers)
        self.assertAlmostEqual(self.wait(workers), 100, delta=2)
        self.assertAlmostEqual(core, spent, delta=0.03 * spent)
        self.assertGreaterEqual(queue, 0)
        for s in self.batches(workers):
            self.assertEqual(s.load.samples, 4)
            self.assertLessEqual(s.load.others_ns, 0.05 * (s.end - s.start))

    def test_only_computing(self):
        self.undisturbed(self.check_computing)

    def check_computing(self):
        spent = self.record_job(0, 25, 1)
        self.assertAlmostEqual(self.sums(1)[0], spent, delta=0.03 * spent)
        self.assertLess(self.wait(1), 0.02 * spent)
        for s in self.batches(1):
            self.assertLess(s.load.others_ns, 0.05 * (s.end - s.start))

    def test_other_threads(self):
        """What another thread computes while the worker waits for it."""
        self.undisturbed(self.check_others)

    def check_others(self):
        body = "t = threading.Thread(target=work, args=(10,)); t.start(); t.join()"
        spent = self.record_job(0, 0, 1, body, clock="others")
        self.assertGreater(spent, 40)  # and what it takes to begin and end threads
        others = sum(s.load.others_ns for s in self.batches(1)) / len(self.batches(1)) / MS
        self.assertAlmostEqual(others, spent, delta=0.03 * spent)
        self.assertLess(self.sums(1)[0], 4)
        self.assertGreater(self.wait(1), 39)

    def test_ours(self):
        self.undisturbed(self.check_ours)

    def check_ours(self):
        path = self.folder / "script.py"
        path.write_text(OURS)
        command = [PYTHON, str(path), str(self.folder), str(ROOT / "python")]
        ended = record(command, self.run_folder, "6:12")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        waited = [float(word) / MS for word in ended.stdout.splitlines()[0].split()]
        found = [(s.end - s.start) / MS for s in self.batches(0)]
        self.assertGreaterEqual(len(found), 6)
        apart = min(
            max(abs(a - b) for a, b in zip(waited[first:], found))
            for first in range(14 - len(found) + 1)
        )
        self.assertLess(apart, 1)
        self.assertGreater(statistics.median(found), 35)

    # --- what is read -----------------------------------------------------

    def test_bytes(self):
        """A file of 300,000 bytes a sample. What feeding batches to the main
        thread reads is some hundred bytes."""
        (self.folder / "sample").write_bytes(os.urandom(300_000))
        body = "open(%r, 'rb').read()" % str(self.folder / "sample")
        for workers in (0, 1):
            with self.subTest(workers=workers):
                self.run_folder.mkdir(exist_ok=True)
                self.record_job(1, 0, workers, body)
                for s in self.batches(workers):
                    self.assertGreaterEqual(s.load.read_bytes, 1_200_000)
                    self.assertLess(s.load.read_bytes, 1_204_000)
                    # It was written just now: no storage is asked.
                    self.assertIn(s.load.storage_bytes, (-1, 0))

    def test_storage_bytes(self):
        """A file that is put out of memory before each sample reads it."""
        with open(self.folder / "sample", "wb") as file:
            file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        body = (
            "with open(%r, 'rb') as file:\n"
            "    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)\n"
            "    file.read()\n"
        ) % str(self.folder / "sample")
        self.record_job(1, 0, 1, body)
        found = [s.load.storage_bytes for s in self.batches(1)]
        if not any(found):
            self.skipTest("the folder is in memory, or its reads are not counted")
        for n in found:
            self.assertAlmostEqual(n, 4 << 20, delta=1 << 16)

    def test_dataset(self):
        self.record_job(1, 0, 1)
        (log,) = self.logs(0, "torch")
        facts = dict(log.facts)
        self.assertEqual(facts["loader.dataset_samples"], "400")
        self.assertEqual(facts["loader.epoch_samples"], "400")

    def test_timeline(self):
        """Its slices say what the log does; batches that were made before the
        window are in the log alone."""
        self.record_job(20, 0, 1)
        (log,) = self.logs(0, "loader")
        made = {s.correlation: s.load for s in log.spans}
        self.assertGreaterEqual(len(made), 6)
        told = json.loads(taut("convert", "--to", "perfetto", self.run_folder))
        slices = [e for e in told["traceEvents"] if e.get("cat") == "batch"]
        self.assertGreaterEqual(len(slices), 3)
        for e in slices:
            load = made[e["args"]["correlation"]]
            self.assertEqual(e["args"]["cpu_ns"], load.cpu_ns)
            self.assertEqual(e["args"]["samples"], load.samples)

    # --- what it is for ---------------------------------------------------

    def test_storage(self):
        """Batches that wait for 100 ms, with next to nothing to train: half the
        wait is 50 ms less, whoever prepares."""
        for workers in (0, 1):
            with self.subTest(workers=workers):
                self.folder = self.folder / str(workers)
                self.folder.mkdir()
                self.undisturbed(lambda: self.check_storage(workers))

    def check_storage(self, workers):
        self.record_job(25, 2, workers)
        wait = self.wait(workers)  # where sleeps end late, more than 100
        self.assertGreaterEqual(wait, 99)
        self.assertAlmostEqual(self.gain("storage=2x"), wait / 2, delta=2)
        self.assertAlmostEqual(self.gain("storage=0.5x"), -wait, delta=4)
        self.assertAlmostEqual(self.gain("cache=50%,policy=pinned"), wait / 2, delta=2)
        found = self.gain("cache=90MB,dataset=100MB,policy=pinned")
        self.assertAlmostEqual(found, 0.9 * wait, delta=3.6)
        self.assertAlmostEqual(self.gain("storage=2x", "workers=0"), wait / 2, delta=2)

    def test_without_the_files(self):
        """Where the kernel tells less, less is told, and the job runs."""
        path = self.folder / "script.py"
        path.write_text(
            "import torch\nimport _taut._spent as spent\n"
            "spent._FILES = '/nowhere/schedstat', '/nowhere/io'\n"
            + JOB.format(wait=4, work=1, workers=1, body="        pass", batch=4, clock="others")
        )
        self.run_folder.joinpath("processes").mkdir(parents=True, exist_ok=True)
        ended = run([PYTHON, str(path)], recording_environment(self.run_folder, "6:12"))
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        for s in self.batches(1):
            self.assertEqual(s.load[1], -1)
            self.assertEqual(s.load[3:5], (-1, -1))
            self.assertGreaterEqual(s.load.cpu_ns, 4 * MS)


if __name__ == "__main__":
    main()
