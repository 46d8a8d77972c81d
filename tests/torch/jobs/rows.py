# SPDX-License-Identifier: Apache-2.0
"""Models that look up rows of a parameter. Their numbers are small integers and parts of
powers of two, so that sums are exact in whatever order."""

import copy
import gc
import io
import sys
import weakref

import torch
import torch.distributed as dist
from base import Job, error_of, main, program
from torch import nn
from torch.utils.checkpoint import checkpoint

ROWS, WIDTH, IDS = 40, 4, 5
STEPS = 4


def ids(step, part=0, n=IDS):
    """Some of the last rows, others on each rank, with some twice."""
    g = torch.Generator().manual_seed(100 * step + 10 * part + dist.get_rank())
    return torch.randint(ROWS // 2, (2, n), generator=g)


def embedding(**more):
    made = nn.Embedding(ROWS, WIDTH, **more)
    with torch.no_grad():
        made.weight.copy_((torch.arange(ROWS * WIDTH) % 7 - 3.0).reshape(ROWS, WIDTH))
        if more.get("padding_idx") is not None:
            made.weight[more["padding_idx"]] = 0
    return made


class Words(nn.Module):
    """The gradient of a row is what it is, times how often it was looked up."""

    def __init__(self, **more):
        super().__init__()
        self.words = embedding(**more)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        y = self.words(x)
        return (y * y).sum() / 8 + (y * self.scale).sum() / 4


class Tied(Words):
    def forward(self, x):
        rest = self.words.weight
        return super().forward(x) + (rest * rest).sum() / 16


class TiedBefore(Words):
    """The other use is the first: its gradient is the last."""

    def forward(self, x):
        rest = self.words.weight
        rest = (rest * rest).sum() / 16
        return super().forward(x) + rest


class Two(nn.Module):
    """Two embeddings, of which one is looked up twice in a pass."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds = embedding(padding_idx=3), embedding()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        y, z = self.words(x) + self.words(x + 1), self.kinds(x.int())
        return (y * z).sum() / 8 + (y * self.scale).sum() / 4


class Few(Words):
    """One rank looks nothing up in the first step, all in the second and the last."""

    step = 0

    def forward(self, x):
        self.step += 1
        nothing = self.step in (2, STEPS) or self.step == 1 + dist.get_rank()
        return super().forward(x[:, : 0 if nothing else IDS])


class Twice(nn.Embedding):
    def forward(self, x):
        return 2 * super().forward(x)


def train(job, steps=STEPS, between=lambda: None, after=lambda: None, first=0):
    for i in range(first, first + steps):
        job.optimizer.zero_grad()
        loss = job.model(ids(i))
        loss.backward()
        job.seen.append(loss.item())
        between()
        job.step()
        after()
    return job


def made(model=Words, **more):
    return Job(model=model(**more), lr=0.25)


@program
def plain():
    return train(made()).result()


@program
def no_embedding():
    job = Job(model=nn.Linear(IDS, WIDTH), lr=0.25)
    for i in range(STEPS):
        job.optimizer.zero_grad()
        job.model(ids(i).float()).sum().backward()
        job.step()
    return job.result()


@program
def padded():
    return train(made(padding_idx=2)).result()


@program
def tied():
    return train(made(Tied)).result()


@program
def tied_before():
    return train(made(TiedBefore)).result()


@program
def a_gradient_that_is_held():
    """By somebody who asks nobody for it."""
    job = made(Tied)
    train(job, steps=1)
    held = job.net.words.weight.grad
    for i in range(1, STEPS):
        job.optimizer.zero_grad(set_to_none=False)
        job.model(ids(i)).backward()
        job.seen.append(held.numpy().tolist())
        job.step()
    return job.result()


@program
def a_use_outside():
    """Of the model, which its output knows nothing of."""
    job = made()
    for i in range(STEPS):
        job.optimizer.zero_grad()
        rest = job.net.words.weight
        (job.model(ids(i)) + (rest * rest).sum() / 16).backward()
        job.step()
    return job.result()


@program
def tied_and_read():
    """Right behind backward(), and between two steps."""
    job = made(Tied)
    job.read = lambda: job.saw(job.net.words.weight.grad)
    return train(job, between=job.read, after=lambda: job.saw(job.net.words.weight)).result()


@program
def two():
    return train(made(Two)).result()


@program
def few():
    return train(made(Few)).result()


@program
def derived():
    job = made()
    with torch.no_grad():
        job.net.words.__class__ = Twice
    return train(job).result()


@program
def given_up():
    """The gate finds that crossing pays, and then that it did not. Gradients alone are
    seen, of parameters that stay: those are exact."""
    if "_taut" in sys.modules:
        gate, rows = sys.modules["_taut._gate"], sys.modules["_taut._rows"]
        gate.Gate.begin = lambda self, completed: self.steps.extend([[1, 1, 3, 1, 4]] * completed)
        gate.Trial.begin = lambda self, completed: self.times.extend([9] * completed)
        rows.Rows.pays = lambda *arguments: True
    seen = []
    for model in (Words, Tied, Two):
        job = Job(model=model(), lr=0.0)
        train(job, 24, after=lambda: job.saw(*(p.grad for p in job.net.parameters())))
        seen += job.result()["seen"]
    return {"seen": seen, "late": job.most_late}


@program
def in_double():
    job = Job(model=Words().double(), lr=0.25)
    return train(job).result()


@program
def most_rows():
    """In some steps all rows are looked up."""
    job = made()
    for i in range(STEPS):
        job.optimizer.zero_grad()
        job.model(torch.arange(ROWS) if i % 2 else ids(i)).backward()
        job.step()
    return job.result()


@program
def accumulates():
    """What was kept from a pass before is summed, too."""
    seen = []
    for model in (Words, Tied):
        job = made(model)
        for i in range(STEPS):
            job.optimizer.zero_grad()
            if i % 2:
                with job.model.no_sync():
                    job.model(ids(i, part=1)).backward()
            job.model(ids(i)).backward()
            job.step()
        seen += job.result()["seen"]
    return {"seen": seen, "late": job.most_late}


@program
def two_passes():
    """Before one backward()."""
    job = made(Tied)
    for i in range(STEPS):
        job.optimizer.zero_grad()
        (job.model(ids(i)) + job.model(ids(i, part=1))).backward()
        job.step()
    return job.result()


@program
def passes_of_one_rank():
    """With gradients, and no backward()."""
    job = made()

    def after():
        if dist.get_rank():
            job.net.seen = job.model(ids(9, n=9)).detach()

    return train(job, after=after).result()


@program
def a_lookup_of_no_use():
    class Part(Words):
        def forward(self, x):
            self.words(x + 1)
            return super().forward(x)

    return train(made(Part)).result()


@program
def evaluates():
    job = made(Tied)

    def after():
        job.model.eval()
        with torch.no_grad():
            job.saw(job.model(ids(7)))
        with torch.inference_mode():
            job.saw(job.net.words(ids(8)))
        job.model.train()

    return train(job, after=after).result()


def slope(x: torch.Tensor):
    return torch.autograd.grad([(x * x).sum()], [x])[0]


@program
def scripts():
    """What asks for gradients in TorchScript."""
    job = made(Tied)

    def after():
        x = torch.ones(3, requires_grad=True)
        job.saw(torch.jit.script(slope)(x))

    return train(job, after=after).result()


@program
def copies():
    """Nothing of it is in what is copied, saved, or becomes TorchScript."""
    job = made(Tied)

    def after():
        twin = copy.deepcopy(job.net)
        twin(ids(3)).backward()
        job.saw(twin.words.weight.grad, *twin.parameters())
        torch.save(job.net, io.BytesIO())
        job.saw(torch.jit.script(nn.Embedding(4, 2))(torch.tensor([1])) * 0)

    return train(job, after=after).result()


@program
def checkpointed():
    """A lookup that is made again in the backward pass goes as a whole."""

    class Again(Words):
        def forward(self, x):
            return checkpoint(super().forward, x, use_reentrant=False)

    return train(made(Again)).result()


@program
def values_are_clipped():
    job = made(Tied)

    def between():
        grads = [p.grad for p in job.net.parameters()]
        job.saw(*grads)
        nn.utils.clip_grad_value_(job.net.parameters(), 2.0)

    return train(job, between=between).result()


@program
def come_and_go():
    seen = []
    for i in range(3):
        job = train(made(Tied if i else Words), first=i)
        job.saw_all()
        seen += job.seen
    late, weight = job.most_late, weakref.ref(job.net.words.weight)
    job = None
    control = sys.modules.get("_taut._control")
    if control:
        control.reap()
    gc.collect()
    return {"seen": [*seen, weight() is None], "late": late}


@program
def backward_twice():
    """Both are summed, where PyTorch sums the first alone."""
    seen = []
    for model in (Words, Tied):
        job = made(model)
        for i in range(STEPS):
            job.optimizer.zero_grad()
            loss = job.model(ids(i))
            loss.backward(retain_graph=True)
            loss.backward()
            job.step()
        seen += job.result()["seen"]
    return {"seen": seen}


# --- of which PyTorch knows nothing ------------------------------------------------------


@program
def another_use():
    """That comes later than what was decided by."""

    class Late(Words):
        is_tied = False

        def forward(self, x):
            loss = super().forward(x)
            return loss + self.words.weight.sum() if self.is_tied else loss

    job = train(made(Late), steps=3)
    job.net.is_tied = True
    return {"error": error_of(lambda: train(job, steps=1))}


@program
def reads_in_backward():
    job = train(made(Tied), steps=2)
    other = job.net.scale
    other.register_post_accumulate_grad_hook(lambda p: job.saw(job.net.words.weight.grad))
    job.optimizer.zero_grad()
    return {"error": error_of(lambda: job.model(ids(2)).backward())}


@program
def asks_for_one_gradient():
    job = train(made(Tied), steps=2)
    loss = job.model(ids(2))
    return {"error": error_of(lambda: torch.autograd.grad(loss, [job.net.words.weight]))}


@program
def a_step_late():
    """backward() of a forward pass before the last one."""
    job = train(made(), steps=2)
    losses = [job.model(ids(2))]

    def late():
        for i in range(3, 7):
            losses.append(job.model(ids(i)))
            job.optimizer.zero_grad()
            losses.pop(0).backward()

    return {"error": error_of(late)}


@program
def is_frozen_later():
    job = train(made(), steps=2)
    job.net.words.weight.requires_grad_(False)

    def on():
        train(job, steps=2)

    return {"error": error_of(on)}


@program
def a_hook_that_comes_later():
    job = train(made(), steps=2)
    job.net.words.weight.register_hook(lambda grad: None)
    return {"error": error_of(lambda: job.model(ids(2)))}


@program
def forgotten():
    """What a collective is in the middle of stays, whoever forgets it."""
    job = train(made(), steps=3)
    exchange = job.model._taut.sums.exchange
    flags = torch.ones(4, dtype=torch.uint8)
    kept = weakref.ref(flags)
    run, flags = exchange.all_reduce(flags, "max"), None
    stays = kept() is not None
    while not run.wait(1):
        pass
    return {"stays": stays, "goes": kept() is None}


@program
def how_much():
    """That is summed in a step; from the second one on by another exchange."""
    job, sent = made(), []
    for i in range(STEPS):
        train(job, steps=1, first=i)
        if "_taut" in sys.modules:
            job.saw_all()
            sent.append(job.model._taut.sums.counts()["bytes"])
    return {"sent": [b - a for a, b in zip(sent[1:], sent[2:])]}


if __name__ == "__main__":
    main()
