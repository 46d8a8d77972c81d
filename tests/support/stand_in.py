# SPDX-License-Identifier: Apache-2.0
"""stand_in.py DOOR... -- PROGRAM [WORD...]: in place of an interpreter that imports a
framework, a fork of one that has: that of the door of this process's rank. Its output, its
errors, its environment and its end are the same. Made by forks.py."""

import json
import os
import signal
import socket
import sys


def rank():
    for name in ("TAUT_RANK", "OMPI_COMM_WORLD_RANK", "RANK"):
        if os.environ.get(name):
            return int(os.environ[name])
    return 0


def end(status):
    """As the fork did."""
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def main(words):
    at = words.index("--")
    doors, words = words[:at], words[at + 1 :]
    asks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asks.connect("\0" + doors[rank() % len(doors)])
    told = {"words": words, "environment": dict(os.environ), "own_end": True, "folder": os.getcwd()}
    socket.send_fds(asks, [json.dumps(told).encode()], [1, 2])
    pid = int(asks.recv(64))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    said = asks.recv(64)
    end(int(said) if said else -signal.SIGKILL)


main(sys.argv[1:])
