# SPDX-License-Identifier: Apache-2.0
"""Structures of include/taut/record.h, for tests that call libtaut-record.so."""

import ctypes


class Offset(ctypes.Structure):
    _fields_ = [
        ("at_ns", ctypes.c_int64),
        ("offset_ns", ctypes.c_int64),
        ("half_width_ns", ctypes.c_int64),
        ("answers", ctypes.c_uint32),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("source", ctypes.c_char_p),
        ("rank", ctypes.c_int32),
        ("world_size", ctypes.c_int32),
        ("local_rank", ctypes.c_int32),
        ("capacity", ctypes.c_uint32),
    ]
