# SPDX-License-Identifier: Apache-2.0
"""Cores for what a rank starts beside itself. A rank that was bound to some would have
it compute on these, too, as a process inherits them."""

import concurrent.futures
import contextlib
import os
import socket


def of_rank():
    """What spare() must know of each rank: its host, the cores that its threads may
    use, and those of its launcher, which bound it but may use all that the job has."""
    return _host(), _own(), _of(os.getppid())


def spare(rank, ranks):
    """Of what the rank's launcher may use, cores that no rank of the host has; ranks:
    of_rank() of each. Empty: there are none, or ranks are not bound."""
    host, _, found = ranks[rank]
    taken = [core for other, cores, _ in ranks if other == host for core in cores]
    return sorted(set(found) - set(taken))


def start(cores, call):
    """call(), whose processes have these cores; none: those of this thread. A thread of
    its own makes it, so that this one stays where it is."""
    if not cores:
        return call()
    with concurrent.futures.ThreadPoolExecutor(1, initializer=_bind, initargs=(cores,)) as pool:
        return pool.submit(call).result()


def _bind(cores):
    with contextlib.suppress(OSError):  # they are the host's no more
        os.sched_setaffinity(0, cores)


def _host():
    """Cores are numbered by the kernel, for all its containers."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip()
    except OSError:
        return socket.gethostname()


def _own():
    cores = set(_of(0))
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            cores.update(_of(int(thread)))
    return sorted(cores)


def _of(thread):
    """None of one that is gone, or may not be asked."""
    try:
        return sorted(os.sched_getaffinity(thread))
    except OSError:
        return []
