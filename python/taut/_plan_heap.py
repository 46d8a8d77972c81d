# SPDX-License-Identifier: Apache-2.0
"""Memory that malloc has is kept for the next step: blocks of any size come from the
heap, and its end is not given back to the system, which would clear each page that it
hands out again.

Undone: from then on it is as a job with large blocks comes to have it by itself."""

import ctypes

from . import _decisions

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # malloc.h, GNU C library
KEPT = (M_TRIM_THRESHOLD, 2**31 - 1), (M_MMAP_MAX, 0)
USUAL = (M_TRIM_THRESHOLD, 64 << 20), (M_MMAP_THRESHOLD, 32 << 20), (M_MMAP_MAX, 65536)
OTHERS = "jemalloc", "tcmalloc", "mimalloc"


def make(values):
    if values["HEAP"] != "keep":
        raise ValueError("expected keep, found '%s'" % values["HEAP"])
    return Keep()


def other(mapped="/proc/self/maps"):
    """A malloc in this process that is not the C library's, or None."""
    with open(mapped) as maps:
        text = maps.read()
    return next((name for name in OTHERS if "/lib" + name in text), None)


class Keep(_decisions.Decision):
    def __init__(self):
        super().__init__("heap=keep")

    def install(self, torch):
        owner = other()
        if owner:
            raise ValueError("the job's malloc is that of " + owner)
        self.mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if not self.mallopt or not self.set(KEPT):
            raise ValueError("the C library's malloc cannot be told to keep memory")
        self.made()

    def set(self, options):
        return all(self.mallopt(*option) == 1 for option in options)

    def undo(self):
        super().undo()
        self.set(USUAL)
