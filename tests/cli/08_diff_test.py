# SPDX-License-Identifier: Apache-2.0
"""taut diff: two recordings whose difference is known, and what is wrong input."""

import json
import os
import pathlib
import re

import command
from command import EXAMPLE, ROOT

LATE = ROOT / "examples" / "ddp-gloo-late-rank"


def trace(rank, compute_us, transfer_us, host_us, **names):
    """Three steps: host work, kernels, an all-reduce behind them, and the host waits for all.
    compute_us: of one kernel, or of each by its name."""
    kernels = compute_us if isinstance(compute_us, dict) else {"gemm": compute_us}
    host, collective = names.get("host", "aten::host"), names.get("collective", "AllReduce")
    events, correlation = [], 0

    def event(cat, name, pid, tid, start, dur, **args):
        events.append(
            dict(ph="X", cat=cat, name=name, pid=pid, tid=tid, ts=start, dur=dur, args=args)
        )

    at = 0.0
    for step in range(3):
        begin = at
        event("cpu_op", host, 1, 10, at + 5, host_us)
        at += 5 + host_us
        device_end = at + 5
        for name, dur in (
            *kernels.items(),
            (f"ncclDevKernel_{collective}_Sum_f32_RING_LL", transfer_us),
        ):
            correlation += 1
            event("cuda_runtime", "cudaLaunchKernel", 1, 10, at, 2, correlation=correlation)
            where = dict(correlation=correlation, stream=7, device=0)
            event("kernel", name, 0, 7, device_end, dur, **where)
            device_end += dur
            at += 5
        event("cuda_runtime", "cudaDeviceSynchronize", 1, 10, at, device_end + 2 - at)
        at = device_end + 4
        event("user_annotation", f"ProfilerStep#{step}", 1, 10, begin, at - begin)
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": events}


