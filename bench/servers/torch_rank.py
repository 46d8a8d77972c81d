# SPDX-License-Identifier: Apache-2.0
"""A rank of bench/server_compare.py: a DistributedDataParallel job that knows nothing of
Taut, and does steps as it is told by lines of JSON on its standard input:

    {"steps": 12, "local": false}    local: a copy of the model, of this rank alone

It answers with the seconds of each step. RANK, WORLD_SIZE, ... as torchrun sets them."""

import copy
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import models  # noqa: E402


def tell(**what):
    print(json.dumps(what), flush=True)


class Trained:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(self, x, y):
        self.optimizer.zero_grad()
        self.model(x, y).backward()
        self.optimizer.step()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    its = models.MODELS[sys.argv[1]]
    net = its.build()
    alone = Trained(copy.deepcopy(net))
    wrapped = Trained(DistributedDataParallel(net))
    some = [its.sample(its.batch * dist.get_rank() + i) for i in range(its.batch)]
    x, y = (torch.stack([torch.as_tensor(s[i]) for s in some]) for i in range(2))
    control = wrapped.model.__dict__.get("_taut")
    tell(
        gradient_bytes=sum(p.numel() * p.element_size() for p in net.parameters()),
        engine=control.engine.name if control else "PyTorch",
    )
    for line in sys.stdin:
        block = json.loads(line)
        trained = alone if block["local"] else wrapped
        dist.barrier()
        seconds = []
        for _ in range(block["steps"]):
            begin = time.perf_counter()
            trained.step(x, y)
            seconds.append(time.perf_counter() - begin)
        tell(seconds=seconds)
    os._exit(0)  # the servers see it go, and so do the others, who go too


if __name__ == "__main__":
    main()
