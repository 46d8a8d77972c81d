# SPDX-License-Identifier: Apache-2.0
"""libtaut.so by ctypes: what all that call it share.

Calls release the GIL. A status that is not TAUT_OK becomes Failed, with the
library's line."""

import ctypes
import os
import threading

OK, ENOMEM, EIO, EFORMAT, EINVAL, EMATCH, EAGAIN = 0, -1, -2, -3, -4, -5, -6
NONE = 0xFFFFFFFF  # TAUT_NONE
ORDERS = {"agreed": 0, "declared": 1}

_loaded = []


class Error(ctypes.Structure):
    """struct taut_error"""

    _fields_ = [
        ("code", ctypes.c_int),
        ("offset", ctypes.c_int64),
        ("message", ctypes.c_char * 496),
    ]


pointer = ctypes.c_void_p
u32, u64, i64 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64
error = ctypes.POINTER(Error)


class Failed(RuntimeError):
    """What the library could not do. status is its code."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def library():
    """The library that TAUT_LIB names, or that the system finds; loaded once.
    OSError: there is none."""
    if not _loaded:
        _loaded.append(ctypes.CDLL(os.environ.get("TAUT_LIB") or "libtaut.so.0"))
    return _loaded[0]


def has(*names):
    """Whether there is a library, and these are in it."""
    try:
        return all(hasattr(library(), name) for name in names)
    except OSError:
        return False


def declare(table):
    """table: rows of name, type of the result, types of the arguments."""
    lib = library()
    for name, result, arguments in table:
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


class Given(threading.local):
    """What a call gave this thread and nobody has taken: a signal's handler may raise
    right behind the call, before Python sees its result."""

    def __init__(self):
        self.number = u32(NONE)

    def take(self, call):
        """call: makes the call, with the place of a number, which it leaves as it is where
        there is none. The number; None: there is none."""
        if self.number.value == NONE:
            call(ctypes.byref(self.number))
        number, self.number.value = self.number.value, NONE
        return None if number == NONE else number


def check(status, error):
    if status != OK:
        raise Failed(status, error.message.decode("utf-8", "replace"))


def call(function, *arguments, passes=()):
    """Makes a call whose last argument is a place for the library's line. The
    status, which is TAUT_OK or one of passes; of any other: Failed."""
    why = Error()
    status = function(*arguments, ctypes.byref(why))
    if status not in passes:
        check(status, why)
    return status
