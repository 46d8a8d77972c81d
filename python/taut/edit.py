# SPDX-License-Identifier: Apache-2.0
"""What would change if: a recorded job's graph, changed and replayed.

    from taut.edit import Graph

    graph = Graph.open("run")
    edit = graph.edit()
    edit.scale(edit.select(name="*gemm*", kinds=["kernel"]), 0.5)
    print(graph.replay().steady_ns, edit.build().replay().steady_ns)

A thin skin of libtaut (taut/edit.h has every rule): operations, lanes, ranks and
collectives are numbers, times are nanoseconds, bytes are bytes. A mistake is a
ValueError, what is no recording an OSError. The library is the one that TAUT_LIB
names, or the installed one. A replay here shares no links: `taut whatif` does.
"""

import collections
import contextlib
import ctypes
import os
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint,
    c_uint8,
    c_uint32,
    c_void_p,
)

NONE = 0xFFFFFFFF  # no such op, lane, event: TAUT_NONE
FROM_START = 0x80  # an edge counts from the start of what it leads from

KINDS = (
    "host", "launch", "return", "kernel", "copy", "arrive", "transfer", "join", "mark",
)  # fmt: skip
WAITS = ("launch", "sync", "stream", "thread", "comm", "start")

Op = collections.namedtuple(
    "Op", "dur_ns gap_ns lane name event collective kind like"
)
Op.__doc__ = "One operation; name and kind are texts."
Wait = collections.namedtuple("Wait", "op lag_ns kind from_start")
Wait.__doc__ = "An edge, seen from one end; op is the other."


class _Error(Structure):
    _fields_ = [("code", c_int), ("offset", c_int64), ("message", c_char * 496)]


class _Op(Structure):
    _fields_ = [
        ("dur_ns", c_int64),
        ("gap_ns", c_int64),
        ("lane", c_uint32),
        ("name", c_uint32),
        ("event", c_uint32),
        ("collective", c_uint32),
        ("kind", c_int),
        ("like", c_uint32),
    ]


class _Wait(Structure):
    _fields_ = [("op", c_uint32), ("lag_ns", c_int64), ("kind", c_uint8)]


_SEE_WAIT = ctypes.CFUNCTYPE(None, c_void_p, _Wait)
_SEE_MEMBER = ctypes.CFUNCTYPE(None, c_void_p, c_uint32)
_KEEP = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint32)


class _Select(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kinds", c_uint32),
        ("rank", POINTER(c_uint32)),
        ("lane", POINTER(c_uint32)),
        ("collective", POINTER(c_uint32)),
        ("least_dur_ns", c_int64),
        ("keep", _KEEP),
        ("context", c_void_p),
    ]


class _Member(Structure):
    _fields_ = [("lane", c_uint32), ("after", c_uint32), ("dur_ns", c_int64), ("name", c_uint32)]


class _Collective(Structure):
    _fields_ = [
        ("kind", c_int),
        ("name", c_uint32),
        ("group", c_uint32),
        ("group_size", c_int32),
        ("bytes", c_int64),
        ("seq", c_int64),
        ("first_member", c_uint32),
        ("n_members", c_uint32),
        ("join_op", c_uint32),
    ]


class _Lane(Structure):
    _fields_ = [
        ("trace", c_uint32),
        ("trace_lane", c_uint32),
        ("kind", c_int),
        ("is_main", c_int),
        ("is_comm", c_int),
    ]


class _Graph(Structure):
    """The beginning of struct taut_graph."""

    _fields_ = [
        ("run", c_void_p),
        ("names", c_void_p),
        ("n_ops", c_uint32),
        ("n_edges", c_uint32),
        ("n_lanes", c_uint32),
        ("n_steps", c_uint32),
        ("n_collectives", c_uint32),
        ("start_ns", POINTER(c_int64)),
        ("dur_ns", POINTER(c_int64)),
        ("gap_ns", POINTER(c_int64)),
        ("lane", POINTER(c_uint32)),
        ("name", POINTER(c_uint32)),
    ]


