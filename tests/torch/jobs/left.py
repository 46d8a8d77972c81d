# SPDX-License-Identifier: Apache-2.0
"""What Taut leaves to PyTorch, what it refuses, and what it does better."""

import torch
import torch.distributed as dist
from base import Branches, Job, Net, batch, digest, error_of, late, main, program
from torch import nn
from torch.nn import functional

@program
def comm_hook():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    job = Job()
    job.model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return job.train().result()


@program
def uneven():
    job = Job()
    with job.model.join():
        job.train(steps=2 + 2 * dist.get_rank())
    return {"seen": [digest(job.model.parameters())], "late": 0}


@program
def sparse():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.last = nn.EmbeddingBag(10, 8, sparse=True), nn.Linear(8, 4)

        def forward(self, x):
            return self.last(self.words((x.abs() * 10).long() % 10))

    return Job(model=Table()).train().result()


@program
def compiled_part():
    net = Net()
    net.twice = torch.compile(net.twice, backend="eager")
    return Job(model=net).train().result()


@program
def compiled_whole():
    job = Job()
    whole = job.model
    job.model = torch.compile(whole, backend="eager")
    job.train()
    job.model = whole
    return job.result()


@program
def wrapped_twice():
    one = Job()
    return {"error": error_of(lambda: Job(model=nn.Sequential(one.net)))}


# --- refused, or better than refused --------------------------------------------


@program
def freezes():
    job = Job()
    job.train(steps=1)
    job.net.first.weight.requires_grad_(False)
    job.train(steps=1)
    return {"error": error_of(lambda: job.train(steps=1))}


@program
def unfreezes():
    net = Net()
    net.scale.requires_grad_(False)
    job = Job(model=net)
    job.train(steps=2)
    net.scale.requires_grad_(True)
    return {"error": error_of(lambda: job.train(steps=1))}


def _changes(change):
    """After the wrap, and some steps."""
    net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4))
    job = Job(model=net).train(steps=2)
    change(net)
    x, y = batch(2)
    for _ in range(2):  # the second one reads what the first has trained
        functional.cross_entropy(job.model(x.to(net[0].weight.dtype)), y).backward()
        job.step()


def _error_of_changes(change):
    error = error_of(lambda: _changes(change))
    dist.barrier()  # the other rank has its own error before this model goes
    return {"error": error}


def prune(net):
    """Neurons of the layer in the middle, as jobs do it in place."""
    net[0].weight.data = net[0].weight.data[:4].clone()
    net[0].bias.data = net[0].bias.data[:4].clone()
    net[2].weight.data = net[2].weight.data[:, :4].clone()
    net.zero_grad()


@program
def pruned():
    return _error_of_changes(prune)


@program
def becomes_double():
    return _error_of_changes(lambda net: net.double())


@program
def becomes_half():
    return _error_of_changes(lambda net: net.bfloat16())


@program
def pruned_by_one():
    _changes(prune if dist.get_rank() == 1 else lambda net: None)


@program
def rows_become_half():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.last = nn.Embedding(1000, 8), nn.Linear(8, 4)

        def forward(self, x):
            return self.last(self.words((x[:, 0].abs() * 10).long()).float())

    job = Job(model=Words()).train(steps=3)
    words = job.net.words.weight
    words.data, words.grad = words.data.bfloat16(), None
    error = error_of(lambda: job.train(steps=2))
    dist.barrier()
    return {"error": error}


@program
def fills_what_was_empty():
    net = Net()
    net.anchor = nn.Parameter(torch.empty(0))
    job = Job(model=net).train(steps=2)
    net.anchor.data = torch.ones(3)
    return {"error": error_of(lambda: job.train(steps=1))}


@program
def all_are_empty():
    class Nothing(nn.Module):
        def __init__(self):
            super().__init__()
            self.anchor = nn.Parameter(torch.empty(0))

        def forward(self, x):
            return x[:, :4] + self.anchor.sum()

    return Job(model=Nothing()).train().result()


@program
def unused_unsaid():
    job = Job(model=Branches())
    error = error_of(lambda: job.train(steps=2))
    dist.barrier()  # the other rank has its own error before this model goes
    return {"error": error}


@program
def fails_in_forward():
    """A batch that cannot be computed is left out, on all ranks."""
    job = Job()
    job.train(steps=2)
    error = error_of(lambda: job.model(torch.ones(3, 5)))
    job.train(steps=2)
    return dict(job.result(), error=error)


@program
def two_backwards():
    """The sum of two losses, whether by one backward() or by two: PyTorch sums only
    the first of them over ranks."""
    seen = []
    for twice in (False, True):
        torch.manual_seed(1)
        job = Job()
        job.train(steps=2)
        for i in range(2):
            job.optimizer.zero_grad()
            x, y = batch(i)
            out = job.model(x)
            one, two = functional.cross_entropy(out, y), out.square().mean()
            if twice:
                one.backward(retain_graph=True)
                two.backward()
            else:
                (one + two).backward()
            job.step()
        seen.append([p.double().sum().item() for p in job.model.parameters()])
    return {"seen": seen, "late": 0}


@program
def ends_in_the_middle():
    """The job ends with updates under way, and says no goodbye to its group."""
    job = Job()
    job.train(steps=3)
    return {"seen": [], "late": job.most_late}


if __name__ == "__main__":
    main()
