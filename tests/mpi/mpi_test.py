#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The MPI form under real launchers: programs of ours do with Taut's object before
the MPI library what they do without. TAUT_MPI_COLL_LIB is the object, TAUT_LIB
libtaut.so; TAUT_SPLITS=N: so many communicators."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import mpiruns  # noqa: E402

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
OBJECT = os.environ.get("TAUT_MPI_COLL_LIB", "")
LIB = os.environ.get("TAUT_LIB", "")
TAUT = os.environ.get("TAUT", "")
SPLITS = os.environ.get("TAUT_SPLITS", "40")
PATIENCE_S = 120


def can(words):
    return not subprocess.run(words, capture_output=True, check=False).returncode


class Common:
    flavour = ""

    @classmethod
    def setUpClass(cls):
        if not mpiruns.has(cls.flavour):
            raise unittest.SkipTest("no %s here" % cls.flavour)
        cls.room = tempfile.TemporaryDirectory()
        cls.program = str(pathlib.Path(cls.room.name) / "allreduce")
        cls.compiled("allreduce.c", cls.program, "-lm", "-ldl")

    @classmethod
    def compiled(cls, source, program, *words):
        subprocess.run(
            ["mpicc." + cls.flavour, "-O1", "-w", "-o", program, HERE / source, *words],
            check=True,
        )

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def launch(self, words, n=4, env=None, preload=True):
        """A job; its own variables come last, as the launchers need none of them."""
        own = {"TAUT_MPI_AFTER": "0", "TAUT_MPI_SAY": "1", **(env or {})}
        if preload:
            own["LD_PRELOAD"] = OBJECT
        return mpiruns.launch(self.flavour, n, own, words, PATIENCE_S)

    def run_parts(self, *parts, takes=True, **options):
        """The parts are done, and Taut took part, or did not."""
        done = self.launch([self.program, *parts], **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "".join("%s done\n" % p for p in parts))
        if takes is not None:
            self.assertEqual("are Taut's" in done.stderr, takes, done.stderr)
        return done

    def test_all_types_and_reductions(self):
        for n in (2, 3, 4):
            self.run_parts("kinds", n=n)

    def test_sizes(self):
        self.run_parts("sizes", "large_counts")

    def test_what_is_not_understood_goes_to_mpi(self):
        self.run_parts("own_op", "own_type", "inter", "self")
        self.run_parts("inter", "self", takes=False)

    def test_calls_that_begin(self):
        self.run_parts("begun", "by_turns")
        self.run_parts("multiple", "begun", "by_turns", "progress", n=3)
        self.run_parts("only_begun", n=3)
        env = {"LD_PRELOAD": self.behind("NEWER")}
        self.run_parts("looked_at", n=3, env=env, preload=False)

    def test_whatever_a_rank_waits_for_mpi_moves(self):
        self.run_parts("progress")
        self.run_parts("freed")

    def test_communicators(self):
        done = self.run_parts("copies", "splits=" + SPLITS, n=3)
        self.assertGreater(done.stderr.count("are Taut's"), int(SPLITS) // 2)

    def test_a_thousand_that_sum_little_cost_nothing(self):
        env = {"TAUT_MPI_AFTER": "16777216"}
        self.run_parts("splits=1000", n=2, env=env, takes=False)

    def test_spawned_processes_are_mpi_s(self):
        bare = self.launch([self.program, "spawn"], n=2, preload=False)
        if bare.returncode:
            self.skipTest("this MPI spawns nothing here")
        self.run_parts("spawn", n=2, takes=False)

    def test_other_engines(self):
        parts = ["kinds", "begun", "by_turns", "progress", "copies"]
        for env in ({"TAUT_MPI_ENGINE": "mpi"}, {"TAUT_ENGINE": "ucx"}):
            done = self.run_parts("multiple", *parts, n=3, env=env)
            self.assertIn("by " + list(env.values())[0], done.stderr)
        self.run_parts("begun", "progress", n=3, env={"TAUT_MPI_ENGINE": "mpi"})

    # --- tables and agreement ---------------------------------------------------

    def test_table(self):
        table = pathlib.Path(self.room.name) / "table"
        table.write_text("* * 0 mpi\n")
        env = {"TAUT_MPI_TABLE": table}
        self.run_parts("sizes", env=env, takes=False)
        table.write_text("3 1 100000 taut\n")
        self.run_parts("sizes", env=env, n=3)
        self.run_parts("sizes", env=env, n=2, takes=False)
        table.write_text("3 1 much taut\n")
        done = self.run_parts("sizes", env=env, n=3, takes=False)
        self.assertIn("%s:1: expected bytes" % table, done.stderr)

    def alone(self, export, *words):
        """Rank 1 has a variable that the others do not have."""
        code = 'case "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" in 1) export %s;; esac; exec "$@"'
        return ["sh", "-c", code % export, "sh", self.program, *words]

    def behind(self, name):
        """Taut's object, and one behind it."""
        made = str(pathlib.Path(self.room.name) / (name.lower() + ".so"))
        self.compiled("behind.c", made, "-shared", "-fPIC", "-D" + name, "-ldl")
        return OBJECT + ":" + made

    def test_one_rank_that_cannot_leaves_all_to_mpi(self):
        driver = pathlib.Path(self.room.name) / "libcuda.so.1"
        words = ["-shared", "-Wl,-soname,libcuda.so.1", "-o", driver, "-x", "c", "/dev/null"]
        subprocess.run(["cc", *words], check=True)
        for wrong, line in (
            ("TAUT_LIB=/nowhere/libtaut.so", "/nowhere/libtaut.so: expected"),
            ("TAUT_ENGINE=ucx", "another engine"),
            ("LD_PRELOAD=%s:%s" % (OBJECT, driver), ""),
        ):
            done = self.launch(self.alone(wrong, "sizes"), n=3)
            self.assertEqual((done.returncode, done.stdout), (0, "sizes done\n"))
            self.assertIn(line, done.stderr)
            self.assertEqual("all-reduces stay with MPI" in done.stderr, bool(line))
            self.assertNotIn("are Taut's", done.stderr)

    def test_an_address_of_another_host(self):
        """198.51.100.1 is nobody's; 127.0.0.2 is any host's, and the ranks are on one."""
        table = pathlib.Path(self.room.name) / "anywhere"
        table.write_text("* * 4096 taut\n")
        env = {"TAUT_MPI_TABLE": table, "TAUT_MPI_ADDRESS": "198.51.100.1"}
        begin = time.monotonic()
        self.run_parts("sizes", n=2, env=env)
        own_host = 'hostname "host${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" && exec "$@"'
        words = ["unshare", "--uts", "sh", "-c", own_host, "sh"]
        if not can(words + ["true"]) or not can(["sh", "-c", "hostname -I | grep -q ."]):
            self.skipTest("no host of its own for a rank, or no address of this one")
        for address in ("198.51.100.1", "127.0.0.2", "[::1]"):
            env["TAUT_MPI_ADDRESS"] = address
            done = self.launch(words + [self.program, "sizes"], n=2, env=env)
            self.assertEqual((done.returncode, done.stdout), (0, "sizes done\n"), done.stderr)
            self.assertIn("are Taut's", done.stderr)
            self.assertNotIn("by shm", done.stderr)
        self.assertLess(time.monotonic() - begin, 60)

    def test_a_session_before_the_world(self):
        self.run_parts("session", "sizes", n=3)

    def test_a_tool_behind_ours_on_one_rank(self):
        done = self.launch(self.alone("LD_PRELOAD=" + self.behind("TOOL"), "small", "sizes"), n=3)
        told = (done.returncode, done.stdout)
        self.assertEqual(told, (0, "small done\nsizes done\n"), done.stderr)
        self.assertIn("are Taut's", done.stderr)

    # --- ends -------------------------------------------------------------------

    def test_killed_rank_ends_the_others(self):
        for part in ("killed", "killed_begun"):
            begin = time.monotonic()
            done = self.launch([self.program, part])
            self.assertNotEqual(done.returncode, 0)
            self.assertLess(time.monotonic() - begin, 60)
            # the launcher may be quicker than the line that names the rank
            self.assertNotIn("all-reduce that was begun", done.stderr)

    def test_a_rank_that_cannot_begin_ends_the_call_on_all_ranks(self):
        words = self.alone("LD_PRELOAD=" + self.behind("NO_THREAD"), "one_does_not_begin")
        done = self.launch(words, n=3)
        told = (done.returncode, done.stdout)
        self.assertEqual(told, (0, "one_does_not_begin done\n"), done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("taut: ")]
        said = [line for line in said if "are Taut's" not in line]
        self.assertEqual(len(said), 3, "each rank once: " + done.stderr)
        self.assertIn("taut: rank 1: no thread for all-reduces that only begin", said)
        self.assertTrue(all("rank 1" in line for line in said), done.stderr)

    def test_abort(self):
        done = self.launch([self.program, "aborted"])
        self.assertEqual(done.returncode, 5, done.stderr)

    # --- others' programs -------------------------------------------------------

    def test_mpi4py(self):
        python = os.environ.get("TAUT_MPI4PY", "/usr/bin/python3")
        command = [python, "-c", "from mpi4py import MPI; print(MPI.Get_library_version())"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        name = {"openmpi": "Open MPI", "mpich": "MPICH"}[self.flavour]
        if name not in told.stdout:
            self.skipTest("no mpi4py of this MPI")
        for preload in (False, True):
            done = self.launch([python, HERE / "arrays.py"], preload=preload)
            self.assertEqual((done.returncode, done.stdout), (0, "arrays done\n"), done.stderr)
            self.assertEqual("are Taut's" in done.stderr, preload)

    def test_fortran(self):
        compiler = shutil.which("mpif90." + self.flavour)
        if not compiler or not shutil.which("gfortran"):
            self.skipTest("no Fortran for this MPI")
        program = str(pathlib.Path(self.room.name) / "allreduce_f")
        words = ["-w", "-o", program, HERE / "allreduce.f90"]
        subprocess.run([compiler, *words], check=True, cwd=self.room.name)
        for preload in (False, True):
            done = self.launch([program], n=3, preload=preload)
            self.assertEqual((done.returncode, done.stdout), (0, "fortran done\n"), done.stderr)
            self.assertEqual("are Taut's" in done.stderr, preload)

    def test_taut_run(self):
        if not TAUT:
            self.skipTest("TAUT is not set")
        command = [TAUT, "run", "--mpi", "--", "mpirun." + self.flavour]
        command += [*mpiruns.LAUNCH[self.flavour], "-n", "3", self.program, "sizes"]
        env = mpiruns.environment(TAUT_MPI_AFTER="0", TAUT_MPI_SAY="1")
        env.pop("LD_PRELOAD", None)
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        self.assertEqual((done.returncode, done.stdout), (0, "sizes done\n"), done.stderr)
        self.assertIn("are Taut's", done.stderr)

    def test_recorded(self):
        """Both objects before the library."""
        recorder = os.environ.get("TAUT_MPI_LIB", "")
        if not recorder:
            self.skipTest("TAUT_MPI_LIB is not set")
        for first, second in ((OBJECT, recorder), (recorder, OBJECT)):
            folder = tempfile.mkdtemp(dir=self.room.name)
            env = {"LD_PRELOAD": first + ":" + second, "TAUT_RECORD": folder}
            done = self.launch([self.program, "sizes", "begun"], n=3, env=env, preload=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, "sizes done\nbegun done\n")
            self.assertIn("are Taut's", done.stderr)
            self.assertEqual(len(list(pathlib.Path(folder).glob("rank*/*.tautlog"))), 3)

    # --- the engine ---------------------------------------------------------------

    def test_contract_of_the_engine(self):
        if not LIB or not pathlib.Path("/usr/include/cmocka.h").exists():
            self.skipTest("no libtaut.so, or no cmocka")
        program = str(pathlib.Path(self.room.name) / "contract")
        words = ["-g", "-D_GNU_SOURCE", "-I" + str(ROOT / "include"), "-I" + str(ROOT / "src")]
        words += ["-I" + str(ROOT), str(ROOT / "src/coll/engines/mpi.c")]
        self.compiled("contract.c", program, *words, LIB, "-lcmocka", "-lpthread")
        env = {"LD_LIBRARY_PATH": os.path.dirname(LIB)}
        done = self.launch([program], env=env, preload=False)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])


