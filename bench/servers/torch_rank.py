# SPDX-License-Identifier: Apache-2.0
"""A rank of bench/server_compare.py: a DistributedDataParallel job that knows nothing of
Taut, told and answered as blocks.py has it. Steps of this rank alone are those of a copy
of the model. RANK, WORLD_SIZE, ... as torchrun sets them."""

import copy
import os
import pathlib
import sys

import blocks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import models  # noqa: E402


class Trained:
    def __init__(self, model, x, y):
        self.model, self.x, self.y = model, x, y
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.x, self.y).backward()
        self.optimizer.step()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    its = models.MODELS[sys.argv[1]]
    net = its.build()
    some = [its.sample(its.batch * dist.get_rank() + i) for i in range(its.batch)]
    batch = [torch.stack([torch.as_tensor(s[i]) for s in some]) for i in range(2)]
    alone = Trained(copy.deepcopy(net), *batch)
    wrapped = Trained(DistributedDataParallel(net), *batch)
    control = wrapped.model.__dict__.get("_taut")
    blocks.tell(
        gradient_bytes=sum(p.numel() * p.element_size() for p in net.parameters()),
        engine=control.engine.name if control else "PyTorch",
    )
    blocks.run(dist.barrier, wrapped.step, alone.step)
    os._exit(0)  # the servers see it go, and so do the others, who go too


if __name__ == "__main__":
    main()