class _Timeline(Structure):
    _fields_ = [
        ("n_ops", c_uint32),
        ("start_ns", POINTER(c_int64)),
        ("end_ns", POINTER(c_int64)),
        ("decided_by", POINTER(c_uint32)),
        ("order", POINTER(c_uint32)),
        ("makespan_ns", c_int64),
        ("n_run", c_uint32),
        ("scratch", c_void_p),
    ]


_ERR = POINTER(_Error)
_STATUS_CALLS = {  # what ends with a struct taut_error: its other arguments
    "taut_run_open": [POINTER(c_char_p), c_size_t, c_void_p, POINTER(c_void_p)],
    "taut_graph_build": [c_void_p, c_void_p, POINTER(POINTER(_Graph))],
    "taut_timeline_init": [POINTER(_Timeline), POINTER(_Graph)],
    "taut_replay": [POINTER(_Graph), c_void_p, POINTER(_Timeline)],
    "taut_steady_step": [POINTER(_Graph)] + [POINTER(c_int64)] * 3,
    "taut_edit_create": [POINTER(_Graph), POINTER(c_void_p)],
    "taut_edit_add_name": [c_void_p, c_char_p, POINTER(c_uint32)],
    "taut_edit_select": [
        c_void_p, POINTER(_Select), POINTER(POINTER(c_uint32)), POINTER(c_size_t),
    ],
    "taut_edit_set_dur": [c_void_p, c_uint32, c_int64],
    "taut_edit_set_gap": [c_void_p, c_uint32, c_int64],
    "taut_edit_scale": [c_void_p, POINTER(c_uint32), c_size_t, c_double],
    "taut_edit_insert": [
        c_void_p, c_uint32, POINTER(_Op), c_char_p, POINTER(c_uint32),
    ],
    "taut_edit_remove": [c_void_p, c_uint32],
    "taut_edit_cut": [c_void_p, c_uint32],
    "taut_edit_connect": [c_void_p, c_uint32, c_uint32, c_uint, c_int64],
    "taut_edit_disconnect": [c_void_p, c_uint32, c_uint32],
    "taut_edit_move": [c_void_p, c_uint32, c_uint32, c_uint32],
    "taut_edit_add_collective": [
        c_void_p, POINTER(_Collective), POINTER(_Member), c_uint32,
        POINTER(c_uint32), POINTER(c_uint32),
    ],
    "taut_edit_remove_collective": [c_void_p, c_uint32],
    "taut_edit_copy_rank": [
        c_void_p, c_uint32, POINTER(c_uint8), POINTER(c_uint32), c_void_p,
    ],
    "taut_edit_remove_rank": [c_void_p, c_uint32],
    "taut_edit_build": [
        c_void_p, POINTER(POINTER(_Graph)), POINTER(c_uint32), POINTER(c_uint32),
    ],
}  # fmt: skip
_OTHER_CALLS = {  # result, arguments
    "taut_run_close": (None, [c_void_p]),
    "taut_graph_destroy": (None, [POINTER(_Graph)]),
    "taut_graph_settle": (None, [POINTER(_Graph)] + [POINTER(c_int64)] * 2),
    "taut_timeline_fini": (None, [POINTER(_Timeline)]),
    "taut_names_text": (c_char_p, [c_void_p, c_uint32]),
    "taut_coll_kind_name": (c_char_p, [c_int]),
    "taut_edit_destroy": (None, [c_void_p]),
    "taut_edit_mark": (c_uint32, [c_void_p]),
    "taut_edit_undo": (None, [c_void_p, c_uint32]),
    "taut_edit_name": (c_char_p, [c_void_p, c_uint32]),
    "taut_edit_ops": (c_uint32, [c_void_p]),
    "taut_edit_lanes": (c_uint32, [c_void_p]),
    "taut_edit_ranks": (c_uint32, [c_void_p]),
    "taut_edit_collectives": (c_uint32, [c_void_p]),
    "taut_edit_op": (c_int, [c_void_p, c_uint32, POINTER(_Op)]),
    "taut_edit_lane": (_Lane, [c_void_p, c_uint32]),
    "taut_edit_collective": (c_int, [c_void_p, c_uint32, POINTER(_Collective)]),
    "taut_edit_next": (c_uint32, [c_void_p, c_uint32]),
    "taut_edit_before": (c_uint32, [c_void_p, c_uint32]),
    "taut_edit_first": (c_uint32, [c_void_p, c_uint32]),
    "taut_edit_last": (c_uint32, [c_void_p, c_uint32]),
    "taut_edit_each_out": (None, [c_void_p, c_uint32, _SEE_WAIT, c_void_p]),
    "taut_edit_each_in": (None, [c_void_p, c_uint32, _SEE_WAIT, c_void_p]),
    "taut_edit_each_member": (None, [c_void_p, c_uint32, _SEE_MEMBER, c_void_p]),
}

