# SPDX-License-Identifier: Apache-2.0
"""Programs that do something to gradients, or look at them."""

import torch
import torch.distributed as dist
from base import STEPS, Job, batch, loss_of, main, program
from torch import nn
from torch.optim import SGD, Adam

@program
def clip_norm():
    job = Job()

    def between():
        job.saw(nn.utils.clip_grad_norm_(job.model.parameters(), 0.1))

    return job.train(between).result()


@program
def clip_value():
    job = Job(Adam, lr=0.01)
    return job.train(lambda: nn.utils.clip_grad_value_(job.model.parameters(), 1e-3)).result()


@program
def reads_gradients():
    job = Job()
    return job.train(lambda: job.saw(*[p.grad for p in job.model.parameters()])).result()


@program
def reads_one_gradient():
    job = Job()
    return job.train(lambda: job.saw(job.net.twice.weight.grad)).result()


@program
def reads_gradients_after_step():
    job = Job()
    return job.train(after=lambda: job.saw(*[p.grad for p in job.model.parameters()])).result()


@program
def writes_gradients():
    job = Job()

    def between():
        job.net.first.weight.grad.mul_(2)
        job.net.last.bias.grad = torch.ones(4)
        job.net.scale.grad = None

    return job.train(between).result()


@program
def hooks_write_gradients():
    """Hooks that are younger than the wrapper: what they leave is summed."""
    job, step = Job(), []
    parts = job.net.first, job.net.twice, job.net.last

    def keeps_some(p):
        job.saw(p.grad)
        p.grad[:4].zero_()

    def replaces(p):
        p.grad = None if len(step) == 1 else p.grad * (1 + dist.get_rank())

    def doubles(p):
        p.grad.mul_(2)

    parts[0].weight.register_post_accumulate_grad_hook(keeps_some)
    parts[1].weight.register_post_accumulate_grad_hook(replaces)
    for i in range(STEPS):
        job.optimizer.zero_grad()
        loss = loss_of(job.model, i)
        if i == 2:  # behind the forward pass
            parts[2].weight.register_post_accumulate_grad_hook(doubles)
        loss.backward()
        step.append(loss.item())
        job.step()
    job.seen += step
    return job.result()


@program
def zero_grad_after_step():
    job = Job(Adam, lr=0.01)
    return job.train(after=lambda: job.optimizer.zero_grad()).result()


@program
def zero_grad_of_the_model():
    job = Job(Adam, lr=0.01)

    def after():
        job.model.zero_grad()
        job.seen.append(sum(p.grad is None for p in job.model.parameters()))

    return job.train(after=after).result()


@program
def zero_grad_to_zero():
    job = Job(SGD, momentum=0.9)
    return job.train(after=lambda: job.optimizer.zero_grad(set_to_none=False)).result()


@program
def gradients_to_none_by_hand():
    job = Job()

    def after():
        for p in job.model.parameters():
            p.grad = None

    return job.train(after=after).result()


@program
def zero_grad_before_step():
    """Throws gradients away: the step does nothing."""
    job = Job()
    return job.train(lambda: job.optimizer.zero_grad()).result()


@program
def no_step():
    """Gradients grow over iterations."""
    job = Job()
    for i in range(STEPS):
        job.backward(i)
        if i % 2:
            job.step()
    return job.result()


@program
def keeps_gradient_tensors():
    """Taken once, looked at after each backward(): the tensors are the same ones."""
    job = Job()
    job.train(steps=2)
    job.optimizer.zero_grad(set_to_none=False)
    kept = [p.grad for p in job.model.parameters()]
    views = [g.view(-1) for g in kept]
    for i in range(STEPS):
        job.backward(i)
        job.saw(*kept, *views)
        job.step()
        job.optimizer.zero_grad(set_to_none=False)
    return job.result()


