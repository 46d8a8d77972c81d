# SPDX-License-Identifier: Apache-2.0
"""Small training programs that know nothing of Taut, each of which does something
else between backward() and the next forward pass, and says all that it saw. What
it sees must be the same with PyTorch's DistributedDataParallel and with Taut's.

    programs.py NAME...    prints a line of JSON for each, on each rank

With TAUT_TEST_LATE=1 no sum is there before somebody waits for it, so that every
gradient and every update is as late as it can be."""

import copy
import ctypes
import gc
import hashlib
import io
import json
import os
import sys
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim import SGD, Adam, AdamW

STEPS = 4
programs = {}


def program(function):
    programs[function.__name__] = function
    return function


class Net(nn.Module):
    """A scale of its own, a layer used twice, a norm with buffers."""

    def __init__(self, width=16):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.first = nn.Linear(8, width)
        self.twice = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 4)

    def forward(self, x):
        x = torch.relu(self.first(x)) * self.scale
        x = self.norm(self.twice(torch.tanh(self.twice(x))))
        return self.last(x)


def batch(step, part=0):
    g = torch.Generator().manual_seed(100 * step + 10 * part + dist.get_rank())
    return torch.randn(6, 8, generator=g), torch.randint(4, (6,), generator=g)


def loss_of(model, step, part=0):
    x, y = batch(step, part)
    return functional.cross_entropy(model(x), y)


def digest(tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().contiguous().numpy().tobytes() if t is not None else b"none")
    return h.hexdigest()[:16]


def late(model):
    return sum(type(p).__name__ == "Pending" for p in model.parameters())


class Job:
    """A model and its optimizer; seen: what the program saw."""

    def __init__(self, optimizer=SGD, model=None, ddp=None, **options):
        self.net = model or Net()
        self.model = DDP(self.net, **(ddp or {}))
        options.setdefault("lr", 0.05)
        self.optimizer = optimizer(self.model.parameters(), **options)
        self.seen, self.most_late = [], 0

    def saw(self, *tensors):
        self.seen.append(digest(tensors))

    def saw_all(self):
        self.saw(*self.model.parameters(), *self.model.buffers())

    def backward(self, step, part=0):
        loss = loss_of(self.model, step, part)
        loss.backward()
        self.seen.append(loss.item())

    def step(self):
        self.optimizer.step()
        self.most_late = max(self.most_late, late(self.model))

    def train(self, between=lambda: None, after=lambda: None, steps=STEPS):
        for i in range(steps):
            self.optimizer.zero_grad()
            self.backward(i)
            between()
            self.step()
            after()
        return self

    def result(self):
        self.saw_all()
        return {"seen": self.seen, "late": self.most_late}


# --- optimizers --------------------------------------------------------------------


def _optimizer(name, cls, **options):
    programs[name] = lambda: Job(cls, **options).train().result()


_optimizer("sgd", SGD)
_optimizer("sgd_momentum", SGD, momentum=0.9, weight_decay=1e-2, nesterov=True)
_optimizer("sgd_foreach", SGD, momentum=0.9, foreach=True)
_optimizer("sgd_fused", SGD, momentum=0.9, fused=True)
_optimizer("adam", Adam, lr=1e-2)
_optimizer("adam_foreach", Adam, lr=1e-2, foreach=True, amsgrad=True)
_optimizer("adam_fused", Adam, lr=1e-2, fused=True)
_optimizer("adamw", AdamW, lr=1e-2)
for _name in ("Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD"):
    _optimizer(_name.lower(), getattr(torch.optim, _name))


@program
def lbfgs():
    job = Job(torch.optim.LBFGS, max_iter=2)
    for i in range(2):

        def closure():
            job.optimizer.zero_grad()
            loss = loss_of(job.model, i)
            loss.backward()
            return loss

        job.seen.append(job.optimizer.step(closure).item())
    return job.result()


@program
def closure():
    job = Job()

    def again():
        job.optimizer.zero_grad()
        loss = loss_of(job.model, 9)
        loss.backward()
        return loss

    job.train(steps=2)
    job.seen.append(job.optimizer.step(again).item())
    return job.train(steps=2).result()


@program
def own_optimizer():
    """A class that nobody knows: its step() reads gradients of all parameters."""

    class Mine(SGD):
        @torch.no_grad()
        def step(self):
            params = [p for g in self.param_groups for p in g["params"]]
            norm = sum((p.grad**2).sum() for p in params).sqrt()
            for p in params:
                p -= 0.1 * p.grad / norm

    return Job(Mine).train().result()


