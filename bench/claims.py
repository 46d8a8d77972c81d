#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which published gains of scheduled communication can be had, and over what?

Forward f, backward b, and C, what the gradients take on the link at least. Crossing
the barrier, no step is shorter than max(f + b, C). What a baseline takes depends on
what it does:

  overlaps     f + max(b, C)      sums while the backward pass goes on: DDP, Horovod
  waits        f + b + C          sums when the backward pass is over
  push, pull   f + max(b, 2 C)    a parameter server whose pushes and pulls do not go
               f + b + 2 C        at once, though a link has two directions

The most that crossing can gain over each is the largest ratio over all C: it is at
C = f + b. A published gain above that is more than the order of messages can give:
there the baseline did not use its link as well as what it was compared with.

Arithmetic alone; nothing is measured here. --write puts the tables into
docs/performance.md."""

import argparse
import collections
import os

import common

DOC = os.path.join(common.ROOT, "docs", "performance.md")
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"

Claim = collections.namedtuple("Claim", "who what gain of_linear")

BS = "ByteScheduler, README"
# gain: times the baseline's speed. of_linear: the baseline's speed, of n times one
# worker's, where it is told. The README's bars are read off its figures, +- 2 %.
CLAIMS = (
    Claim("ByteScheduler, abstract", "the most", 2.96, None),
    Claim("ByteScheduler, its toy example", "a made-up job", 1.44, None),
    Claim(BS, "ResNet50, 64 GPUs", 1.05, 11.0 / 13.3),
    Claim(BS, "VGG16, 64 GPUs", 1.99, 2.73 / 6.31),
    Claim(BS, "Transformer, 64 GPUs", 1.34, 108 / 160),
    Claim(BS, "ResNet50, 16 GPUs", 1.16, None),
    Claim(BS, "VGG16, 16 GPUs", 2.27, None),
    Claim(BS, "Transformer, 16 GPUs", 2.71, None),
    Claim("P3, abstract", "ResNet-50", 1.25, None),
    Claim("P3, abstract", "Sockeye", 1.38, None),
    Claim("P3, abstract", "VGG-19", 1.66, None),
    Claim("DeAR, abstract", "the most, 10 Gbit/s Ethernet", 1.83, None),
    Claim("DeAR, abstract", "the most, 100 Gbit/s InfiniBand", 1.15, None),
)


def crossing(f, b, c):
    return max(f + b, c)


# In the order of what they allow. Each says what a step takes.
BASELINES = {
    "overlaps": lambda f, b, c: f + max(b, c),
    "waits": lambda f, b, c: f + b + c,
    "push, pull; overlaps": lambda f, b, c: f + max(b, 2 * c),
    "push, pull; waits": lambda f, b, c: f + b + 2 * c,
}


def most(baseline, f, b):
    """The largest gain over all C: baselines grow with C, and what they are compared
    with does from C = f + b on, no slower by ratio."""
    return baseline(f, b, f + b) / crossing(f, b, f + b)


def communication(baseline, f, b, step):
    """The C at which the baseline takes so long; None: it never does."""
    low, high = 0.0, 100.0 * (f + b)
    if not baseline(f, b, low) < step < baseline(f, b, high):
        return None
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if baseline(f, b, middle) < step else (low, middle)
    return high


def bounds_table():
    lines = ["| baseline | b = f | b = 2 f | b = 3 f |", "|---|---|---|---|"]
    for name, baseline in BASELINES.items():
        cells = [f"{most(baseline, 1, b):.2f}" for b in (1, 2, 3)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def reachable_over(claim, f, b):
    """The first baseline over which so much can be gained at some C."""
    for name, baseline in BASELINES.items():
        if claim.gain <= most(baseline, f, b):
            return name
    return "none of these"


def as_told(claim, f, b):
    """What crossing can gain at most where the baseline is as slow as it is told to
    be, by each reading of why."""
    if claim.of_linear is None:
        return "-"
    step = (f + b) / claim.of_linear
    found = []
    for name in ("overlaps", "waits"):
        c = communication(BASELINES[name], f, b, step)
        found.append("-" if c is None else f"{step / crossing(f, b, c):.2f}")
    return ", ".join(found)


def claims_table(f, b):
    lines = [
        "| published | job | gain | baseline, of linear | bound if it overlaps, waits "
        "| reachable over a baseline that |",
        "|---|---|---|---|---|---|",
    ]
    for claim in CLAIMS:
        share = "-" if claim.of_linear is None else f"{claim.of_linear * 100:.0f} %"
        lines.append(
            f"| {claim.who} | {claim.what} | {claim.gain:.2f} | {share} | "
            f"{as_told(claim, f, b)} | {reachable_over(claim, f, b)} |"
        )
    return lines


def page():
    f, b = 1.0, 2.0
    return "\n".join(
        [
            "`bench/claims.py`: the most that crossing the barrier can gain, over each baseline:",
            "",
            *bounds_table(),
            "",
            "Published gains, with b = 2 f:",
            "",
            *claims_table(f, b),
        ]
    )


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--write", action="store_true", help="into docs/performance.md")
    text = page()
    if p.parse_args().write:
        common.write_between(DOC, BEGIN, END, text)
    print(text)


if __name__ == "__main__":
    main()
