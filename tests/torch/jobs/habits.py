# SPDX-License-Identifier: Apache-2.0
"""What jobs do around their training loop: workers, checkpoints, exports, models that
come and go, errors that are caught."""

import atexit
import gc
import importlib
import json
import os
import signal
import sys
import threading
import time
import weakref

import torch
import torch.distributed as dist
from base import DDP, STEPS, Job, Net, batch, digest, error_of, late, loss_of, main, program
from torch import nn
from torch.nn import functional
from torch.optim import SGD, Adam
from torch.utils.data import DataLoader, Dataset


class Batches(Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, i):
        return batch(i)


@program
def workers():
    """Processes made by fork in the middle of training, which end while it goes on;
    one more reads the parameters, as they are after the step."""
    job = Job(Adam, lr=0.01)
    for _ in range(3):
        for x, y in DataLoader(Batches(), batch_size=None, num_workers=2):
            job.optimizer.zero_grad()
            loss = functional.cross_entropy(job.model(x), y)
            loss.backward()
            job.step()
            job.seen.append(loss.item())
    return job.result()


class Reads(Dataset):
    def __init__(self, job):
        self.job = job

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return digest(self.job.net.parameters())


@program
def workers_that_read():
    job = Job()

    def after():
        job.seen += list(DataLoader(Reads(job), batch_size=None, num_workers=1))

    return job.train(after=after).result()


def in_child(call):
    """What it gives, in a child that ends as a Python does."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        try:
            with os.fdopen(writes, "w") as out:
                json.dump(call(), out)
        except BaseException:
            os._exit(1)
        # As sys.exit(), but for Gloo's threads, which the child waits for and lacks.
        atexit._run_exitfuncs()
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as came:
        found = json.load(came)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return found


@program
def forks():
    """A child of fork() reads parameters and evaluates, changes what it has, and
    ends."""
    job = Job()

    def own():
        with torch.no_grad():
            seen = job.net(batch(7)[0]).sum().item()
            for p in job.net.parameters():
                p.zero_()
        job.optimizer.step()
        return [seen, digest(job.net.parameters())]

    def after():
        job.seen.append(in_child(own))

    return job.train(after=after, steps=3).result()


@program
def forked_wrapper():
    """The sums are the parent's."""
    job = Job(ddp={"broadcast_buffers": False})
    job.train(steps=3)
    error = in_child(lambda: error_of(lambda: loss_of(job.model, 0)))
    job.train(steps=2)
    return dict(job.result(), error=error)


def memory_of(job):
    return [weakref.ref(t) for t in [*job.model.parameters(), *job.model.modules()]]


def await_gone(refs):
    """Nobody collects garbage, but a thread may be at it."""
    alive, event = [r for r in refs if r() is not None], threading.Event()
    for _ in range(100):
        if not alive:
            break
        event.wait(0.1)
        alive = [r for r in alive if r() is not None]
    return len(alive)


@program
def models_come_and_go():
    """Nothing of a model stays that the job has dropped, whatever was under way."""
    seen, most = [], 0
    Job().train(steps=1)  # of the first, PyTorch keeps something
    gc.disable()
    for _ in range(2):
        job = Job()
        job.train(steps=3)
        most = max(most, job.most_late)
        refs = memory_of(job)
        del job
        seen.append(await_gone(refs))
    gc.enable()
    return {"seen": seen, "late": most}


@program
def goes_before_the_others():
    """Rank 0 has all its sums, and its model goes, while rank 1 still has to say which
    parameters it used."""
    sums = importlib.import_module("_taut._sums").Sums if "_taut" in sys.modules else None
    own = sums and sums.give_rest

    def slow(self):
        time.sleep(0.3)
        own(self)

    if sums and dist.get_rank() == 1:
        sums.give_rest = slow
    seen = Job(ddp={"find_unused_parameters": True}).train().result()
    gc.collect()
    if sums:
        sums.give_rest = own
    return seen


@program
def collected_anywhere():
    """Models in cycles, which the collector finds in whatever thread."""
    gc.disable()
    refs = []
    for _ in range(2):
        job = Job()
        job.own = job
        job.train(steps=3)
        refs += memory_of(job)
        most = job.most_late
        del job
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    gc.enable()
    return {"seen": [await_gone(refs)], "late": most}


