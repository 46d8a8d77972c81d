#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes files into one C source: the table that src/base/asset.h declares; or one
file, as a text."""

import argparse
import pathlib
import sys

BYTES_PER_LINE = 16


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def c_array(name, data):
    """Bytes, not a literal: C11 promises only 4095 characters of one."""
    data = data + b"\0"
    lines = [f"static const unsigned char {name}[] = {{"]
    for at in range(0, len(data), BYTES_PER_LINE):
        row = data[at : at + BYTES_PER_LINE]
        lines.append("\t" + "".join(f"{byte}," for byte in row))
    return "\n".join(lines + ["};", ""])


def generate(paths):
    paths = sorted(paths, key=lambda path: path.name)
    names = [path.name for path in paths]
    if len(set(names)) != len(names):
        raise ValueError("two files have the same name: " + " ".join(names))
    out = ['#include "base/asset.h"', ""]
    rows = []
    for number, path in enumerate(paths):
        data = path.read_bytes()
        out.append(c_array(f"file_{number}", data))
        rows.append(
            f"\t{{ {c_string(path.name)}, (const char *)file_{number}, {len(data)} }},"
        )
    out.append("const struct tauti_asset tauti_assets[] = {")
    out.extend(rows)
    out.extend(["\t{ 0, 0, 0 },", "};", ""])
    return "\n".join(out)


def generate_text(path, name):
    """One file as the text of a variable, which the header "gpu/gpu.h" declares."""
    data = path.read_bytes()
    if not data.isascii() or b"\0" in data:
        raise ValueError(f"{path}: expected plain text")
    array = c_array(name, data).replace("static const unsigned char", "const char")
    return '#include "gpu/gpu.h"\n\n' + array


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", metavar="NAME", help="one file, as this variable")
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    try:
        if args.text:
            source = generate_text(args.files[0], args.text)
        else:
            source = generate(args.files)
    except (OSError, ValueError) as error:
        sys.exit(f"embed.py: {error}")
    args.output.write_text(source)


if __name__ == "__main__":
    main()
