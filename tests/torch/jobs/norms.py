# SPDX-License-Identifier: Apache-2.0
"""What batch norms keep, in jobs that read it, replace it, freeze it and evaluate with it
between their steps."""

import torch
import torch.distributed as dist
from base import STEPS, Job, Net, batch, loss_of, main, program
from torch import nn
from torch.nn.parallel import distributed as stock
from torch.utils.checkpoint import checkpoint

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
def evaluates_what_was_written_past_it():
    """As evaluates(), by ways that tell nobody of a change."""
    job = Job()

    def after():
        norm = job.net.norm
        norm.running_mean.data += 0.25 * (1 + dist.get_rank())
        norm.running_var.numpy()[:2] *= 1.5 + dist.get_rank()
        job.model.eval()
        with torch.no_grad():
            job.seen.append(loss_of(job.model, 50 + len(job.seen)).item())
        job.saw_all()
        job.model.train()

    return job.train(after=after, steps=PASSES).result()


def evaluates_on(rank, changes):
    """One alone, now and then; with what all have changed since the last pass, or not."""
    job, steps = Job(), []

    def after():
        job.saw_all()
        steps.append(0)
        if changes and len(steps) % 3 == 0:
            with torch.no_grad():
                job.net.norm.running_var *= 1.5
        # Behind the last step there is no pass of the others, for which it would wait.
        if len(steps) % 3 != 1 and len(steps) < PASSES and dist.get_rank() == rank:
            job.model.eval()
            with torch.no_grad():
                for _ in range(2):
                    job.seen.append(loss_of(job.model, 50 + len(job.seen)).item())
            job.model.train()

    return job.train(after=after, steps=PASSES).result()


@program
def evaluates_on_rank_0():
    return evaluates_on(0, False)


@program
def evaluates_on_rank_1():
    return evaluates_on(1, True)


@program
def an_average_of_norms():
    """On all ranks, by passes that are not summed, as of weights that were averaged."""
    job, steps = Job(), []

    def after():
        steps.append(0)
        if len(steps) % 4 == 0:
            job.net.norm.reset_running_stats()
            with torch.no_grad():
                for i in range(3):
                    job.model(batch(60 + i)[0])
            job.saw_all()

    return job.train(after=after, steps=PASSES).result()


@program
def without_broadcasts():
    """Each rank has its own, and one of them makes passes that others do not."""
    job = Job(ddp={"broadcast_buffers": False})

    def after():
        job.saw_all()
        for i in range(dist.get_rank() * 3):
            job.model(batch(70 + i)[0])

    return job.train(after=after, steps=PASSES).result()


@program
def another_norm():
    """Two that were made before, by turns. The pass behind the first exchange is the one
    that is late (rank_0_changes_it)."""
    net = Net()
    norms = [net.norm, nn.BatchNorm1d(16)]
    job, steps = Job(model=net, ddp={"find_unused_parameters": True}), []

    def after():
        if len(steps) != 5:
            job.saw_all()
        steps.append(0)
        if len(steps) >= 5:
            if dist.get_rank():
                net.norm.running_mean += 1
            net.norm = norms[len(steps) % 2]
            net.norm.requires_grad_(len(steps) % 2 == 0)

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


class Again(Net):
    """Its norm runs again in the backward pass."""

    def forward(self, x):
        x = torch.relu(self.first(x)) * self.scale
        return self.last(checkpoint(self.norm, self.twice(x), use_reentrant=False))


@program
def runs_again():
    job, seen = Job(model=Again()), []
    for i in range(6):
        job.optimizer.zero_grad()
        job.backward(i)
        job.step()
        seen.append(job.net.norm.num_batches_tracked.item())
    return {"seen": seen}


if __name__ == "__main__":
    main()
