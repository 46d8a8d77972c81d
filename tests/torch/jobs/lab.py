# SPDX-License-Identifier: Apache-2.0
"""The four models of bench/lab, trained by DistributedDataParallel and by hand: each
step the gradients of all ranks are gathered, and added in the order of the ranks.

    lab.py MODEL...    whether the parameters of both have the same bits, for each of
                       three optimizers"""

import json
import pathlib
import sys

import torch
import torch.distributed as dist
from base import leave
from torch.nn.parallel import DistributedDataParallel as DDP

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "lab"))
import models  # noqa: E402

STEPS = 3
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-4),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
}


def batch(model, step):
    rank, world = dist.get_rank(), dist.get_world_size()
    some = [models.MODELS[model].sample(2 * (world * step + rank) + i) for i in range(2)]
    return [torch.stack([torch.as_tensor(s[i]) for s in some]) for i in range(2)]


def build(model):
    torch.manual_seed(3)
    return models.MODELS[model].build()


def mean_by_hand(parameters):
    """Each rank's part is divided before it is added, first rank first."""
    world = dist.get_world_size()
    for p in parameters:
        parts = [torch.empty_like(p) for _ in range(world)]
        dist.all_gather(parts, p.grad.contiguous())
        p.grad = parts[0] * (1 / world)
        for part in parts[1:]:
            p.grad += part * (1 / world)


def train(model, optimizer, by_hand):
    net = build(model)
    wrapped = net if by_hand else DDP(net)
    step = OPTIMIZERS[optimizer](wrapped.parameters())
    losses, late = [], 0
    for i in range(STEPS):
        x, y = batch(model, i)
        if by_hand:
            for b in net.buffers():  # as DistributedDataParallel does
                dist.broadcast(b, 0)
        step.zero_grad()
        loss = wrapped(x, y)
        loss.backward()
        if by_hand:
            mean_by_hand(net.parameters())
        step.step()
        late = max(late, sum(type(p).__name__ == "Pending" for p in net.parameters()))
        losses.append(loss.item())
    return list(net.parameters()), losses, late


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for model in sys.argv[1:]:
        for optimizer in OPTIMIZERS:
            row = {"name": model + " " + optimizer}
            own, row["losses"], row["late"] = train(model, optimizer, False)
            hand, losses, _ = train(model, optimizer, True)
            row["same"] = all(torch.equal(a, b) for a, b in zip(own, hand))
            row["same"] = row["same"] and losses == row["losses"]
            print(json.dumps(row), flush=True)
    leave()


if __name__ == "__main__":
    main()
