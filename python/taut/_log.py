# SPDX-License-Identifier: Apache-2.0
"""libtaut-record.so by ctypes: event logs and the comparison of clocks.

See include/taut/record.h. Nothing here raises but the constructors: OSError
says why there is no library or no log."""

import ctypes
import os

# Of enum taut_kind in include/taut/trace.h.
KIND_LOAD = 14
KIND_LOAD_WAIT = 15

_RECORD_BYTES = 128
_libraries = {}


class _Options(ctypes.Structure):
    _fields_ = [
        ("source", ctypes.c_char_p),
        ("rank", ctypes.c_int32),
        ("world_size", ctypes.c_int32),
        ("local_rank", ctypes.c_int32),
        ("capacity", ctypes.c_uint32),
    ]


class _Error(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_int),
        ("offset", ctypes.c_int64),
        ("message", ctypes.c_char * 496),
    ]


class Load(ctypes.Structure):
    """struct taut_log_load"""

    _fields_ = [
        ("cpu_ns", ctypes.c_int64),
        ("queued_ns", ctypes.c_int64),
        ("others_ns", ctypes.c_int64),
        ("read_bytes", ctypes.c_int64),
        ("storage_bytes", ctypes.c_int64),
        ("samples", ctypes.c_int32),
    ]


class Piece(ctypes.Structure):
    """struct taut_log_piece"""

    _fields_ = [
        ("exchange", ctypes.c_uint32),
        ("task", ctypes.c_uint32),
        ("group", ctypes.c_uint32),
        ("group_ranks", ctypes.c_uint32),
        ("group_size", ctypes.c_int32),
        ("message", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
    ]


class _ClockOffset(ctypes.Structure):
    _fields_ = [
        ("at_ns", ctypes.c_int64),
        ("offset_ns", ctypes.c_int64),
        ("half_width_ns", ctypes.c_int64),
        ("answers", ctypes.c_uint32),
    ]


def _declare(lib):
    pointer, text, i32, i64, u32 = (
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int32,
        ctypes.c_int64,
        ctypes.c_uint32,
    )
    error = ctypes.POINTER(_Error)
    out = ctypes.POINTER(ctypes.c_void_p)
    offset = ctypes.POINTER(_ClockOffset)
    load = ctypes.POINTER(Load)
    u16 = ctypes.c_uint16
    for name, result, arguments in (
        ("taut_log_open", ctypes.c_int, [text, ctypes.POINTER(_Options), out, error]),
        ("taut_log_close", None, [pointer]),
        ("taut_log_ranks", None, [pointer, i32, i32, i32]),
        ("taut_log_state", None, [pointer, text]),
        ("taut_log_text", u32, [pointer, text]),
        ("taut_log_lane", None, [pointer, i64, text]),
        ("taut_log_span", None, [pointer, u32, u32, i64, i64, i64, u32]),
        ("taut_log_load", None, [pointer, u32, u32, i64, i64, i64, u32, load]),
        ("taut_log_gradient", None, [pointer, u32, u32, u32, i64]),
        ("taut_log_sum_call", None, [pointer, u32, u32, ctypes.c_int, i64, i64, i64]),
        ("taut_log_piece", None, [pointer, i64, i64, ctypes.POINTER(Piece)]),
        ("taut_log_fact", None, [pointer, text, text]),
        ("taut_log_clock", None, [pointer, offset]),
        ("taut_clock_serve", ctypes.c_int, [out, ctypes.POINTER(u16), error]),
        ("taut_clock_stop", None, [pointer]),
        ("taut_clock_ask", ctypes.c_int, [text, u16, u32, u32, offset, error]),
    ):
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


def library():
    """The library that TAUT_RECORD_LIB names, loaded once. OSError: why not."""
    path = os.environ.get("TAUT_RECORD_LIB")
    if not path:
        raise OSError("TAUT_RECORD_LIB is not set")
    if path not in _libraries:
        try:
            _libraries[path] = _declare(ctypes.CDLL(path))
        except AttributeError as error:
            raise OSError("%s: %s" % (path, error))
    return _libraries[path]


def _bytes(text):
    return text.encode("utf-8", "surrogateescape")


class Log:
    """One open event log. Spans may be written by any thread."""

    def __init__(self, path, source, ranks=None, capacity=0):
        """ranks: (rank, world size, local rank), each None where not known."""
        self.lib = library()
        self.path = path
        numbers = [-1 if n is None else n for n in ranks or (None,) * 3]
        options = _Options(_bytes(source), *numbers, capacity)
        error, log = _Error(), ctypes.c_void_p()
        if self.lib.taut_log_open(
            _bytes(path), ctypes.byref(options), ctypes.byref(log), ctypes.byref(error)
        ):
            raise OSError(error.message.decode("utf-8", "replace"))
        self.log = log
        self.texts = {}

    def text(self, text):
        if text not in self.texts:
            self.texts[text] = self.lib.taut_log_text(self.log, _bytes(text))
        return self.texts[text]

    def span(self, name, kind, lane, start_ns, end_ns, correlation=0):
        if self.log:
            self.lib.taut_log_span(
                self.log, self.text(name), kind, lane, start_ns, end_ns, correlation
            )

    def load(self, name, kind, lane, start_ns, end_ns, correlation, load):
        if self.log:
            self.lib.taut_log_load(
                self.log,
                self.text(name),
                kind,
                lane,
                start_ns,
                end_ns,
                correlation,
                ctypes.byref(load),
            )

    def gradient(self, exchange, task, dtype, elements):
        if self.log:
            self.lib.taut_log_gradient(self.log, exchange, task, self.text(dtype), elements)

    def sum_call(self, exchange, task, waits, lane, start_ns, end_ns):
        if self.log:
            self.lib.taut_log_sum_call(self.log, exchange, task, waits, lane, start_ns, end_ns)

    def piece(self, start_ns, end_ns, piece):
        """piece: a Piece, of which the texts are ids of text()."""
        if self.log:
            self.lib.taut_log_piece(self.log, start_ns, end_ns, ctypes.byref(piece))

    def lane(self, lane, name):
        if self.log:
            self.lib.taut_log_lane(self.log, lane, _bytes(name))

    def fact(self, key, value):
        if self.log:
            self.lib.taut_log_fact(self.log, _bytes(key), _bytes(value))

    def ranks(self, ranks):
        if self.log:
            self.lib.taut_log_ranks(self.log, *[-1 if n is None else n for n in ranks])

    def state(self, line):
        if self.log:
            self.lib.taut_log_state(self.log, _bytes(line))

    def clock(self, offset):
        if self.log:
            self.lib.taut_log_clock(self.log, ctypes.byref(offset))

    def close(self):
        log, self.log = self.log, None
        if log:
            self.lib.taut_log_close(log)


class ClockServer:
    """Answers who asks for the time, until stopped."""

    def __init__(self):
        self.lib = library()
        error, self.server, port = _Error(), ctypes.c_void_p(), ctypes.c_uint16()
        if self.lib.taut_clock_serve(
            ctypes.byref(self.server), ctypes.byref(port), ctypes.byref(error)
        ):
            raise OSError(error.message.decode("utf-8", "replace"))
        self.port = port.value

    def stop(self):
        server, self.server = self.server, None
        if server:
            self.lib.taut_clock_stop(server)


def ask_clock(host, port, timeout_ms):
    """The offset to a server's clock, for Log.clock(). OSError: no answer."""
    lib, offset, error = library(), _ClockOffset(), _Error()
    if lib.taut_clock_ask(
        _bytes(host), port, 0, timeout_ms, ctypes.byref(offset), ctypes.byref(error)
    ):
        raise OSError(error.message.decode("utf-8", "replace"))
    return offset
