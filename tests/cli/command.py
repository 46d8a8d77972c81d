# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command share: running it, and small runs made here.

A test file is a unittest module; call command.main() at its end. The path of
the command comes in TAUT."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "ddp-gloo-2host"
VERBS = ["report", "replay", "stragglers", "convert"]  # that take a RUN
ALL_VERBS = ["record", "run", *VERBS, "whatif", "plan", "tune", "diff", "stalls", "bench", "server"]


def taut(*args, **options):
    """Runs the command; .stdout and .stderr are text."""
    return subprocess.run(
        [os.environ["TAUT"], *map(str, args)],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=600,
        **options,
    )


def event(name, cat, tid, ts, dur, **args):
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1000,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def trace(rank, world=2, late_us=0, steps=2):
    """A rank of a small GPU job: each step launches a kernel of 300 us and
    an all-reduce, late_us later than the other ranks do."""
    events = []
    for step in range(steps):
        at = 10_000 * step
        events += [
            event(f"ProfilerStep#{step}", "user_annotation", 1, at, 9_900),
            event("aten::mm", "cpu_op", 1, at + 100 + late_us, 200),
            event(
                "cudaLaunchKernel",
                "cuda_runtime",
                1,
                at + 150 + late_us,
                20,
                correlation=10 * step + 1,
            ),
            event(
                "cudaLaunchKernel",
                "cuda_runtime",
                1,
                at + 400 + late_us,
                20,
                correlation=10 * step + 2,
            ),
            event(
                "cudaDeviceSynchronize",
                "cuda_runtime",
                1,
                at + 500 + late_us,
                9_000 - 500 - late_us,
                correlation=10 * step + 3,
            ),
            event(
                "gemm",
                "kernel",
                7,
                at + 200 + late_us,
                300,
                stream=7,
                device=rank,
                correlation=10 * step + 1,
            ),
            event(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                "kernel",
                20,
                at + 600 + late_us,
                9_000 - 600 - late_us,
                stream=20,
                device=rank,
                correlation=10 * step + 2,
            ),
        ]
    for row in events:
        if row["cat"] == "kernel":
            row["pid"] = rank
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        "traceEvents": events,
    }


class Case(unittest.TestCase):
    """Each test has an empty folder of its own, self.folder."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="taut-cli-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def make_run(self, ranks=2, **options):
        run = self.folder / "run"
        run.mkdir()
        for rank in range(ranks):
            late_us = 2_000 if rank == 1 else 0
            text = json.dumps(trace(rank, ranks, late_us, **options))
            (run / f"rank{rank}.json").write_text(text)
        return run

    def done(self, *args, **options):
        """Runs the command, which must succeed in silence; its output."""
        result = taut(*args, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def refused(self, status, *args, says, **options):
        """Runs the command, which must fail with one clear line."""
        result = taut(*args, **options)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        lines = result.stderr.splitlines()
        if status == 1:
            self.assertEqual(len(lines), 1, result.stderr)
        for line in lines:
            self.assertTrue(line.startswith("taut: "), line)
        self.assertRegex(lines[0], says)
        return lines

    def as_somebody(self):
        """Options for a run without root's rights: root may do everything."""
        self.folder.chmod(0o755)
        if os.geteuid() != 0:
            return {}
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        try:
            if taut("report", EXAMPLE, **nobody).returncode == 0:
                return nobody
        except OSError:
            pass
        return self.skipTest("only root can run the command here")

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())


def main():
    if "TAUT" not in os.environ:
        sys.exit("TAUT must be the path of the command")
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    ran = result.testsRun - len(result.skipped)
    sys.exit(0 if ran else 77)
