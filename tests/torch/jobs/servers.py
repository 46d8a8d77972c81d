# SPDX-License-Identifier: Apache-2.0
"""Training by parameter servers: taut.torch.ServerOptimizer in the job, against the same
arithmetic in plain operations, and DistributedDataParallel that such servers refuse.

    servers.py NAME[:MORE] [VARIABLE=VALUE...]...    prints a line of JSON for each

What is set is for the program before it. Its name in the line is NAME:MORE."""

import json
import os
import sys
import time
import warnings
from unittest import mock

import taut.torch
import torch
import torch.distributed as dist
from base import Net, error_of, leave, loss_of
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 4
programs = {}
kept = []  # until the process ends


def program(function):
    programs[function.__name__] = function
    return function


def summed(tensor):
    """Over all ranks, in their order, each part multiplied first."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    total = parts[0] * (1 / len(parts))
    for part in parts[1:]:
        total += part * (1 / len(parts))
    return total


@program
def momentum():
    """--update sgd:lr=0.1,momentum=0.9: the same bits. Ranks begin with rank 0's."""
    torch.manual_seed(1 + dist.get_rank())
    net, hand = Net(), Net()
    optimizer = taut.torch.ServerOptimizer(net.parameters())
    hand.load_state_dict(net.state_dict())  # what it began with is rank 0's
    speeds = [None for _ in hand.parameters()]
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(net, step).backward()
        optimizer.step()
        hand.zero_grad()
        loss_of(hand, step).backward()
        with torch.no_grad():
            for i, p in enumerate(hand.parameters()):
                d = summed(p.grad)
                speeds[i] = d if speeds[i] is None else speeds[i] * 0.9 + d
                p.copy_(p - speeds[i] * 0.1)
    same = all(torch.equal(a, b) for a, b in zip(net.parameters(), hand.parameters()))
    n = optimizer.contributors()
    kept.append(optimizer)  # and the end of the process leaves
    first = [p.detach().double().sum().item() for p in net.parameters()]
    return {"same": same, "contributors": n, "sums": first}


@program
def asynchronous():
    """--update sgd:lr=0.125 --async: after all have pushed k gradients of 1, and none of
    them is lost or applied twice, k times the ranks are gone."""
    p = torch.nn.Parameter(torch.full((300,), 64.0))
    optimizer = taut.torch.ServerOptimizer([p])
    p.grad = torch.ones_like(p)
    seen = []
    for _ in range(STEPS):
        before = p.detach().clone()
        optimizer.step()
        seen.append(bool((p < before).all()))
    dist.barrier()
    p.grad = None  # a push of zeros: the last word
    optimizer.step()
    optimizer.leave()
    expected = 64.0 - 0.125 * STEPS * dist.get_world_size()
    return {"falls": all(seen), "right": bool((p == expected).all())}


@program
def overflow():
    """--update sgd:lr=1, a GradScaler, gradients that are 10^step on all ranks. One is
    infinite, on rank 0: no rank makes that step. The next one is of one step on all."""
    p = torch.nn.Parameter(torch.zeros(4))
    optimizer = taut.torch.ServerOptimizer([p])
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    values, scales = [], []
    for step in range(STEPS):
        p.grad = torch.full((4,), 10.0**step) * scaler.scale(torch.ones(()))
        if step == 1 and dist.get_rank() == 0:
            p.grad[0] = float("inf")
        if step == 2:
            scaler.unscale_(optimizer)  # as before one clips
        scaler.step(optimizer)
        scaler.update()
        values.append(p[1].item())
        scales.append(scaler.get_scale())
    optimizer.leave()
    return {"values": values, "scales": scales}


@program
def rule():
    """What a job gives an optimizer of torch.optim beside its parameters, and which is
    the servers' here: each is an error, and no parameter is changed by a step with it."""
    Server = taut.torch.ServerOptimizer
    p, q = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))
    optimizer = Server([{"params": [p]}])
    p.grad = torch.ones_like(p)

    def steps_with_rate():
        for group in optimizer.param_groups:
            group["lr"] = 0.0
        optimizer.step()

    errors = {
        "given": raised(lambda: Server([{"params": [q], "weight_decay": 0.0}])),
        "set": raised(steps_with_rate),
        "added": raised(lambda: optimizer.add_param_group({"params": [q]})),
        "loaded": raised(lambda: optimizer.load_state_dict({})),
    }
    del optimizer.param_groups[0]["lr"]
    errors["scheduled"] = raised(lambda: torch.optim.lr_scheduler.StepLR(optimizer, 10))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        optimizer.state_dict()
    before = p[0].item()
    optimizer.step()
    optimizer.leave()
    values = [before, p[0].item()]
    return {"errors": errors, "said": [str(each.message) for each in said], "values": values}