class OpenMpi(Common, unittest.TestCase):
    flavour = "openmpi"


class Mpich(Common, unittest.TestCase):
    flavour = "mpich"


class WithoutMpi(unittest.TestCase):
    def test_nothing_happens(self):
        """No output, and MPI's names answer with an error."""
        code = "import ctypes\nprint(ctypes.CDLL(None).MPI_Barrier(0) != 0)\n"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=dict(os.environ, LD_PRELOAD=OBJECT),
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual((done.stdout, done.stderr), ("True\n", ""))

    def test_open_mpi_is_handed_all_that_is_documented(self):
        if not TAUT:
            self.skipTest("TAUT is not set")
        text = "".join((ROOT / "docs" / name).read_text() for name in ("mpi.md", "gpu.md"))
        names = set(re.findall(r"`(TAUT_[A-Z_]+)", text)) | {"LD_PRELOAD"}
        with tempfile.TemporaryDirectory() as room:
            mpirun = pathlib.Path(room) / "mpirun"
            mpirun.write_text('#!/bin/sh\necho "$OMPI_MCA_mca_base_env_list"\n')
            mpirun.chmod(0o755)
            env = mpiruns.environment(**{name: "x" for name in names - {"LD_PRELOAD", "TAUT_LIB"}})
            told = subprocess.check_output([TAUT, "run", "--mpi", "--", mpirun], env=env, text=True)
        self.assertEqual(set(told.strip().split(";")), names)

    def test_it_needs_libc_alone(self):
        told = subprocess.run(["ldd", OBJECT], capture_output=True, text=True, check=True)
        names = {line.split()[0].split("/")[-1].split(".")[0] for line in told.stdout.splitlines()}
        self.assertLessEqual(names, {"linux-vdso", "libc", "ld-linux-x86-64", "ld-linux-aarch64"})


if __name__ == "__main__":
    if not OBJECT or not (mpiruns.has("openmpi") or mpiruns.has("mpich")):
        print("no MPI here: neither Open MPI nor MPICH with compiler and launcher")
        sys.exit(77)
    unittest.main(verbosity=2)
