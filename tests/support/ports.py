# SPDX-License-Identifier: Apache-2.0
"""Ports for a test's own listeners, which nobody takes before they listen.

A port that the system gave to a bind() that ended is soon given again: to another
test, or to a connection that anybody makes. So these are below those that Linux
gives away (net.ipv4.ip_local_port_range, from 32768 on) and below 20000, where Taut
finds some itself; and who has them holds a lock until the process ends: a Unix
socket of an abstract name, of the network namespace as ports are. ranks.h does the
same for tests in C."""

import random
import socket

FIRST, BLOCKS, BLOCK = 10000, 1250, 8
_locks = []


def free_port():
    """The first of BLOCK ports in a row, which are the caller's."""
    for block in random.sample(range(BLOCKS), BLOCKS):
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind("\0taut-test-ports-%d" % block)
            for port in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
                with socket.socket() as one:  # of somebody who is no test
                    one.bind(("", port))
        except OSError:
            lock.close()
            continue
        _locks.append(lock)
        return FIRST + block * BLOCK
    raise OSError("no free ports")


def free_ports(n):
    return [free_port() for _ in range(n)]
