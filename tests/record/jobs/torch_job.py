# SPDX-License-Identifier: Apache-2.0
"""A small training job in plain PyTorch that knows nothing of Taut. It prints
the hash of its final weights, from rank 0."""

import argparse
import hashlib
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 256


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, WIDTH)
        self.blocks = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(3)])
        self.last = nn.Linear(WIDTH, 8)

    def forward(self, x):
        return self.last(torch.relu(self.blocks(torch.relu(self.first(x)))))


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--kind", default="plain", choices=["plain", "ddp", "fsdp1", "fsdp2"])
    p.add_argument("--steps", type=int, default=14)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--crash-at", type=int, default=-1, help="step that raises")
    p.add_argument("--exit-at", type=int, default=-1, help="step that calls sys.exit(3)")
    p.add_argument("--kill-at", type=int, default=-1, help="step in which rank 1 is killed")
    p.add_argument("--profile", default="", help="the job's own profiler: all, or A:B")
    p.add_argument("--spawn", action="store_true", help="workers of a new interpreter")
    return p.parse_args()


def distributed(kind, model):
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.3)
    if kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp

        cpu = torch.device("cpu")
        model.blocks = Fsdp(model.blocks, device_id=cpu)
        return Fsdp(model, device_id=cpu)
    if kind == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        fully_shard(model.blocks, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def own_profiler(a):
    if not a.profile:
        return None
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    if a.profile == "all":
        profiler.start()
    return profiler


def turn(profiler, a, step):
    """Starts or stops the job's own profiler where A:B says so."""
    if profiler and a.profile != "all":
        first, end = map(int, a.profile.split(":"))
        if step == first:
            profiler.start()
        if step == end:
            profiler.stop()


def misbehave(a, step, rank):
    if step == a.crash_at:
        raise RuntimeError("the job is broken")
    if step == a.exit_at:
        sys.exit(3)
    if step == a.kill_at and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def train(a, rank, world):
    torch.manual_seed(0)
    model = distributed(a.kind, Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = TensorDataset(torch.randn(a.steps * 16, 64), torch.randint(8, (a.steps * 16,)))
    context = "spawn" if a.spawn else None
    loader = DataLoader(data, 16, num_workers=a.workers, multiprocessing_context=context)
    profiler = own_profiler(a)
    for step, (x, y) in enumerate(loader):
        turn(profiler, a, step)
        loss = nn.functional.cross_entropy(model(x + rank), y)
        optimizer.zero_grad()
        loss.backward()
        misbehave(a, step, rank)
        optimizer.step()
    if profiler:
        if a.profile == "all":
            profiler.stop()
        print("profiled", any(e.key == "aten::linear" for e in profiler.key_averages()))
    return model


def digest(model):
    state = hashlib.sha256()
    for p in model.parameters():
        p = p.to_local() if hasattr(p, "to_local") else p
        state.update(p.detach().numpy().tobytes())
    return state.hexdigest()


def main():
    a = arguments()
    torch.set_num_threads(1)
    rank, world = 0, 1
    if a.kind != "plain":
        dist.init_process_group("gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
    model = train(a, rank, world)
    if rank == 0:
        print("weights", digest(model))
    if a.kind != "plain":
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
