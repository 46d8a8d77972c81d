# SPDX-License-Identifier: Apache-2.0
"""include/taut/sched.h by ctypes."""

import ctypes

from . import _lib


class Options(ctypes.Structure):
    _fields_ = [
        ("order", ctypes.c_int),
        ("n_ranks", ctypes.c_uint32),
        ("piece_bytes", ctypes.c_uint64),
        ("align_bytes", ctypes.c_uint64),
        ("credit_bytes", ctypes.c_uint64),
        ("fuse_bytes", ctypes.c_uint64),
    ]


class Piece(ctypes.Structure):
    _fields_ = [
        ("task", ctypes.c_uint32),
        ("iteration", ctypes.c_uint32),
        ("number", ctypes.c_uint64),
        ("first_byte", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
    ]


class Counts(ctypes.Structure):
    _fields_ = [
        ("rounds", ctypes.c_uint64),
        ("pieces", ctypes.c_uint64),
        ("starts", ctypes.c_uint64),
        ("overtaken", ctypes.c_uint64),
        ("most_under_way_bytes", ctypes.c_uint64),
    ]


_pointer, _u32, _u64, _i64, _error = _lib.pointer, _lib.u32, _lib.u64, _lib.i64, _lib.error
_words = ctypes.POINTER(_u64)
_START = ctypes.CFUNCTYPE(
    ctypes.c_int, _pointer, ctypes.POINTER(Piece), ctypes.c_size_t, _error
)
_AGREE = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, _u64, _words, ctypes.c_size_t, _error)
_DONE = ctypes.CFUNCTYPE(None, _pointer, _u32, _u32, ctypes.c_int)


class _Engine(ctypes.Structure):
    _fields_ = [("start", _START), ("agree", _AGREE), ("done", _DONE)]


_TABLE = (
    (
        "taut_sched_create",
        ctypes.c_int,
        [ctypes.POINTER(Options), ctypes.POINTER(_Engine), _pointer]
        + [ctypes.POINTER(_pointer), _error],
    ),
    ("taut_sched_destroy", None, [_pointer]),
    (
        "taut_sched_declare",
        ctypes.c_int,
        [_pointer, _u64, _i64, _u32, ctypes.POINTER(_u32), _error],
    ),
    ("taut_sched_join", ctypes.c_int, [_pointer, _error]),
    ("taut_sched_ready", ctypes.c_int, [_pointer, _u32, _error]),
    ("taut_sched_finished", ctypes.c_int, [_pointer, _u64, _error]),
    (
        "taut_sched_agreed",
        ctypes.c_int,
        [_pointer, _u64, _words, ctypes.c_size_t, _error],
    ),
    ("taut_sched_asked", ctypes.c_int, [_pointer, _u64, _error]),
    ("taut_sched_fail", None, [_pointer, ctypes.c_int, ctypes.c_char_p]),
    ("taut_sched_counts", None, [_pointer, ctypes.POINTER(Counts)]),
)


class Sched:
    """A scheduler whose engine has start(pieces), agree(round, words) and
    done(task, iteration, status), as in the header; what start() or agree()
    raises is the scheduler's end. All calls from one thread."""

    def __init__(self, options, engine):
        self.lib = _lib.declare(_TABLE)
        self.engine = engine
        self.calls = _Engine(_START(self._start), _AGREE(self._agree), _DONE(self._done))
        self.sched = _pointer()
        self._call(
            "create",
            ctypes.byref(options),
            ctypes.byref(self.calls),
            None,
            ctypes.byref(self.sched),
            has_sched=False,
        )

    def _call(self, name, *arguments, has_sched=True):
        own = (self.sched,) if has_sched else ()
        _lib.call(getattr(self.lib, "taut_sched_" + name), *own, *arguments)

    def _start(self, _, pieces, n, error):
        return self._guard(error, self.engine.start, [_copy(pieces[i]) for i in range(n)])

    def _agree(self, _, number, words, n, error):
        return self._guard(error, self.engine.agree, number, [words[i] for i in range(n)])

    def _done(self, _, task, iteration, status):
        self.engine.done(task, iteration, status)

    @staticmethod
    def _guard(error, call, *arguments):
        try:
            call(*arguments)
        except Exception as why:
            text = ("%s: %s" % (type(why).__name__, why)).encode("utf-8", "replace")
            error.contents.code = _lib.EIO
            error.contents.offset = -1
            error.contents.message = text.splitlines()[0][:495]
            return _lib.EIO
        return _lib.OK

    def declare(self, nbytes, priority):
        task = _u32()
        self._call("declare", nbytes, priority, _lib.NONE, ctypes.byref(task))
        return task.value

    def join(self):
        """The task that was declared last goes with the one before it."""
        self._call("join")

    def ready(self, task):
        self._call("ready", task)

    def finished(self, number):
        self._call("finished", number)

    def agreed(self, number, words):
        self._call("agreed", number, (_u64 * len(words))(*words), len(words))

    def asked(self, number):
        self._call("asked", number)

    def fail(self, why):
        self.lib.taut_sched_fail(self.sched, _lib.EIO, why.encode("utf-8", "replace"))

    def counts(self):
        counts = Counts()
        self.lib.taut_sched_counts(self.sched, ctypes.byref(counts))
        return counts

    def destroy(self):
        sched, self.sched = self.sched, None
        if sched:
            self.lib.taut_sched_destroy(sched)


def _copy(piece):
    """The array is the scheduler's only during the call."""
    return piece.task, piece.number, piece.first_byte, piece.bytes
