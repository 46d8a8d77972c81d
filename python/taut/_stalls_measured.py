# SPDX-License-Identifier: Apache-2.0
"""What `taut stalls` shares with a rank: the page that says what must come from storage
(src/stalls/control.h), what the kernel counts of processes, and the file that the rank
writes (src/stalls/measured.h)."""

import ctypes
import math
import mmap
import os
import struct
import time

from . import _cgroups, _heap, _lib, _spent
from ._process import host_name

ALL_PPM = 1_000_000
NOTHING, OPENED, LOADED = range(3)  # enum tauti_stalls_listing
_MAGIC, _VERSION, _BYTES = b"tautcold", 1, 4096
_COLD_PPM, _OPENED, _LISTING = 12, 16, 52  # where they are in the page


class Control:
    """The page, mapped. OSError, ValueError: the folder has none."""

    def __init__(self, folder):
        self.folder = folder
        fd = os.open(os.path.join(folder, "control"), os.O_RDWR | os.O_CLOEXEC)
        try:
            self.page = mmap.mmap(fd, _BYTES)
        finally:
            os.close(fd)
        if self.page[:8] != _MAGIC or struct.unpack_from("<I", self.page, 8)[0] != _VERSION:
            raise ValueError("%s/control is of another version" % folder)

    def opened(self):
        """Files that were opened for reading, and their sizes."""
        return struct.unpack_from("<QQ", self.page, _OPENED)

    def cold(self, ppm):
        """So much of what is opened from now on comes from storage; so does what somebody
        holds open, where the library can see to it."""
        struct.pack_into("<I", self.page, _COLD_PPM, ppm)
        if ppm and _lib.has("taut_stalls_forget"):
            types = [ctypes.c_char_p, _lib.u32, _lib.error]
            lib = _lib.declare([("taut_stalls_forget", ctypes.c_int, types)])
            _lib.call(lib.taut_stalls_forget, os.fsencode(self.folder), ppm)

    def list(self, what):
        """NOTHING, OPENED or LOADED: what files that are opened from now on are listed
        as."""
        struct.pack_into("<I", self.page, _LISTING, what)


class Sums:
    """What this process and its workers spent and read, since they began; of the host,
    what was opened. Of two, the second made with is_end, since() tells what lies between
    them, without what it takes to make them."""

    def __init__(self, control, workers, is_end=False):
        own = os.getpid()
        self.has_storage = True
        self.own_ns = _cpu_ns(own)
        self.cpu_ns = self.own_ns + sum(map(_cpu_ns, workers))
        self.read = self.storage = 0
        # What is read for this belongs to neither side of it.
        if is_end:
            self._add_io([own, *workers])
            self._add_faults(workers)
        else:
            self._add_faults(workers)
            last = self._add_io([*workers, own])
            self.read += last
        self.opened = control.opened()

    def _add_io(self, pids):
        """Returns what was read for the last of them, which the kernel had not counted."""
        for pid in pids:
            text = _io_of(pid)
            words = text.split()
            self.read += _number(words, b"rchar:") or 0
            storage = _number(words, b"read_bytes:")
            self.has_storage = self.has_storage and storage is not None
            self.storage += storage or 0
        return len(text)

    def _add_faults(self, workers):
        self.own_faults, self.worker_faults = _heap.faults(), sum(map(_faults_of, workers))

    def counts(self):
        spent = self.cpu_ns, self.own_ns, self.read, self.storage, *self.opened
        return *spent, self.own_faults, self.worker_faults

    def since(self, before):
        """[cpu_ns, own_cpu_ns, rchar, read_bytes (-1: unknown), opened, opened_bytes,
        page faults of this process, of workers]"""
        found = [max(0, b - a) for a, b in zip(before.counts(), self.counts())]
        if not (self.has_storage and before.has_storage):
            found[3] = -1
        return found


def _cpu_ns(pid):
    """Of all threads of a process, on cores. 0: it is gone."""
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)  # as clock_getcpuclockid() has it
    except OSError:
        return 0


def _io_of(pid):
    fd = _spent._open("/proc/%d/io" % pid)
    if fd < 0:
        return b""
    try:
        return _spent._read(fd)
    finally:
        os.close(fd)


def _faults_of(pid):
    """Pages that it had to ask the system for, none of them read from anywhere. 0: it is
    gone."""
    fd = _spent._open("/proc/%d/stat" % pid)
    if fd < 0:
        return 0
    try:
        behind_name = _spent._read(fd).rpartition(b")")[2].split()
        return int(behind_name[7])  # minflt of proc(5)
    except (IndexError, ValueError):
        return 0
    finally:
        os.close(fd)


def _number(words, key):
    """The one behind the key; None: it is not there."""
    try:
        return int(words[words.index(key) + 1])
    except (ValueError, IndexError):
        return None


def cores(root="/"):
    """That this process may use at once: those that it may run on, or what its control
    groups leave of them. root: where /proc and /sys are."""
    may_run_on = len(os.sched_getaffinity(0))
    limits = [_limit_of(folder) for folder, _ in _cgroups.folders("cpu", root)]
    return max(1, min([may_run_on, *(math.ceil(limit) for limit in limits if limit)]))


def _limit_of(group):
    """In cores; None: there is none."""
    words = _cgroups.text(os.path.join(group, "cpu.max")).split() or [
        _cgroups.text(os.path.join(group, "cpu.cfs_%s_us" % name)).strip()
        for name in ("quota", "period")
    ]
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        return None
    return int(words[0]) / int(words[1])


class RankFile:
    """FOLDER/rank-R.stalls, on the disk phase by phase. FileExistsError: another process
    is this rank."""

    def __init__(self, folder, ranks):
        self.path = os.path.join(folder, "rank-%d.stalls" % ranks[0])
        self.file = open(self.path, "x")
        self.lines(["taut-stalls 1", "rank %d of %d" % ranks, "host " + host_name()])

    def lines(self, lines):
        self.file.write("".join(line + "\n" for line in lines))
        self.file.flush()

    def header(self, **values):
        self.lines("%s %s" % pair for pair in values.items())

    def start(self, number, name, ns):
        self.lines(["start %d %s %d" % (number, name, ns)])

    def phase(self, number, name, window, source):
        which = "%d %s" % (number, name)
        cpu, own, *counts = window.sums
        *counts, own_faults, worker_faults = counts
        wait = window.wait_ns() if source.knows_waits else 0
        row = [len(window.steps), window.samples, window.wall_ns(), wait, cpu, *counts]
        if source.has_processes:
            row.append(min(own, cpu))
        steps = window.steps if source.knows_waits else ()
        self.lines(
            ["phase %s %s" % (which, " ".join(map(str, row)))]
            + ["step %s %d %d %d" % (which, *step) for step in steps]
            + ["faults %s %d %d" % (which, own_faults, worker_faults)]
            + ["others %s %d" % (which, window.others)] * bool(window.others)
        )

    def end(self):
        self.lines(["end"])
        self.file.close()