@program
def groups_and_schedule():
    """Rates differ by group, and change after step(), which used the old ones."""
    job = Job()
    biases = [p for n, p in job.model.named_parameters() if n.endswith("bias")]
    rest = [p for n, p in job.model.named_parameters() if not n.endswith("bias")]
    job.optimizer = Adam([{"params": rest}, {"params": biases, "lr": 0.5}], lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(job.optimizer, 0.5)

    def after():
        schedule.step()
        job.optimizer.param_groups[0]["betas"] = (0.5, 0.9)

    return job.train(after=after).result()


@program
def rate_is_a_tensor():
    job = Job(SGD, lr=torch.tensor(0.1), foreach=False)
    rate = job.optimizer.param_groups[0]["lr"]
    return job.train(after=lambda: rate.mul_(0.5)).result()


@program
def two_optimizers():
    job = Job()
    params = list(job.model.parameters())
    one, two = SGD(params[:4], lr=0.1), Adam(params[4:], lr=0.01)
    for i in range(STEPS):
        one.zero_grad()
        two.zero_grad()
        job.backward(i)
        one.step()
        job.most_late = max(job.most_late, late(job.model))
        two.step()
    return job.result()


@program
def two_models():
    """As an adversarial pair: each is trained through the other."""
    one, two = Job(model=nn.Sequential(nn.Linear(8, 8))), Job(Adam, lr=0.01)
    for i in range(STEPS):
        x, y = batch(i)
        one.optimizer.zero_grad()
        two.optimizer.zero_grad()
        functional.cross_entropy(two.model(one.model(x).detach()), y).backward()
        two.step()
        two.optimizer.zero_grad()
        (-functional.cross_entropy(two.model(one.model(x)), y)).backward()
        one.step()
        two.optimizer.zero_grad()
    one.seen += two.result()["seen"]
    return one.result()


# --- gradients ------------------------------------------------------------------------


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


# --- parameters ----------------------------------------------------------------------


def _after(name, read, **options):
    def run():
        job = Job(**options)
        return job.train(after=lambda: read(job)).result()

    programs[name] = run


_after("reads_parameters", lambda job: job.saw_all())
_after("reads_one_parameter", lambda job: job.saw(job.net.last.bias))
_after("reads_data", lambda job: job.saw(*[p.data for p in job.model.parameters()]))
_after("saves_the_model", lambda job: job.saw(*job.model.state_dict().values()))
_after("copies_the_model", lambda job: job.saw(*copy.deepcopy(job.net).parameters()))
_after("vector", lambda job: job.saw(nn.utils.parameters_to_vector(job.model.parameters())))
_after("foreach", lambda job: job.saw(*torch._foreach_mul(list(job.model.parameters()), 2.0)))
_after("to_half", lambda job: job.saw(*[p.half() for p in job.model.parameters()]))
_after("as_array", lambda job: job.saw(torch.tensor(job.net.scale.detach().numpy())))


@program
def copied_classes():
    job = Job()
    kinds = set()

    def after():
        twin = copy.deepcopy(job.net)
        again = copy.copy(job.net.scale)
        kinds.update(type(p).__name__ for p in [*twin.parameters(), again])

    job.train(after=after)
    job.seen += sorted(kinds)
    return job.result()


@program
def pickles_the_model():
    job = Job()

    def after():
        file = io.BytesIO()
        torch.save(job.net, file)
        file.seek(0)
        job.saw(*torch.load(file, weights_only=False).parameters())

    return job.train(after=after).result()


@program
def saves_the_optimizer():
    job = Job(Adam, lr=0.01)

    def after():
        state = job.optimizer.state_dict()["state"]
        for i in sorted(state):
            job.saw(state[i]["exp_avg"], state[i]["exp_avg_sq"], state[i]["step"])

    return job.train(after=after).result()


@program
def reads_optimizer_state():
    job = Job(Adam, lr=0.01)

    def after():
        job.saw(job.optimizer.state[job.net.twice.weight]["exp_avg"])

    return job.train(after=after).result()


@program
def resumes():
    """Goes on from a checkpoint that was made in the middle of a step."""
    job = Job(Adam, lr=0.01)
    job.train(steps=2)
    saved = copy.deepcopy((job.model.state_dict(), job.optimizer.state_dict()))
    job.train(steps=2)
    job.model.load_state_dict(saved[0])
    job.optimizer.load_state_dict(saved[1])
    return job.train(steps=2).result()


@program
def ema():
    job = Job()
    mean = [p.detach().clone() for p in job.model.parameters()]

    def after():
        for m, p in zip(mean, job.model.parameters()):
            m.mul_(0.9).add_(p.data, alpha=0.1)
        job.saw(*mean)

    return job.train(after=after).result()


@program
def ema_averaged_model():
    job = Job()
    mean = torch.optim.swa_utils.AveragedModel(job.net)

    def after():
        mean.update_parameters(job.net)
        job.saw(*mean.parameters())

    return job.train(after=after).result()


@program
def alias_of_memory():
    """Tensors, an array and an address over the parameters' memory, made before."""
    job = Job()
    params = list(job.model.parameters())
    views = [p.data for p in params[:3]]
    array = params[3].detach().numpy()
    return job.train(after=lambda: job.saw(*views, torch.tensor(array))).result()


@program
def address_of_memory():
    """The same by a bare address, which needs a word to Taut."""
    job = Job()
    at = job.net.scale.data_ptr()

    def after():
        if "_taut" in sys.modules:
            sys.path.insert(0, os.environ["TAUT_TEST_PACKAGE"])
            import taut.torch

            taut.torch.finish()
        job.seen.append(list((ctypes.c_float * 16).from_address(at)))

    return job.train(after=after).result()


@program
def drops_the_wrapper():
    job = Job(Adam, lr=0.01)
    job.train(steps=3)
    job.saw()
    net, count = job.net, late(job.model)
    job.optimizer = job.model = None
    gc.collect()
    job.saw(*net.parameters())
    return {"seen": job.seen, "late": count}


@program
def writes_parameters():
    job = Job()

    def after():
        with torch.no_grad():
            job.net.first.weight.clamp_(-0.1, 0.1)
            job.net.last.weight.data = job.net.last.weight.data * 0.5
            nn.init.ones_(job.net.scale)

    return job.train(after=after).result()


@program
def writes_before_step():
    job = Job()

    def between():
        with torch.no_grad():
            job.net.first.weight.mul_(0.9)

    return job.train(between).result()


@program
def another_thread():
    job = Job()

    def after():
        threads = [
            threading.Thread(target=lambda: job.saw(*job.model.parameters())) for _ in range(2)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    return job.train(after=after).result()


@program
def collectives_on_parameters():
    job = Job()

    def after():
        other = job.net.twice.weight
        with torch.no_grad():
            dist.broadcast(other, 1)
        job.saw(other)
        out = [torch.empty(16) for _ in range(dist.get_world_size())]
        dist.all_gather(out, job.net.scale)
        job.saw(*out)

    return job.train(after=after).result()


@program
def step_hooks():
    job = Job()
    job.optimizer.register_step_post_hook(
        lambda o, a, k: job.saw(*[p for g in o.param_groups for p in g["params"]])
    )
    return job.train().result()


# --- forward passes -------------------------------------------------------------------


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


class Branches(nn.Module):
    """Which branch a batch takes depends on rank and step; one is never taken."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.branches = nn.ModuleList(nn.Linear(8, 4) for _ in range(4))
        self.never = nn.Linear(8, 4)
        self.step = -1

    def forward(self, x):
        self.step += 1
        return self.branches[(self.step + dist.get_rank()) % 4](self.first(x))


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


# --- what is left to PyTorch -------------------------------------------------------------


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


# --- what is refused, and what is better than refused -----------------------------------


def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return None


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


@program
def unused_unsaid():
    job = Job(model=Branches())
    job.train(steps=1)
    return {"error": error_of(lambda: job.train(steps=1))}


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


def make_late():
    """Nothing is there until somebody waits."""
    import importlib

    for name in ("_group", "_sync"):
        cls = importlib.import_module("_taut." + name).Exchange
        cls.next = (lambda own: lambda self, s: own(self, s) if s else None)(cls.next)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if os.environ.get("TAUT_TEST_LATE") == "1" and "_taut" in sys.modules:
        make_late()
    for name in sys.argv[1:]:
        torch.manual_seed(1)
        print(json.dumps(dict(programs[name](), name=name)), flush=True)
    if "ends_in_the_middle" not in sys.argv:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
