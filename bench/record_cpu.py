#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each part of a PyTorch recording costs, in one process: CPU time of a
step of one of the laboratory's models on one core, by blocks of steps in turns.

    python bench/record_cpu.py gpt        (an interpreter with torch)

Each block is recorded in one way: not at all; as a recording is now (without
shapes, module names on); with shapes as well; without module names; by module
names alone. The first step of a block does not count. The table has the median of
what the rounds' steps took longer than the same round's without, and quartiles.
A small --batch has as many events as a large one and less noise."""

import argparse
import os
import random
import statistics
import sys
import time

os.environ.setdefault("KINETO_LOG_LEVEL", "99")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "lab"), os.path.join(os.path.dirname(HERE), "python")]

import torch  # noqa: E402
from torch.profiler import ProfilerActivity, _KinetoProfile  # noqa: E402

import models  # noqa: E402
from taut import _torch_modules  # noqa: E402

# profiler, shapes, names of modules
WAYS = {
    "nothing": (False, False, False),
    "as recorded": (True, False, True),
    "with shapes": (True, True, True),
    "no module names": (True, False, False),
    "module names alone": (False, False, True),
}


class Loop:
    def __init__(self, name, batch):
        self.model = models.MODELS[name].build()
        samples = [models.MODELS[name].sample(i) for i in range(batch or models.MODELS[name].batch)]
        self.inputs, self.targets = torch.utils.data.default_collate(samples)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        self.modules = _torch_modules.Modules()

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.inputs, self.targets).backward()
        self.optimizer.step()

    def block(self, way, steps):
        """CPU ms of each step but the first, and the events of all."""
        profiled, shapes, names = WAYS[way]
        profiler, found = None, []
        if profiled:
            profiler = _KinetoProfile(activities=[ProfilerActivity.CPU], record_shapes=shapes)
            profiler.start()
        if names:
            self.modules.begin()
        for _ in range(steps + 1):
            begin = time.process_time_ns()
            self.step()
            found.append((time.process_time_ns() - begin) / 1e6)
        self.modules.end()
        if profiler:
            profiler.stop()
        return statistics.mean(found[1:])


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("model", choices=sorted(models.MODELS))
    p.add_argument("--batch", type=int, default=0, help="samples (default: the laboratory's)")
    p.add_argument("--rounds", type=int, default=12)
    p.add_argument("--steps", type=int, default=4, help="of a block")
    a = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loop = Loop(a.model, a.batch)
    for way in WAYS:
        loop.block(way, 1)
    rounds, rng = [], random.Random(0)
    for _ in range(a.rounds):
        order = list(WAYS)
        rng.shuffle(order)
        rounds.append({way: loop.block(way, a.steps) for way in order})
    bare = statistics.median(r["nothing"] for r in rounds)
    print(f"{a.model}: {a.rounds} rounds of {a.steps} steps of {bare:.1f} ms CPU; load "
          f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for way in WAYS:
        more = [r[way] - r["nothing"] for r in rounds]
        low, middle, high = statistics.quantiles(more, n=4)
        print(f"  {way:20}{middle:+7.2f} ms   {low:+.2f} .. {high:+.2f}")


if __name__ == "__main__":
    main()