@program
def scaler():
    """One step overflows, and is left out."""
    job = Job(Adam, lr=0.01)
    scale = torch.amp.GradScaler("cpu", init_scale=256.0)
    for i in range(STEPS):
        job.optimizer.zero_grad()
        loss = loss_of(job.model, i) * (float("inf") if i == 2 and not dist.get_rank() else 1)
        scale.scale(loss).backward()
        if i == 1:
            scale.unscale_(job.optimizer)
            job.saw(nn.utils.clip_grad_norm_(job.model.parameters(), 0.5))
        scale.step(job.optimizer)
        scale.update()
        job.seen.append(scale.get_scale())
    return job.result()


@program
def accumulates_with_no_sync():
    job = Job()
    for i in range(STEPS):
        job.optimizer.zero_grad()
        with job.model.no_sync():
            job.backward(i)
            job.backward(i, 1)
        job.backward(i, 2)
        job.step()
    return job.result()


@program
def accumulates_without_no_sync():
    job = Job()
    for i in range(STEPS):
        job.optimizer.zero_grad()
        for part in range(3):
            job.backward(i, part)
        job.step()
    return job.result()


def _looks_before_backward(look, **ddp):
    """Another forward pass between that of an iteration and its backward()."""
    job = Job(ddp=dict(ddp, broadcast_buffers=False))
    for i in range(STEPS):
        job.optimizer.zero_grad()
        loss = loss_of(job.model, i)
        look(job, i)
        loss.backward()
        job.step()
    return job.result()


def _evaluates(job, i):
    with torch.no_grad():
        job.seen.append(loss_of(job.model, i, 1).item())


@program
def evaluates_before_backward():
    return _looks_before_backward(_evaluates)


@program
def evaluates_before_backward_unused():
    return _looks_before_backward(_evaluates, find_unused_parameters=True)


@program
def no_sync_before_backward():
    """Of a pass whose gradients nobody asks for."""

    def look(job, i):
        with job.model.no_sync():
            job.seen.append(loss_of(job.model, i, 1).item())

    return _looks_before_backward(look)


@program
def evaluates_in_no_sync():
    """Gradients of passes in no_sync() stay the rank's own, whatever is evaluated."""
    job = Job(ddp={"broadcast_buffers": False})
    for i in range(STEPS):
        job.optimizer.zero_grad()
        with job.model.no_sync():
            loss = loss_of(job.model, i)
            _evaluates(job, i)
            loss.backward()
        job.saw(*[p.grad for p in job.model.parameters()])
        _evaluates(job, i)
        job.backward(i, 2)
        job.step()
    return job.result()


@program
def one_rank_asks_what_matters():
    """By a backward() of its own through the module, behind a step, as of an image's dots."""
    job = Job(ddp={"broadcast_buffers": False})

    def again():
        job.optimizer.zero_grad()
        loss = loss_of(job.model, 9)
        loss.backward()
        return loss

    def after():
        if dist.get_rank() == 0:
            x = batch(7)[0].requires_grad_()
            job.net(x)[0, 0].backward()
            job.saw(x.grad, *[p.grad for p in job.net.parameters()])
            job.optimizer.zero_grad()

    job.train(after=after)
    job.seen.append(job.optimizer.step(again).item())
    after()
    return job.train(steps=1).result()


def _penalty(**ddp):
    """Of the gradient of the input, for which the model is asked before backward()."""
    job = Job(ddp=ddp)
    for i in range(STEPS):
        job.optimizer.zero_grad()
        x, y = batch(i)
        out = job.model(x.requires_grad_())
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = nn.functional.cross_entropy(out, y) + slope.square().sum()
        loss.backward()
        job.seen.append(loss.item())
        job.step()
    return job.result()


@program
def penalty():
    return _penalty()


@program
def penalty_unused():
    return _penalty(find_unused_parameters=True)


@program
def penalty_static():
    return _penalty(static_graph=True)


@program
def one_rank_validates():
    """With gradients enabled, and no backward(), while the others wait."""
    job = Job(ddp={"broadcast_buffers": False})

    def validate():
        if dist.get_rank() == 0:
            job.seen.append(loss_of(job.model, 0, 1).item())
        dist.barrier()

    validate()
    job.train(steps=2)  # PyTorch's class has a broadcast of its own in the second
    return job.train(after=validate, steps=12).result()


if __name__ == "__main__":
    main()
