#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws how a replay grows with the ranks: what replay_scale prints, as SVG.

    bench/replay_scale_plot.py [--program FILE] [--svg FILE] [RANKS...]

Both axes are logarithmic; the grey line is growth in proportion to the ranks.
Prints the table that it drew."""

import argparse
import math
import os
import subprocess

import common

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 64, 34, 44
CURVES = (("cpu s", "seconds of a core", "#1f6fb4"), ("peak MiB", "peak MiB", "#c2571a"))


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = os.path.join(common.ROOT, "build", "bench", "replay_scale")
    p.add_argument("--program", default=default)
    p.add_argument("--svg", default="replay_scale.svg")
    p.add_argument("ranks", nargs="*", default=["8", "16", "32", "64", "128", "256", "512", "1024"])
    return p.parse_args()


def measure(a):
    """[{"ranks": 8, "cpu s": 0.004, ...}]"""
    done = subprocess.run([a.program, *a.ranks], check=True, capture_output=True, text=True)
    print(done.stdout, end="")
    head, *lines = done.stdout.splitlines()
    names = head.replace("step ms", "step_ms").replace("cpu s", "cpu_s").replace("peak MiB", "peak_MiB")
    names = [name.replace("_", " ") for name in names.split()]
    return [dict(zip(names, map(float, line.split()))) for line in lines]


class Axis:
    """Values to places, by their logarithms; whole decades, or powers of two."""

    def __init__(self, values, base, first, last):
        low = math.floor(math.log(min(values), base) + 1e-9)
        high = math.ceil(math.log(max(values), base) - 1e-9)
        self.base, self.low, self.high, self.first, self.last = base, low, high, first, last

    def at(self, value):
        share = (math.log(value, self.base) - self.low) / (self.high - self.low or 1)
        return self.first + share * (self.last - self.first)

    def ticks(self):
        return [self.base**k for k in range(self.low, self.high + 1)]


def text(x, y, words, anchor="middle", colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def line(points, colour, width=2):
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def draw(rows):
    ranks = [row["ranks"] for row in rows]
    across = Axis(ranks, 2, LEFT, WIDTH - RIGHT)
    out = [text(across.at(r), HEIGHT - BOTTOM + 18, f"{r:g}") for r in across.ticks()]
    out.append(text(WIDTH / 2, HEIGHT - 8, "ranks"))
    for side, (key, title, colour) in enumerate(CURVES):
        values = [max(row[key], 0.001) for row in rows]
        up = Axis(values, 10, HEIGHT - BOTTOM, TOP)
        edge, anchor = (WIDTH - RIGHT + 8, "start") if side else (LEFT - 8, "end")
        out += [text(edge, up.at(v) + 4, f"{v:g}", anchor, colour) for v in up.ticks()]
        out.append(text(edge, TOP - 14, title, "end" if side else "start", colour))
        if not side:
            out += [line([(LEFT, up.at(v)), (WIDTH - RIGHT, up.at(v))], "#ddd", 1) for v in up.ticks()]
            fair = [values[0] * r / ranks[0] for r in ranks]
            inside = [(across.at(r), up.at(v)) for r, v in zip(ranks, fair) if v <= up.ticks()[-1]]
            out.append(line(inside, "#999", 1))
        out.append(line([(across.at(r), up.at(v)) for r, v in zip(ranks, values)], colour))
    body = "\n".join(out)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f"{body}\n</svg>\n"
    )


def main():
    a = arguments()
    common.program(a.program, "run make build, or give --program")
    rows = measure(a)
    with open(a.svg, "w") as f:
        f.write(draw(rows))


if __name__ == "__main__":
    main()
