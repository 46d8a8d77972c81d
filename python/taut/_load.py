# SPDX-License-Identifier: Apache-2.0
"""Sets and loaders of libtaut by ctypes (taut/set.h, prepare.h, load.h): one call a batch.

A batch is lent: as a DLPack capsule whose deleter is C, or to numpy by an owner that
gives it back. Nothing here holds the interpreter's lock while the library waits."""

import ctypes
import errno
import os
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int64,
    c_size_t,
    c_uint,
    c_uint32,
    c_uint64,
    c_void_p,
)

from . import _lib

NONE = 0xFFFFFFFFFFFFFFFF

CROPS = "random", "centre", "stretch", "none"
FILTERS = "bilinear", "nearest"
TYPES = "uint8", "float32", "float16", "bfloat16"
NUMBERS = TYPES + ("int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float64")
KINDS = "image", "tensor", "audio", "own"
CUTS = "beginning", "random", "centre", "end"
MOST_DIMS = 8
LAYOUTS = "HWC", "CHW"
TAILS = "keep", "drop", "pad"
DATA, LABELS, LENGTHS = range(3)  # enum taut_batch_part

_TYPESTR = {"uint8": "|u1", "int8": "|i1"}
_TYPESTR.update(("float%d" % (8 * n), "<f%d" % n) for n in (2, 4, 8))
_TYPESTR.update(("%s%d" % (s, 8 * n), "<%s%d" % (s[0], n)) for s in ("int", "uint") for n in (2, 4, 8))


class _Progress(Structure):
    _fields_ = [("update", c_void_p), ("state", c_void_p)]


class SetOptions(Structure):
    _fields_ = [
        ("extensions", c_char_p),
        ("empty_classes", c_int),
        ("quick_find", c_int),
        ("threads", c_uint),
        ("progress", _Progress),
    ]


class SetItem(Structure):
    _fields_ = [
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("label", c_int64),
        ("file", c_uint32),
    ]


class PrepareOptions(Structure):
    _fields_ = [
        ("format", c_char_p),
        ("raw_height", c_uint32),
        ("raw_width", c_uint32),
        ("height", c_uint32),
        ("width", c_uint32),
        ("crop", c_int),
        ("filter", c_int),
        ("least_area", c_double),
        ("most_area", c_double),
        ("least_ratio", c_double),
        ("most_ratio", c_double),
        ("short_side", c_uint32),
        ("flip", c_double),
        ("brightness", c_double),
        ("contrast", c_double),
        ("saturation", c_double),
        ("hue", c_double),
        ("type", c_int),
        ("layout", c_int),
        ("mean", c_float * 3),
        ("deviation", c_float * 3),
        ("scale_in_decoder", c_bool),
        ("orient", c_bool),
        ("strict", c_bool),
        ("most_pixels", c_uint64),
        ("kind", c_int),
        ("n_dims", c_uint32),
        ("dims", c_uint64 * MOST_DIMS),
        ("varies", c_bool),
        ("as_first", c_bool),
        ("cut", c_int),
        ("samples", c_uint32),
        ("rate", c_uint32),
        ("channels", c_uint32),
        ("stage", c_void_p),
        ("stage_context", c_void_p),
        ("stage_name", c_char_p),
    ]


class LoadOptions(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("prepare", POINTER(PrepareOptions)),
        ("batch", c_uint32),
        ("n_ranks", c_uint32),
        ("rank", c_uint32),
        ("seed", c_uint64),
        ("shuffle", c_bool),
        ("tail", c_int),
        ("max_skipped", c_uint64),
        ("n_workers", c_uint32),
        ("depth", c_uint32),
        ("n_reads", c_uint32),
        ("read_bytes", c_uint64),
        ("cache_bytes", c_uint64),
        ("cache_name", c_uint64),
        ("store", c_char_p),
        ("slow_bytes_s", c_uint64),
        ("slow_ns", c_int64),
        ("direct", c_bool),
        ("cold", c_bool),
        ("batch_stage", c_void_p),
        ("batch_stage_context", c_void_p),
        ("share_bytes", c_uint64),
        ("share_patience_ns", c_int64),
        ("wait", c_bool),
        ("remote", c_void_p),
        ("n_remote", c_uint32),
    ]


