# SPDX-License-Identifier: Apache-2.0
"""Programs that look at parameters, or write them, right after step()."""

import copy
import ctypes
import gc
import io
import os
import sys
import threading

import torch
import torch.distributed as dist
from base import Job, late, main, program, programs
from torch import func, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Adam
from torch.utils._python_dispatch import TorchDispatchMode


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


class Own(torch.Tensor):
    pass


# What PyTorch does without asking the class of what it is given.
def _made_of(name, make):
    _after("made_" + name, lambda job: job.saw(make(job.net.scale)))


_made_of("tensor", torch.tensor)
_made_of("as_tensor", lambda p: torch.as_tensor(p, dtype=torch.float64))
_made_of("asarray", lambda p: torch.asarray(p, copy=True))
_made_of("new_tensor", lambda p: torch.zeros(1).new_tensor(p))
_made_of("class", torch.Tensor)
_made_of("own_class", lambda p: Own(p).as_subclass(torch.Tensor))
_made_of("as_subclass", lambda p: p.as_subclass(Own).as_subclass(torch.Tensor))
_made_of("sparse", lambda p: torch.sparse_coo_tensor(torch.arange(16)[None], p).to_dense())
_made_of("nested", lambda p: torch.nested.nested_tensor([p]).to_padded_tensor(0.0))
_made_of("parameter", nn.Parameter)
_made_of("buffer", nn.Buffer)
_made_of("dlpack", lambda p: torch.from_dlpack(torch.utils.dlpack.to_dlpack(p)))


class Counts(TorchDispatchMode):
    """What is called in it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@program
def reads_in_a_mode():
    job = Job(Adam, lr=0.01)

    def after():
        with Counts() as counts:
            total = job.net.scale.sum()
        job.seen.append(counts.names)
        job.saw(total)

    return job.train(after=after).result()


@program
def reads_in_a_fake_mode():
    job = Job(Adam, lr=0.01)

    def after():
        with FakeTensorMode(allow_non_fake_inputs=True):
            job.seen.append(list(job.net.first.weight.sum(0).shape))
        job.saw(job.net.first.weight)

    return job.train(after=after).result()


@program
def sets_data():
    job = Job()

    def after():
        mean = nn.Parameter(torch.zeros(16))
        mean.data = job.net.scale
        job.saw(mean)

    return job.train(after=after).result()


@program
def shares_a_parameter():
    """A module made of the parameters of another, right after step()."""
    job = Job()

    def after():
        twin = nn.Linear(16, 16)
        twin.weight, twin.bias = nn.Parameter(job.net.twice.weight), job.net.twice.bias
        job.saw(twin(torch.ones(16)))

    return job.train(after=after).result()


# What torch.func transforms has parameters as its input, or inside.
def _transforms(name, transform):
    def read(job):
        net, x = job.net, torch.arange(32.0).reshape(2, 16) / 32
        job.saw(*transform(net.twice, dict(net.twice.named_parameters()), x))

    _after("transforms_" + name, read)


def _call(part):
    return lambda parameters, x: func.functional_call(part, parameters, (x,)).square().sum()


_transforms("grad", lambda part, own, x: func.grad(_call(part))(own, x).values())
_transforms("grad_of_input", lambda part, own, x: [func.grad(lambda x: part(x).sum())(x)])
_transforms("jvp", lambda part, own, x: func.jvp(part, (x,), (x,)))
_transforms("vmap", lambda part, own, x: [func.vmap(part)(x)])
_transforms("vmap_of_rows", lambda part, own, x: [func.vmap(torch.sum)(own["weight"])])
_transforms("functionalize", lambda part, own, x: [func.functionalize(part)(x)])


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


if __name__ == "__main__":
    main()
