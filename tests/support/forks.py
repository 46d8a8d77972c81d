# SPDX-License-Identifier: Apache-2.0
"""Processes of a job that need not import its framework, each a fork of one that has."""

import atexit
import json
import os
import pathlib
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time

READY = pathlib.Path(__file__).resolve().parent / "ready.py"
STAND_IN = READY.with_name("stand_in.py")
# What a job's first optimizer would import is imported too.
TORCH = "torch", "torch._dynamo"


class Ready:
    """An interpreter that waits for what to do. Ranks of one job have one each: no two
    of them share a hash seed or addresses."""

    def __init__(self, python, modules=TORCH, **more):
        # A message must be whole: what it says, and the files that go with it.
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door.bind("")  # where nobody else is
        door.listen()
        self.door = door.getsockname()[1:].decode()
        own = {k: v for k, v in os.environ.items() if not k.startswith(("TAUT_", "PYTHON"))}
        own.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", **more)
        with theirs, door:
            files = [theirs.fileno(), door.fileno()]
            self.process = subprocess.Popen(
                [python, str(READY), *map(str, files), *modules],
                env=own, pass_fds=files, stdout=subprocess.DEVNULL,
            )
        atexit.register(self.end)

    def end(self):
        self.requests.close()
        self.process.wait()


class Fork:
    """What subprocess.Popen is to its test, as far as tests need it."""

    def __init__(self, ready, words, environment, own_end):
        told = json.dumps({"words": words, "environment": environment, "own_end": own_end,
                           "folder": os.getcwd()})
        pipes = [os.pipe() for _ in range(3)]
        socket.send_fds(ready.requests, [told.encode()], [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        self.read = {read: b"" for read, _ in pipes}
        self.open = list(self.read)
        self.returncode = None
        said = self.open[2]
        self.pid = int(os.read(said, 64).split()[0])

    def communicate(self, timeout=None):
        until = None if timeout is None else time.monotonic() + timeout
        while self.open:
            left = None if until is None else max(0, until - time.monotonic())
            there = select.select(self.open, [], [], left)[0]
            if not there:
                raise subprocess.TimeoutExpired("a rank", timeout)
            for file in there:
                self.take(file)
        out, err, said = self.read.values()
        self.returncode = int(said)
        return out.decode(), err.decode()

    def first_error(self):
        """The first line of its errors, once it is there."""
        err = list(self.read)[1]
        while err in self.open and b"\n" not in self.read[err]:
            self.take(err)
        return self.read[err].decode().partition("\n")[0]

    def take(self, file):
        data = os.read(file, 1 << 16)
        self.read[file] += data
        if not data:
            os.close(file)
            self.open.remove(file)

    def kill(self):
        said = list(self.read)[2]
        if said in self.open and not select.select([said], [], [], 0)[0]:
            os.kill(self.pid, signal.SIGKILL)


_ready = {}  # (interpreter, rank) -> Ready


def prepare(python, n_ranks):
    """All of them at once: they import side by side."""
    for rank in range(n_ranks):
        if (python, rank) not in _ready:
            _ready[python, rank] = Ready(python)


def fork(command, environment, rank=0, own_end=False):
    """As if the command, an interpreter and its program, had been started. own_end: it
    ends as an interpreter does, which takes a second, and PyTorch aborts now and then."""
    prepare(command[0], rank + 1)
    return Fork(_ready[command[0], rank], command[1:], environment, own_end)


def interpreter(python, n_ranks, modules, **more):
    """The path of a stand-in for the interpreter, wherever it is started from: with
    what has imported the modules, the framework first, once for each of n_ranks
    in this environment, which is more than the test's own."""
    ready = [Ready(python, modules, **more) for _ in range(n_ranks)]
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = pathlib.Path(folder.name) / "python"
    words = shlex.join([sys.executable, "-IS", str(STAND_IN), *(one.door for one in ready)])
    path.write_text('#!/bin/sh\nexec %s -- "$@"\n' % words)
    path.chmod(0o700)
    return str(path)
