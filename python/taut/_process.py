# SPDX-License-Identifier: Apache-2.0
"""What a process says of itself: RUN/processes/HOST-PID.json, as
docs/recording.md has it."""

import json
import os
import socket
import statistics
import sys
import time
from collections import deque

from . import _heap

KEPT_STEPS = 4096  # of which the medians are taken
FEW_FAULTS = 256  # pages a step: less is no matter


def host_name():
    return socket.gethostname().replace("/", "_") or "localhost"


_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's PROC_PID_INIT_INO


def process_name(pid):
    """HOST-PID, as files of a process are called; docs/recording.md says what HOST is.
    src/record/log.c has the same."""
    host = host_name()
    try:
        space = int(os.readlink("/proc/self/ns/pid")[len("pid:[") : -1])
        if space != _FIRST_PID_NAMESPACE:
            with open("/proc/sys/kernel/random/boot_id") as f:
                host = "%s.%.8s.%x" % (host, f.read(), space)
    except (OSError, ValueError):
        pass
    return "%s-%d" % (host, pid)


def place(own, path):
    """Gives a file that is whole its name. Two processes may take themselves for the
    same rank: FileExistsError to the one that comes second."""
    try:
        os.link(own, path)
        os.unlink(own)
    except OSError:
        if os.path.exists(path):
            raise FileExistsError("another process was recorded as %s" % path) from None
        os.rename(own, path)  # no links here


class _Steps:
    """Of some kind: seconds, those in which the host issued them, and of these those
    before the optimizer began; page faults."""

    def __init__(self):
        self.seconds, self.issue, self.passes, self.faults = (
            deque(maxlen=KEPT_STEPS) for _ in range(4)
        )

    def faults_of_one(self):
        return round(statistics.median(self.faults)) if self.faults else None


class StepTimes:
    """Durations and page faults of the steps, inside and outside of the recording."""

    def __init__(self):
        self.recorded, self.before, self.behind = _Steps(), _Steps(), _Steps()
        self.is_before = True  # no profiler has been here
        self.begin = None  # of the step that runs; None: not to be counted
        self.faults = 0  # of the process, by then
        self.fault_ms = None  # what one takes

    def ended(self, recorded, issue_began, update_began):
        """issue_began, update_began: an adapter's (_adapter.py)."""
        now = time.perf_counter()
        if self.begin is None:
            return
        of = self.recorded if recorded else self.before if self.is_before else self.behind
        of.seconds.append(now - self.begin)
        of.faults.append(_heap.faults() - self.faults)
        # From where the host can issue the step to its end.
        began = None if recorded else issue_began(self.begin)
        if began is not None:
            of.issue.append(now - began)
            update = update_began(began)
            if update is not None:
                of.passes.append(update - began)

    def next_begins(self, counts=True):
        self.is_before &= counts
        self.faults = _heap.faults()
        self.begin = time.perf_counter() if counts else None

    def own_faults(self):
        """Of a step of the job, as far as it is known by now."""
        return self.before.faults_of_one() or 0

    def _unrecorded(self):
        """Pairs of steps, and what they would have taken more with the page faults
        that the job has by itself: behind a profiler the heap may be another."""
        before, behind = self.before.faults_of_one(), self.behind.faults_of_one()
        if before is None or behind is None or abs(before - behind) <= FEW_FAULTS:
            return (self.before, 0), (self.behind, 0)
        if not self.fault_ms:
            return ((self.before, 0),)
        return (self.before, 0), (self.behind, (before - behind) * self.fault_ms / 1e3)

    def measure(self):
        """What a page fault takes: between two steps, where the other ranks measure it,
        too, for beside each other faults take longer."""
        if self.fault_ms is None:
            self.fault_ms = _heap.fault_seconds() * 1e3

    def medians_ms(self):
        def median(steps):
            steps = list(steps)
            return round(statistics.median(steps) * 1e3, 6) if steps else None

        kinds = self._unrecorded()
        return {
            "recorded": median(self.recorded.seconds),
            "unrecorded": median(t + more for k, more in kinds for t in k.seconds),
            "unrecorded_issue": median(t + more for k, more in kinds for t in k.issue),
            "unrecorded_passes": median(t + more for k, more in kinds for t in k.passes),
        }

    def fault_medians(self):
        own, recorded = self.before.faults_of_one(), self.recorded.faults_of_one()
        many = max(own or 0, recorded or 0) > FEW_FAULTS
        return {
            "recorded": recorded,
            "unrecorded": self.behind.faults_of_one() if own is None else own,
            "fault_ms": round(self.fault_ms, 7) if many and self.fault_ms is not None else None,
        }

    def told(self):
        """What is said of them on the disk."""
        return {"step_ms": self.medians_ms(), "step_faults": self.fault_medians()}


class ProcessFile:
    """Written when something changes: a reader sees one whole state or another."""

    def __init__(self, run, started_ns):
        self.folder = os.path.join(run, "processes")
        self.host = host_name()
        self.name = process_name(os.getpid())
        self.path = os.path.join(self.folder, self.name + ".json")
        self.told = {
            "host": self.host,
            "pid": os.getpid(),
            "framework": None,
            "rank": None,
            "world_size": None,
            "local_rank": None,
            "command": _command(),
            "started_ns": started_ns,
            "steps_seen": 0,
            "recorded": None,
            "state": "",
            "ended_ns": None,
            **StepTimes().told(),
        }
        self.is_written = False

    def write(self, **changes):
        """True: it is on the disk. A folder that cannot be written is no reason
        to disturb the job; the parent misses this process then."""
        self.told.update(changes)
        own = self.path + ".part"
        try:
            if not os.path.isdir(self.folder):
                os.makedirs(self.folder, exist_ok=True)
            with open(own, "w") as out:
                json.dump(self.told, out)
                out.write("\n")
            os.rename(own, self.path)
        except (OSError, ValueError):
            return False
        self.is_written = True
        return True

    def remove(self):
        try:
            os.unlink(self.path)
        except OSError:
            pass


def _command():
    try:
        with open("/proc/self/cmdline", "rb") as f:
            words = f.read().split(b"\0")[:-1]
        if words:
            return [os.fsdecode(w).encode("utf-8", "replace").decode() for w in words]
    except OSError:
        pass
    return list(sys.argv)