_loaded = {}


def _library():
    path = os.environ.get("TAUT_LIB", "libtaut.so.0")
    if path not in _loaded:
        lib = ctypes.CDLL(path)
        for name, arguments in _STATUS_CALLS.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = c_int, arguments + [_ERR]
        for name, (result, arguments) in _OTHER_CALLS.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        _loaded[path] = lib
    return _loaded[path]


_libc = ctypes.CDLL(None)
_libc.free.argtypes, _libc.free.restype = [c_void_p], None

_ENOMEM, _EIO, _EFORMAT, _EINVAL, _EMATCH = -1, -2, -3, -4, -5


def _call(name, *arguments):
    error = _Error()
    status = getattr(_library(), name)(*arguments, byref(error))
    if not status:
        return
    text = error.message.decode("utf-8", "replace")
    if status == _ENOMEM:
        raise MemoryError(text)
    if status == _EINVAL or (status == _EMATCH and name == "taut_replay"):
        raise ValueError(text)
    raise OSError(text)


def _text(raw):
    return raw.decode("utf-8", "replace")


def _encoded(text):
    return text.encode("utf-8", "surrogateescape")


def _index(of, table):
    if of not in table:
        raise ValueError("%r is none of %s" % (of, ", ".join(table)))
    return table.index(of)


def _none(number):
    return None if number == NONE else number


def _or_none(number):
    return NONE if number is None else number


class Graph:
    """What waits for what, as recorded or as changed. Graph.open() reads one."""

    def __init__(self, pointer, below=None, run=None):
        self._graph, self._below, self._run = pointer, below, run

    @classmethod
    def open(cls, *paths):
        """Traces: files, or folders."""
        texts = (c_char_p * len(paths))(*[os.fsencode(path) for path in paths])
        run, graph = c_void_p(), POINTER(_Graph)()
        _call("taut_run_open", texts, len(paths), None, byref(run))
        try:
            _call("taut_graph_build", run, None, byref(graph))
        except BaseException:
            _library().taut_run_close(run)
            raise
        return cls(graph, run=run)

    def __del__(self):
        if getattr(self, "_graph", None):
            _library().taut_graph_destroy(self._graph)
        if getattr(self, "_run", None):
            _library().taut_run_close(self._run)
        self._graph = self._run = None

    def __len__(self):
        return self._graph.contents.n_ops

    def name(self, op):
        if not 0 <= op < len(self):
            raise IndexError(op)
        graph = self._graph.contents
        return _text(_library().taut_names_text(graph.names, graph.name[op]))

    def edit(self):
        """Changes to be laid over it."""
        return Edit(self)

    def replay(self):
        return Timeline(self)

    def settle(self, timeline):
        """A replay's times as if they had been recorded; of what was built."""
        if self._below is None or timeline.graph is not self:
            raise ValueError("not a built graph, or not its timeline")
        times = timeline._timeline
        _library().taut_graph_settle(self._graph, times.start_ns, times.end_ns)


class Timeline:
    """When everything happens: start_ns[op], end_ns[op], makespan_ns, and
    steady_ns, the median step without each rank's first (None: no steps)."""

    def __init__(self, graph):
        self.graph, self._timeline = graph, _Timeline()
        _call("taut_timeline_init", byref(self._timeline), graph._graph)
        _call("taut_replay", graph._graph, None, byref(self._timeline))
        times, steady = self._timeline, c_int64()
        self.start_ns = self._column(times.start_ns)
        self.end_ns = self._column(times.end_ns)
        self.makespan_ns = times.makespan_ns
        _call(
            "taut_steady_step", graph._graph, times.start_ns, times.end_ns, byref(steady)
        )
        self.steady_ns = None if steady.value < 0 else steady.value

    def _column(self, pointer):
        return pointer[: self._timeline.n_ops]

    def __del__(self):
        if getattr(self, "_timeline", None):
            _library().taut_timeline_fini(byref(self._timeline))
            self._timeline = None


