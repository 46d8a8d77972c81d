# SPDX-License-Identifier: Apache-2.0
"""Where a rank of a job is met by the others.

The address is, of these, the first that there is:

    TAUT_RUN_ADDRESS    where it is one of this host: a host that has several of them
    GLOO_SOCKET_IFNAME  that of the interface, as the job's process group has it
    MASTER_ADDR         that of the interface towards it, which needs no answer to
                        be known; else the same of the store of the job. A job
                        without process group: towards where its ranks meet
    another host's      where the one before is loopback, because the host's own
                        name means 127.0.1.1 there: towards a rank elsewhere

Ranks on several hosts that would be met at loopback are not met at all: ValueError,
on all ranks. PyTorch is asked for where it is there: jobs of others come here, too."""

import fcntl
import functools
import ipaddress
import os
import socket
import struct

from ._ports import Port  # noqa: F401

_SIOCGIFADDR = 0x8915
_GLOBAL, _ROW = "00", 6  # of /proc/net/if_inet6: scope, words


def addresses(process_group, gather=None, store=None):
    """Of all ranks of a process group, by rank; the same list on all. gather(mine):
    what all ranks said, by rank; of its own: by a collective of the group's. store:
    that of the job; None: that of its default group."""
    gather = gather or functools.partial(_gather, process_group)
    return of_ranks(process_group.rank(), gather, _master(store))


def of_ranks(rank, gather, master):
    """The same of any job. master: the host at which its ranks meet, or None. How
    often ranks gather depends on no rank's environment."""
    first = gather(_own(master))
    for other, (_, _, why, _, _) in enumerate(first):
        if why:
            raise ValueError("rank %d: %s" % (other, why))
    found = {name for _, _, _, name, is_here in first if is_here}
    for _, _, _, name, _ in first:
        if name and name not in found:
            raise ValueError("TAUT_RUN_ADDRESS: %s is on no host of the job" % name)
    host, own = first[rank][:2]
    elsewhere = [a for h, a, *_ in first if h != host and a and not is_loopback(a)]
    if elsewhere and (not own or is_loopback(own)):
        own = towards(elsewhere[0])
    found = gather(own or "127.0.0.1")
    if len({h for h, *_ in first}) > 1:
        for other, address in enumerate(found):
            if is_loopback(address):
                raise ValueError(
                    "rank %d would be met at %s, which other hosts cannot reach: "
                    "GLOO_SOCKET_IFNAME names an interface, TAUT_RUN_ADDRESS an address"
                    % (other, address)
                )
    return found


def _gather(process_group, mine):
    import torch.distributed as dist

    said = [None] * process_group.size()
    dist.all_gather_object(said, mine, group=process_group)
    return said


def _own(master):
    """Which host, as far as loopback reaches; its address or None; what is wrong; what
    TAUT_RUN_ADDRESS says, and whether that is of this host."""
    name = os.environ.get("TAUT_RUN_ADDRESS")
    try:
        is_here = bool(name and _of_this_host(name))
        return _host(), _asked_for() or towards(master), None, name, is_here
    except (ValueError, OSError) as why:
        return _host(), None, str(why), name, False


def _host():
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip() + " " + os.readlink("/proc/self/ns/net")
    except OSError:
        return socket.gethostname()


def _master(store):
    name = os.environ.get("MASTER_ADDR")
    if name:
        return name
    try:
        store = store or _default_store()
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        return getattr(store, "host", None)
    except (RuntimeError, ValueError):
        return None


def _default_store():
    import torch.distributed as dist

    return dist.distributed_c10d._get_default_store()


def _asked_for():
    name = os.environ.get("TAUT_RUN_ADDRESS")
    own = name and _of_this_host(name)
    if own:
        return own
    names = os.environ.get("GLOO_SOCKET_IFNAME", "")
    for name in filter(None, names.split(",")):
        found = of_interface(name)
        if found:
            return found
    if names:
        raise ValueError("GLOO_SOCKET_IFNAME: no interface %s has an address" % names)
    return None


def _of_this_host(name):
    """An address of this host; None: the name means none of it."""
    for family, _, _, _, address in _look_up(name):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                s.bind((address[0], 0))
            return address[0]
        except OSError:
            pass
    return None


def _look_up(name):
    """Its addresses; none: the name means nothing here, as a host's may elsewhere without DNS."""
    try:
        return socket.getaddrinfo(name, 9, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []


def of_interface(name):
    """Its address, or None."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            row = fcntl.ioctl(s, _SIOCGIFADDR, struct.pack("256s", os.fsencode(name)[:15]))
        return socket.inet_ntoa(row[20:24])
    except OSError:
        return _of_interface_6(name)


def _of_interface_6(name):
    try:
        with open("/proc/net/if_inet6") as f:
            rows = [line.split() for line in f]
    except OSError:
        return None
    for row in rows:
        if len(row) == _ROW and row[5] == name and row[3] == _GLOBAL:
            return str(ipaddress.IPv6Address(int(row[0], 16)))
    return None


def towards(name):
    """The address by which this host sends there; None: it cannot."""
    for family, _, _, _, there in _look_up(name) if name else []:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                s.connect(there)
                return s.getsockname()[0]
        except OSError:
            pass
    return None


def is_loopback(address):
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
