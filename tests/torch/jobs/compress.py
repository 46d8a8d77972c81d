# SPDX-License-Identifier: Apache-2.0
"""Programs under TAUT_RUN_COMPRESS, beside the same training by hand: each gradient of
float32 is multiplied by 1/n, rounded to 16 bits, or to blocks that share a scale, and
added as those in the order of the ranks; other gradients as they are. What compress() says here is written with PyTorch's
arithmetic alone.

Each says whether parameters and losses of both are the same bits, how far gradients are
from the means in float64, and how many bytes were summed."""

import itertools
import os
import sys

import torch
import torch.distributed as dist
from base import Branches, Job, Net, batch, digest, loss_of, main, program
from torch import nn

HOW = os.environ.get("TAUT_RUN_COMPRESS")
TYPE = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(HOW)
STEPS = int(os.environ.get("TAUT_TEST_STEPS", "5"))


class Mixed(nn.Module):
    """Of three types; a parameter of many pieces; one whose gradients are tiny."""

    def __init__(self):
        super().__init__()
        self.net = Net(48)
        self.wide = nn.Parameter(torch.full((4,), 0.5, dtype=torch.float64))
        self.short = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        self.faint = nn.Parameter(torch.ones(4))

    def forward(self, x):
        y = self.net(x) * self.short.float() + self.wide.float()
        return y + 3e-7 * self.faint


def gathered(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return parts


def blocks_of(x):
    """Rows of 32 numbers, the last one filled up with zeros, and of each its largest."""
    flat = x.flatten()
    rows = nn.functional.pad(flat, (0, -len(flat) % 32)).view(-1, 32)
    return rows, rows.abs().amax(1, keepdim=True)


def of_rows(rows, like):
    return rows.flatten()[: like.numel()].view(like.shape)


def as_blocks(x):
    """The nearest in 64ths of the power of two below the largest."""
    rows, most = blocks_of(x)
    exponent = torch.frexp(most)[1] - 1
    unit = torch.ldexp(torch.ones_like(most), exponent.clamp(min=-120) - 6)
    return of_rows((rows / unit).round().clamp(-127, 127) * unit, x)


def rounded(x):
    """As it goes on the wire."""
    return as_blocks(x) if HOW == "mxint8" else x.to(TYPE)


def mean_by_hand(grad, is_short):
    """As it is summed. is_short: of float32."""
    n = dist.get_world_size()
    is_short = is_short and grad.dtype == torch.float32
    parts = [part * (1 / n) for part in gathered(grad)]
    parts = [rounded(part) for part in parts] if is_short else parts
    total = parts[0]
    for part in parts[1:]:
        total = total + part
        total = rounded(total) if is_short else total
    return total.to(grad.dtype)


def unit():
    """The largest error of a rounding, relative; and near zero."""
    if HOW == "mxint8":
        return (2.0**-6, 2.0**-127)
    return (2.0**-11, 2.0**-25) if TYPE == torch.float16 else (2.0**-8, 2.0**-134)


def sizes_of(x):
    """What the error of a rounding of each is relative to."""
    if HOW != "mxint8":
        return x.abs()
    rows, most = blocks_of(x)
    return of_rows(most.expand_as(rows), x)


def is_near(grads, own):
    """A rounding of each part, and one of each sum."""
    n, (relative, least) = dist.get_world_size(), unit()
    for mean, grad in zip(grads, own):
        if grad.dtype != torch.float32:
            continue
        parts = [part.double() / n for part in gathered(grad)]
        sizes = sum(sizes_of(part) for part in parts)
        bound = 1.01 * n * relative * sizes + n * least
        if ((mean.double() - sum(parts)).abs() > bound).any():
            return False
    return True


def by_hand(job, backward, is_short=True):
    """Of a model that nobody wraps: its own gradients, and their means."""
    job.optimizer.zero_grad()
    for b in job.net.buffers():
        dist.broadcast(b, 0)
    loss = backward(job.net)
    own = [p.grad.clone() for p in job.net.parameters() if p.grad is not None]
    for p in job.net.parameters():
        if p.grad is not None:
            p.grad = mean_by_hand(p.grad, is_short)
    return loss, own


def bytes_of(model):
    """On the wire."""
    return sum(p.numel() * p.element_size() if p.dtype != torch.float32 else
               (p.numel() + 31) // 32 * 33 if HOW == "mxint8" else p.numel() * 2
               for p in model.parameters())


def control_of(job):
    return job.model.__dict__.get("_taut")


class Hand(Job):
    """The same model, optimizer and seed."""

    def __init__(self, model, momentum=0.9):
        self.net = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum)