class Batch(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("labels", c_void_p),
        ("items", POINTER(c_uint64)),
        ("count", c_uint32),
        ("n_skipped", c_uint32),
        ("n_held", c_uint32),
        ("epoch", c_uint64),
        ("number", c_uint64),
        ("sample_bytes", c_uint64),
        ("lengths", c_void_p),
    ]


class State(Structure):
    _fields_ = [
        (name, c_uint64)
        for name in ("seed", "epoch", "position", "n_items", "fingerprint")
    ]


class Counts(Structure):
    _fields_ = [
        ("batches", c_uint64),
        ("samples", c_uint64),
        ("hits", c_uint64),
        ("reads", c_uint64),
        ("read_bytes", c_uint64),
        ("skipped", c_uint64),
        ("waited_ns", c_int64),
        ("fetch_ns", c_int64),
        ("prepare_ns", c_int64),
        ("idle_ns", c_int64),
        ("n_workers", c_uint32),
        ("share_made", c_uint64),
        ("share_copied", c_uint64),
        ("share_alone", c_uint64),
        ("share_detached", c_uint64),
        ("remote_hits", c_uint64),
        ("remote_bytes", c_uint64),
    ]


class Shape(Structure):
    _fields_ = [
        ("type", c_int),
        ("n_dims", c_uint32),
        ("all_dims", c_int64 * MOST_DIMS),
        ("bytes", c_uint64),
        ("varies", c_bool),
    ]

    @property
    def dims(self):
        return tuple(self.all_dims[: self.n_dims])


_batch = POINTER(Batch)
_TABLE = (
    ("taut_arena_create", c_void_p, []),
    ("taut_arena_destroy", None, [c_void_p]),
    (
        "taut_set_open",
        c_int,
        [
            POINTER(c_char_p),
            c_size_t,
            POINTER(SetOptions),
            c_void_p,
            POINTER(c_void_p),
            _lib.error,
        ],
    ),
    ("taut_set_source", c_char_p, [c_void_p]),
    ("taut_set_count", c_uint64, [c_void_p]),
    ("taut_set_at", SetItem, [c_void_p, c_uint64]),
    ("taut_set_key", c_size_t, [c_void_p, c_uint64, c_char_p, c_size_t]),
    ("taut_set_find", c_uint64, [c_void_p, c_char_p]),
    ("taut_set_bytes", c_uint64, [c_void_p]),
    ("taut_set_classes", c_uint32, [c_void_p]),
    ("taut_set_class", c_char_p, [c_void_p, c_uint32]),
    ("taut_set_check", c_int, [c_void_p, c_uint, _lib.error]),
    ("taut_set_write", c_int, [c_void_p, c_char_p, _lib.error]),
    (
        "taut_load_create",
        c_int,
        [c_void_p, POINTER(LoadOptions), POINTER(c_void_p), _lib.error],
    ),
    ("taut_prepare_check", c_int, [POINTER(PrepareOptions), _lib.error]),
    ("taut_load_destroy", None, [c_void_p]),
    ("taut_load_next", c_int, [c_void_p, c_int64, POINTER(_batch), _lib.error]),
    ("taut_batch_hold", None, [_batch]),
    ("taut_batch_release", None, [_batch]),
    ("taut_load_state", c_int, [c_void_p, POINTER(State), _lib.error]),
    ("taut_load_resume", c_int, [c_void_p, POINTER(State), _lib.error]),
    ("taut_load_seek", c_int, [c_void_p, c_uint64, _lib.error]),
    (
        "taut_load_follow",
        c_int,
        [c_void_p, c_uint64, POINTER(c_uint64), c_uint64, _lib.error],
    ),
    ("taut_load_batches", c_uint64, [c_void_p]),
    ("taut_load_counts", None, [c_void_p, POINTER(Counts)]),
    (
        "taut_load_skipped",
        c_bool,
        [c_void_p, c_uint64, POINTER(c_uint64), _lib.error],
    ),
    ("taut_load_store", c_char_p, [c_void_p, POINTER(c_char_p)]),
    ("taut_load_shape", None, [c_void_p, POINTER(Shape)]),
    ("taut_load_memory", c_void_p, [c_void_p, POINTER(c_size_t)]),
    ("taut_batch_dlpack", c_int, [_batch, c_int, POINTER(c_void_p), _lib.error]),
    ("taut_dlpack_delete", None, [c_void_p]),
)