@program
def wrapped_again():
    """The wrapper goes, and its module is wrapped anew, while updates are late."""
    job = Job()
    job.train(steps=3)
    job.model = None
    job.model = DDP(job.net)
    return job.train(steps=3).result()


@program
def hooks_stay():
    """All that the job has hung on the wrapper is there when it is given back."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    job, said = Job(), []
    model = job.model
    model.mark = "the job's"
    model.register_forward_pre_hook(lambda m, a, k: said.append("pre"), with_kwargs=True)
    model.register_forward_hook(lambda m, i, o: said.append("forward"), always_call=True)
    model.register_full_backward_hook(lambda m, i, o: said.append("backward"))
    model.register_full_backward_pre_hook(lambda m, o: said.append("backward pre"))
    model.register_state_dict_pre_hook(lambda m, p, k: said.append("state pre"))
    model.register_state_dict_post_hook(lambda m, s, p, l: said.append("state"))
    model.register_load_state_dict_pre_hook(lambda *a: said.append("load pre"))
    model.register_load_state_dict_post_hook(lambda m, k: said.append("load"))
    job.train(steps=2)
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    job.train(steps=2)
    model.load_state_dict(model.state_dict())
    job.seen += said + [model.mark, model.training, sorted(model._modules)]
    return job.result()


# --- other ways to train -----------------------------------------------------------------


@program
def sharded_beside():
    """A model of FSDP, and one of DistributedDataParallel on top of it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    base = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    fully_shard(base, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    job, other = Job(), SGD(base.parameters(), lr=0.05)
    for i in range(STEPS):
        job.optimizer.zero_grad()
        other.zero_grad()
        x, y = batch(i)
        loss = functional.cross_entropy(job.model(base(x)), y)
        loss.backward()
        other.step()
        job.step()
        job.seen.append(loss.item())
    job.saw(*[p.full_tensor() for p in base.parameters()])
    return job.result()


@program
def two_parts():
    """Two wrapped parts of one model, and one optimizer for both."""
    first, second = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 4)
    both = nn.Sequential(DDP(first), DDP(second))
    optimizer = Adam(both.parameters(), lr=0.01)
    seen, most = [], 0
    for i in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(both, i)
        loss.backward()
        optimizer.step()
        most = max(most, late(both))
        seen.append(loss.item())
    return {"seen": [*seen, digest(both.parameters())], "late": most}


@program
def redundancy():
    """An optimizer whose state is spread over the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    job = Job()
    job.optimizer = ZeroRedundancyOptimizer(job.model.parameters(), Adam, lr=0.01)
    return job.train().result()


@program
def traced():
    """Rank 0 exports the model in the middle, and reads what it has exported, which
    has the parameters' memory."""
    job, exported = Job(), []
    job.train(steps=3)
    job.net.eval()
    if dist.get_rank() == 0:
        exported.append(torch.jit.trace(job.net, batch(7)[0]))
    job.net.train()

    def after():
        for module in exported:
            with torch.no_grad():
                job.saw(module(batch(8)[0]))

    return job.train(after=after).result()


@program
def compiled_later():
    """One rank compiles a part of the module that is wrapped, in the middle."""
    job = Job()
    job.train(steps=3)
    if dist.get_rank() == 0:
        job.net.twice.compile(backend="eager")
    return job.train().result()


def reads_by(call):
    """Compiled by the job, it reads parameters: some times as they are, and then right
    after steps."""
    job, x = Job(), batch(7)[0]

    def after():
        with torch.no_grad():
            job.saw(call(job.net, x))

    after()
    after()
    return job.train(after=after, steps=2 * STEPS).result()


def reads(net, x):
    return net.last(torch.tanh(net.first(x)) * net.scale)


@program
def compiled_function():
    return reads_by(torch.compile(reads, backend="eager", fullgraph=True))


@program
def decorated_function():
    @torch.compile(backend="eager", fullgraph=True)
    def read(net, x):
        return reads(net, x)

    return reads_by(read)


class Compiled(Net):
    @torch.compile(backend="eager", fullgraph=True)
    def forward(self, x):
        return super().forward(x)


@program
def decorated_method():
    return Job(model=Compiled()).train(steps=2 * STEPS).result()


