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

KEPT_STEPS = 4096  # of which the medians are taken


def host_name():
    return socket.gethostname().replace("/", "_") or "localhost"


class StepTimes:
    """Durations of the steps, inside and outside of the recording."""

    def __init__(self):
        self.recorded = deque(maxlen=KEPT_STEPS)
        self.unrecorded = deque(maxlen=KEPT_STEPS)
        # Of those outside: from where the host can issue the step to its end.
        self.issue = deque(maxlen=KEPT_STEPS)
        self.begin = None  # of the step that runs; None: not to be counted

    def ended(self, recorded, issue_began):
        """issue_began: an adapter's (_adapter.py)."""
        now = time.perf_counter()
        if self.begin is None:
            return
        (self.recorded if recorded else self.unrecorded).append(now - self.begin)
        began = None if recorded else issue_began(self.begin)
        if began is not None:
            self.issue.append(now - began)

    def next_begins(self, counts=True):
        self.begin = time.perf_counter() if counts else None

    def medians_ms(self):
        def median(steps):
            return round(statistics.median(steps) * 1e3, 6) if steps else None

        return {
            "recorded": median(self.recorded),
            "unrecorded": median(self.unrecorded),
            "unrecorded_issue": median(self.issue),
        }


class ProcessFile:
    """Written when something changes: a reader sees one whole state or another."""

    def __init__(self, run, started_ns):
        self.folder = os.path.join(run, "processes")
        self.host = host_name()
        self.name = "%s-%d" % (self.host, os.getpid())
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
            "step_ms": StepTimes().medians_ms(),
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
