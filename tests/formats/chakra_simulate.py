# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces, read and run by what their schema says alone: a
second implementation, which shares nothing with the command.

A file is a row of messages, each behind its length as a varint. A node starts
when all that it waits for has ended; a collective when it could start on every
rank of its communicator, and a receive when its send could. Ranks agree on
which collective is which by counting, in the order of their ids."""

import collections
import gzip
import heapq
import json
import pathlib
import re

METADATA, COMP, SEND, RECV, COLL = 1, 4, 5, 6, 7


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, wire type, value) of each field; bytes for type 2."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 2:
            size, at = varint(data, at)
            value = data[at:at + size]
            assert len(value) == size
            at += size
        else:
            size = {1: 8, 5: 4}[wire]
            value = data[at:at + size]
            at += size
        yield tag >> 3, wire, value


def packed(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def messages(path):
    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    at = 0
    while at < len(data):
        size, at = varint(data, at)
        assert at + size <= len(data)
        yield data[at:at + size]
        at += size


def attribute(data):
    name = value = None
    for number, wire, got in fields(data):
        if number == 1:
            name = got.decode()
        elif number != 2:
            value = got.decode() if number == 29 else got
    return name, value


class Node:
    def __init__(self, data):
        self.id = self.start = self.dur = self.type = 0
        self.name = ""
        self.ctrl, self.data, self.attrs = [], [], {}
        for number, wire, value in fields(data):
            if number == 1:
                self.id = value
            elif number == 2:
                self.name = value.decode()
            elif number == 3:
                self.type = value
            elif number in (4, 5):
                waits = packed(value) if wire == 2 else [value]
                (self.ctrl if number == 4 else self.data).extend(waits)
            elif number == 6:
                self.start = value
            elif number == 7:
                self.dur = value
            elif number == 10:
                self.attrs.update([attribute(value)])

    @property
    def waits(self):
        return set(self.ctrl) | set(self.data)


class Rank:
    def __init__(self, path):
        every = list(messages(path))
        self.metadata = dict(attribute(value)
                             for number, _, value in fields(every[0])
                             if number == 2)
        self.nodes = [Node(data) for data in every[1:]]


def read(folder):
    """The ranks of a folder, and the ranks behind each communicator."""
    paths = {int(re.search(r"\.(\d+)\.et$", p.name)[1]): p
             for p in pathlib.Path(folder).glob("*.et")}
    groups = json.loads((pathlib.Path(folder) /
                         "comm_groups.json").read_text())
    return {rank: Rank(path) for rank, path in sorted(paths.items())}, groups


def meetings(ranks, groups):
    """Which nodes begin together: {(rank, id): [(rank, id), ...]}."""
    seen = collections.Counter()
    places = collections.defaultdict(list)
    sizes = {}
    for rank, each in ranks.items():
        for node in sorted(each.nodes, key=lambda n: n.id):
            if node.type == COLL:
                key = ("coll", node.attrs["pg_name"])
                sizes[key] = groups[node.attrs["pg_name"]]
            elif node.type in (SEND, RECV):
                key = (node.attrs["comm_src"], node.attrs["comm_dst"])
                sizes[key] = key
            else:
                continue
            nth = seen[(rank, key)]
            seen[(rank, key)] += 1
            places[(key, nth)].append((rank, node.id))
    for (key, _), members in places.items():
        if sorted(rank for rank, _ in members) != sorted(sizes[key]):
            raise AssertionError(f"{key}: {members} of {sizes[key]}")
    return {member: members for members in places.values()
            for member in members}


def simulate(ranks, groups, waits=lambda node: node.waits):
    """{(rank, id): (start, end)}, in microseconds."""
    nodes = {(rank, node.id): node
             for rank, each in ranks.items() for node in each.nodes}
    left = {key: len(waits(node)) for key, node in nodes.items()}
    after = collections.defaultdict(list)
    for (rank, number), node in nodes.items():
        for wait in waits(node):
            after[(rank, wait)].append((rank, number))
    together = meetings(ranks, groups)
    missing = {id(m): len(m) for m in together.values()}
    ready = [(0, key) for key in nodes if not left[key]]
    could = {key: 0 for key in nodes}
    times = {}
    heapq.heapify(ready)
    while ready:
        at, key = heapq.heappop(ready)
        met = together.get(key, [key])
        if key in together:
            missing[id(met)] -= 1
            if missing[id(met)]:
                continue
        for member in met:
            end = at + nodes[member].dur
            times[member] = (at, end)
            for follower in after[member]:
                could[follower] = max(could[follower], end)
                left[follower] -= 1
                if not left[follower]:
                    heapq.heappush(ready, (could[follower], follower))
    if len(times) != len(nodes):
        raise AssertionError(f"{len(nodes) - len(times)} nodes never start")
    return times
