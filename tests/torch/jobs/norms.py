# SPDX-License-Identifier: Apache-2.0
"""What batch norms keep, in jobs that read it, replace it, freeze it and evaluate with it
between their steps."""

import torch
import torch.distributed as dist
from base import STEPS, Job, Net, batch, loss_of, main, program
from torch import nn
from torch.nn.parallel import distributed as stock

PASSES = 3 * STEPS


class Others(Net):
    """With a buffer that no batch norm has."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += x.sum()
        return super().forward(x) + self.count


class Own(nn.BatchNorm1d):
    """One that reads in training what it has kept."""

    def forward(self, x):
        return super().forward(x) + self.running_mean


@program
def each_step():
    job = Job()
    return job.train(after=job.saw_all, steps=PASSES).result()


@program
def other_buffers():
    job = Job(model=Others())
    return job.train(after=job.saw_all, steps=PASSES).result()


@program
def a_norm_that_reads():
    net = Net()
    net.norm = Own(16)
    job = Job(model=net)
    return job.train(after=job.saw_all, steps=PASSES).result()


@program
def sums_of_all():
    """A mean over all batches so far, and one without anything kept."""
    net = Net()
    net.norm = nn.Sequential(
        nn.BatchNorm1d(16, momentum=None),
        nn.BatchNorm1d(16, track_running_stats=False),
    )
    job = Job(model=net)
    return job.train(after=job.saw_all, steps=PASSES).result()


@program
def evaluates():
    """Through the wrapper, after all ranks have changed what was kept."""
    job = Job()

    def after():
        job.saw_all()
        with torch.no_grad():
            job.net.norm.running_mean += 0.25 * (1 + dist.get_rank())
        job.model.eval()
        with torch.no_grad():
            job.seen.append(loss_of(job.model, 50 + len(job.seen)).item())
        job.saw_all()
        job.model.train()

    return job.train(after=after, steps=PASSES).result()


@program
def frozen():
    """Its norm is in evaluation from the third step to the seventh."""
    job, steps = Job(), []

    def after():
        steps.append(0)
        job.net.norm.train(not 3 <= len(steps) < 7)
        job.saw_all()

    return job.train(after=after, steps=PASSES).result()


@program
def replaced():
    """By others of the same kind, and then of another."""
    job, steps = Job(), []

    def after():
        job.saw_all()
        steps.append(0)
        norm = job.net.norm
        if len(steps) == 3:
            norm.running_mean = norm.running_mean.clone()
            norm._buffers["running_var"] = norm.running_var.clone()
        if len(steps) == 6:
            norm.num_batches_tracked = norm.num_batches_tracked.int()

    return job.train(after=after, steps=8).result()


@program
def one_more():
    """A buffer that comes in the middle, and is no norm's."""
    job, steps = Job(), []

    def after():
        job.saw_all()
        steps.append(0)
        if len(steps) == 5:
            job.net.first.register_buffer("seen", torch.zeros(1))
        if len(steps) > 5:
            job.net.first.seen += 1 + dist.get_rank()

    return job.train(after=after, steps=PASSES).result()


@program
def accumulates():
    job = Job()
    for i in range(PASSES):
        job.optimizer.zero_grad()
        with job.model.no_sync():
            job.backward(i)
            job.saw(*job.model.buffers())
            job.backward(i, 1)
        job.backward(i, 2)
        job.step()
        job.saw_all()
    return job.result()


@program
def two_passes():
    """Both before the backward pass, as of a real batch and a made one."""
    job = Job()
    for i in range(PASSES):
        job.optimizer.zero_grad()
        (loss_of(job.model, i) + loss_of(job.model, i, 1)).backward()
        job.step()
        job.saw_all()
    return job.result()


@program
def a_pass_fails():
    """On all ranks, in its middle; the next ones go on."""
    job = Job()
    for i in range(PASSES):
        job.optimizer.zero_grad()
        if i % 3 == 2:
            hook = job.net.last.register_forward_pre_hook(fails)
            try:
                job.model(batch(i)[0])
            except ArithmeticError:
                job.seen.append("failed")
            hook.remove()
            continue
        job.backward(i)
        job.step()
        job.saw_all()
    return job.result()


def fails(*_):
    raise ArithmeticError


# --- of Taut alone -----------------------------------------------------------------------


@program
def who_sends():
    """How often PyTorch did, in so many steps."""
    sent, own = [], stock.DistributedDataParallel._sync_buffers

    def count(self):
        sent.append(0)
        own(self)

    stock.DistributedDataParallel._sync_buffers = count
    try:
        Job().train(steps=PASSES).result()
    finally:
        stock.DistributedDataParallel._sync_buffers = own
    return {"sent": len(sent)}


@program
def rank_0_changes_it():
    """Between two passes: the other rank has it one pass later."""
    job, seen = Job(), []
    for i in range(6):
        job.optimizer.zero_grad()
        with torch.no_grad():
            if i == 3 and dist.get_rank() == 0:
                job.net.norm.num_batches_tracked += 1000
        job.backward(i)
        job.step()
        seen.append(job.net.norm.num_batches_tracked.item())
    return {"seen": seen}


if __name__ == "__main__":
    main()
