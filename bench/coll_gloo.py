# SPDX-License-Identifier: Apache-2.0
"""All-reduce of PyTorch's process group over Gloo, measured as `taut bench`
measures its own, for bench/coll_compare.py. A rank: RANK, WORLD_SIZE, MASTER_ADDR
and MASTER_PORT are in the environment.

usage: coll_gloo.py BUDGET_MS BYTES...    float32, sum, in place

Rank 0 prints "bytes median least p90", in microseconds. The call from Python, some
microseconds, is part of what a job pays, and of what is measured."""

import statistics
import sys
import time

import torch
import torch.distributed as dist

MOST_SAMPLES, LEAST_SAMPLES, MOST_BATCH = 1000, 5, 64
BATCH_S, WARM_S = 30e-6, 2e-3


def within(least, value, most):
    return int(max(least, min(value, most)))


def time_calls(data, n):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(n):
        dist.all_reduce(data)
    return (time.perf_counter() - begin) / n


def slowest(seconds):
    agreed = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
    return agreed.tolist()


def measure(size, budget):
    data = torch.zeros(size // 4)
    n = 1
    for _ in range(3):
        one = max(1e-9, slowest([time_calls(data, n)])[0])
        if one > WARM_S:
            break
        n = within(1, WARM_S / 2 / one, 200)
    batch = within(1, BATCH_S / one, MOST_BATCH)
    first = [time_calls(data, batch) for _ in range(LEAST_SAMPLES)]
    spent = max(1e-9, slowest([sum(first) * batch])[0])
    samples = within(LEAST_SAMPLES, budget / spent * LEAST_SAMPLES, MOST_SAMPLES)
    more = [time_calls(data, batch) for _ in range(samples - LEAST_SAMPLES)]
    seconds = sorted(slowest(first + more))
    p90 = seconds[(samples - 1) * 9 // 10]
    if dist.get_rank() == 0:
        times = statistics.median(seconds), seconds[0], p90
        print(size, *(f"{t * 1e6:.3f}" for t in times), flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    budget = float(sys.argv[1]) / 1e3
    for size in sys.argv[2:]:
        measure(int(size), budget)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
