#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Phases inside of PyTorch's DataLoader: jobs whose items and steps take a known time, read
files of a known size, and know nothing of what they are run by."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from stalls_case import JOBS, LOADED, MS, Case, find_missing
import frameworks
from undisturbed import undisturbed

PYTHON = frameworks.find_python("torch")
JOB = str(JOBS / "torch_job.py")


class TorchTest(Case):
    def run_torch(self, *words, launcher=(), **options):
        words = [PYTHON, *launcher, JOB, str(self.data), *words]
        self.run_job(list(map(str, words)), **options)

    def check_told(self, found, **expected):
        self.assertEqual({key: found.told[key] for key in expected}, expected)

    def test_workers(self):
        """Two workers that stay; a subclass of DataLoader; validation comes first; the
        job changes containers and tensors that it is given. Two make 4 samples of 10 ms
        in 20 ms; steps are counted in pairs, as they come."""
        undisturbed(self.check_workers)

    def check_workers(self):
        self.run_torch(
            *("--workers", 2, "--persistent", "--validate-first"),
            *("--item", 9, "--spin", 1, "--step", 12),
            steps=7,
        )
        rank = self.rank()
        self.assertEqual(self.out, "validated 120\n")
        self.check_told(rank, rank="0 of 1", loader="torch", unit="batch", workers="2")
        self.check_told(rank, depth="4", batch="4", items=str(self.n_files), device="0")
        self.check_order(rank, 3)
        self.check_sums(rank, 4)
        self.check_reads(rank)
        self.check_listed()
        for phase in rank.phases:
            self.assertEqual(phase.steps, 8 if phase.name in LOADED else 7)
        for phase in rank.named("cached"):
            workers_ns = phase.cpu_ns - phase.own_cpu_ns
            self.assertGreater(workers_ns, 0.5 * phase.samples * 1 * MS)
            self.assertLess(phase.own_cpu_ns, workers_ns)
        starts = [tuple(words[:2]) for words in rank.starts]
        self.assertEqual(starts, [(str(n), name) for n in range(3) for name in LOADED])
        self.check_step(rank, "place", 12)
        self.check_step(rank, "half", 6)
        self.check_step(rank, "cached", 4 * 10 / 2)

    def check_listed(self):
        """What was opened while batches came are items, and nothing else is."""
        lines = (self.measured / "files").read_text().splitlines()
        loaded = {line.partition(" ")[2] for line in lines if line.startswith("+")}
        data = {str(path) for path in self.data.iterdir()}
        self.assertLessEqual(loaded, data)
        self.assertGreater(len(loaded), 0.4 * len(data))

    def test_epochs(self):
        """An epoch is what the sampler gives, not what the set has."""
        for words, batch, epoch in (
            ((), 4, self.n_files),
            (("--subset", 30), 4, 30),
            (("--batched", "--batch", 3), 3, self.n_files),
        ):
            with self.subTest(words):
                self.run_torch(*words, "--step", 1, rounds=1, steps=4)
                self.check_told(self.rank(), batch=str(batch), epoch=str(epoch))

    def test_page_faults(self):
        """Of steps and of items, each asked for by itself."""
        self.run_torch("--workers", 2, "--pages", 50, "--step-pages", 300, "--step", 2)
        rank = self.rank()
        self.assertGreater(int(rank.told["fault_ns"]), 50)
        for phase in rank.named("place"):
            own, workers = phase.faults
            self.assertGreaterEqual(own, 300 * phase.steps)
            self.assertLess(own, 300 * phase.steps + 200)
            self.assertEqual(workers, 0)
        for phase in rank.named("cached"):
            workers = phase.faults[1]
            self.assertGreater(workers, 0.5 * 50 * phase.samples)
            self.assertLess(workers, 2 * 50 * phase.samples)

    def test_no_workers(self):
        """A stream that is shorter than a phase, read by the job itself, which leaves its
        loop and validates for 200 ms: that is no part of its steps."""
        undisturbed(self.check_no_workers)

    def check_no_workers(self):
        self.run_torch("--stream", "--break-every", 7, "--item", 2, "--step", 5, rounds=2)
        rank = self.rank()
        self.check_told(rank, workers="0", depth="0", items="-1")
        self.assertFalse(rank.phases[0].has_own)
        self.check_order(rank, 2)
        self.check_sums(rank, 4)
        self.check_reads(rank, files=20)
        self.check_step(rank, "place", 5)
        self.check_step(rank, "cached", 5 + 4 * 2)

    def test_ranks(self):
        """Two ranks of DistributedDataParallel: in step, and out together."""
        undisturbed(self.check_ranks)

    def check_ranks(self):
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
        launcher += ["--master-port", str(frameworks.free_port())]
        self.run_torch("--workers", 1, "--step", 30, launcher=launcher, rounds=2, steps=5)
        ranks = self.rank(0), self.rank(1)
        for number, rank in enumerate(ranks):
            self.check_told(rank, rank="%d of 2" % number, epoch=str(self.n_files // 2))
            self.check_order(rank, 2)
            self.check_sums(rank, 4)
            takes = [line[2] for phase in rank.named("cached") for line in phase.lines]
            self.assertGreater(sum(take >= 0 for take in takes), len(takes) // 2)
            self.check_step(rank, "place", 30)
            self.check_step(rank, "cached", 30)
        for a, b in zip(*(rank.phases for rank in ranks)):
            self.assertEqual(a.steps, b.steps)
            self.assertLess(abs(a.wall_ns - b.wall_ns), 0.5 * a.wall_ns)

    def test_own_loader(self):
        """taut.load, whose cache would hide the storage: phases are without it."""
        folder = self.folder / "set"
        for name in ("a", "b"):
            (folder / name).mkdir(parents=True)
        for i, path in enumerate(sorted(self.data.iterdir())):
            path.rename(folder / "ab"[i % 2] / (path.stem + ".png"))
        undisturbed(lambda: self.check_own_loader(folder))

    def check_own_loader(self, folder):
        self.run_job([PYTHON, str(JOBS / "taut_job.py"), str(folder)], rounds=2)
        rank = self.rank()
        self.check_told(rank, loader="taut", unit="item", workers="2", batch="8")
        self.check_told(rank, items=str(self.n_files))
        self.check_order(rank, 2)
        self.check_sums(rank, 8)
        self.check_reads(rank)
        self.check_step(rank, "place", 10)

    def test_swapped(self):
        """The batches of a DataLoader that `taut run --load auto` has put ours in place of."""
        if subprocess.run([PYTHON, "-c", "import PIL"], capture_output=True).returncode:
            self.skipTest("no Pillow")
        job = [PYTHON, str(JOBS / "folder_job.py"), str(self.folder / "pictures")]
        self.run_job([os.environ["TAUT"], "run", "--load", "auto", "--", *job], rounds=2)
        self.assertIn("is Taut's", self.err)
        rank = self.rank()
        self.check_told(rank, loader="taut", unit="item", workers="1", batch="4", items="40")
        self.check_order(rank, 2)

    def test_end_of_the_job(self):
        """A job that fails does so in its own way; what was measured is there."""
        self.run_torch("--step", 2, "--fail-at", 40, steps=4, status=1)
        self.assertIn("RuntimeError: the schedule is over", self.err)
        rank = self.rank()
        self.assertFalse(rank.has_ended)
        self.assertGreaterEqual(len(rank.phases), 3)
        self.check_sums(rank, 4)


if __name__ == "__main__":
    frameworks.main(find_missing(PYTHON, "torch"))