def compare(make, step_of, reads=False):
    """step_of(model, i): loss of an iteration, whose gradients are there."""
    torch.manual_seed(4)
    job = Job(model=make(), momentum=0.9)
    torch.manual_seed(4)
    hand = Hand(make())
    told = {"same": True, "near": True, "late": 0, "losses": []}
    for i in range(STEPS):
        job.optimizer.zero_grad()
        loss = step_of(job.model, i)
        other, own = by_hand(hand, lambda net: step_of(net, i))
        if reads:
            grads = [p.grad.clone() for p in job.net.parameters()]
            told["near"] = told["near"] and is_near(grads, own)
        job.step()
        hand.optimizer.step()
        told["losses"].append(loss)
        told["same"] = told["same"] and loss == other
    told["late"] = job.most_late
    pairs = zip(job.net.parameters(), hand.net.parameters())
    told["same"] = told["same"] and all(torch.equal(a, b) for a, b in pairs)
    told["seen"] = digest(p.double() for p in job.net.parameters())
    control = control_of(job)
    if control:
        told["bytes"] = control.sums.counts()["bytes"]
        told["cast"] = control.sums.counts()["cast_bytes"]
        told["engine"] = type(control.engine).__module__
    told["expected"] = bytes_of(job.net)
    return told


def one_backward(model, i):
    loss = loss_of(model, i)
    loss.backward()
    return loss.item()


@program
def mixed():
    return compare(Mixed, one_backward)


@program
def mixed_read():
    """Gradients are looked at before each step."""
    return compare(Mixed, one_backward, reads=True)


@program
def accumulates():
    """Passes that are not summed, an evaluation, one that is."""

    def step(model, i):
        if isinstance(model, nn.parallel.DistributedDataParallel):
            with model.no_sync():
                loss_of(model, i, 1).backward()
        else:
            loss_of(model, i, 1).backward()
        model.eval()
        with torch.no_grad():
            loss_of(model, i, 2)
        model.train()
        return one_backward(model, i)

    return compare(lambda: nn.Sequential(nn.Linear(8, 33), nn.Tanh(), nn.Linear(33, 4)), step)


@program
def unused():
    """Branches that other ranks take: the mean of what one has and zeros."""
    torch.manual_seed(4)
    job = Job(model=Branches(), ddp={"find_unused_parameters": True})
    losses = []
    for i in range(STEPS):
        job.optimizer.zero_grad()
        losses.append(one_backward(job.model, i))
        job.step()
    total = [t.clone() for t in job.net.parameters()]
    same = all(torch.equal(part, t) for t in total for part in gathered(t))
    moved = any(not torch.equal(t, u) for t, u in zip(total, Branches().parameters()))
    return {"same": same and moved, "losses": losses, "late": job.most_late}


@program
def overflows():
    """What is beyond the largest of 16 bits is infinite, on all ranks; its mean counts,
    not itself."""
    net = nn.Linear(1, 2, bias=False)
    model = nn.parallel.DistributedDataParallel(net)
    most = 3e5 if TYPE == torch.float16 else 3.4e38
    seen = []
    for size in (most, 0.4 * 65504 * dist.get_world_size()):
        net.weight.grad = None
        scale = torch.tensor([[size if dist.get_rank() == 0 else 0.0], [1.0]])
        (model(torch.ones(1, 1)).T * scale).sum().backward()
        seen.append([float(g) for g in net.weight.grad.flatten()])
    return {"seen": seen, "late": 0}


@program
def learns():
    """A longer training, narrowed and, by hand, with 32 bits."""
    own, plain = [], []
    torch.manual_seed(2)
    job = Job(model=Net(32))
    torch.manual_seed(2)
    hand = Hand(Net(32), momentum=0)
    for i in range(40):
        job.optimizer.zero_grad()
        own.append(one_lesson(job.model, i))
        job.step()
        plain.append(by_hand(hand, lambda net: one_lesson(net, i), is_short=False)[0])
        hand.optimizer.step()
    pairs = zip(job.net.parameters(), hand.net.parameters())
    same = all(torch.equal(a, b) for a, b in pairs)
    return {"losses": own, "plain": plain, "same": same, "late": job.most_late}


def one_lesson(model, i):
    x, _ = batch(i)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long())
    loss.backward()
    return loss.item()


@program
def refusals():
    """Why an engine does not do it. Servers have an order, that of the ranks."""
    control = sys.modules["_taut._control"]
    whys = []
    for wish, engine in itertools.product(
        ({"TAUT_RUN_COMPRESS": "bf16"}, {"TAUT_RUN_ORDERED": "on"}),
        ({"TAUT_RUN_ENGINE": "process-group"}, {"TAUT_RUN_SERVERS": "2"}),
    ):
        options = {**wish, **engine}
        try:
            control.engine_class(control._options.Options(options))
        except ValueError as why:
            whys.append(str(why))
    return {"whys": whys, "late": 0}


if __name__ == "__main__":
    main()