class Diff(command.Case):
    def recording(self, name, *times, **names):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        for rank in range(2):
            with open(os.path.join(folder, f"rank{rank}.json"), "w") as f:
                json.dump(trace(rank, *times, **names), f)
        return folder

    def diff(self, a, b):
        return json.loads(self.done("diff", a, b, "--json"))

    def changes(self, result):
        return {row["id"]: row["change_ms"] for row in result["waterfall"]}

    def test_each_cause_is_found(self):
        """One thing longer by a known time: all of the difference is its, to the nanosecond."""
        a = self.recording("a", 100, 50, 20)
        for cause, times, more_ms in (
            ("compute", (130, 50, 20), 0.030),
            ("transfer", (100, 90, 20), 0.040),
            ("host", (100, 50, 45), 0.025),
        ):
            with self.subTest(cause):
                changes = self.changes(self.diff(a, self.recording(cause, *times)))
                self.assertEqual(changes.pop(cause), more_ms)
                self.assertEqual(set(changes.values()), {0})

    def test_causes_add_up(self):
        result = self.diff(self.recording("a", 100, 50, 20), self.recording("b", 80, 90, 25))
        self.assertEqual(
            self.changes(result),
            {"compute": -0.020, "transfer": 0.040, "host": 0.005, "copy": 0, "rest": 0},
        )
        by_name = {op["name"]: op for op in result["operations"]}
        self.assertEqual(by_name["gemm"]["a_ms"], 0.100)
        self.assertEqual(by_name["gemm"]["b_ms"], 0.080)
        self.assertEqual(by_name["gemm"]["a_count"], 1)
        (coll,) = result["collectives"]
        self.assertEqual((coll["name"], coll["a_transfer_ms"]), ("all-reduce", 0.050))

    def expect(self, a, b, **changes):
        """These rows, and nothing in the others."""
        rows = dict.fromkeys(("compute", "transfer", "host", "copy", "rest"), 0)
        self.assertEqual(self.changes(self.diff(a, b)), {**rows, **changes})

    def test_other_names(self):
        """An upgrade names what it is made of anew: a kind takes what it takes, all the same."""
        a = self.recording("a", 100, 50, 20)
        new = {"host": "aten::new", "collective": "ReduceScatter"}
        alike = self.recording("alike", {"sm90_gemm": 100}, 50, 20, **new)
        self.expect(a, alike)
        self.assertIn("A step takes as long in both.", self.done("diff", a, alike))
        b = self.recording("slower", {"sm90_gemm": 130}, 60, 25, **new)
        self.expect(a, b, compute=0.030, transfer=0.010, host=0.005)
        self.expect(b, a, compute=-0.030, transfer=-0.010, host=-0.005)

    def test_what_only_one_has(self):
        a = self.recording("a", {"gemm": 60, "relu": 40}, 50, 20)
        for name, kernels, more_ms in (
            ("fused", {"gemm_relu": 70}, -0.030),
            ("without", {"gemm": 60}, -0.040),
            ("another", {"gemm": 80, "relu": 40, "gelu": 30}, 0.050),
            ("for it", {"gemm": 60, "gelu": 70}, 0.030),
        ):
            with self.subTest(name):
                changes = self.changes(self.diff(a, self.recording(name, kernels, 50, 20)))
                self.assertEqual(changes.pop("compute"), more_ms)
                # what a launch more or less is of the host
                self.assertLess(max(map(abs, changes.values())), 0.002)

    def test_the_answer(self):
        """It names what makes the difference, and what goes the other way where there is none."""
        a = self.recording("a", 100, 50, 20)

        def answer(*times):
            b = self.recording("-".join(map(str, times)), *times)
            return " ".join(self.done("diff", a, b, "--width", "300").split("\n")[2].split())

        self.assertEqual(
            answer(60, 90, 20),
            "A step takes as long in both: transfers (+0.040 ms) and computation "
            "(-0.040 ms) make up for each other.",
        )
        self.assertIn("more than one of A; what adds most is transfers, +0.040", answer(80, 90, 20))
        self.assertIn("less than one of A; what saves most is computation, -0.060", answer(40, 90, 20))
        self.assertIn("most of it is computation, +0.040", answer(140, 70, 20))
        self.assertIn("what adds most is computation, +0.040", answer(140, 80, 50))

    def test_a_file_that_ends_early(self):
        """Fewer steps of one rank change nothing, and it is told of."""
        a = self.recording("a", 100, 50, 20)
        b = self.recording("b", 100, 50, 20)
        with open(os.path.join(b, "rank1.json"), "r+") as f:
            f.truncate(f.seek(0, os.SEEK_END) * 2 // 3)
        self.expect(a, b)
        result = self.diff(a, b)
        self.assertEqual(result["a"]["notes"], [])
        self.assertIn("rank1.json: ends early", result["b"]["notes"][0])
        for words, lead in (("diff", a, b), "B - "), (("stragglers", b), "- "):
            notes = self.done(*words).split("\nNotes\n")[1].split()
            self.assertRegex(" ".join(notes), f"^{lead}[^ ]*rank1.json: ends early")
        self.assertNotIn("\nNotes\n", self.done("diff", a, a))
        said = json.loads(self.done("stragglers", b, "--json"))
        self.assertEqual(said["notes"], result["b"]["notes"])

    def test_no_marks(self):
        """All of such a recording is one step: that it is compared so is told."""
        a, b = (self.recording(name, 100, 50, 20) for name in "ab")
        for path in pathlib.Path(b).iterdir():
            path.write_text(path.read_text().replace("ProfilerStep#", "iteration "))
        result = self.diff(a, b)
        self.assertEqual((result["a"]["step_marks"], result["b"]["step_marks"]), (True, False))
        said = " ".join(self.done("diff", a, b).split())
        self.assertIn("- B marks no steps: all of it counts as one step", said)
        self.assertIn("- The recordings mark no steps", self.done("diff", b, b))
        self.assertNotIn("no steps", self.done("diff", a, a))

    def test_the_same_twice(self):
        result = self.diff(EXAMPLE, EXAMPLE)
        self.assertEqual(set(self.changes(result).values()), {0})
        self.assertTrue(result["same_ranks"])
        for op in result["operations"]:
            self.assertGreater(op["a_count"], 0)
            self.assertIn(op["kind"], ("compute", "transfer", "host", "copy"))
        self.assertIn("takes as long in both", self.done("diff", EXAMPLE, EXAMPLE))

    def test_other_ranks(self):
        result = self.diff(EXAMPLE, LATE)
        self.assertFalse(result["same_ranks"])
        self.assertAlmostEqual(
            sum(self.changes(result).values()),
            result["b"]["steady_step_ms"] - result["a"]["steady_step_ms"],
            places=5,
        )
        said = " ".join(self.done("diff", EXAMPLE, LATE).split())
        self.assertIn("not the same ranks", said)

    def test_bytes_are_the_same_each_time(self):
        first = self.done("diff", EXAMPLE, LATE, "--json")
        for threads in ("1", "4"):
            again = self.done("diff", EXAMPLE, LATE, "--json", "--threads", threads)
            self.assertEqual(first, again)

    def test_every_key_is_explained(self):
        def keys_of(value):
            if isinstance(value, dict):
                return set(value).union(*map(keys_of, value.values()))
            return set().union(*map(keys_of, value)) if isinstance(value, list) else set()

        section = (ROOT / "docs" / "diff.md").read_text().split("## JSON")[1]
        words = set(re.findall(r"\w+", section))
        self.assertEqual(keys_of(self.diff(EXAMPLE, LATE)) - words, set())

    def test_two_are_expected(self):
        for words in ((EXAMPLE,), (EXAMPLE, LATE, EXAMPLE)):
            self.refused(2, "diff", *words, says="expected two recordings")
        self.refused(1, "diff", EXAMPLE, "/nowhere", says="/nowhere")


if __name__ == "__main__":
    command.main()
