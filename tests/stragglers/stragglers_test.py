#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""taut stragglers on jobs that are made up here: against closed forms, and
against a second simulation of the same rules. TAUT_WRITE_GOLDEN=1 writes the
printed example anew."""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import made_job  # noqa: E402

TAUT = os.path.abspath(os.environ.get("TAUT", "build/taut"))
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MS = 1_000_000


def run(*args, **options):
    return subprocess.run([TAUT, *map(str, args)], capture_output=True,
                          text=True, timeout=120, **options)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, lines, name="job.csv"):
        path = pathlib.Path(self.folder.name) / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def stragglers(self, lines, *options):
        done = run("stragglers", self.write(lines), "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def near(self, value, want, places=6):
        self.assertAlmostEqual(value / want, 1, places=places)


def slow(factor, stage=None, replica=None):
    """An even job without the time of wires, but for one place."""
    def durations(type_, dp, at, step, batch, chunk):
        dur = {"forward-compute": 10 * MS,
               "backward-compute": 20 * MS}.get(type_, 0)
        here = stage in (None, at) and replica in (None, dp)
        return round(dur * factor) if here else dur
    return durations


class ClosedForms(Case):
    """A pipeline of p stages and m micro-batches, one forward and one backward
    at a time: (p - 1)(f + b) + m (f' + b') where the last stage takes f', b'."""

    def test_the_last_stage_is_longer(self):
        for pp, micro in (2, 4), (4, 4), (4, 8), (3, 5):
            with self.subTest(pp=pp, micro=micro):
                job = made_job.Job(dp=2, pp=pp, micro=micro, steps=2,
                                   durations=slow(1.2, stage=pp - 1))
                r = self.stragglers(job.study())
                was = (pp - 1) * 30 + micro * 36
                mean = (30 * (pp - 1) + 36) / pp
                ideal = (micro + pp - 1) * mean
                self.near(r["steps"][1]["measured_ms"], was)
                self.near(r["steps"][1]["ideal_ms"], ideal)
                self.near(r["slowdown"], was / ideal)
                only = ((pp - 1) * mean + micro * 36) / ideal
                self.assertEqual(r["by_stage"][0]["stage"], pp - 1)
                self.near(r["by_stage"][0]["slowdown"], only)
                self.assertEqual(
                    (r["cause"]["place"], r["cause"]["number"]),
                    ("stage", pp - 1))
                self.assertIn(f"Pipeline stage {pp - 1}, the last, is too "
                              "slow: its", r["cause"]["sentence"])
                self.assertIn("1.20 times", r["cause"]["sentence"])

    def test_one_rank_is_slower(self):
        job = made_job.Job(dp=4, pp=2, micro=4, steps=2,
                           durations=slow(1.5, stage=1, replica=2))
        r = self.stragglers(job.study())
        was = 30 + 4 * 45
        mean = 30 * (1 + 0.5 / 8)
        self.near(r["slowdown"], was / (5 * mean))
        self.assertEqual((r["cause"]["place"], r["cause"]["number"]),
                         ("rank", 1 * 4 + 2))
        self.assertIn("1.50 times", r["cause"]["sentence"])

    def test_all_are_alike(self):
        for kw in {}, {"pp": 1}, {"vpp": 2}, {"overlap": True}, {"dp": 1}:
            job = made_job.Job(durations=made_job.even(), **kw)
            r = self.stragglers(job.study())
            self.assertEqual(r["slowdown"], 1)
            self.assertEqual(r["launch_slowdown"], 1)
            self.assertEqual(r["cause"]["place"], "none")
            self.assertIn("alike", r["cause"]["sentence"])

    def test_a_delay_before_each_step(self):
        """Of ten ms, before the first forward of the first stage."""
        def delays(type_, dp, stage, step, batch, seq):
            first = type_ == "forward-compute" and stage == seq == 0
            return 10 * MS if first else 0
        job = made_job.Job(durations=slow(1), delays=delays)
        r = self.stragglers(job.study())
        self.near(r["launch_slowdown"], (7 * 30 + 10) / (7 * 30))
        self.assertEqual(r["slowdown"], 1)
        stages = {x["stage"]: x["slowdown"] for x in r["delays"]["by_stage"]}
        self.near(stages[0], (7 * 30 + 10) / (7 * 30))
        self.assertEqual([stages[1], stages[2], stages[3]], [1, 1, 1])
        types = {x["type"]: x["slowdown"] for x in r["delays"]["by_type"]}
        self.near(types["forward-compute"], (7 * 30 + 10) / (7 * 30))
        self.assertEqual(types["backward-compute"], 1)


JOBS = {
    "plain": {}, "two stages": {"pp": 2}, "no pipeline": {"pp": 1},
    "one replica": {"dp": 1}, "three replicas": {"dp": 3, "micro": 6},
    "overlapped": {"overlap": True},
    "chunks": {"vpp": 2, "micro": 8},
    "chunks around two stages": {"vpp": 2, "pp": 2},
    "chunks, overlapped": {"vpp": 3, "micro": 8, "overlap": True},
    "receives that nobody answers": {"stray": True},
    "one micro-batch": {"micro": 1}, "fewer than stages": {"micro": 2},
}


def made(seed=3, **kw):
    draw = random.Random(seed)
    return made_job.Job(durations=made_job.uneven(seed),
                        delays=lambda *a: draw.randrange(300) * 1000, **kw)


class SecondSimulation(Case):
    def compare(self, r, job, measured):
        want = job.answers()
        for i, step in enumerate(r["steps"]):
            if measured:
                self.near(step["measured_ms"] * MS, want["measured"][i])
            self.near(step["nodelay_ms"] * MS, want["nodelay"][i])
            self.near(step["ideal_ms"] * MS, want["ideal"][i])
        self.near(r["slowdown"], want["slowdown"])
        for by in "stage", "replica", "rank", "type":
            got = {row[by]: row["slowdown"] for row in r["by_" + by]}
            self.assertEqual(set(got), set(want[by]))
            for member, value in want[by].items():
                self.near(got[member], value)

    def test_studies(self):
        for name, kw in JOBS.items():
            with self.subTest(job=name):
                job = made(**kw)
                self.compare(self.stragglers(job.study()), job, True)

    def test_receives_that_were_posted_early(self):
        """Before the computation that they wait for had begun: what is known
        to wait does, whatever the stamps say."""
        job = made_job.Job(
            durations=made_job.uneven(3),
            delays=lambda type_, dp, stage, step, batch, seq:
            -12 * MS if type_ == "forward-recv" and seq else 0)
        self.compare(self.stragglers(job.study()), job, True)

    def test_tables_that_tell_their_waits(self):
        for name, kw in JOBS.items():
            with self.subTest(job=name):
                job = made(**kw)
                r = self.stragglers(job.table(waits=True))
                if "vpp" in kw:
                    # lanes of unanswered sends reach into the next step
                    continue
                self.compare(r, job, False)

    def test_tables_that_tell_nothing(self):
        """The rules of pipelines find the same: the last stage."""
        job = made_job.Job(durations=slow(1.2, stage=3))
        r = self.stragglers(job.table())
        self.near(r["slowdown"], 234 / 220.5)
        self.assertEqual(r["cause"]["number"], 3)

    def test_threads_change_nothing(self):
        path = self.write(made(dp=3).study())
        one = run("stragglers", path, "--json", "--threads", 1)
        for threads in 2, 3, 16:
            again = run("stragglers", path, "--json", "--threads", threads)
            self.assertEqual(one.stdout, again.stdout)


class Printed(Case):
    def test_text(self):
        golden = HERE / "golden" / "text.txt"
        job = made_job.Job(durations=slow(1.2, stage=3), steps=10)
        self.write(job.study())
        done = run("stragglers", "job.csv", cwd=self.folder.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        if os.environ.get("TAUT_WRITE_GOLDEN"):
            golden.write_text(done.stdout)
        self.assertEqual(done.stdout, golden.read_text())

    def test_every_key_is_explained(self):
        text = (ROOT / "docs" / "stragglers.md").read_text()
        words = set(re.findall(r"\w+", text.split("## JSON")[1]))

        def keys(value):
            if isinstance(value, dict):
                return set(value).union(*map(keys, value.values()))
            if isinstance(value, list):
                return set().union(*map(keys, value))
            return set()
        found = keys(self.stragglers(made().study()))
        self.assertEqual(found - words, set())


class ManyRanks(Case):
    """Data parallel jobs of a framework, of more ranks than are replayed one by one."""
    RANKS = 24

    def job(self, kernel=None, host=None, late=None):
        """Each step: a host operation, a kernel that it launches, an all-reduce behind that,
        and a thread whose work of unlike length nobody waits for. In us, of one rank: what
        else its kernel or host operation takes, or how long it does nothing."""
        for rank in range(self.RANKS):
            extra = {name: at[1] for name, at in
                     (("kernel", kernel), ("host", host), ("late", late))
                     if at and at[0] == rank}
            path = pathlib.Path(self.folder.name) / f"rank{rank}.json"
            path.write_text(json.dumps(self.rank(rank, extra)))
        done = run("stragglers", self.folder.name, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def rank(self, rank, extra):
        events = []
        # nobody is over before the slowest has come
        takes = 100 + extra.get("kernel", 0)
        host = 100 + extra.get("host", 0)
        wait = 60 - sum(extra.values())

        def event(cat, name, tid, at, dur, **args):
            events.append(dict(ph="X", cat=cat, name=name, pid=1, tid=tid,
                               ts=at, dur=dur, args=args))
        for step in range(4):
            at = begin = 320 * step
            calls = 10 * step
            event("cpu_op", "aten::side", 77, at + 1, 7 * rank + 50)
            at += extra.get("late", 0)
            event("cpu_op", "aten::mm", 10, at + 1, host)
            at += host + 1
            for i in 1, 2:
                event("cuda_runtime", "cudaLaunchKernel", 10, at + i, 1,
                      correlation=calls + i)
            event("kernel", "gemm", 7, at + 5, takes,
                  correlation=calls + 1, device=0, stream=7)
            event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7,
                  at + 5 + takes, 50 + wait, correlation=calls + 2,
                  device=0, stream=7)
            end = at + 5 + takes + 50 + wait
            event("cuda_runtime", "cudaDeviceSynchronize", 10, at + 4,
                  end + 2 - at - 4)
            event("user_annotation", f"ProfilerStep#{step}", 10, begin,
                  end + 4 - begin)
        return {"schemaVersion": 1, "distributedInfo": {"rank": rank},
                "traceEvents": events}

    def test_a_slow_kernel(self):
        """And not the thread, which is longer by more and holds nobody up."""
        r = self.job(kernel=(20, 60))
        self.assertEqual(len(r["by_rank"]), 16)
        self.assertEqual((r["cause"]["place"], r["cause"]["number"]),
                         ("rank", 20))
        self.assertIn("its gemm takes 1.60 times", r["cause"]["sentence"])

    def test_a_slow_host(self):
        r = self.job(host=(21, 60))
        self.assertEqual((r["cause"]["place"], r["cause"]["number"]),
                         ("rank", 21))
        self.assertIn("its aten::mm takes 1.60", r["cause"]["sentence"])


    def test_one_rank(self):
        path = pathlib.Path(self.folder.name) / "rank0.json"
        path.write_text(json.dumps(self.rank(0, {})))
        said = run("stragglers", path).stdout
        self.assertIn("\n1 rank, 4 steps. With", said)
        self.assertIn("One rank alone has no other", said)

    def test_a_rank_that_is_late(self):
        """Stages and replicas are told here; its own delay is of no stage."""
        def delays(type_, dp, stage, step, batch, seq):
            first = type_ == "forward-compute" and seq == 0
            return 10 * MS if first and (dp, stage) == (4, 3) else 0
        job = made_job.Job(dp=6, pp=4, durations=slow(1), delays=delays)
        r = self.stragglers(job.study())
        self.assertEqual(len(r["by_rank"]), 16)
        late, *others = r["delays"]["by_rank"]
        self.assertEqual(late["rank"], 3 * 6 + 4)
        self.near(late["slowdown"], (7 * 30 + 10) / (7 * 30))
        self.assertEqual({row["slowdown"] for row in others}, {1})


class Recordings(Case):
    def test_a_late_rank_of_pytorch(self):
        """Rank 2 was late by 150 ms in every second step."""
        done = run("stragglers", ROOT / "examples" / "ddp-gloo-late-rank",
                   "--json")
        r = json.loads(done.stdout)
        self.assertEqual(r["stages"], 0)
        self.assertEqual(r["by_rank"][0]["rank"], 2)
        self.assertEqual((r["cause"]["place"], r["cause"]["number"]),
                         ("rank", 2))
        late = sorted(r["steps"], key=lambda s: -s["slowdown"])[:2]
        self.assertEqual({s["step"] for s in late}, {24, 26})

    def kineto(self, told):
        """Four ranks of three steps; told: what is said of the one kernel of
        each, by rank and step."""
        folder = pathlib.Path(self.folder.name) / "kineto"
        folder.mkdir(exist_ok=True)
        for rank in range(4):
            events = []
            for step in range(3):
                at = 1000 * step
                args = {"correlation": step + 1}
                start = at + 100 + 10 * rank
                events += [
                    {"cat": "user_annotation", "name": f"ProfilerStep#{step}",
                     "pid": 1, "tid": 1, "ts": at, "dur": 990},
                    {"cat": "cuda_runtime", "name": "cudaLaunchKernel",
                     "pid": 1, "tid": 1, "ts": at + 50, "dur": 5,
                     "args": args},
                    {"cat": "kernel", "name": "ncclDevKernel_SendRecv",
                     "pid": 0, "tid": 20, "ts": start,
                     "dur": at + 300 - start, "args": {
                         **args, "In msg nelems": 1000, "dtype": "Float",
                         **told(rank, step)}}]
            (folder / f"rank{rank}.json").write_text(json.dumps(
                {"schemaVersion": 1, "distributedInfo": {"rank": rank},
                 "traceEvents": [{"ph": "X", **e} for e in events]}))
        return folder

    def check_communication(self, path, count):
        out = pathlib.Path(self.folder.name) / "out.csv"
        done = run("convert", path, "--to", "csv", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        was, now = (json.loads(run("report", p, "--json").stdout)
                    for p in (path, out))
        self.assertEqual(was["collectives"]["count"], count)
        for key in "count", "complete", "wait_ms_by_rank":
            self.assertEqual(was["collectives"][key], now["collectives"][key])

    def test_convert_keeps_sends_and_receives(self):
        def told(rank, step):
            peer = rank ^ 1
            return {"Collective name": "recv" if rank & 1 else "send",
                    "Process Group Name": "pp",
                    "Process Group Ranks": "[0, 1, 2, 3]",
                    "Src Rank" if rank & 1 else "Dst Rank": peer}
        self.check_communication(self.kineto(told), 6)
        self.check_communication(
            ROOT / "examples" / "tensorflow" / "server", 98)

    def test_convert_keeps_groups_of_one_name_apart(self):
        def told(rank, step):
            first = rank & 2
            return {"Collective name": "allreduce",
                    "Process Group Name": "tp", "Group size": 2,
                    "Process Group Ranks": f"[{first}, {first + 1}]"}
        self.check_communication(self.kineto(told), 6)

    def test_tables_of_convert_are_read_again(self):
        """All rows, and all collectives. What a host call was is lost, and
        which call posted which of two broadcasts on two threads."""
        def convert(path, out):
            done = run("convert", path, "--to", "csv", "-o", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = out.read_text().splitlines()
            return sorted(re.sub(r",(launch|return),", ",host,", row)
                          for row in rows if ":broadcast," not in row)

        folder = pathlib.Path(self.folder.name)
        for name in "ddp-gloo-late-rank", "ddp-gloo-2host":
            path = ROOT / "examples" / name
            first = convert(path, folder / "a.csv")
            self.assertEqual(first, convert(folder / "a.csv",
                                            folder / "b.csv"))
            was, now = (json.loads(run("report", p, "--json").stdout)
                        for p in (path, folder / "a.csv"))
            for key in "count", "complete":
                self.assertEqual(was["collectives"][key],
                                 now["collectives"][key])
            self.assertEqual(
                [(s["rank"], s["step"], s["measured_ms"]) for s in
                 was["steps"]],
                [(s["rank"], s["step"], s["measured_ms"]) for s in
                 now["steps"]])

    def test_every_example(self):
        for path in sorted((ROOT / "examples").iterdir()):
            if path.is_dir() and list(path.glob("rank*")):
                done = run("stragglers", path)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("slowdown", done.stdout)

    def test_faults(self):
        path = self.write(["name,start_us,duration_us", "a,zero,1"])
        done = run("stragglers", path)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("job.csv:2: column 2 (start_us): expected a time",
                      done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
