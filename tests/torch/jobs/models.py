# SPDX-License-Identifier: Apache-2.0
"""Models that use their parameters in every way, and passes of all kinds."""

import dataclasses

import torch
import torch.distributed as dist
from base import STEPS, Branches, Job, batch, loss_of, main, program
from torch import nn
from torch.nn import functional
from torch.optim import SGD, Adam

@program
def evaluates():
    job = Job(Adam, lr=0.01)

    def after():
        job.model.eval()
        with torch.no_grad():
            job.saw(job.model(batch(7)[0]))
        with torch.inference_mode():
            job.saw(job.net(batch(8)[0]))
        job.model.train()

    return job.train(after=after).result()


@program
def functional_forward():
    """Goes by no module."""
    job = Job()

    def after():
        job.saw(functional.linear(batch(7)[0], job.net.first.weight, job.net.first.bias))
        job.saw(job.net.twice.weight.t() @ job.net.scale)

    return job.train(after=after).result()


@program
def autocast():
    job = Job(Adam, lr=0.01)
    for i in range(STEPS):
        job.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(job.model, i)
        loss.backward()
        job.seen.append(loss.item())
        job.step()
    return job.result()


@program
def tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(12, 8)
            self.out = nn.Linear(8, 12, bias=False)
            self.out.weight = self.words.weight

        def forward(self, x):
            return self.out(self.words((x[:, 0].abs() * 10).long() % 12))

    return Job(model=Tied()).train().result()


@program
def lstm():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 8, 2, batch_first=True)
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.lstm(x[:, None].expand(-1, 3, -1))[0][:, -1])

    return Job(Adam, model=Words(), lr=0.01).train().result()


@program
def attention():
    return Job(
        model=nn.Sequential(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 4)
        )
    ).train().result()


class Encoded(nn.Module):
    """Parts that in evaluation go by one operator for many parameters, if those are plain
    tensors."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 4)

    def encoded(self, x, hidden):
        return self.encoder(x, src_key_padding_mask=hidden)

    def forward(self, x):
        x = self.layer(self.encoded(*words(x)))
        return self.head(self.attention(x, x, x)[0].mean(1))


def words(x):
    """With some that are none, whose output tells how it was made."""
    x = x[:, None] * torch.tensor([[1.0], [0.5], [0.25]])
    hidden = torch.zeros(x.shape[:2], dtype=torch.bool)
    hidden[1:, 2] = True
    return x, hidden


def _evaluates_part(call):
    job = Job(model=Encoded())

    def after():
        job.model.eval()
        with torch.no_grad():
            job.saw(call(job.net, *words(batch(7)[0])))
        job.model.train()

    return job.train(after=after).result()


@program
def evaluates_encoder():
    return _evaluates_part(Encoded.encoded)


@program
def evaluates_encoder_layer():
    return _evaluates_part(lambda net, x, hidden: net.layer(x, src_key_padding_mask=hidden))


@program
def evaluates_attention():
    return _evaluates_part(lambda net, x, hidden: net.attention(x, x, x, hidden)[0])


@program
def channels_last():
    model = nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)), nn.Conv2d(2, 4, 2), nn.Flatten(), nn.Linear(4, 4)
    ).to(memory_format=torch.channels_last)
    return Job(Adam, model=model, lr=0.01).train().result()


@program
def half_parameters():
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4)).to(torch.bfloat16)
    job = Job(model=model)
    for i in range(STEPS):
        job.optimizer.zero_grad()
        x, y = batch(i)
        loss = functional.cross_entropy(job.model(x.bfloat16()).float(), y)
        loss.backward()
        job.step()
        job.seen.append(loss.item())
    job.seen.append([p.float().sum().item() for p in job.model.parameters()])
    return {"seen": job.seen, "late": job.most_late}


@program
def unused():
    job = Job(Adam, model=Branches(), ddp={"find_unused_parameters": True}, lr=0.01)
    count = lambda: job.seen.append(sum(p.grad is None for p in job.model.parameters()))
    return job.train(count).result()


@program
def unused_and_unread():
    job = Job(SGD, model=Branches(), ddp={"find_unused_parameters": True}, momentum=0.9)
    return job.train(steps=8).result()


@program
def unused_accumulates():
    job = Job(SGD, model=Branches(), ddp={"find_unused_parameters": True})
    for i in range(STEPS):
        job.optimizer.zero_grad()
        with job.model.no_sync():
            job.backward(i)
        job.backward(i, 1)
        job.step()
    return job.result()


class Empty(nn.Module):
    """A parameter without elements, as of models that ask it for their device."""

    def __init__(self, uses):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.anchor = nn.Parameter(torch.empty(0))
        self.last = nn.Linear(8, 4)
        self.uses = uses

    def forward(self, x):
        x = self.last(torch.tanh(self.first(x.to(self.anchor.device))))
        return x + self.anchor.sum() if self.uses else x


@program
def empty_parameter():
    job = Job(Adam, model=Empty(True), lr=0.01)
    return job.train(lambda: job.saw(job.net.anchor.grad)).result()


@program
def empty_and_unused():
    job = Job(Adam, model=Empty(False), ddp={"find_unused_parameters": True}, lr=0.01)
    return job.train(lambda: job.saw(job.net.anchor.grad)).result()


class Output(dict):
    __getattr__ = dict.__getitem__


@dataclasses.dataclass
class Fields:
    out: torch.Tensor


def _returns(kind, **ddp):
    """What no pytree looks into."""

    class Returns(Branches):
        def forward(self, x):
            return kind(out=super().forward(x))

    job = Job(model=Returns(), ddp=ddp)
    for i in range(STEPS):
        job.optimizer.zero_grad()
        x, y = batch(i)
        loss = functional.cross_entropy(job.model(x).out, y)
        loss.backward()
        job.step()
        job.seen.append(loss.item())
    return job.result()


@program
def returns_a_dict():
    return _returns(Output, find_unused_parameters=True)


@program
def returns_a_dataclass():
    return _returns(Fields, find_unused_parameters=True)


@program
def writes_what_is_returned():
    """In place, which is saved for the backward pass."""

    class Saves(Branches):
        def forward(self, x):
            return torch.sigmoid(super().forward(x))

    job = Job(model=Saves(), ddp={"find_unused_parameters": True})
    for i in range(STEPS):
        job.optimizer.zero_grad()
        x, y = batch(i)
        loss = functional.cross_entropy(job.model(x).mul_(2), y)
        loss.backward()
        job.step()
        job.seen.append(loss.item())
    return job.result()


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.first, self.block, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)
        self.reentrant = reentrant

    def forward(self, x):
        again = torch.utils.checkpoint.checkpoint
        for _ in range(2 if self.reentrant else 1):
            x = torch.tanh(self.first(x)) if x.grad_fn is None else x
            x = again(self.block, x, use_reentrant=self.reentrant)
        return self.last(x)


@program
def checkpointed():
    return Job(model=Checkpointed(False)).train().result()


@program
def static_graph():
    """Checkpointed twice: a parameter gets two gradients in one backward()."""
    return Job(model=Checkpointed(True), ddp={"static_graph": True}).train().result()


if __name__ == "__main__":
    main()
