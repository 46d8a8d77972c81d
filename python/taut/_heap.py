# SPDX-License-Identifier: Apache-2.0
"""Keeps a profiler from making the heap grow while it records.

A profiler puts many small blocks, which stay until it ends, into the holes in
which the job's large blocks use to lie. Those then no longer fit and go to fresh
memory, each page of which costs a fault. So the heap is made to grow before, by
as much as the thrown-away window showed to be needed beyond what the job's own
steps ask for, and the new part is given back to it as one hole; a block above that
hole keeps it from being handed back to the system at once."""

import contextlib
import ctypes
import mmap
import os
import resource
import time

from . import _cgroups

BLOCK_BYTES = 64 << 10  # below any size at which malloc maps pages of its own
LARGEST_BYTES = 512 << 20
FRESH_BYTES = 16 << 20  # to time faults of


def faults():
    """Pages that this process has asked for so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def fault_seconds(repeats=5):
    """What one takes, with what it takes to give the page back: the median over as
    many pieces of fresh memory, each touched page by page, without what touching
    them again takes. 0: it cannot be told."""
    times = sorted(_one_fault() for _ in range(repeats))
    return max(times[repeats // 2], 0)


def _one_fault():
    before, begin = faults(), time.perf_counter()
    memory = mmap.mmap(-1, FRESH_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.c_char.from_buffer(memory)
    ctypes.memset(ctypes.addressof(at), 1, FRESH_BYTES)
    again = time.perf_counter()
    had = faults() - before
    ctypes.memset(ctypes.addressof(at), 1, FRESH_BYTES)
    end = time.perf_counter()
    del at
    memory.close()
    closed = time.perf_counter()
    return (again - begin - (end - again) + (closed - end)) / max(had, 1)


def page_bytes():
    return os.sysconf("SC_PAGE_SIZE")


def available_bytes(root="/"):
    """For this process: of the host, and of the control groups that it is in, as far as
    they are seen from here. 0: it cannot be told. root: where /proc and /sys are."""
    try:
        with open(root + "proc/meminfo") as f:
            (left,) = [int(n.split()[1]) << 10 for n in f if n.startswith("MemAvailable:")]
    except (OSError, ValueError):
        return 0
    return max(min([left, *_left_in_groups(root)]), 0)


def _left_in_groups(root):
    for folder, is_first in _cgroups.folders("memory", root):
        files = "memory.max", "memory.current"
        if is_first:
            files = "memory.limit_in_bytes", "memory.usage_in_bytes"
        with contextlib.suppress(OSError, ValueError):  # no such file, or no limit
            limit, used = (_number_in(os.path.join(folder, name)) for name in files)
            yield limit - used + _cached_bytes(folder)


def _number_in(path):
    with open(path) as f:
        return int(f.read())


def _cached_bytes(folder):
    """Of a group: of files, which it gives up for the asking."""
    with open(os.path.join(folder, "memory.stat")) as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("inactive_file "))


def resident_bytes():
    """0: it cannot be told."""
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * page_bytes()
    except (OSError, ValueError):
        return 0


class Reserve:
    """A hole of this many bytes, all of its pages there; less where memory is
    scarce or malloc is not one that grows by brk."""

    def __init__(self, wanted_bytes):
        self.pin = None
        wanted = min(wanted_bytes, LARGEST_BYTES, available_bytes() // 20)
        try:
            libc = self.libc = ctypes.CDLL(None)
            libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
            libc.malloc.argtypes, libc.sbrk.argtypes = [ctypes.c_size_t], [ctypes.c_long]
            libc.free.argtypes, libc.free.restype = [ctypes.c_void_p], None
            if wanted >= BLOCK_BYTES:
                self._make(wanted)
        except (AttributeError, OSError):
            pass

    def _make(self, wanted):
        libc, blocks = self.libc, []
        end = (libc.sbrk(0) or 0) + wanted
        # Holes that are there are filled first; it may be all there is.
        most = 2 * wanted // BLOCK_BYTES
        while (libc.sbrk(0) or 0) < end and len(blocks) < most:
            block = libc.malloc(BLOCK_BYTES)
            if not block:
                break
            ctypes.memset(block, 0, BLOCK_BYTES)
            blocks.append(block)
        self.pin = blocks.pop() if blocks else None
        for block in blocks:
            libc.free(block)

    def release(self):
        pin, self.pin = self.pin, None
        if pin:
            self.libc.free(pin)
