# SPDX-License-Identifier: Apache-2.0
"""taut bench: its table and JSON, results that are checked, ranks that it makes
and ranks that a launcher made, and what is refused. No figure is looked at: how
fast something is depends on the machine."""

import json
import os
import pathlib
import subprocess
import sys

import command

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from ports import free_port  # noqa: E402

ROW = (
    r"\n +{bytes} +{count} +{type} +{redop} +\S+ +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d"
    r" +\d+\.\d{{3}} +\d+\.\d{{3}} +{wrong}\n"
)
LAUNCHERS = ("TAUT_", "RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    return {**env, **more}


class Bench(command.Case):
    def bench(self, *args, ranks=2):
        few = ["--ranks", ranks, "--repeats", 3, "--warmup", 1]
        return self.done("bench", *args, *few, env=environment())

    def rows(self, *args, **options):
        told = json.loads(self.bench(*args, "--check", "--json", **options))
        for row in told["rows"]:
            self.assertEqual(row["wrong"], 0, row)
            self.assertGreater(row["time_us"], 0)
            self.assertLessEqual(row["least_us"], row["time_us"])
            self.assertLessEqual(row["time_us"], row["p90_us"])
        return told

    def test_table(self):
        text = self.bench("allreduce", "--sizes", "4,64K", "--check", "--engine", "inproc")
        self.assertIn("bench allreduce: 2 ranks on 1 host", text)
        for size in (4, 65536):
            row = {"bytes": size, "count": size // 4, "type": "float32"}
            self.assertRegex(text, ROW.format(**row, redop="sum", wrong=0))
        self.assertEqual(len([t for t in text.splitlines() if t[0] != "#"]), 2)

    def test_unchecked(self):
        text = self.bench("broadcast", "--sizes", "1K", "--type", "int8", "--engine", "inproc")
        row = {"bytes": 1024, "count": 1024, "type": "int8"}
        self.assertRegex(text, ROW.format(**row, redop="none", wrong="N/A"))

    def test_every_collective(self):
        for name in ("allreduce", "reduce-scatter", "allgather", "broadcast"):
            for engine in ("inproc", "shm", "tcp"):
                with self.subTest(name=name, engine=engine):
                    told = self.rows(
                        name, "--sizes", "4,12K,1M", "--engine", engine, ranks=3
                    )
                    self.assertEqual(told["ranks"], 3)
                    self.assertEqual(told["hosts"], 1)
                    self.assertEqual([r["bytes"] for r in told["rows"]], [4, 12288, 1 << 20])

    def test_every_type_in_place(self):
        names = "float64 float16 bfloat16 int8 uint8 int32 int64 uint64"
        for name in names.split():
            with self.subTest(type=name):
                told = self.rows(
                    "allreduce", "--sizes", "7K", "--type", name, "--in-place",
                    "--reduction", "max", "--engine", "inproc",
                )
                self.assertEqual(told["type"], name)
                self.assertIs(told["in_place"], True)

    def test_way_and_passes(self):
        told = self.rows(
            "allreduce", "--sizes", "1M", "--way", "ring", "--pass", "64K",
            "--at-once", 3, "--engine", "inproc",
        )
        row = told["rows"][0]
        self.assertEqual(
            (row["way"], row["pass_bytes"], row["passes_at_once"]), ("ring", 65536, 3)
        )

    def test_bandwidths(self):
        for name, factor in (("allreduce", 1.5), ("allgather", 0.75), ("broadcast", 1)):
            told = self.rows(name, "--sizes", "1M", "--engine", "inproc", ranks=4)
            row = told["rows"][0]
            self.assertAlmostEqual(
                row["algbw_gb_per_s"], row["bytes"] / row["time_us"] / 1e3, places=5
            )
            self.assertAlmostEqual(
                row["busbw_gb_per_s"], factor * row["algbw_gb_per_s"], places=5
            )

    def test_a_tuned_table_is_used(self):
        path = self.folder / "table"
        text = self.bench(
            "allreduce", "--sizes", "4:64K:64", "--tune", "--out", path, "--engine", "inproc"
        )
        self.assertEqual(text, "")
        rows = [t.split() for t in path.read_text().splitlines() if t and t[0] != "#"]
        self.assertTrue(rows)
        self.assertEqual([r[:3] for r in rows], [["allreduce", "2", "1"]] * len(rows))
        starts = [int(r[3]) for r in rows]
        self.assertEqual(starts, sorted(set(starts)))
        self.assertEqual(starts[0], 0)
        args = ["bench", "allreduce", "--ranks", 2, "--sizes", "4", "--repeats", 1, "--json"]
        told = self.done(*args, env=environment(TAUT_COLL_TABLE=str(path)))
        self.assertEqual(json.loads(told)["rows"][0]["way"], rows[0][4])

    def test_a_tuned_table_leaves_what_is_far_larger(self):
        path = self.folder / "table"
        self.bench("allreduce", "--sizes", "4,1K", "--tune", "--out", path, "--engine", "inproc")
        args = ["bench", "allreduce", "--ranks", 2, "--sizes", "64M", "--repeats", 1, "--json"]
        told = []
        for more in ({}, {"TAUT_COLL_TABLE": str(path)}):
            row = json.loads(self.done(*args, env=environment(**more)))["rows"][0]
            told.append((row["way"], row["pass_bytes"], row["passes_at_once"]))
        self.assertEqual(told[0], told[1])

    def test_tuning_as_json(self):
        args = ["--tune", "--pass", "64K", "--at-once", 3, "--in-place", "--way", "ring"]
        told = self.rows("allreduce", "--sizes", "4,1M", *args, "--engine", "inproc")
        for row in told["rows"]:
            got = [row[k] for k in ("way", "pass_bytes", "passes_at_once")]
            self.assertEqual(got, ["ring", 65536, 3])
        first = {"ranks": 2, "hosts": 1, "from_bytes": 0}
        self.assertEqual(
            told["choices"][0],
            {"verb": "allreduce", **first, "way": "ring", "pass_bytes": 65536, "passes_at_once": 3},
        )
        told = self.rows("allreduce", "--sizes", "4", "--engine", "inproc")
        self.assertEqual(told["choices"], [])

    def test_a_table_that_is_none(self):
        path = self.folder / "table"
        path.write_text("allreduce 2 1 0 sideways 0 1\n")
        args = ["bench", "allreduce", "--ranks", 2, "--sizes", "4"]
        env = environment(TAUT_COLL_TABLE=str(path))
        self.refused(1, *args, says="table:1: expected", env=env)


class Launched(command.Case):
    def start(self, *args, **env):
        return subprocess.Popen(
            [os.environ["TAUT"], "bench", "allreduce", "--sizes", "4,64K", *args],
            env=environment(**env),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def finish(self, processes):
        told = []
        for process in processes:
            out, err = process.communicate(timeout=60)
            told.append((process.returncode, out, err))
        return told

    def test_ranks_of_a_launcher(self):
        meet = f"127.0.0.1:{free_port()}"
        for kind in ("TAUT", "torchrun", "mpi"):
            ranks = []
            for rank in range(2):
                env = {"TAUT_SECRET": "not told"}
                args = ["--repeats", "2", "--check"]
                if kind == "TAUT":
                    env.update(TAUT_RANK=str(rank), TAUT_RANKS="2", TAUT_MEET=meet)
                elif kind == "torchrun":
                    port = str(int(meet.split(":")[1]) - 1)
                    env.update(RANK=str(rank), WORLD_SIZE="2")
                    env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
                else:
                    env.update(OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2")
                    args += ["--meet", meet]
                if rank:  # which writes nothing
                    args += ["--out", "/no/such/x"]
                ranks.append(self.start(*args, **env))
            told = self.finish(ranks)
            with self.subTest(kind=kind):
                self.assertEqual([t[0] for t in told], [0, 0], told)
                self.assertIn("2 ranks", told[0][1])
                self.assertEqual(told[1][1:], ("", ""))


class Refused(command.Case):
    def wrong(self, *args, says, **env):
        self.refused(2, "bench", *args, says=says, env=environment(**env))

    def test_words(self):
        self.wrong(says="expected one of allreduce")
        self.wrong("allreduce", "allgather", says="expected one of allreduce")
        self.wrong("allreduse", says="did you mean allreduce")
        self.wrong("allreduce", "--type", "float23", says="did you mean float32")
        self.wrong("allreduce", "--reduction", "mean", says="--reduction: ")
        self.wrong("allreduce", "--reduction", "bit_or", says="no bit_or of float32")
        self.wrong("allreduce", "--way", "strange", says="--way: expected ")
        self.wrong("allreduce", "--engine", "rdma", says="--engine: expected auto, shm, tcp, ucx or")
        self.wrong("allreduce", "--sizes", "4:2", says="--sizes: expected at most")
        self.wrong("allreduce", "--pass", "none", says="--pass: expected bytes")
        self.wrong("allreduce", "--ranks", "1", says="--ranks: expected a number from 2")
        self.wrong("broadcast", "--ranks", "2", "--root", "2", says="--root: expected a rank")

    def test_places(self):
        mpi = {"PMI_RANK": "0", "PMI_SIZE": "2"}
        self.wrong("allreduce", says="--meet HOST:PORT", **mpi)
        self.wrong("allreduce", "--meet", "localhost:1", says="--meet: ")
        self.wrong("allreduce", "--meet", "localhost:1", "--ranks", "2", says="--meet: ", **mpi)
        taut = {"TAUT_RANK": "0", "TAUT_RANKS": "2", "TAUT_MEET": "localhost:1"}
        self.wrong("allreduce", "--engine", "inproc", says="inproc: its ranks", **taut)

    def test_more_memory_than_there_is(self):
        args = ["bench", "allreduce", "--ranks", 256, "--sizes", "4,1000G"]
        says = "needs 549.8 TB for the buffers of 256 ranks"
        self.refused(1, *args, says=says, env=environment())

    def test_output_that_cannot_be(self):
        args = ["bench", "allreduce", "--ranks", 2, "--sizes", 4]
        nowhere = self.folder / "no" / "file"
        self.refused(1, *args, "--out", nowhere, says="no/file", env=environment())


if __name__ == "__main__":
    command.main()
