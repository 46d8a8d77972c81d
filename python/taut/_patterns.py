# SPDX-License-Identifier: Apache-2.0
"""Shell patterns of modules' names as a recording has them, "nn.Module: layer1.0", whatever
the case: as `taut whatif` matches them, by the same function of the C library."""

import ctypes

PREFIX = "nn.Module: "  # src/explain/facts.c knows a module by it
_IGNORE_CASE = 1 << 4  # FNM_CASEFOLD


def split(text):
    return [p for p in text.split(",") if p]


def matcher():
    """is_meant(pattern, name): name is the module's, without the prefix."""
    match = ctypes.CDLL(None).fnmatch
    match.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]

    def is_meant(pattern, name):
        return match(pattern.encode(), (PREFIX + name).encode(), _IGNORE_CASE) == 0

    return is_meant
