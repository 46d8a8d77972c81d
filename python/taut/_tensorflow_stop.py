# SPDX-License-Identifier: Apache-2.0
"""Ends TensorFlow's profiler where it cannot hurt the job.

When the profiler of TensorFlow 2.21 collects what the host's threads did, and
some activity began on one thread and ended on another (each exchange between
workers does), it may free memory that is none: the process dies of SIGABRT or
SIGSEGV in TraceMeRecorder::Consume(). So a copy of the process collects and
writes, and the job itself only switches the recording off, which leaves nothing
to collect. A copy that crashes costs the recording of this rank, not the job.

Only where no GPU is traced: a copy cannot speak to the driver."""

import ctypes
import os
import resource
import signal
import time

import tensorflow as tf
from tensorflow.python.profiler import profiler_v2

LEVEL = "_ZN3tsl8profiler8internal13g_trace_levelE"  # std::atomic<int>
OFF = -1
TRIES = 3
SECONDS = 20  # for one copy; it may be stuck on a lock that nobody frees


def _level():
    """The variable that says at which level threads record, or None."""
    folder = tf.sysconfig.get_lib()
    for name in ("libtensorflow_framework.so.2", "libtensorflow_framework.so"):
        try:
            lib = ctypes.CDLL(os.path.join(folder, name))
            return ctypes.c_int.in_dll(lib, LEVEL)
        except (OSError, ValueError):
            pass
    return None


def _collect(level, value):
    """What the copy does; it never returns."""
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)  # the C library's last words are not the job's
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        libc = ctypes.CDLL(None)  # Python's signal() is for the main thread
        for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGALRM):
            libc.signal(int(number), None)
        signal.alarm(SECONDS)
        level.value = value
        profiler_v2.stop(save=True)
        status = 0
    finally:
        os._exit(status)


def _copy(level, value):
    """True where a copy of this process has written everything."""
    # fork() of the C library, without what Python would do about it, and with
    # Python's lock held throughout, so that the copy holds it too.
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        _collect(level, value)
    if pid < 0:
        return False
    end = time.monotonic() + SECONDS + 2
    while time.monotonic() < end:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return True  # the job waited for it; what was written tells
        if done:
            return status == 0
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def stop(save):
    """Ends the profiler that runs. RuntimeError: nothing could be collected."""
    level = _level()
    if level is None or tf.config.list_physical_devices("GPU"):
        profiler_v2.stop(save=save)
        return
    value, level.value = level.value, OFF
    try:
        if save and not any(_copy(level, value) for _ in range(TRIES)):
            raise RuntimeError("TensorFlow's profiler crashed when it was to collect")
    finally:
        profiler_v2.stop(save=False)
