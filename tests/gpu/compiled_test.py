#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where CUDA's compilers or headers are: the kernels compile for devices of several
kinds, and what we know of the driver's interface is what its header says. No device is
needed. 77 where neither is."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
KINDS = ("sm_70", "sm_75", "sm_80", "sm_90")


def header():
    for folder in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", "/usr"):
        found = pathlib.Path(folder) / "include/cuda.h"
        if folder and found.exists():
            return str(found.parent)
    return None


def kinds_known():
    told = subprocess.run([NVCC, "--list-gpu-code"], capture_output=True, text=True, check=False)
    return [kind for kind in KINDS if kind in told.stdout.split()]


def nvrtc():
    """The compiler that runs with a program: $TAUT_NVRTC, or where CUDA puts it; not
    where the loader finds it, which here is what stands in for it in other tests."""
    paths = [os.environ.get("TAUT_NVRTC")]
    for folder in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", "/usr"):
        for place in ("lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"):
            if folder:
                paths += sorted(pathlib.Path(folder, place).glob("libnvrtc.so.[0-9]*"))
    for path in filter(None, paths):
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


def compiled_by(library, kind):
    """(status, log with what ptxas says, machine code)"""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = (ROOT / "src/gpu/reduce.cu").read_bytes()
    library.nvrtcCreateProgram(ctypes.byref(program), text, b"reduce.cu", 0, None, None)
    words = [b"--gpu-architecture=" + kind.encode(), b"--fmad=false", b"--ptxas-options=-v"]
    options = (ctypes.c_char_p * len(words))(*words)
    status = library.nvrtcCompileProgram(program, len(words), options)
    got = []
    for ask, get in (("ProgramLogSize", "ProgramLog"), ("CUBINSize", "CUBIN")):
        getattr(library, "nvrtcGet" + ask)(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        getattr(library, "nvrtcGet" + get)(program, buffer)
        got.append(buffer.raw[: size.value])
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return status, got[0].decode(errors="replace"), got[1]


class Compiled(unittest.TestCase):
    def compiling(self, kind, out):
        words = [NVCC, "-cubin", "-arch=" + kind, "--fmad=false", "-Werror", "all-warnings"]
        words += ["-Xptxas", "-v", "-o", str(out), str(ROOT / "src/gpu/reduce.cu")]
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @unittest.skipUnless(NVCC, "no nvcc")
    def test_kernels(self):
        kinds = kinds_known()
        self.assertTrue(kinds)
        with tempfile.TemporaryDirectory() as folder:
            outs = [pathlib.Path(folder) / (kind + ".cubin") for kind in kinds]
            running = [self.compiling(kind, out) for kind, out in zip(kinds, outs)]
            for process, out in zip(running, outs):
                told = process.communicate()[0]
                self.assertEqual(process.returncode, 0, told)
                code = out.read_bytes()
                for name in (b"taut_sum_float32", b"taut_max_bfloat16", b"taut_bit_xor_uint64"):
                    self.assertIn(name, code)
                # a spill would cost what the kernels are for
                self.assertNotIn("spill stores", told.replace(" 0 bytes spill stores", ""))

    @unittest.skipUnless(nvrtc(), "no NVRTC")
    def test_kernels_by_nvrtc(self):
        """As a program has them made."""
        status, log, code = compiled_by(nvrtc(), "sm_90")
        self.assertEqual(status, 0, log)
        self.assertIn(b"taut_sum_float32", code)
        self.assertIn(b"taut_bit_xor_uint64", code)
        spilled = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", log)
        self.assertTrue(spilled, log)
        self.assertEqual(set(spilled), {("0", "0")})
        # more, and a processor is not full with blocks of 256 threads
        self.assertLessEqual(max(map(int, re.findall(r"Used (\d+) registers", log))), 32)

    @unittest.skipUnless(header(), "no header of CUDA")
    def test_interface(self):
        words = ["cc", "-std=gnu11", "-fsyntax-only", "-Werror", "-isystem", header()]
        words += ["-I%s" % (ROOT / "src"), "-I%s" % (ROOT / "include"), str(HERE / "abi.c")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    if not NVCC and not nvrtc() and not header():
        print("no nvcc, no NVRTC and no cuda.h here")
        sys.exit(77)
    unittest.main(verbosity=2)
