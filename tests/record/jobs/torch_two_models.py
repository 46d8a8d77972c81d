# SPDX-License-Identifier: Apache-2.0
"""Two models that are trained by turns, as a GAN is: torch_two_models.py STEPS."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main(steps):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    models = [DDP(nn.Sequential(nn.Linear(64, width), nn.Linear(width, 1))) for width in (256, 64)]
    optimizer = torch.optim.SGD([p for m in models for p in m.parameters()], lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        for model in models:
            model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


main(int(sys.argv[1]))