@program
def exported():
    """Right after steps, and read, which has the parameters' memory; what is compiled
    stays so."""
    job, x, read = Job(Adam, lr=0.01), batch(7)[0], []
    compiled = torch.compile(reads, backend="eager", fullgraph=True)
    job.net.eval()

    def after():
        for strict in (True, False):
            read.append(torch.export.export(job.net, (x,), strict=strict).module())
        with torch.no_grad():
            job.saw(compiled(job.net, x), *[module(x) for module in read])

    return job.train(after=after).result()


def compiled_around(steps=STEPS, **ddp):
    """The job's function around the wrapper, compiled before all or in the middle."""
    job = Job(Adam, lr=0.01, ddp=ddp)
    compiled = torch.compile(lambda x, y: functional.cross_entropy(job.model(x), y), backend="eager")
    job.train(steps=steps)
    for i in range(2 * STEPS):
        job.optimizer.zero_grad()
        loss = compiled(*batch(i))
        loss.backward()
        job.step()
        job.seen.append(loss.item())
    return job.result()


@program
def compiled_around_the_wrapper():
    return compiled_around()


@program
def compiled_around_at_once():
    return compiled_around(0)


@program
def compiled_around_unused():
    return compiled_around(find_unused_parameters=True)


@program
def schedules_and_saves():
    """What a job of many epochs does at the end of each."""
    job = Job(Adam, lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(job.optimizer, 4)
    mean = torch.optim.swa_utils.AveragedModel(
        job.net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    for epoch in range(3):
        for i in range(2):
            job.optimizer.zero_grad()
            job.backward(2 * epoch + i)
            job.step()
            mean.update_parameters(job.net)
        schedule.step()
        job.model.eval()
        with torch.no_grad():
            job.seen.append(loss_of(job.model, 9).item())
        job.model.train()
        saved = job.model.state_dict(), job.optimizer.state_dict(), schedule.state_dict()
        job.saw(*saved[0].values())
        job.seen.append([float(v["step"]) for v in saved[1]["state"].values()])
        job.model.load_state_dict(saved[0])
        job.optimizer.load_state_dict(saved[1])
        schedule.load_state_dict(saved[2])
    job.saw(*mean.parameters())
    return job.result()


# --- errors that are caught --------------------------------------------------------------


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("the job's own error")


@program
def fails_in_backward():
    """In the middle of backward(), on all ranks: that iteration has no sums, and the
    next forward pass says so."""
    job, fails = Job(), []
    job.net.first.register_forward_hook(lambda m, i, o: Fails.apply(o) if fails else None)
    job.train(steps=3)
    fails.append(True)
    try:
        job.backward(3)
    except ValueError as why:
        job.seen.append(str(why))
    fails.clear()
    refused = error_of(lambda: job.train(steps=1)) is not None
    dist.barrier()
    return {"seen": job.seen + [refused], "late": job.most_late}


@program
def interrupted():
    """Control-C while a parameter is waited for whose sum comes later: the job goes
    on, and trains what it would have."""
    seen, caught = [], 0
    for interrupts in (False, True):
        torch.manual_seed(1)
        job = Job(ddp={"broadcast_buffers": False})
        job.train(steps=3)
        if dist.get_rank() == 0:
            job.optimizer.zero_grad()
            job.backward(3)
            job.step()
            if interrupts:
                caught += interrupt(lambda: job.net.scale.sum())
        dist.barrier()
        if dist.get_rank() == 1:
            job.optimizer.zero_grad()
            job.backward(3)
            job.step()
        job.train(steps=2)
        seen.append(digest(job.model.parameters()))
    return {"seen": seen, "caught": caught, "late": job.most_late}


@program
def interrupted_behind_a_call():
    """A signal's handler raises when the call that waits for sums has just given one."""
    job, raised = Job(ddp={"broadcast_buffers": False}), []
    job.train(steps=3)
    job.optimizer.zero_grad()
    job.backward(3)
    library = sys.modules["_taut._lib"].library()
    own = library.taut_sync_next

    def call(*arguments):
        status = own(*arguments)
        if status == 0 and not raised:
            raised.append(True)
            signal.raise_signal(signal.SIGINT)
        return status

    library.taut_sync_next = call
    try:
        job.net.scale.sum()
    except KeyboardInterrupt:
        raised.append("caught")
    library.taut_sync_next = own
    job.step()
    job.train(steps=2)
    return {"seen": digest(job.model.parameters()), "raised": raised, "late": job.most_late}


def interrupt(call):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        call()
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    main()
