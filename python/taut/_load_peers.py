# SPDX-License-Identifier: Apache-2.0
"""Peers of a loader (taut/peers.h) by ctypes: who they are, where they meet.

TAUT_PEERS_HOST, where it is set, says which ranks share a cache: those that have the same
there. Else those do that can share memory."""

import ctypes
import os
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int64,
    c_uint32,
    c_uint64,
    c_void_p,
)

from . import _launcher, _lib, _load

_PORT = 2  # behind the launcher's own; the next one is that of collectives


class Options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("rank", c_uint32),
        ("n_ranks", c_uint32),
        ("meet", c_char_p),
        ("secret", c_char_p),
        ("door", c_char_p),
        ("host", c_char_p),
        ("cache_bytes", c_uint64),
        ("n_asks", c_uint32),
        ("meet_within_ns", c_int64),
        ("lost_after_ns", c_int64),
        ("answer_within_ns", c_int64),
    ]


class Counts(Structure):
    _fields_ = [
        ("n_hosts", c_uint32),
        ("n_ranks", c_uint32),
        ("share_items", c_uint64),
        ("share_bytes", c_uint64),
        ("asked", c_uint64),
        ("came", c_uint64),
        ("came_bytes", c_uint64),
        ("late", c_uint64),
        ("served", c_uint64),
        ("served_bytes", c_uint64),
        ("refused", c_uint64),
        ("lost", c_uint32),
        ("left", c_uint32),
    ]


_TABLE = (
    ("taut_peers_create", c_int, [c_void_p, POINTER(Options), POINTER(c_void_p), _lib.error]),
    ("taut_peers_destroy", None, [c_void_p]),
    ("taut_peers_remote", c_void_p, [c_void_p]),
    ("taut_peers_counts", None, [c_void_p, POINTER(Counts)]),
)


def _next_port(meet):
    """The place of collectives is another one's; the one behind it is ours."""
    host, _, port = meet.rpartition(":")
    return "%s:%d" % (host, int(port) + _PORT - 1)


def _where(peers, rank, n_ranks):
    """(where rank 0 listens, where this rank does or None)"""
    if peers is True:
        place = _launcher.find()
        if place.size != n_ranks or place.rank != rank:
            raise ValueError(
                "peers: the launcher counts rank %d of %d, the loader %d of %d: say where they meet"
                % (place.rank, place.size, rank, n_ranks)
            )
        return _next_port(place.meet), None
    if isinstance(peers, str):
        return peers, None
    peers = list(peers)
    if len(peers) != n_ranks:
        raise ValueError("peers: %d addresses for %d ranks" % (len(peers), n_ranks))
    return peers[0], peers[rank] if rank else None


class Peers:
    """Of one process; meets the others when it is made."""

    def __init__(self, meet, door, rank, n_ranks, found, cache_bytes):
        place = _launcher.Place(rank, n_ranks, None, None, meet)
        self._peers = c_void_p()
        self._lib = _lib.declare(_TABLE)
        options = Options(
            size=ctypes.sizeof(Options),
            rank=rank,
            n_ranks=n_ranks,
            meet=meet.encode(),
            secret=_launcher.secret(place).encode(),
            door=door.encode() if door else None,
            host=os.environ.get("TAUT_PEERS_HOST", "").encode() or None,
            cache_bytes=cache_bytes,
        )
        _load.call("taut_peers_create", found, byref(options), byref(self._peers))

    @property
    def remote(self):
        return self._lib.taut_peers_remote(self._peers)

    def counts(self):
        counts = Counts()
        self._lib.taut_peers_counts(self._peers, byref(counts))
        return {"peers_" + name: getattr(counts, name) for name, _ in counts._fields_}

    def close(self):
        peers, self._peers = self._peers, None
        if peers:
            self._lib.taut_peers_destroy(peers)


def find(peers, rank, n_ranks, found, cache_bytes):
    """Peers; None: none are asked for, or there is nobody else."""
    if not peers or n_ranks == 1:
        return None
    if not cache_bytes:
        raise ValueError("peers: each host keeps a part of the items: say cache_bytes")
    return Peers(*_where(peers, rank, n_ranks), rank, n_ranks, found, cache_bytes)
