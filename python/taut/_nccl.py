# SPDX-License-Identifier: Apache-2.0
"""The switch of Taut's plugin for NCCL's profiler (docs/recording.md): it records
what begins while the window is open. In a process without the plugin, nothing."""

import ctypes
import os

NAME = "libtaut-nccl.so"


class _Plugin(ctypes.Structure):
    _fields_ = [
        ("interface", ctypes.c_void_p * 10),
        ("magic", ctypes.c_char * 8),
        ("recording", ctypes.POINTER(ctypes.c_uint32)),
    ]


def _find():
    """The word that switches, or None."""
    path = os.environ.get("NCCL_PROFILER_PLUGIN", "")
    if os.path.basename(path) != NAME:
        return None  # none, or the user's own
    try:
        plugin = _Plugin.in_dll(ctypes.CDLL(path), "ncclProfiler_v7")
    except (OSError, ValueError):
        return None
    return plugin.recording if plugin.magic == b"TAUTNCCL" else None


def record(on):
    """Called at the begin of the window, and at its end."""
    word = _find()
    if word:
        word[0] = 1 if on else 0
