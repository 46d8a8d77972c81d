#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""Prints how many bytes of JSON the traces in a folder hold, inflated."""

import glob
import gzip
import os
import sys


def inflated_bytes(path):
    if not path.endswith(".gz"):
        return os.path.getsize(path)
    total = 0
    with gzip.open(path, "rb") as source:
        while block := source.read(1 << 20):
            total += len(block)
    return total


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(f"usage: inflated.py FOLDER-OR-FILE\n{__doc__}")
        return
    if len(sys.argv) != 2:
        sys.exit("usage: inflated.py FOLDER-OR-FILE")
    place = sys.argv[1]
    paths = [place] if os.path.isfile(place) else glob.glob(os.path.join(place, "*.json*"))
    print(sum(inflated_bytes(path) for path in paths))


if __name__ == "__main__":
    main()
