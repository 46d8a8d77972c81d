# SPDX-License-Identifier: Apache-2.0
"""Training over a process group of any backend: what DDP, FSDP2, ZeRO and checkpoints
make of it. Losses and parameters are those of Gloo, bit by bit with two ranks, where
order cannot matter.

    backend_training.py BACKEND [NAME...]    prints a line of JSON for each"""

import os
import tempfile

import torch
import torch.distributed as dist
from backend import digest, main, me, n_ranks, programs
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel as DDP

programs.clear()
STEPS = 4


def program(function):
    programs[function.__name__] = function
    return function


class Net(nn.Module):
    """A layer used twice, and a norm whose buffers DDP sends around."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.twice = nn.Linear(16, 16)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.last(self.norm(self.twice(torch.tanh(self.twice(x)))))


class Branches(nn.Module):
    """Of three branches a rank takes one, and another the next time."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.branches = nn.ModuleList(nn.Linear(8, 4) for _ in range(3))
        self.step = 0

    def forward(self, x):
        self.step += 1
        return self.branches[(self.step + me()) % 3](self.first(x))


def batch(step, rank):
    g = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(6, 8, generator=g), torch.randint(4, (6,), generator=g)


def loss_of(model, step, rank):
    x, y = batch(step, rank)
    return functional.cross_entropy(model(x), y)


def train(model, optimizer, begin=0, steps=STEPS):
    losses = []
    for step in range(begin, begin + steps):
        optimizer.zero_grad()
        loss = loss_of(model, step, me())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def with_ddp(net, **options):
    torch.manual_seed(me())  # the constructor makes them equal
    net = net()
    model = DDP(net, **options)
    losses = train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    return {"losses": losses, "seen": digest(*model.parameters(), *model.buffers())}


@program
def ddp():
    return with_ddp(Net)


@program
def ddp_views():
    return with_ddp(Net, gradient_as_bucket_view=True, bucket_cap_mb=0.001)


@program
def ddp_unused():
    return with_ddp(Branches, find_unused_parameters=True)


@program
def ddp_static():
    return with_ddp(Net, static_graph=True)


@program
def ddp_hook():
    """Its hook asks for futures and goes on with them."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    torch.manual_seed(1)
    model = DDP(Net())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    losses = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return {"losses": losses, "seen": digest(*model.parameters())}


@program
def ddp_power():
    """Its hook's futures wait for others of its own."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    torch.manual_seed(1)
    model = DDP(Net())
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    losses = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return {"losses": losses, "seen": digest(*model.parameters())}


@program
def ddp_ordered():
    """DDP's parameters, and those of one process that has all batches, and adds what
    ranks give in their order. With TAUT_RUN_ORDERED=on; any number of ranks."""
    found = with_ddp(Net)
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    factor = torch.tensor(1.0 / n_ranks())
    losses = []
    for step in range(STEPS):
        sums = None
        for rank in range(n_ranks()):
            optimizer.zero_grad()
            loss = loss_of(net, step, rank)
            loss.backward()
            grads = [p.grad * factor for p in net.parameters()]
            sums = [a + b for a, b in zip(sums, grads)] if sums else grads
            if rank == me():
                losses.append(loss.item())
        for p, g in zip(net.parameters(), sums):
            p.grad = g
        optimizer.step()
    own = {name: p for name, p in net.named_parameters()}
    found["expected"] = {"losses": losses, "parameters": digest(*own.values())}
    torch.manual_seed(0)
    model = DDP(Net())
    again = train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    found["found"] = {"losses": again, "parameters": digest(*model.parameters())}
    return found


def sharded(net):
    from torch.distributed.fsdp import fully_shard

    for layer in (net.first, net.twice, net.last):
        fully_shard(layer)
    return fully_shard(net)


def whole(model):
    return [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]


@program
def fsdp2():
    torch.manual_seed(1)
    model = sharded(Net())
    losses = train(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return {"losses": losses, "norm": norm.item(), "seen": digest(*whole(model))}


@program
def checkpoint():
    """torch.distributed.checkpoint: saved by all, loaded by all."""
    import torch.distributed.checkpoint as dcp

    torch.manual_seed(1)
    model = sharded(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer)
    folder = [tempfile.mkdtemp() if me() == 0 else None]
    dist.broadcast_object_list(folder, 0)
    dcp.save({"model": model.state_dict()}, checkpoint_id=folder[0])
    torch.manual_seed(2)
    other = sharded(Net())
    dcp.load({"model": other.state_dict()}, checkpoint_id=folder[0])
    dist.barrier()
    if me() == 0:
        for name in os.listdir(folder[0]):
            os.unlink(os.path.join(folder[0], name))
        os.rmdir(folder[0])
    assert digest(*whole(other)) == digest(*whole(model))
    return {"seen": digest(*whole(other))}


@program
def zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    torch.manual_seed(1)
    model = DDP(Net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    losses = train(model, optimizer)
    optimizer.consolidate_state_dict(0)
    many = len(optimizer.state_dict()["state"]) if me() == 0 else 0
    return {"losses": losses, "many": many, "seen": digest(*model.parameters())}


@program
def tensors():
    """DTensor over a mesh of two dimensions, one of them of one rank."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (1, n_ranks()), mesh_dim_names=("a", "b"))
    g = torch.Generator().manual_seed(3)
    a, b = torch.randn(8, 12, generator=g), torch.randn(12, 8, generator=g)
    x = distribute_tensor(a, mesh["b"], [Shard(1)])
    y = distribute_tensor(b, mesh["b"], [Shard(0)])
    z = (x @ y).redistribute(placements=[Replicate()]).to_local()
    uneven = distribute_tensor(a[:5], mesh["b"], [Shard(0)]).full_tensor()
    turned = x.redistribute(placements=[Shard(0)]).to_local()
    return {"seen": digest(z, uneven, turned)}


if __name__ == "__main__":
    main()
