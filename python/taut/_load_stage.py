# SPDX-License-Identifier: Apache-2.0
"""A user's function as a stage of a loader: C's as it is, Python's by a callback.

A callback takes the interpreter's lock, on a worker's thread. Loaders that have one are
closed before the interpreter ends: a thread that waits for a lock that nobody gives any more
would be waited for."""

import atexit
import ctypes
import os
import threading
import weakref

from . import _lib, _load

PER = "item", "batch"


class _Told(ctypes.Structure):
    """struct taut_stage_item"""

    _fields_ = [
        ("bytes", ctypes.c_void_p),
        ("n_bytes", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("number", ctypes.c_uint64),
        ("label", ctypes.c_int64),
        ("epoch", ctypes.c_uint64),
        ("draw", ctypes.c_uint64),
        ("sample_bytes", ctypes.c_uint64),
        ("length", ctypes.POINTER(ctypes.c_int64)),
    ]


_ItemFunction = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Told), ctypes.c_void_p, _lib.error
)
_BatchFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _load._batch, _lib.error)


class Item:
    """What a stage is told of an item, during its call. draw: 64 random bits, the same
    whenever that item of that epoch is made."""

    def __init__(self, told):
        self._told = told
        self.number, self.label, self.epoch = told.number, told.label, told.epoch
        self.draw = told.draw

    @property
    def name(self):
        """File and key."""
        return os.fsdecode(self._told.name)

    @property
    def bytes(self):
        """A copy of the item's bytes."""
        return ctypes.string_at(self._told.bytes, self._told.n_bytes)

    @property
    def length(self):
        """Of the sample; None: samples have none."""
        return self._told.length[0] if self._told.length else None

    @length.setter
    def length(self, value):
        if not self._told.length:
            raise AttributeError("the samples have no lengths")
        self._told.length[0] = value


class Batch:
    """A batch in the loader's memory, as NumPy's arrays, during the stage's call: data,
    labels, lengths (or None), items; epoch and number."""

    def __init__(self, views, batch):
        is_ = batch.contents
        self.data = views.data(is_.data, is_.count)
        self.labels = views.column(is_.labels, is_.count, "<i8")
        self.lengths = views.column(is_.lengths, is_.count, "<i8") if is_.lengths else None
        self.items = views.column(ctypes.cast(is_.items, ctypes.c_void_p).value, is_.count, "<u8")
        self.epoch, self.number = is_.epoch, is_.number


class _Views:
    """Arrays over memory of the loader's slots."""

    def __init__(self, shape):
        import numpy

        name = _load.NUMBERS[shape.type]
        # NumPy has no bfloat16: its bits.
        self._type = numpy.dtype(_load._TYPESTR.get(name, "<u2"))
        self._numpy, self._dims, self._bytes = numpy, shape.dims, shape.bytes
        self._samples = {}

    def _over(self, address, n_bytes, type, dims):
        memory = (ctypes.c_char * n_bytes).from_address(address)
        return self._numpy.ndarray(dims, type, memory)

    def sample(self, address):
        if address not in self._samples:
            self._samples[address] = self._over(address, self._bytes, self._type, self._dims)
        return self._samples[address]

    def data(self, address, count):
        return self._over(address, count * self._bytes, self._type, (count, *self._dims))

    def column(self, address, count, type):
        return self._over(address, 8 * count, self._numpy.dtype(type), (count,))


def _tell(error, exception):
    """The status of an exception, whose line is in error then."""
    at = exception.__traceback__
    while at and at.tb_next:
        at = at.tb_next
    where = " (%s, line %d)" % (at.tb_frame.f_code.co_filename, at.tb_lineno) if at else ""
    text = "%s: %s%s" % (type(exception).__name__, exception, where)
    error.contents.message = text.encode("utf-8", "replace")[:495]
    return _lib.ENOMEM if isinstance(exception, MemoryError) else _lib.EFORMAT


class _Python:
    def __init__(self, function, per):
        self._function, self._views = function, None
        self._is_known = threading.Event()
        kind, call = (_ItemFunction, self._item) if per == "item" else (_BatchFunction, self._batch)
        self._callback = kind(call)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value

    def know(self, shape):
        """Workers may call before: they wait."""
        self._views = _Views(shape)
        self._is_known.set()

    def _item(self, _context, told, sample, error):
        try:
            self._is_known.wait()
            array = self._views.sample(sample)
            made = self._function(array, Item(told.contents))
            if made is not None:
                array[...] = made
            return _lib.OK
        except BaseException as exception:
            return _tell(error, exception)

    def _batch(self, _context, batch, error):
        try:
            self._is_known.wait()
            self._function(Batch(self._views, batch))
            return _lib.OK
        except BaseException as exception:
            return _tell(error, exception)


class _Native:
    """context, sample and the rest as taut/prepare.h and taut/load.h have them."""

    def __init__(self, function, address):
        self._function, self.address = function, address

    def know(self, shape):
        pass


def of(function, per):
    """Python's callable; or the address of a C function: a number, ctypes' function, or what
    has it as .address (Numba's cfunc)."""
    _load.index_of(per, PER, "stage_per")
    if isinstance(function, ctypes._CFuncPtr):
        return _Native(function, ctypes.cast(function, ctypes.c_void_p).value)
    address = getattr(function, "address", function)
    if isinstance(address, int):
        return _Native(function, address)
    if not callable(function):
        raise TypeError("stage %r: expected a function" % (function,))
    return _Python(function, per)


_open = weakref.WeakSet()


def close_at_exit(loader):
    _open.add(loader)


@atexit.register
def _close_all():
    for loader in list(_open):
        loader.close()
