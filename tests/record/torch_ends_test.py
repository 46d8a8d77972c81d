# SPDX-License-Identifier: Apache-2.0
"""Jobs that end badly, too early or profile themselves: as they would without
a recording, and what they leave says what happened."""

import os
import re
import unittest

from torch_case import (
    JOB,
    PYTHON,
    Case,
    clean_environment,
    fork,
    main,
    record,
    recording_environment,
    run,
    torchrun,
)


def plain(text):
    """Without the time and process in front of what Kineto prints."""
    return re.sub(r"(?m)^(\w+):[-\d]+ [:\d]+ [:\d]+ ", r"\1 ", text)


class EndsTest(Case):
    def bare(self, *words):
        return fork(words, clean_environment())

    def same(self, *words, **options):
        """Runs both ways; what a user sees must be equal. The recorded one."""
        bare, recorded = self.bare(*words), self.job(*words, **options)
        self.assertEqual(recorded.returncode, bare.returncode, recorded.stderr)
        self.assertEqual(recorded.stdout, bare.stdout)
        self.assertEqual(plain(recorded.stderr), plain(bare.stderr))
        return self.ended(recorded)

    def ended(self, recorded):
        self.assertEqual(self.left_over(), [])
        return recorded

    def recorded(self, *words):
        return self.ended(self.job(*words))

    def test_raises_in_the_window(self):
        ended = self.same("--crash-at", "10")
        self.assertEqual(ended.returncode, 1)
        told = self.process()
        self.assertEqual(told["recorded"], [8, 10])
        self.assertEqual(
            told["state"],
            "the job failed in step 10, before all of steps 8:12 were recorded",
        )
        self.assertIsNotNone(told["ended_ns"])
        self.assertEqual(self.steps_of()[:2], [8, 9])
        self.assertEqual(self.logs(0, "torch")[0].state, told["state"])

    def test_exits_in_the_window(self):
        self.assertEqual(self.recorded("--exit-at", "9").returncode, 3)
        self.assertEqual(self.process()["recorded"], [8, 9])
        self.assertIn("the job ended in step 9", self.process()["state"])

    def test_raises_before_the_window(self):
        """In the window that is thrown away."""
        self.recorded("--crash-at", "6")
        self.assertIsNone(self.process()["recorded"])
        self.assertEqual(
            self.process()["state"],
            "not recorded: the job failed after 6 steps; steps 8:12 were asked for",
        )
        self.assertEqual(list(self.run_folder.glob("rank*/*.gz")), [])

    def test_too_short(self):
        self.recorded("--steps", "5")
        told = self.process()
        self.assertEqual((told["steps_seen"], told["recorded"]), (5, None))
        self.assertIn("the job ended after 5 steps", told["state"])

    def test_killed_in_the_window(self):
        """One rank; torchrun then ends the other."""
        job = torchrun(2, "--kind", "ddp", "--kill-at", "10")
        ended = record(job, self.run_folder)
        self.assertEqual(ended.returncode, 1)
        ranks = {p["rank"]: p for p in self.processes()}
        self.assertEqual(sorted(ranks), [0, 1])
        self.assertFalse(self.told()["complete"])
        lines = [p for p in self.told()["problems"] if p.startswith("rank 1: ")]
        self.assertEqual(len(lines), 1)
        self.assertIn("was killed or crashed in step 8 or later", lines[0])
        self.assertEqual(ranks[1]["state"], "records steps 8:12")
        self.assertIsNone(ranks[1]["ended_ns"])
        self.assertIsNone(ranks[1]["recorded"])
        # Its log is there, not closed.
        (log,) = self.logs(1, "torch")
        self.assertEqual((log.rank, log.closed_ns), (1, 0))
        self.assertEqual(log.state, "records steps 8:12")

    def test_own_profiler(self):
        """It is on when the window comes, or is turned on within it."""
        self.assertIn("profiled True", self.recorded("--profile", "all").stdout)
        why = "not recorded: the job uses torch.profiler itself"
        self.assertEqual(self.process()["state"], why)

    def test_own_profiler_in_the_window(self):
        ended = self.same("--profile", "10:13")
        self.assertIn("profiled True", ended.stdout)
        why = "not recorded: the job uses torch.profiler itself"
        self.assertEqual(self.process()["state"], why)
        self.assertEqual(list(self.run_folder.glob("rank*/*.gz")), [])

    def test_own_profiler_before_the_window(self):
        ended = self.recorded("--profile", "1:3")
        self.assertIn("profiled True", ended.stdout)
        self.assertEqual(self.process()["recorded"], [8, 12])

    def test_no_place(self):
        """The folder is a file: nothing can be written anywhere."""
        self.run_folder = self.folder / "file"
        self.run_folder.write_text("")
        recorded = self.job()
        self.assertEqual((recorded.returncode, recorded.stderr), (0, ""))

    def test_full_disk(self):
        """Of the files that can be written, none may be larger than 64 KiB."""
        limited = ["sh", "-c", 'ulimit -f 64; exec "$0" "$@"', PYTHON, str(JOB)]
        recorded = run(limited, recording_environment(self.run_folder))
        self.assertEqual((recorded.returncode, recorded.stderr), (0, ""))
        self.assertIn("not recorded", self.process()["state"])
        self.assertEqual(self.left_over(), [])

    def test_rank_is_taken(self):
        """Two jobs under one recording: the first one's files stay."""
        self.job()
        first = os.stat(self.run_folder / "rank0" / "torch.pt.trace.json.gz")
        self.job("--steps", "16")
        second = os.stat(self.run_folder / "rank0" / "torch.pt.trace.json.gz")
        self.assertEqual(first.st_mtime_ns, second.st_mtime_ns)
        self.assertEqual(len(self.processes()), 2)


if __name__ == "__main__":
    main()
