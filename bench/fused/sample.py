#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles random fusions with TorchInductor and times them, and each of their operators by
itself, on one core: what train.py learns from.

    sample.py SAMPLES.jsonl --minutes 45 [--seed N]

Each fusion is compiled once for all shapes and timed in SHAPES of them. All times are those
that PyTorch's profiler tells, as in a recording: of each operator, and of the kernels that
Inductor made of all of them. Fusions are compiled in two processes, --batch at a time, and
timed when no compiler runs. What is in SAMPLES.jsonl stays; more is added.

A line: what it is made of (`nodes`: type, ns alone, whether its result is kept, bytes read
and written alone and those of them that fusing saves, as in struct tauti_fused_part), `ties`
[from, to, bytes] and `ns` of the fused kernels. `fusion` is the seed of the fusion: lines
that share it differ in the shape alone."""

import argparse
import concurrent.futures
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import time

import operators

SHAPES = 6
ELEMENTS = (256, 1 << 22)  # of a matrix, least and most
COLUMNS = (32, 4096)
TURNS, TURN_S = 9, 0.06  # timed runs of a shape; together some tenth of a second
# What is freed is used again, as in a training job after its first step, and never given
# back to the system: faults of pages are none of an operator's.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}


def setup():
    import torch
    import torch._inductor.config

    torch.set_num_threads(1)
    torch._inductor.config.cpp.enable_kernel_profile = True
    torch._inductor.config.compile_threads = 1
    return torch


def tensors(torch, wanted, rows, columns):
    made = []
    for kind, _ in wanted:
        if kind == "mask":
            made.append(torch.rand(rows, columns) < 0.9)
        else:
            made.append(torch.randn(*((columns,) if kind == "row" else (rows, columns))))
    return made


def compiled(torch, nodes):
    space = {"torch": torch}
    exec(operators.source(nodes), space)  # noqa: S102: our own source, a line above
    torch._dynamo.reset()
    return torch.compile(space["fusion"], dynamic=True, fullgraph=True), space["fusion"]


def compile_ahead(seed):
    """In a process of its own, for what it leaves in Inductor's cache."""
    torch = setup()
    nodes = operators.make(seed)
    try:
        with torch.no_grad():
            fused, _ = compiled(torch, nodes)
            fused(*tensors(torch, operators.inputs_of(nodes), 48, 160))
    except Exception as why:  # of another's compiler: this fusion is none
        print(f"fusion {seed}: {str(why).splitlines()[0]}", file=sys.stderr)
        return None
    return seed


def shapes(seed):
    draw = random.Random(seed + 1)
    for _ in range(SHAPES):
        columns = round(2 ** draw.uniform(*map(math.log2, COLUMNS)))
        columns -= columns % 16 if draw.random() < 0.7 else 0
        columns = max(columns, 8)
        elements = 2 ** draw.uniform(*map(math.log2, ELEMENTS))
        yield max(2, round(elements / columns)), columns


def timed(torch, run, is_one):
    """The durations (ns) of the events of a run that are one, in their order. Of two runs
    the second: what comes first under a profiler that has just begun takes longer."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
        run()
    found = sorted(filter(is_one, profile.events()), key=lambda e: e.time_range.start)
    return [e.time_range.elapsed_us() * 1e3 for e in found[len(found) // 2 :]]


def is_operator(event):
    return event.cpu_parent is None and event.name.startswith("aten::")


def is_kernel(event):
    return "cpp_fused" in event.name


def measure(torch, nodes, fused, plain, rows, columns):
    """A line, or None where what ran is not what was asked for."""
    given = tensors(torch, operators.inputs_of(nodes), rows, columns)
    for _ in range(2):
        fused(*given)
        plain(*given)
    begin = time.perf_counter()
    plain(*given)
    fused(*given)
    n = max(3, min(TURNS, int(TURN_S / (time.perf_counter() - begin + 1e-5))))
    alone, together = [], []
    for _ in range(n):  # by turns: what slows the machine slows both
        alone.append(timed(torch, lambda: plain(*given), is_operator))
        together.append(timed(torch, lambda: fused(*given), is_kernel))
    if any(len(run) != len(nodes) for run in alone) or not all(together):
        return None
    own_ns = [statistics.median(each) for each in zip(*alone)]
    fused_ns = statistics.median(map(sum, together))
    return describe(nodes, rows, columns, own_ns, fused_ns, len(together[0]))


def describe(nodes, rows, columns, own_ns, fused_ns, n_kernels):
    matrix, row, mask = 4 * rows * columns, 4 * columns, rows * columns
    size = {"x": matrix, "row": row, "mask": mask, "node": matrix}
    out = {"sum_rows": row, "sum_columns": 4 * rows}
    ties = [
        [j, i, matrix] for i, node in enumerate(nodes) for kind, j in node.reads if kind == "node"
    ]
    is_read = {j for j, _, _ in ties}
    told = []
    for i, (node, ns) in enumerate(zip(nodes, own_ns)):
        written = out.get(node.type, matrix)
        stays = i in is_read and not node.kept
        saved = matrix * sum(kind == "node" for kind, _ in node.reads) + stays * written
        given = sum(size[kind] for kind, _ in node.reads)
        told.append(
            {
                **{"type": node.type, "ns": round(ns), "kept": node.kept},
                **{"in": given, "out": written, "saved": saved},
            }
        )
    shape = [rows, columns]
    return {"nodes": told, "ties": ties, "ns": round(fused_ns), "shape": shape, "kernels": n_kernels}


def sample(options):
    torch = setup()
    seed, end, n_lines = options.seed, time.monotonic() + 60 * options.minutes, 0
    spawn = multiprocessing.get_context("spawn")
    with (
        open(options.samples, "a") as file,
        concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as pool,
        torch.no_grad(),
    ):
        while True:
            ready = list(pool.map(compile_ahead, range(seed, seed + options.batch)))
            seed += options.batch
            if not any(s is not None for s in ready):
                sys.exit(f"sample: none of {options.batch} fusions could be compiled")
            for one in [s for s in ready if s is not None]:
                nodes = operators.make(one)
                fused, plain = compiled(torch, nodes)
                for rows, columns in shapes(one):
                    line = measure(torch, nodes, fused, plain, rows, columns)
                    if line:
                        print(json.dumps({"fusion": one, **line}), file=file, flush=True)
                        n_lines += 1
            left = max(0, (end - time.monotonic()) / 60)
            print(f"{seed} fusions, {n_lines} lines, {left:.0f} min left", flush=True)
            if not left:
                break


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("samples", metavar="SAMPLES.jsonl")
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--batch", type=int, default=64, help="fusions compiled before timing")
    parser.add_argument("--seed", type=int, default=0, help="of the first fusion")
    options = parser.parse_args()
    if any(os.environ.get(k) != v for k, v in MALLOC.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})
    sample(options)


if __name__ == "__main__":
    main()
