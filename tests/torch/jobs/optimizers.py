# SPDX-License-Identifier: Apache-2.0
"""Optimizers, and ways to use them."""

import collections
import copy
import signal
import sys
import threading

import torch
from base import STEPS, Job, Net, batch, digest, late, loss_of, main, program, programs
from torch import nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW

adam_module = sys.modules[Adam.__module__]


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


def _with_no_closure(*args, **kwargs):
    job = Job()
    for i in range(STEPS):
        job.optimizer.zero_grad()
        job.backward(i)
        job.optimizer.step(*args, **kwargs)
        job.most_late = max(job.most_late, late(job.model))
    return job.result()


@program
def closure_none():
    return _with_no_closure(None)


@program
def closure_none_by_name():
    return _with_no_closure(closure=None)


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


def _goes_back(job, load):
    """Right after a step(), to the state of an earlier one."""
    job.train(steps=2)
    model, state = copy.deepcopy([job.model.state_dict(), job.optimizer.state_dict()])
    job.train(steps=3)
    load(job, model, state)
    return job.train(steps=2).result()


@program
def loads_state_alone():
    return _goes_back(Job(Adam, lr=0.01), lambda job, m, s: job.optimizer.load_state_dict(s))


@program
def loads_state_first():
    def load(job, model, state):
        job.optimizer.load_state_dict(state)
        job.model.load_state_dict(model)

    return _goes_back(Job(SGD, momentum=0.9), load)


@program
def sets_state():
    """By hand, and as a copy or a pickle does it."""

    def load(job, model, state):
        momenta = {p: {"momentum_buffer": torch.ones_like(p)} for p in job.model.parameters()}
        job.train(steps=1)
        job.optimizer.state = momenta
        job.train(steps=1)
        job.optimizer.__setstate__({"state": collections.defaultdict(dict)})

    return _goes_back(Job(SGD, momentum=0.9), load)


def _in_an_update(name, look, least):
    """In the middle of the first step() or late update of at least so many parameters:
    look() gives what is seen then."""

    def run():
        job = Job(Adam, lr=0.01)
        job.train(steps=3)
        own, looks = adam_module.adam, []

        def adam(*args, **kwargs):
            if not looks and len(args[0]) >= least:
                looks.append(0)  # what is asked for may make another update
                looks[0] = look(job)
            return own(*args, **kwargs)

        adam_module.adam = adam
        try:
            job.train(steps=1)
            job.saw_all()
        finally:
            adam_module.adam = own
        state = looks[0]
        job.seen.append([len(group["params"]) for group in state["param_groups"]])
        job.seen.append(len(state["state"]))
        Adam(Net().parameters()).load_state_dict(state)
        return job.train(steps=2).result()

    programs[name] = run


def _by_a_handler(job):
    found = []
    before = signal.signal(signal.SIGUSR1, lambda *_: found.append(job.optimizer.state_dict()))
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    return copy.deepcopy(found[0])


_in_an_update("saved_in_an_update", _by_a_handler, 1)
_in_an_update("saved_in_step", _by_a_handler, 0)  # which under Taut leaves all for later


@program
def saved_by_a_thread():
    """Which sees an update whole, if one is made when it looks."""
    job = Job(Adam, lr=0.01)
    job.train(steps=3)
    own, found, threads = adam_module.adam, [], []

    def save():
        state = job.optimizer.state_dict()
        found.append(digest(state["state"][i]["exp_avg"] for i in sorted(state["state"])))
        found.append([len(group["params"]) for group in state["param_groups"]])

    def adam(*args, **kwargs):
        if not threads:
            threads.append(threading.Thread(target=save))
            threads[0].start()
            threads[0].join(0.3)  # which waits for the update, where it is late
        return own(*args, **kwargs)

    job.train(steps=1)
    adam_module.adam = adam
    try:
        job.saw_all()
    finally:
        adam_module.adam = own
    if not threads:
        save()
    for thread in threads:
        thread.join()
    job.seen += found
    return job.train(steps=2).result()


if __name__ == "__main__":
    main()