@program
def empty():
    """--update sgd:lr=0.5: one without elements, as torch.optim takes it, is in no way."""
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = taut.torch.ServerOptimizer([torch.nn.Parameter(torch.empty(0)), p])
    p.grad = torch.ones_like(p)
    optimizer.step()
    optimizer.leave()
    return {"value": p[0].item()}


@program
def frozen():
    """--update adamw:lr=0.01,weight-decay=0.1, which moves what has no gradient. A frozen
    parameter, of a type that servers do not train, is rank 0's first value to the end."""
    parameters = [torch.nn.Parameter(torch.full((3, 2), 1.0 + dist.get_rank())) for _ in range(2)]
    parameters.append(torch.nn.Parameter(torch.full((4, 2), 5.0 + dist.get_rank()).half().t()))
    for p in parameters[1:]:
        p.requires_grad_(False)
    optimizer = taut.torch.ServerOptimizer(parameters)
    for _ in range(STEPS):
        parameters[0].grad = torch.ones(3, 2)
        optimizer.step()
    errors = []
    for p in parameters[:2]:
        p.requires_grad_(not p.requires_grad)
        errors.append(raised(optimizer.step))
        p.requires_grad_(not p.requires_grad)
    optimizer.leave()
    return {"values": [p.flatten()[-1].item() for p in parameters], "errors": errors}


def raised(call):
    try:
        call()
    except (ValueError, KeyError, RuntimeError) as why:
        return "%s: %s" % (type(why).__name__, why)
    return None


@program
def no_optimizer():
    net = Net()
    return {"error": error_of(lambda: _as_runtime(lambda: taut.torch.ServerOptimizer(net.parameters())))}


@program
def unlike():
    """Rank 1 is told something else. What each hears, and whether that took long."""
    if dist.get_rank():
        os.environ.update(json.loads(os.environ["TAUT_TEST_UNLIKE"]))
    begun = time.monotonic()
    try:
        taut.torch.ServerOptimizer(torch.nn.Linear(4, 4).parameters())
    except (OSError, ValueError) as why:
        return {"error": "%s: %s" % (type(why).__name__, why), "seconds": time.monotonic() - begun}
    return {"error": None}


def _as_runtime(call):
    try:
        call()
    except ValueError as why:
        raise RuntimeError(str(why)) from None


@program
def wrapped():
    """Whose gradients they are, and what they are."""
    model = DDP(torch.nn.Linear(8, 4))
    model(torch.full((2, 8), 1.0 + dist.get_rank())).square().mean().backward()
    counts = taut.torch.counts(model)
    grads = [p.grad.double().sum().item() for p in model.parameters()]
    return {"engine": counts and counts["engine"], "grads": grads}


@program
def credits():
    """Those that a rank's worker was given, one after the other, by what uses it."""
    seen = []
    _server = sys.modules[taut.torch.ServerOptimizer.__module__]._server

    class Worker(_server.Worker):
        def __init__(self, *arguments, **limits):
            seen.append(limits.get("credit_bytes", 0))
            super().__init__(*arguments, **limits)

        def tune(self, credit):
            seen.append(credit)
            super().tune(credit)

    with mock.patch.object(_server, "Worker", Worker):
        if "TAUT_RUN_UPDATE" in os.environ:
            taut.torch.ServerOptimizer(torch.nn.Linear(4, 4).parameters()).leave()
        else:
            wrapped()
    return {"credits": seen}


@program
def two_models():
    """Servers that run already take one model; the other one is PyTorch's."""
    first, second = DDP(torch.nn.Linear(8, 4)), DDP(torch.nn.Linear(4, 4))
    second(first(torch.ones(2, 8))).square().mean().backward()
    engines = [taut.torch.counts(m) for m in (first, second)]
    grads = [p.grad.double().sum().item() for m in (first, second) for p in m.parameters()]
    return {"engines": [c and c["engine"] for c in engines], "grads": grads}


def told(words):
    """(name, what is set for it) of each."""
    found = []
    for word in words:
        name, is_set, value = word.partition("=")
        if is_set:
            found[-1][1][name] = value
        else:
            found.append((word, {}))
    return found


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name, settings in told(sys.argv[1:]):
        torch.manual_seed(1)
        before = {key: os.environ.get(key) for key in settings}
        os.environ.update(settings)
        row = programs[name.partition(":")[0]]()
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
        print(json.dumps(dict(row, name=name)), flush=True)
    leave()


if __name__ == "__main__":
    main()