_declared = []


def library():
    if not _declared:
        _declared.append(_lib.declare(_TABLE))
    return _declared[0]


def call(name, *arguments, passes=()):
    """As _lib.call(), with Python's own exceptions."""
    try:
        return _lib.call(getattr(library(), name), *arguments, passes=passes)
    except _lib.Failed as failed:
        text = str(failed)
        if failed.status == _lib.ENOMEM:
            raise MemoryError(text) from None
        if failed.status in (_lib.EINVAL, _lib.EMATCH):
            raise ValueError(text) from None
        raise OSError(errno.EIO, text) from None


def index_of(name, names, what):
    if name not in names:
        raise ValueError("%s %r is none of %s" % (what, name, ", ".join(names)))
    return names.index(name)


# --- sets -------------------------------------------------------------------------------


def open_set(paths, extensions, empty_classes, threads):
    """(arena, set)"""
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    texts = (c_char_p * len(paths))(*[os.fsencode(path) for path in paths])
    options = SetOptions(
        extensions=extensions.encode() if extensions else None,
        empty_classes=bool(empty_classes),
        quick_find=0,
        threads=threads,
    )
    arena, found = library().taut_arena_create(), c_void_p()
    if not arena:
        raise MemoryError("no memory for a set")
    try:
        call("taut_set_open", texts, len(paths), byref(options), arena, byref(found))
    except BaseException:
        library().taut_arena_destroy(arena)
        raise
    return arena, found


def key_of(found, item):
    room = ctypes.create_string_buffer(4096)
    n = library().taut_set_key(found, item, room, len(room))
    if n >= len(room):
        room = ctypes.create_string_buffer(n + 1)
        library().taut_set_key(found, item, room, len(room))
    return os.fsdecode(room.value)


# --- batches lent to frameworks -----------------------------------------------------------

_CAPSULE_NAME = b"dltensor"  # capsules keep its address
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [c_void_p, c_char_p, c_void_p]


def to_dlpack(batch, part, from_dlpack):
    tensor = c_void_p()
    call("taut_batch_dlpack", batch, part, byref(tensor))
    try:
        return from_dlpack(_new_capsule(tensor, _CAPSULE_NAME, None))
    except BaseException:  # nobody has it
        library().taut_dlpack_delete(tensor)
        raise


class _Owner:
    """What an array's memory belongs to: gives the batch back with the last view."""

    def __init__(self, batch, address, shape, typestr):
        self._batch, self._release = batch, library().taut_batch_release
        library().taut_batch_hold(batch)
        self.__array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (address, False),
            "version": 3,
        }

    def __del__(self):
        batch, self._batch = getattr(self, "_batch", None), None
        if batch:
            self._release(batch)


def to_numpy(batch, part, shape, numpy):
    is_ = batch.contents
    if part != DATA:
        column = is_.lengths if part == LENGTHS else is_.labels
        return numpy.asarray(_Owner(batch, column, (is_.count,), "<i8"))
    name = NUMBERS[shape.type]
    if name not in _TYPESTR:
        raise ValueError("numpy has no %s: choose another type, or torch" % name)
    dims = (is_.count, *shape.dims)
    return numpy.asarray(_Owner(batch, is_.data, dims, _TYPESTR[name]))
