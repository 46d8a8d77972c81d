# SPDX-License-Identifier: Apache-2.0
"""What jobs of the tests of `taut record` are made of: they say of themselves
what a framework's recorder would, and leave what it would leave."""

import json
import os
import pathlib
import signal
import socket
import struct
import sys

RUN = pathlib.Path(os.environ.get("TAUT_RECORD", "."))
HOST = socket.gethostname()
DEAD = 2**22 - 7  # a process number that nobody has


def say(pid=None, **fields):
    """processes/HOST-PID.json of a process that ended well, but for fields."""
    told = {
        "host": HOST,
        "pid": pid or os.getpid(),
        "framework": "torch",
        "rank": None,
        "world_size": None,
        "local_rank": None,
        "command": sys.argv,
        "started_ns": 1,
        "steps_seen": 20,
        "recorded": [10, 14],
        "state": "",
        "ended_ns": 2,
        "step_ms": {"recorded": None, "unrecorded": None},
    }
    told.update(fields)
    path = RUN / "processes" / f"{told['host']}-{told['pid']}.json"
    path.write_text(json.dumps(told))


def ranks(world, pid=100, **fields):
    """All ranks of a job; DEAD and below are numbers of no process."""
    for rank in range(world):
        say(pid=DEAD - pid - rank, rank=rank, world_size=world, **fields)


def trace(rank, name="torch.pt.trace.json"):
    folder = RUN / f"rank{rank}"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("{}")


def log(folder, source="torch", pid=DEAD, used=3, capacity=8, **fields):
    """An event log as a writer leaves it that was killed."""
    header = struct.pack(
        "<8sIIiiiiQQqq32s64s64s256s",
        b"TAUTLOG1",
        4096,
        128,
        fields.get("rank", -1),
        fields.get("world", -1),
        -1,
        pid,
        capacity,
        used,
        1,
        fields.get("closed", 0),
        source.encode(),
        HOST.encode(),
        b"clock",
        fields.get("state", "").encode(),
    )
    (RUN / folder).mkdir(exist_ok=True)
    path = RUN / folder / f"{source}-{pid}.tautlog"
    path.write_bytes(header.ljust(4096, b"\0") + bytes(128 * capacity))
    return path


def die(number=signal.SIGKILL):
    os.kill(os.getpid(), number)
