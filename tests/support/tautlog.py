# SPDX-License-Identifier: Apache-2.0
"""Reads event logs (src/base/log_format.h) for tests: what is there, and
nothing repaired."""

import collections
import pathlib
import struct

HEADER_BYTES = 4096
RECORD_BYTES = 128
_HEADER = struct.Struct("<8sIIiiiiQQqq32s64s64s256s")
_RECORD = struct.Struct("<IIqqqII")
_COMM = struct.Struct("<IIIIqqqiiii")
_CHUNK = struct.Struct("<iiiiqqqq")
_CLOCK = struct.Struct("<qq")

UNUSED, TEXT, LANE, SPAN, COMM, CHUNK, CLOCK, FACT, LOAD = range(9)
KINDS = (
    "other op annotation python runtime kernel memcpy memset sync gpu_range "
    "overhead step comm chunk load load_wait"
).split()

Event = collections.namedtuple(
    "Event", "type name start_ns end_ns lane kind correlation comm chunk"
)
Comm = collections.namedtuple(
    "Comm",
    "collective group group_ranks dtype in_elements out_elements seq "
    "group_size src dst root",
)
Chunk = collections.namedtuple(
    "Chunk", "peer channel step sends bytes gpu_late_ns peer_late_ns network_ns"
)
Clock = collections.namedtuple("Clock", "at_ns offset_ns half_width_ns")


def _text(raw):
    return raw.split(b"\0")[0].decode()


class Log:
    """One log: header fields, .events, .lanes, .facts, .clocks."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        data = self.path.read_bytes()
        head = _HEADER.unpack_from(data)
        if head[0] != b"TAUTLOG1" or head[1:3] != (HEADER_BYTES, RECORD_BYTES):
            raise ValueError("%s is no event log" % path)
        self.rank, self.world_size, self.local_rank, self.pid = head[3:7]
        self.capacity, self.reserved, self.opened_ns, self.closed_ns = head[7:11]
        self.source, self.host, self.clock, self.state = map(_text, head[11:15])
        self.texts = {0: ""}
        self.events, self.lanes, self.facts, self.clocks = [], {}, {}, []
        self._read(data)

    def _read(self, data):
        records = list(self._records(data))
        for at, type_, fields in records:
            if type_ == TEXT:
                (length,) = struct.unpack_from("<I", data, at + 40)
                begin = at + RECORD_BYTES
                self.texts[fields[0]] = data[begin : begin + length].decode()
        for at, type_, fields in records:
            if type_ != TEXT:
                self._add(data, at, type_, fields)

    def _records(self, data):
        at = HEADER_BYTES
        end = at + min(self.reserved, self.capacity) * RECORD_BYTES
        while at + RECORD_BYTES <= min(end, len(data)):
            type_, *fields = _RECORD.unpack_from(data, at)
            if type_ != UNUSED:
                yield at, type_, fields
            at += RECORD_BYTES
            if type_ == TEXT:
                (length,) = struct.unpack_from("<I", data, at - RECORD_BYTES + 40)
                at += -(-length // RECORD_BYTES) * RECORD_BYTES

    def _add(self, data, at, type_, fields):
        name, start, end, lane, kind, correlation = fields
        text = self.texts.get(name, "")
        at += _RECORD.size
        if type_ == LANE:
            self.lanes[lane] = text
        elif type_ == FACT:
            (value,) = struct.unpack_from("<I", data, at)
            self.facts[text] = self.texts.get(value, "")
        elif type_ == CLOCK:
            self.clocks.append(Clock(start, *_CLOCK.unpack_from(data, at)))
        else:
            comm = chunk = None
            if type_ == COMM:
                raw = _COMM.unpack_from(data, at)
                texts = [self.texts.get(i, "") for i in raw[:4]]
                comm = Comm(*texts, *raw[4:])
            elif type_ == CHUNK:
                chunk = Chunk(*_CHUNK.unpack_from(data, at))
            self.events.append(
                Event(
                    type_, text, start, end, lane, KINDS[kind], correlation, comm, chunk
                )
            )

    def comms(self, *names):
        """Events of communication, of these names or of all."""
        return [e for e in self.events if e.comm and (not names or e.name in names)]


def read_ranks(run, source="mpi"):
    """{rank: Log} of the logs in RUN/rankN/ that a source wrote."""
    logs = {}
    for path in sorted(pathlib.Path(run).glob("rank*/%s-*.tautlog" % source)):
        log = Log(path)
        if log.rank in logs:
            raise ValueError("two logs of rank %d" % log.rank)
        logs[log.rank] = log
    return logs
