# SPDX-License-Identifier: Apache-2.0
"""A job that asks for Taut's class itself; what it exchanged, as a line of JSON."""

import json

import taut.torch
import torch
import torch.distributed as dist
from base import leave


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    layers = [torch.nn.Linear(64, 64) for _ in range(4)]
    model = taut.torch.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(5):
        optimizer.zero_grad()
        model(torch.full((4, 64), float(step + dist.get_rank()))).square().mean().backward()
        optimizer.step()
    taut.torch.finish()
    kinds = sorted({type(p).__name__ for p in model.parameters()})
    counts = taut.torch.counts(model)
    other = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    plain = taut.torch.counts(other)
    leave()
    after = taut.torch.counts(model)
    told = {"kinds": kinds, "counts": counts, "plain": plain, "after": after}
    print(json.dumps(dict(told, name="by hand")))


if __name__ == "__main__":
    main()
