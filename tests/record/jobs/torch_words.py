# SPDX-License-Identifier: Apache-2.0
"""A model that looks up rows: torch_words.py STEPS KIND. Of `words`, which its output is tied to,
it looks up few, in two calls; of `kinds` few, by a class of its own; of `places` all; `both` is used
before it is looked up, and `free` by a function. KIND: plain; careful, with
find_unused_parameters; kept, gradients are zeroed in their places. Rank 0 prints, step by step, how
many rows of words and kinds the ranks look up."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel as DDP

WORDS, KINDS, PLACES, WIDTH = 3000, 2000, 12, 24


class Wrapper(DDP):
    """As some jobs have it."""


class Scaled(nn.Embedding):
    def forward(self, x):
        return 2 * super().forward(x)


def ids(n, step, rank):
    g = torch.Generator().manual_seed(1000 * n + 10 * step + rank)
    return torch.randint(n, (8, PLACES), generator=g)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.both = nn.Embedding(KINDS - 1, WIDTH)
        self.free = nn.Embedding(KINDS + 1, WIDTH)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.kinds = Scaled(KINDS, WIDTH)
        self.places = nn.Embedding(PLACES, WIDTH)
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, words, kinds):
        rest = self.both.weight.square().mean()
        x = self.words(words) + self.words(words + 1) + self.kinds(kinds)
        x = x + self.places(torch.arange(PLACES)) + self.both(kinds.clamp(max=KINDS - 2))
        x = x + functional.embedding(kinds, self.free.weight)
        x = torch.relu(self.inner(x))
        return {"loss": (x @ self.words.weight.t()).square().mean() + rest}


def main(steps, kind):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), range(dist.get_world_size())
    model = Wrapper(Words(), find_unused_parameters=kind == "careful")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        words, kinds = ids(WORDS - 1, step, rank), ids(KINDS, step, rank)
        with torch.no_grad():
            model.module.words(torch.arange(100))  # no gradient comes of it
        optimizer.zero_grad(set_to_none=kind != "kept")
        model(words, kinds)["loss"].backward()
        words.zero_()  # the job's own buffer
        optimizer.step()
        words = torch.cat([ids(WORDS - 1, step, r) for r in ranks])
        words = torch.cat([words, words + 1]).unique()
        kinds = torch.cat([ids(KINDS, step, r) for r in ranks]).unique()
        if rank == 0:
            print(step, len(words), len(kinds))
    assert nn.Embedding.forward.__module__ == "torch.nn.modules.sparse"
    assert DDP.forward.__module__ == "torch.nn.parallel.distributed"
    dist.destroy_process_group()


main(int(sys.argv[1]), sys.argv[2])
