#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduces of a device's memory by an MPI program that was not rebuilt, over a
driver without a device (fake_cuda.c): one that dies when the host touches the device's
memory, and tells what was left behind. TAUT_MPI_COLL_LIB is Taut's object, TAUT_LIB
libtaut.so, TAUT_FAKE_CUDA and TAUT_FAKE_NVRTC the driver and compiler."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import mpiruns  # noqa: E402

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
OBJECT = os.environ.get("TAUT_MPI_COLL_LIB", "")
CUDA = os.environ.get("TAUT_FAKE_CUDA", "")
NVRTC = os.environ.get("TAUT_FAKE_NVRTC", "")
PATIENCE_S = 110
TABLES = {
    "taut": "* * 1024 taut device\n* * 1024 taut\n",
    "peer": "* * 1024 peer device\n",
    "mixed": "* * 1024 taut device\n* * 65536 peer device\n",
}


class Common:
    flavour = ""

    @classmethod
    def setUpClass(cls):
        if not mpiruns.has(cls.flavour):
            raise unittest.SkipTest("no %s here" % cls.flavour)
        cls.room = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.room.name)
        cls.program = cls.compiled("device", CUDA, "-Wl,-rpath," + os.path.dirname(CUDA))
        # what the driver has is looked for at the first call
        words = ["-DLATE", "-Dmain=late_main", "-shared", "-fPIC", "-Wl,-z,lazy", "-ldl"]
        library = cls.compiled("liblate.so", *words)
        main = cls.folder / "main.c"
        main.write_text("int main(int n, char **words) { return late_main(n, words); }\n")
        cls.late = str(cls.folder / "late")
        words = ["-w", "-o", cls.late, main, library, "-Wl,-rpath," + cls.room.name]
        subprocess.run(["cc", *words, "-Wl,--allow-shlib-undefined"], check=True)
        for name, text in TABLES.items():
            (cls.folder / name).write_text(text)

    @classmethod
    def compiled(cls, name, *words):
        program = str(cls.folder / name)
        folders = ["-I%s" % (ROOT / path) for path in ("", "src", "include")]
        subprocess.run(
            ["mpicc." + cls.flavour, "-O1", "-w", *folders, "-o", program, HERE / "device.c"]
            + list(words),
            check=True,
        )
        return program

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def launch(self, words, table, n=3, env=None):
        own = {
            "LD_PRELOAD": OBJECT,
            "TAUT_MPI_AFTER": "0",
            "TAUT_MPI_SAY": "1",
            "TAUT_MPI_PART": "65536",
            "TAUT_MPI_TABLE": self.folder / table,
            "TAUT_NVRTC": NVRTC,
            "TAUT_FAKE_CUDA": CUDA,
            **(env or {}),
        }
        return mpiruns.launch(self.flavour, n, own, words, PATIENCE_S)

    def run_parts(self, *parts, table="taut", line="by way of the host", **options):
        done = self.launch([self.program, *parts], table, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = "".join("%s done\n" % p for p in parts)
        self.assertTrue(done.stdout.startswith(told), done.stdout)
        self.assertIn(line, done.stderr)
        return done

    def test_by_way_of_the_host(self):
        self.run_parts("kinds", "sizes", n=2)
        self.run_parts("kinds", "places", "no_context", "begun", "reuse")
        self.run_parts("communicators", "sizes", n=4)
        self.run_parts("resets", "captured", "null_stream")

    def test_what_is_pinned_is_used_again(self):
        for part in (32 << 20, 128 << 20):
            self.run_parts("steady", n=2, env={"TAUT_MPI_PART": part})
        done = self.launch([self.late, "late", "steady"], "taut", n=2)
        told = (done.returncode, done.stdout)
        self.assertEqual(told, (0, "late done\nsteady done\n"), done.stderr)

    def test_over_ucx(self):
        self.run_parts("begun", "places", env={"TAUT_ENGINE": "ucx"})

    def test_by_the_devices(self):
        line = "by the ranks' devices"
        self.run_parts("kinds", "sizes", table="peer", line=line, n=2)
        env = {"TELL": "1"}
        parts = ["kinds", "places", "no_context", "begun", "reuse", "communicators"]
        parts += ["resets", "captured", "null_stream"]
        done = self.run_parts(*parts, table="peer", line=line, env=env)
        self.assertIn("launches some", done.stdout)
        self.run_parts("places", "begun", "sizes", table="mixed", line=line, n=4)

    def test_memory_that_others_have_open_is_not_freed(self):
        self.run_parts("ends_first", table="peer", line="by the ranks' devices")

    def test_kernels_are_compiled_once_a_process(self):
        line, env = "by the ranks' devices", {"FAKE_NVRTC_TELL": "1"}
        done = self.run_parts("communicators", table="peer", line=line, env=env)
        self.assertEqual(done.stderr.count("fake: a program is compiled"), 3, done.stderr)

    def test_none_are_compiled_where_memory_cannot_be_shared(self):
        env = {"FAKE_NVRTC_TELL": "1", "FAKE_CUDA_FAIL": "cuIpcGetMemHandle:0:801"}
        done = self.run_parts("communicators", table="peer", env=env)
        self.assertNotIn("fake: a program is compiled", done.stderr)

    def test_without_a_compiler_sums_are_the_hosts(self):
        for env in ({"TAUT_NVRTC": "/nowhere/libnvrtc.so"}, {"FAKE_NVRTC_FAIL": "1"}):
            done = self.run_parts("kinds", table="peer", env={"TELL": "1", **env})
            self.assertIn("sums are made on the host", done.stderr)
            self.assertIn("launches none", done.stdout)

    def test_where_a_compiler_does_not_know_the_device_another_does(self):
        folder = self.folder / "compilers"
        folder.mkdir()
        first = folder / "libnvrtc.so.13"
        source = folder / "fails.c"
        source.write_text(
            '#include "%s"\n__attribute__((constructor)) static void begin(void)\n'
            "{\n\tfake_nvrtc_fails = 1;\n}\n" % (HERE / "fake_nvrtc.c")
        )
        words = ["-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", first, source]
        subprocess.run(["cc", "-w", *words], check=True)
        env = {"TAUT_NVRTC": "", "LD_LIBRARY_PATH": folder, "TELL": "1"}
        shutil.copy(NVRTC, folder / "libnvrtc.so.12")
        line = "by the ranks' devices"
        done = self.run_parts("kinds", table="peer", line=line, env=env)
        self.assertIn("launches some", done.stdout)
        done = self.run_parts("kinds", table="peer", env={**env, "TAUT_NVRTC": first})
        self.assertIn("NVRTC does not compile for sm_90; sums are", done.stderr)
        self.assertIn("launches none", done.stdout)

    def test_one_rank_that_cannot_leaves_all_to_the_host(self):
        """The second: as between containers that do not share their processes."""
        code = 'case "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" in 1) export %s;; esac; exec "$@"'
        for wish in ("cuIpcGetMemHandle:1:801", "cuIpcOpenMemHandle_v2:1:201"):
            words = ["sh", "-c", code % ("FAKE_CUDA_FAIL=" + wish), "sh", self.program]
            done = self.launch([*words, "places", "communicators"], "peer")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            name = wish.split(":")[0].replace("_v2", "")
            self.assertIn("rank 1 of 3: %s: CUDA_ERROR_WISHED_FOR" % name, done.stderr)

    def test_the_program_of_the_bench(self):
        """It checks its sums; times over a driver without a device say nothing."""
        program = str(self.folder / "coll_gpu")
        folders = ["-I%s" % (ROOT / path) for path in ("src", "include")]
        words = ["-O1", "-w", *folders, "-o", program, ROOT / "bench/coll_gpu.c", "-ldl"]
        subprocess.run(["mpicc." + self.flavour, *words], check=True)
        env = {"LD_LIBRARY_PATH": os.path.dirname(CUDA)}
        for mode, table in (("device", "taut"), ("device", "peer"), ("host", "/dev/null")):
            done = self.launch([program, mode, "1", "4096", "300000"], table, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            sizes = [line.split()[0] for line in done.stdout.splitlines()]
            self.assertEqual(sizes, ["4096", "300000"])

    def test_nothing_is_known_of_devices_without_a_table(self):
        done = self.launch([self.program, "late"], "/dev/null", n=2)
        self.assertNotIn("are Taut's", done.stderr)

    def test_a_driver_that_nobody_uses_leaves_the_host_its_rows(self):
        env = {"IDLE": "1"}
        done = self.launch([self.program, "idle_driver"], "taut", n=2, env=env)
        self.assertEqual((done.returncode, done.stdout), (0, "idle_driver done\n"), done.stderr)
        self.assertIn("are Taut's", done.stderr)
        self.assertNotIn("a device's", done.stderr)

    def test_beside_a_driver_that_is_not_known_all_is_mpis(self):
        for name in ("libamdhip64.so.6", "libhsa-runtime64.so.1", "libze_loader.so.1"):
            library = self.folder / name
            words = ["-shared", "-Wl,-soname," + name, "-o", library, "-xc", "/dev/null"]
            subprocess.run(["cc", *words], check=True)
            env = {"IDLE": "1", "LD_PRELOAD": "%s %s" % (OBJECT, library)}
            done = self.launch([self.program, "idle_driver"], "taut", n=2, env=env)
            self.assertEqual((done.returncode, done.stdout), (0, "idle_driver done\n"))
            self.assertNotIn("are Taut's", done.stderr, name)

    def test_a_driver_that_comes_late(self):
        done = self.launch([self.late, "late"], "taut")
        self.assertEqual(done.stdout, "late done\n", done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("are Taut's", done.stderr)

    def test_a_driver_that_fails_ends_the_call_on_all_ranks(self):
        for wish in ("cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuEventQuery"):
            done = self.launch([self.program, "fails"], "taut", env={"WISH": wish})
            self.assertEqual((done.returncode, done.stdout), (0, "fails done\n"), done.stderr)
            self.assertIn("CUDA_ERROR_WISHED_FOR (700)", done.stderr)
            self.assertIn("rank 1", done.stderr)
        for wish in ("cuLaunchKernel", "cuMemcpyAsync"):
            done = self.launch([self.program, "fails"], "peer", env={"WISH": wish})
            self.assertEqual((done.returncode, done.stdout), (0, "fails done\n"), done.stderr)
        done = self.launch([self.program, "fails_begun"], "taut")
        self.assertEqual((done.returncode, done.stdout), (0, "fails_begun done\n"), done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("taut: ")]
        said = [line for line in said if "are Taut's" not in line]
        self.assertEqual(len(said), 3, "each rank once: " + done.stderr)
        self.assertEqual(done.stderr.count("rank 1"), 2, done.stderr)

    def test_a_copy_that_fails_where_a_call_begins(self):
        line, env = "by the ranks' devices", {"WISH": "cuMemcpyAsync"}
        self.run_parts("fails_at_once", n=2, env={"WISH": "cuMemcpyDtoHAsync_v2"})
        self.run_parts("fails_at_once", table="peer", line=line, n=2, env=env)

    def test_a_copy_that_fails_with_others_in_line(self):
        self.run_parts("fails_in_line", n=2)


class OpenMpi(Common, unittest.TestCase):
    flavour = "openmpi"


class Mpich(Common, unittest.TestCase):
    flavour = "mpich"


class Frees(unittest.TestCase):
    """Functions of CUDA that Taut's object stands before reach the real ones."""

    RUNTIME = "%sint cudaFree(void *at) { return at ? %d : 0; }\n"
    USER = "int cudaFree(void *at);\nint use(void *at) { return cudaFree(at); }\n"
    OTHER = """
#include <dlfcn.h>
int cudaFree(void *at)
{
	int (*next)(void *) = dlsym(RTLD_NEXT, "cudaFree");
	return 100 + next(at);
}
"""
    PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int n, char **names)
{
	for (int i = 1; i < n; i++) {
		void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		int (*use)(void *) = library ? dlsym(library, "use") : 0;
		for (int k = 0; use && k < 3; k++)
			printf("%d ", use(&n));
		if (getenv("CLOSE"))
			dlclose(library);
	}
	return 0;
}
"""

    def made(self, folder, name, text, *words):
        source = folder / (name + ".c")
        source.write_text(text)
        out = folder / name
        subprocess.run(["cc", "-w", "-D_GNU_SOURCE", "-o", out, source, *words], check=True)
        return str(out)

    def users(self, folder, runtimes):
        """Libraries that use a run-time each, by its number; its text begins so."""
        made = []
        for k, begin in runtimes.items():
            words = ["-shared", "-fPIC"]
            text = self.RUNTIME % (begin, k)
            runtime = self.made(folder, "libcudart.so.%d" % k, text, *words)
            words += [runtime, "-Wl,-rpath," + str(folder)]
            made.append(self.made(folder, "libuser%d.so" % k, self.USER, *words))
        return made

    def told(self, program, users, preload, **more):
        return subprocess.run(
            [program, *users],
            env=dict(os.environ, LD_PRELOAD=preload, **more),
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def test_of_the_runtime_that_the_caller_was_linked_with(self):
        """Two of them, each opened for one user alone, as Python opens modules."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            users = self.users(folder, {11: "", 12: ""})
            program = self.made(folder, "program", self.PROGRAM, "-ldl")
            for preload in ("", OBJECT):
                told = self.told(program, users, preload)
                self.assertEqual(told, "11 11 11 12 12 12 ")

    def test_one_that_is_closed_is_forgotten(self):
        """The second comes to lie where the first was, its function elsewhere."""
        before = "".join("int other%d(void) { return 99; }\n" % i for i in range(20))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            users = self.users(folder, {11: "", 12: before})
            program = self.made(folder, "program", self.PROGRAM, "-ldl")
            for preload in ("", OBJECT):
                told = self.told(program, users, preload, CLOSE="1")
                self.assertEqual(told, "11 11 11 12 12 12 ")

    def test_another_object_that_stands_before_cuda_is_called(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            users = self.users(folder, {12: ""})
            other = self.made(folder, "other.so", self.OTHER, "-shared", "-fPIC", "-ldl")
            words = ["-Wl,--no-as-needed", *users, "-Wl,-rpath," + name, "-ldl"]
            program = self.made(folder, "program", self.PROGRAM, *words)
            for preload in (other, OBJECT + " " + other):
                self.assertEqual(self.told(program, users, preload), "112 112 112 ")


if __name__ == "__main__":
    if not OBJECT or not CUDA or not (mpiruns.has("openmpi") or mpiruns.has("mpich")):
        print("no MPI here, or no fake driver: it is built with the unit tests")
        sys.exit(77)
    unittest.main(verbosity=2)
