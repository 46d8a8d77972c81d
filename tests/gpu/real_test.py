#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests of this folder once more, over a real driver and a device, where there is
one: the kernels against taut_reduce(), and all-reduces of a device's memory by a program
of each MPI. TAUT_REAL_CUDA (real.c) answers what they ask the driver without a device."""

import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "bench")]
import mpi_gpu  # noqa: E402
import mpi_test  # noqa: E402

REAL = os.environ.get("TAUT_REAL_CUDA", "")
PATIENCE_S = 300


def driver():
    """The file of the driver if it has a device, or None. What stands in for it in the
    other tests may be found first."""
    told = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False
    ).stdout
    paths = [line.split("=> ")[1] for line in told.splitlines() if "libcuda.so.1 " in line]
    for path in paths + ["/usr/local/nvidia/lib64/libcuda.so.1"]:
        code = (
            "import ctypes, sys; n = ctypes.c_int(); cuda = ctypes.CDLL(sys.argv[1]);"
            "sys.exit(bool(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(n))) or not n.value)"
        )
        words = [sys.executable, "-c", code, path]
        if not subprocess.run(words, capture_output=True, check=False).returncode:
            return path
    return None


CUDA = driver() if REAL else None
PRELOAD = "%s %s" % (CUDA, REAL)


class Kernels(unittest.TestCase):
    def test_bits_are_those_of_the_host(self):
        program = pathlib.Path(REAL).with_name("test-gpu-kernels")
        env = dict(os.environ, LD_PRELOAD=PRELOAD, TAUT_NVRTC=mpi_gpu.nvrtc() or "")
        done = subprocess.run(
            [program], env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("[  SKIPPED ]", done.stdout, "this was a driver without a device")


class Real(mpi_test.Common):
    def launch(self, words, table, n=3, env=None):
        own = {
            "LD_PRELOAD": "%s %s" % (mpi_test.OBJECT, PRELOAD),
            "TAUT_FAKE_CUDA": "libcuda.so.1",
            "TAUT_NVRTC": mpi_gpu.nvrtc() or "",
        }
        return super().launch(words, table, n, {**own, **(env or {})})

    def test_by_the_devices(self):
        line = "by the ranks' devices"
        parts = ["places", "no_context", "begun", "reuse", "communicators", "resets", "captured"]
        parts += ["null_stream"]
        self.run_parts("kinds", "sizes", table="peer", line=line, n=2)
        for part in parts:
            with self.subTest(part=part):
                self.run_parts("kinds", part, table="peer", line=line)
        self.run_parts("places", "begun", "sizes", table="mixed", line=line, n=4)


    # of the others a wish must come true, which is the fake's art
    test_without_a_compiler_sums_are_the_hosts = None
    test_where_a_compiler_does_not_know_the_device_another_does = None
    test_one_rank_that_cannot_leaves_all_to_the_host = None
    test_the_program_of_the_bench = None
    test_nothing_is_known_of_devices_without_a_table = None
    test_a_driver_that_nobody_uses_leaves_the_host_its_rows = None
    test_a_driver_that_comes_late = None
    test_a_driver_that_fails_ends_the_call_on_all_ranks = None


class OpenMpi(Real, unittest.TestCase):
    flavour = "openmpi"


class Mpich(Real, unittest.TestCase):
    flavour = "mpich"


if __name__ == "__main__":
    if not CUDA:
        print("no device here")
        sys.exit(77)
    unittest.main(verbosity=2)