class Edit:
    """Changes over a graph, which itself stays as it is. All of them can be taken
    back: mark() and undo(), or `with edit.trial():`."""

    def __init__(self, graph):
        self._graph, self._edit = graph, c_void_p()
        _call("taut_edit_create", graph._graph, byref(self._edit))

    def __del__(self):
        if getattr(self, "_edit", None):
            _library().taut_edit_destroy(self._edit)
            self._edit = None

    # --- undo ---------------------------------------------------------------

    def mark(self):
        return _library().taut_edit_mark(self._edit)

    def undo(self, mark=0):
        """Everything after the mark goes."""
        if not 0 <= mark <= self.mark():
            raise ValueError("%r is no mark" % (mark,))
        _library().taut_edit_undo(self._edit, mark)

    @contextlib.contextmanager
    def trial(self):
        """What is changed inside is taken back at the end."""
        mark = self.mark()
        try:
            yield self
        finally:
            self.undo(mark)

    # --- what is there --------------------------------------------------------

    @property
    def n_ops(self):
        """Ids given so far; some may be of removed operations."""
        return _library().taut_edit_ops(self._edit)

    @property
    def n_lanes(self):
        return _library().taut_edit_lanes(self._edit)

    @property
    def n_ranks(self):
        return _library().taut_edit_ranks(self._edit)

    @property
    def n_collectives(self):
        return _library().taut_edit_collectives(self._edit)

    def op(self, op):
        """None: it was removed, or never there."""
        found = _Op()
        if not 0 <= op < NONE or not _library().taut_edit_op(
            self._edit, op, byref(found)
        ):
            return None
        return Op(
            found.dur_ns,
            found.gap_ns,
            found.lane,
            _text(_library().taut_edit_name(self._edit, found.name)),
            _none(found.event),
            _none(found.collective),
            KINDS[found.kind],
            _none(found.like),
        )

    def lane_rank(self, lane):
        """The rank whose lane it is; None: the lane of the joins."""
        self._check_lane(lane)
        return _none(_library().taut_edit_lane(self._edit, lane).trace)

    def lane(self, lane):
        """Its operations, in order."""
        self._check_lane(lane)
        op = _library().taut_edit_first(self._edit, lane)
        while op != NONE:
            yield op
            op = _library().taut_edit_next(self._edit, op)

    def next(self, op):
        return _none(_library().taut_edit_next(self._edit, _or_none(op)))

    def before(self, op):
        return _none(_library().taut_edit_before(self._edit, _or_none(op)))

    def waits_of(self, op):
        """What op waits for, but for the one before it on its lane."""
        return self._waits(_library().taut_edit_each_in, op)

    def waiting_for(self, op):
        """What waits for op, but for the next on its lane."""
        return self._waits(_library().taut_edit_each_out, op)

    def members(self, collective):
        """The arrivals of a collective; the transfer is next() of each."""
        found = []
        _library().taut_edit_each_member(
            self._edit, collective, _SEE_MEMBER(lambda _, op: found.append(op)), None
        )
        return found

    def select(
        self, name=None, kinds=(), rank=None, lane=None, collective=None, least_ns=0
    ):
        """Operations whose name fits the shell pattern, of one of the kinds, of
        that rank, lane or collective, and at least so long."""
        numbers = [None if n is None else byref(c_uint32(n)) for n in
                   (rank, lane, collective)]  # fmt: skip
        bits = sum({1 << _index(kind, KINDS) for kind in kinds})
        by = _Select(None if name is None else _encoded(name), bits)
        by.rank, by.lane, by.collective = (
            n and ctypes.cast(n, POINTER(c_uint32)) for n in numbers
        )
        by.least_dur_ns = least_ns
        ops, n = POINTER(c_uint32)(), c_size_t()
        _call("taut_edit_select", self._edit, byref(by), byref(ops), byref(n))
        found = ops[: n.value] if n.value else []
        _libc.free(ops)
        return found

    # --- change ----------------------------------------------------------------

    def set_dur(self, op, dur_ns):
        _call("taut_edit_set_dur", self._edit, op, dur_ns)

    def set_gap(self, op, gap_ns):
        _call("taut_edit_set_gap", self._edit, op, gap_ns)

    def scale(self, ops, factor):
        """Durations times factor."""
        ops = list(ops)
        _call(
            "taut_edit_scale", self._edit, (c_uint32 * len(ops))(*ops), len(ops), factor
        )

    def insert(self, name, dur_ns, after=None, lane=None, kind="host", gap_ns=0):
        """A new operation right behind `after`, or first of lane; its number."""
        new = _Op(
            dur_ns, gap_ns, _or_none(lane), 0, NONE, NONE, _index(kind, KINDS), NONE
        )
        op = c_uint32()
        _call(
            "taut_edit_insert",
            self._edit,
            _or_none(after),
            byref(new),
            _encoded(name),
            byref(op),
        )
        return op.value

    def remove(self, op):
        """What waited for it waits for what it waited for."""
        _call("taut_edit_remove", self._edit, op)

    def cut(self, op):
        """Nothing waits for it any more, and it for nothing; it is gone."""
        _call("taut_edit_cut", self._edit, op)

    def move(self, op, after=None, lane=None):
        """Behind `after`, or first of lane; its edges stay."""
        _call("taut_edit_move", self._edit, op, _or_none(after), _or_none(lane))

    def connect(self, before, after, kind="thread", lag_ns=0, from_start=False):
        number = _index(kind, WAITS) | (FROM_START if from_start else 0)
        _call("taut_edit_connect", self._edit, before, after, number, lag_ns)

    def disconnect(self, before, after):
        _call("taut_edit_disconnect", self._edit, before, after)

    def add_collective(self, name, members, kind="all-reduce", bytes=-1, group_size=-1):
        """members: (lane, op behind which it arrives, or None, ns of its transfer).
        Its number, and the arrivals."""
        coll, n, text = _Collective(), len(members), c_uint32()
        kinds = [_text(_library().taut_coll_kind_name(i)) for i in range(12)]
        coll.kind = _index(kind, kinds)
        coll.bytes, coll.group_size, coll.seq = bytes, group_size, -1
        rows = (_Member * n)(*[(m[0], _or_none(m[1]), m[2]) for m in members])
        number, arrive = c_uint32(), (c_uint32 * max(n, 1))()
        _call("taut_edit_add_name", self._edit, _encoded(name), byref(text))
        coll.name = text.value
        _call(
            "taut_edit_add_collective",
            self._edit,
            byref(coll),
            rows,
            n,
            byref(number),
            arrive,
        )
        return number.value, arrive[:n]

    def remove_collective(self, collective):
        _call("taut_edit_remove_collective", self._edit, collective)

    def copy_rank(self, rank, joins=None):
        """A rank more, like that one; its number. joins: the collectives that it
        takes part in; None: all."""
        mask = None
        if joins is not None:
            mask = (c_uint8 * max(self.n_collectives, 1))()
            for collective in joins:
                mask[collective] = 1
        copy = c_uint32()
        _call("taut_edit_copy_rank", self._edit, rank, mask, byref(copy), None)
        return copy.value

    def remove_rank(self, rank):
        _call("taut_edit_remove_rank", self._edit, rank)

    def build(self):
        """The changed graph, to be replayed. op_of[i] of it says which of its
        operations the edit's operation i became; None: none."""
        built = POINTER(_Graph)()
        op_of = (c_uint32 * max(self.n_ops, 1))()
        _call("taut_edit_build", self._edit, byref(built), op_of, None)
        graph = Graph(built, below=self._graph)
        graph.op_of = [_none(op) for op in op_of[: self.n_ops]]
        return graph

    # --- within -------------------------------------------------------------------

    def _check_lane(self, lane):
        if not 0 <= lane < self.n_lanes:
            raise ValueError("there is no lane %r" % (lane,))

    def _waits(self, each, op):
        found = []

        def see(_, wait):
            found.append(
                Wait(
                    wait.op,
                    wait.lag_ns,
                    WAITS[wait.kind & ~FROM_START],
                    bool(wait.kind & FROM_START),
                )
            )

        each(self._edit, op, _SEE_WAIT(see), None)
        return found
