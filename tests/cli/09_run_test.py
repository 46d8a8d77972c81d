# SPDX-License-Identifier: Apache-2.0
"""taut run: what its job finds set, and that nothing else of it is touched.
tests/torch has whole jobs."""

import os
import re
import signal
import subprocess
import tempfile

import command


# A job that shows its environment, and says as one that imports a framework that it did.
JOB = 'env; rmdir "$TAUT_RUN_UNSEEN"\n'
UNSEEN = (
    "taut: no process on this host imported PyTorch, TensorFlow or MXNet where Taut could see it "
    "(PYTHONPATH replaced, or a Python with -I, -E or -S)\n"
)


def run(*words, **more):
    own = {k: v for k, v in os.environ.items() if not k.startswith(("TAUT_", "PYTHONPATH"))}
    for name in ("PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "FLUX_URI", "SLURM_JOB_ID"):
        own.pop(name, None)
    own.update(more)
    words = [os.environ["TAUT"], "run", *words]
    return subprocess.run(words, env=own, capture_output=True, text=True, timeout=600)


def variables(*options, **more):
    """Those of ours that the job finds."""
    result = run(*options, "--", "sh", "-c", JOB, **more)
    assert result.returncode == 0 and not result.stderr, result.stderr
    lines = [line.split("=", 1) for line in result.stdout.splitlines() if "=" in line]
    found = {k: v for k, v in lines if k.startswith(("TAUT_", "PYTHONPATH", "OMPI_"))}
    assert not os.path.exists(found.pop("TAUT_RUN_UNSEEN"))
    return found


class Run(command.Case):
    def test_variables(self):
        found = variables()
        self.assertEqual(found["TAUT_RUN"], "1")
        self.assertTrue(found["TAUT_LIB"].endswith("libtaut.so.0"))
        self.assertTrue(found["PYTHONPATH"].endswith("python/taut/inject"))
        self.assertEqual([k for k in found if k.startswith("TAUT_RUN_")], [])

    def test_options(self):
        words = "--piece 2K --credit 1M --fuse 0 --order declared --gate off --halves"
        found = variables(*words.split(), "--ordered", "--engine", "coll", "--no-schedule",
                          "--backend", "taut", "--load", "auto", "--load-cache", "3K",
                          "--compress", "bf16", "--rows", "on")
        told = {k[9:]: v for k, v in found.items() if k.startswith("TAUT_RUN_")}
        self.assertEqual(told, {
            "PIECE": "2048", "CREDIT": "1048576", "FUSE": "0", "ORDER": "declared",
            "GATE": "off", "HALVES": "on", "ORDERED": "on", "ENGINE": "coll",
            "SCHEDULE": "off", "BACKEND": "taut", "LOAD": "auto", "LOAD_CACHE": "3072",
            "COMPRESS": "bf16", "ROWS": "on",
        })

    def test_decisions(self):
        found = variables("--workers", "4", "--recompute", "nn.Module: block*", "--amp", "bf16",
                          "--microbatches", "4", "--graphs", "--compile", "nn.Module: head", "--optimizer", "fused", "--compress", "fp16", "--bucket", "4M",
                          "--bucket-first", "1000", "--job", "ranks=2 gradients=8x3")
        told = {k[9:]: v for k, v in found.items() if k.startswith("TAUT_RUN_")}
        self.assertEqual(told, {
            "WORKERS": "4", "RECOMPUTE": "nn.Module: block*", "AMP": "bf16",
            "COMPILE": "nn.Module: head", "MICROBATCHES": "4", "GRAPHS": "on",
            "OPTIMIZER": "fused", "COMPRESS": "fp16", "BUCKET": "4194304",
            "BUCKET_FIRST": "1000", "JOB": "ranks=2 gradients=8x3",
        })

    def test_measure(self):
        """The folder is made before the job, which may go to another one."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "steps")
            for words in (path, os.path.relpath(path)):
                told = run("--measure", words, "--", "sh", "-c", "ls -d $TAUT_RUN_MEASURE")
                self.assertEqual(told.returncode, 0, told.stderr)
                self.assertTrue(os.path.samefile(told.stdout.strip(), path))
                self.assertEqual(told.stderr, "taut: no step was measured: " + UNSEEN[6:])
            os.mkdir(os.path.join(path, "of-before"))
            told = run("--measure", path, "--", "true")
            self.assertEqual(told.returncode, 1)
            self.assertIn("expected a folder that is new or empty", told.stderr)

    def test_servers(self):
        told = variables("--servers", "2", "--update", "sgd:lr=0.1", "--async",
                         "--staleness", "3", "--on-loss", "continue")
        command = told.pop("TAUT_RUN_COMMAND")
        self.assertTrue(os.path.samefile(command, os.environ["TAUT"]))
        self.assertEqual({k[9:]: v for k, v in told.items() if k.startswith("TAUT_RUN_")}, {
            "SERVERS": "2", "UPDATE": "sgd:lr=0.1", "ASYNC": "on", "STALENESS": "3",
            "ON_LOSS": "continue",
        })
        told = variables("--server", "a:1,b:2", "--engine", "server")
        self.assertEqual(told["TAUT_RUN_SERVER"], "a:1,b:2")
        self.assertEqual(told["TAUT_RUN_ENGINE"], "server")
        self.assertNotIn("TAUT_RUN_SERVERS", told)

    def test_tune(self):
        found = variables("--tune", "--save", "found", "--from", "examples/ddp-gloo-2host")
        self.assertEqual(found["TAUT_RUN_TUNE"], "on")
        self.assertEqual(found["TAUT_RUN_TUNE_SAVE"], os.path.join(os.getcwd(), "found"))
        words = found["TAUT_RUN_TUNE_FROM"].split()
        self.assertGreater(len(words), 100)
        for word in words:
            self.assertRegex(word, r"^\d+/\d+/\d+/\w+=\d+$")

    def test_tuned(self):
        """What the command says besides counts more."""
        with tempfile.NamedTemporaryFile("w", suffix=".tuned") as file:
            file.write("piece 2048\ncredit 1M\nfuse 0\nway ring\n")
            file.flush()
            found = variables("--tuned", file.name, "--piece", "4K", "--way", "direct")
            self.assertEqual(
                [found["TAUT_RUN_" + k] for k in ("PIECE", "CREDIT", "FUSE", "WAY")],
                ["4096", "1048576", "0", "direct"],
            )
            file.write("piece 2048\n")
            file.flush()
            result = run("--tuned", file.name, "--", "true")
            self.assertEqual(result.returncode, 1)
            self.assertIn(":5: expected each name once", result.stderr)

    def test_what_the_user_has_set(self):
        found = variables("--gate", "off", TAUT_LIB="/mine.so", TAUT_RUN_GATE="on",
                          TAUT_RUN_FUSE="7", PYTHONPATH="/own")
        self.assertEqual((found["TAUT_LIB"], found["TAUT_RUN_GATE"]), ("/mine.so", "off"))
        self.assertEqual(found["TAUT_RUN_FUSE"], "7")
        self.assertTrue(found["PYTHONPATH"].endswith("/inject:/own"))

    def test_open_mpi_hands_them_on(self):
        """All of ours, and how UCX is tuned; nothing else."""
        own = {"UCX_TLS": "tcp", "UCXX": "no", "TAUT_ENGINE": "ucx", "TAUT_RUN_ADDRESS": "::1"}
        found = variables("--gate", "off", OMPI_MCA_mca_base_env_list="MINE;TAUT_RUN", **own)
        names = found["OMPI_MCA_mca_base_env_list"].split(";")
        ours = ["TAUT_RUN_GATE", "TAUT_RUN_ADDRESS", "TAUT_ENGINE", "TAUT_LIB", "TAUT_RUN_UNSEEN"]
        self.assertEqual(names[:2], ["MINE", "TAUT_RUN"])
        self.assertEqual(sorted(names[2:]), sorted([*ours, "PYTHONPATH", "UCX_TLS"]))

    def mpirun(self, *words, name="mpirun"):
        """What a launcher of this name is given: whether a list, and the lines."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "w") as f:
                f.write("#!/bin/sh\n" + JOB)
            os.chmod(path, 0o755)
            result = run(path, *words)
        self.assertEqual(result.returncode, 0)
        return "OMPI_MCA_mca_base_env_list=" in result.stdout, result.stderr

    def test_mpirun_with_x(self):
        """It takes no list then: a line says what other hosts lack."""
        self.assertEqual(self.mpirun(), (True, ""))
        for words in (
            ["-x", "MINE"],
            ["--x", "MINE"],
            ["-n", "2", "-H", "a:2,b:2", "-x", "MINE", "train"],
            ["--mca", "btl", "tcp", "--oversubscribe", "-x", "MINE", "train"],
            ["-mca", "a", "-1", "-x", "MINE", "train"],
            ["--report-bindings", "--timeout", "10", "-x", "MINE", "train"],
            ["-n", "1", "train", "-y", ":", "-n", "1", "-x", "MINE", "train"],
        ):
            has_list, said = self.mpirun(*words)
            self.assertFalse(has_list, words)
            self.assertRegex(said, "mpirun with -x: ranks on other hosts have TAUT_RUN, ")
            self.assertEqual(len(said.splitlines()), 1)

    def test_mpirun_of_a_program_with_x(self):
        """The program's words are not mpirun's."""
        for words in (
            ["train", "-x", "3"],
            ["-n", "4", "-H", "a:2,b:2", "python", "train.py", "-x", "3"],
            ["--mca", "btl", "tcp", "-oversubscribe", "train", "-x", "3"],
            ["--map-by=core", "train", "-x", "3"],
            ["-n", "1", "train", "-x", "3", ":", "-n", "1", "train", "-x", "3"],
        ):
            self.assertEqual(self.mpirun(*words), (True, ""), words)

    def test_names_of_mpirun(self):
        for name in ("mpirun.openmpi", "mpiexec.openmpi", "mpiexec", "orterun", "prterun"):
            self.assertEqual(self.mpirun("train", name=name), (True, ""), name)
        for name in ("mpirunner", "mpi", "srun", "my.mpirun"):
            self.assertEqual(self.mpirun("train", name=name), (False, ""), name)

    def test_exit_status_and_output(self):
        result = run("sh", "-c", "echo out; echo err >&2; rmdir $TAUT_RUN_UNSEEN; exit 7")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (7, "out\n", "err\n"))
        self.assertEqual(run("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)
        self.assertEqual(run("/no/such").returncode, 127)
        self.assertEqual(run("/").returncode, 126)

    def unseen(self, *words, line=UNSEEN, status=0, **more):
        """Of a job that imports no framework: its lines. Nothing is left behind."""
        with tempfile.TemporaryDirectory() as folder:
            result = run(*words, TMPDIR=folder, **more)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual((result.returncode, result.stderr), (status, line), words)

    def test_nobody_imported_a_framework(self):
        self.unseen("true")
        self.unseen("--piece", "4K", "true")
        self.unseen("sh", "-c", "exit 7", status=7)
        self.unseen("sh", "-c", "kill -TERM $$", status=-signal.SIGTERM)
        self.unseen("--amp", "bf16", "sh", "-c", "exit 7", status=7)
        self.unseen("--amp", "bf16", "sh", "-c", "kill -TERM $$", status=-signal.SIGTERM)
        self.unseen("/no/such", line="taut: /no/such: cannot be run: No such file or directory\n",
                    status=127)
        result = run("--measure", "/no/such/folder", "true")
        self.assertNotIn("imported", result.stderr)

    def test_what_was_asked_for_was_not_done(self):
        for words in (["--amp", "bf16"], ["--graphs"], ["--compress", "fp16"], ["--job", "ranks=2"]):
            line = "taut: %s was not done: %s" % (words[0], UNSEEN[6:])
            self.unseen(*words, "true", line=line, status=1)
        self.unseen("true", line="taut: --amp was not done: " + UNSEEN[6:], status=1,
                    TAUT_RUN_AMP="bf16")

    def test_ranks_elsewhere(self):
        """All of them may be: then nobody knows what they did."""
        self.unseen("--amp", "bf16", "true", PBS_JOBID="1")
        own = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1"}
        self.unseen("--amp", "bf16", "true", **own)
        line = "taut: --amp was not done: " + UNSEEN[6:]
        self.unseen("--amp", "bf16", "true", SLURMD_NODENAME="here", **own, line=line, status=1)
        self.unseen("--amp", "bf16", "env", "srun=1", "true", line=line, status=1)
        self.unseen("--amp", "bf16", "sh", "-c", "true", "/usr/bin/srun")

    def test_a_run_within(self):
        """The outer one is told, too."""
        within = [os.environ["TAUT"], "run", "--amp", "bf16", "sh", "-c", JOB]
        result = run("--amp", "bf16", *within)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        line = "taut: --amp was not done: " + UNSEEN[6:]
        self.unseen("--amp", "bf16", *within[:-3], "true", line=line + UNSEEN, status=1)

    def test_no_place_for_temporary_files(self):
        result = run("--amp", "bf16", "true", TMPDIR="/no/such")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_wrong_values(self):
        for words, says in (
            (["--gate", "maybe"], "--gate: expected on or off, found 'maybe'"),
            (["--compress", "int8"], "--compress: expected fp16, bf16 or mxint8, found 'int8'"),
            (["--order", "mine"], "--order: expected agreed or declared, found 'mine'"),
            (["--engine", "x"], "--engine: expected auto, coll, process-group or server, found 'x'"),
            (["--piece", "5x"], "--piece: expected bytes, like 4096 or 512K, found '5x'"),
            (["--fuse", "1234567890123"], "--fuse: expected bytes"),
            (["--schedule", "--no-schedule"], "expected --schedule or --no-schedule"),
            (["--way", "x"], "--way: expected auto, ring, direct"),
            (["--tune", "--tuned", "x"], "expected --tune or --tuned"),
            (["--tune", "--fuse", "1M+4M"], "--tune: expected --fuse with one size"),
            (["--from", "x"], "--from is of a --tune"),
            (["--save", "x"], "--save is of a --tune"),
            (["--server", "a:1", "--servers", "2"], "expected --server or --servers"),
            (["--async", "--server", "a:1"], "--async is of --servers"),
            (["--update", "sum"], "--update is of --servers"),
            (["--servers", "2", "--engine", "coll"], "--engine coll has no servers"),
            (["--servers", "2", "--async"], "--async: expected an optimizer"),
            (["--servers", "2", "--staleness", "1"], "--staleness: expected --async"),
            (["--servers", "2", "--on-loss", "x"], "--on-loss: expected end, continue"),
            (["--servers", "2", "--update", "x"], "update 'x': expected sum"),
            (["--servers", "0"], "--servers"),
            (["--workers", "-1"], "--workers: expected a number from 0 to 9999, found '-1'"),
            (["--microbatches", "2x"], "--microbatches: expected a number from 0 to 9999, found '2x'"),
            (["--amp", "x"], "--amp: expected bf16 or fp16, found 'x'"),
            (["--optimizer", "x"], "--optimizer: expected fused, found 'x'"),
            (["--bucket", "0"], "--bucket: expected bytes, like 4096 or 25M, or of each bucket, like 1M+4M, found '0'"),
            (["--bucket", "1M+0"], "like 1M+4M, found '1M+0'"),
            (["--bucket-first", "1+2"], "--bucket-first: expected bytes, like 4096 or 25M, found '1+2'"),
            (["--piece", "1M+2"], "--piece: expected bytes, like 4096 or 512K, found '1M+2'"),
            (["--fuse", "1M+"], "--fuse: expected bytes, like 4096 or 512K, or of each group, like 1M+4M, found '1M+'"),
            (["--recompute", ""], "--recompute wants PATTERN"),
        ):
            result = run(*words, "--", "true")
            self.assertEqual(result.returncode, 2, words)
            self.assertRegex(result.stderr, re.escape(says))


if __name__ == "__main__":
    command.main()
