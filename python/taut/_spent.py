# SPDX-License-Identifier: Apache-2.0
"""What a thread spent between two instants: on a core, waiting for one, and what
its process read meanwhile, as the kernel counts it.

Reading the clocks and the two files of /proc takes some microseconds; what the
files say is understood only when it is wanted. Nothing here raises."""

import os
import time

from . import _log

_FILES = "/proc/thread-self/schedstat", "/proc/self/io"
_MOST = 512  # bytes of either


def _open(path):
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _read(fd):
    try:
        return os.pread(fd, _MOST, 0)
    except OSError:
        return b""


class Meter:
    """Of the thread that makes it, and for it alone."""

    def __init__(self):
        self.queue, self.io = map(_open, _FILES)

    def begin(self):
        """(instant, what was spent before it)"""
        queue = _read(self.queue)
        io = _read(self.io)
        at_ns = time.time_ns()
        return at_ns, (time.process_time_ns(), time.thread_time_ns(), io, queue)

    def end(self):
        """The same; the instant is behind what was spent."""
        clocks = time.process_time_ns(), time.thread_time_ns()
        at_ns = time.time_ns()
        io = _read(self.io)
        return at_ns, clocks + (io, _read(self.queue))

    def close(self):
        for fd in (self.queue, self.io):
            if fd >= 0:
                os.close(fd)
        self.queue = self.io = -1


def load(before, after, samples):
    """What lies between two of them, as a record of the log."""
    thread = after[1] - before[1]
    read, storage = _io(before[2], after[2])
    others = max(after[0] - before[0] - thread, 0)
    queued = _queued(before[3], after[3])
    return _log.Load(max(thread, 0), queued, others, read, storage, samples)


def _queued(before, after):
    """Nanoseconds; -1: the kernel does not count them, and says 0 of all."""
    try:
        a, b = before.split(), after.split()
        return max(int(b[1]) - int(a[1]), 0) if int(b[0]) else -1
    except (IndexError, ValueError):
        return -1


def _io(before, after):
    """Bytes of read() and its like, and of storage. The first look at the file
    is in the former: what is seen of it was not read yet."""
    a, b = before.split(), after.split()
    read = _difference(a, b, 0, b"rchar:")
    storage = _difference(a, b, 8, b"read_bytes:")
    return read if read < 0 else max(read - len(before), 0), storage


def _difference(a, b, at, key):
    """Of the number behind a key; -1: it is not there."""
    if a[at : at + 1] != [key] or b[at : at + 1] != [key]:
        return -1
    try:
        return max(int(b[at + 1]) - int(a[at + 1]), 0)
    except (IndexError, ValueError):
        return -1
