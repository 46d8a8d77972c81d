# SPDX-License-Identifier: Apache-2.0
"""A small job with a loader, an optimizer and a model, which is run again and again in
one group of processes, each time with other decisions of a plan: as TAUT_RUN_... of
the environment would make them.

    plan.py NAME...    prints a line of JSON for each, on each rank

What the job itself does knows nothing of Taut: train()."""

import contextlib
import json
import multiprocessing
import os
import pickle
import resource
import socket
import stat
import struct
import sys
import tempfile
import weakref

import torch
import torch.distributed as dist
from base import digest, leave, main, program
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, IterableDataset

STEPS, BATCH, WIDTH = 4, 8, 64
decisions = sys.modules["_taut._decisions"]
said = []


class Block(nn.Module):
    """Random numbers, and buffers that its forward pass changes."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.norm = nn.BatchNorm1d(2 * WIDTH)
        self.drop = nn.Dropout(0.2)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(self.drop(torch.tanh(self.norm(self.up(x)))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.last = nn.Linear(WIDTH, 4)
        self.types = []

    def forward(self, x):
        x = self.first(x)
        self.types.append(str(x.dtype))
        for block in self.blocks:
            x = block(x)
        return self.last(x)


class Samples(Dataset):
    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(2 * index + dist.get_rank())
        return torch.randn(16, generator=g), index % 4


def make_loader(**options):
    g = torch.Generator().manual_seed(5)
    return DataLoader(Samples(), BATCH, shuffle=True, generator=g, **options)


def wire_bytes():
    """What this process has been sent over its TCP connections."""
    total = 0
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                continue
        except OSError:
            continue  # that of the list
        with socket.socket(fileno=os.dup(fd)) as s:
            if s.family in (socket.AF_INET, socket.AF_INET6):
                info = s.getsockopt(socket.IPPROTO_TCP, 11, 232)  # TCP_INFO
                total += struct.unpack_from("Q", info, 128)[0]  # tcpi_bytes_received
    return total


def train(make=Net, optimizer=torch.optim.AdamW, loader=None, packed=None):
    """An epoch. What it saw."""
    torch.manual_seed(3)
    model = DDP(make())
    optimizer = optimizer(model.parameters(), lr=0.01)
    losses, children, sent = [], 0, 0
    torch.manual_seed(4 + dist.get_rank())
    for x, y in loader or make_loader():
        children = max(children, len(multiprocessing.active_children()))
        optimizer.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(counted(packed), lambda t: t):
            loss = functional.cross_entropy(model(x), y)
        begin = wire_bytes()
        loss.backward()
        sent = wire_bytes() - begin  # of the last step
        optimizer.step()
        losses.append(loss.item())
    seen = {"losses": losses, "digest": digest([*model.parameters(), *model.buffers()])}
    seen.update(children=children, sent=sent, rng=digest([torch.get_rng_state()]))
    seen["types"] = list(model.module.types)
    return model, optimizer, seen


def counted(packed):
    def pack(tensor):
        if packed is not None:
            packed.append(tensor.nbytes)
        return tensor

    return pack


@contextlib.contextmanager
def decided(**variables):
    try:
        decisions.decide(torch, {"TAUT_RUN_" + k: v for k, v in variables.items()})
        yield
    finally:
        decisions.undo()
        decisions.models.clear()


def refusal(call, **variables):
    """The line that ends the job, or None."""
    said.clear()
    try:
        with decided(**variables):
            call()
    except SystemExit as end:
        assert end.code == 1 and len(said) <= 1, said
        return said[0] if said else ""
    return None


def how_made():
    return {"made": decisions.made(), "not_made": decisions.not_made()}


@program
def plain():
    packed = []
    model, optimizer, seen = train(packed=packed)
    seen["gradients"] = sorted((p.nbytes for p in model.parameters()), reverse=True)
    seen["packed"] = sum(packed)
    return seen


# --- exact ones --------------------------------------------------------------------------


@program
def bucket():
    with decided(BUCKET="20000", BUCKET_FIRST="9000"):
        model, _, seen = train()
        seen.update(how_made())
        copy = pickle.loads(pickle.dumps(model))
    for name, ddp in (("sizes", model), ("copy", copy)):
        logged = ddp._get_ddp_logging_data()
        seen[name] = logged.get("rebuilt_bucket_sizes") or logged["bucket_sizes"]
    seen["cap"] = [model.bucket_bytes_cap, DDP(Net()).bucket_bytes_cap]
    seen["bytes"] = [p.nbytes for p in reversed(list(model.parameters()))]
    return seen


@program
def groups():
    with decided(BUCKET="9000+500+40000+20000"):
        model, _, seen = train()
        seen.update(how_made())
        unused = DDP(Net(), find_unused_parameters=True, static_graph=True)
    seen["sizes"] = model._get_ddp_logging_data()["rebuilt_bucket_sizes"]
    seen["cap"] = [model.bucket_bytes_cap_list, unused.bucket_bytes_cap_list]
    seen["cap"] += [DDP(Net()).bucket_bytes_cap_list]
    seen["bytes"] = [p.nbytes for p in reversed(list(model.parameters()))]
    return seen


@program
def groups_of_taut():
    os.environ["TAUT_RUN_FUSE"] = "9000+500+40000+20000"
    try:
        model, _, seen = train()
    finally:
        del os.environ["TAUT_RUN_FUSE"]
    seen["messages"] = model.__dict__["_taut"].sums.counts()["messages"]
    seen["bytes"] = [p.nbytes for p in reversed(list(model.parameters()))]
    return seen


@program
def workers():
    with decided(WORKERS="2"):
        seen = train()[2]
        seen.update(how_made())
        given = make_loader(num_workers=3, persistent_workers=True, prefetch_factor=4)
        after = train(loader=given)[2]
        model = DDP(Net()).eval()
        seen["evaluated"] = [evaluated(model), evaluated(model.train())]
    seen["same"] = after["losses"] == seen["losses"]
    seen["given"] = [after["children"], given.persistent_workers, given.prefetch_factor]
    return seen


def evaluated(model):
    loader = make_loader()
    with torch.no_grad() if model.training else contextlib.nullcontext():
        for _ in loader:
            break
    return loader.num_workers


@program
def no_workers():
    with decided(WORKERS="0"):
        loader = make_loader(num_workers=2, persistent_workers=True, timeout=60)
        seen = train(loader=loader)[2]
        seen.update(how_made())
    seen["undone"] = [loader.num_workers, loader.persistent_workers, loader.timeout]
    with decided(WORKERS="0"):
        for loader in (DataLoader(Stream(), num_workers=1), make_loader(num_workers=1, worker_init_fn=print)):
            decisions._made[0].look_at(loader)
            seen.setdefault("reasons", []).append(how_made()["not_made"]["workers=0"])
    with decided(WORKERS="1"):
        seen["reasons"].append(how_made()["not_made"]["workers=1"])
    return seen


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(4))


@program
def recompute():
    packed, calls = [], []
    Block.forward, own = lambda self, x: calls.append(1) or own(self, x), Block.forward
    plain_forward = Block.forward
    try:
        with decided(RECOMPUTE="nn.module: BLOCKS.[02]"):
            model, _, seen = train(packed=packed)
            net = model.module
            seen.update(how_made(), packed=sum(packed), calls=len(calls))
            calls.clear()
            model.eval()(torch.zeros(2, 16)).sum().backward()
            seen["evaluated"] = len(calls)
            torch.jit.script(Plain(nn.Linear(2, 2)))
            seen["kept"] = sorted(set(vars(net.blocks[0])) - set(vars(Block())))
            dead = weakref.ref(net)
            chosen = decisions._made[0].chosen
            seen["norm"] = decisions._made[0].why_not(nn.SyncBatchNorm(4))
        seen["undone"] = Block.forward is plain_forward
    finally:
        Block.forward = own
    del model, net
    seen["forgotten"] = [dead() is None, len(chosen)]
    return seen


class Plain(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class Moving(nn.Module):
    """What its forward pass gives depends on a buffer that it changes."""

    def __init__(self, head):
        super().__init__()
        self.inner = nn.Linear(16, 4)
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("mask", torch.ones(4))

    def forward(self, x, *, by=None):
        self.scale.mul_(1.5)
        return (self.inner(x) * self.mask).sin() * self.scale * (1 if by is None else by)


@program
def recompute_buffers():
    found = []
    for variables in ({}, {"RECOMPUTE": "nn.Module: Moving"}):
        with decided(**variables):
            torch.manual_seed(1)
            model = DDP(Moving(None))
            for step in range(3):
                y = model(torch.full((2, 16), 0.1 * step), by=torch.ones(4)).sum()
                y.backward(retain_graph=True)
                y.backward()
            found.append(digest([*model.parameters(), *model.buffers(), model.module.inner.weight.grad]))
    return {"found": found}


# --- others ------------------------------------------------------------------------------


@program
def compiled():
    """Blocks alone, and the whole; then what is done when it is undone."""
    from torch._dynamo.utils import counters

    seen, own = {}, Block.forward
    for name, pattern in (("blocks", "blocks.*"), ("whole", "DistributedDataParallel")):
        counters.clear()
        said.clear()
        with decided(COMPILE="nn.Module: " + pattern):
            model, _, seen[name] = train()
            seen[name].update(how_made(), said=list(said))
            seen[name]["graphs"] = counters["stats"]["unique_graphs"]
            model.eval()(torch.zeros(2, 16)).sum().backward()
            seen[name]["evaluated"] = counters["stats"]["unique_graphs"]
            seen[name]["kept"] = sorted(set(vars(model.module.blocks[0])) - set(vars(Block())))
            pickle.dumps(model)
    seen["undone"] = Block.forward is own
    grads = []
    for variables in ({}, {"COMPILE": "nn.Module: Own*"}):
        with decided(**variables):
            torch.manual_seed(1)
            model = OwnWrapper(Net())
            torch.manual_seed(2)
            y = model(torch.randn(4, 16)).sum()
            y.backward(retain_graph=True)
            y.backward()
            grads.append(model.module.first.weight.grad.flatten().tolist())
            seen["wrapper"] = how_made()["made"]
    seen["twice"] = grads
    return seen


class OwnWrapper(DDP):
    pass


@program
def compress():
    seen = {}
    for how in ("fp16", "bf16"):
        with decided(COMPRESS=how):
            model, _, seen[how] = train()
            seen[how].update(how_made())
            pickle.dumps(model)
    return seen


@program
def optimizer():
    seen = {}
    with decided(OPTIMIZER="fused"):
        with torch.autograd.profiler.profile() as profile:
            model, made, seen["seen"] = train()
        seen["kernels"] = sorted({e.name for e in profile.function_events if "_adamw_" in e.name})
        seen.update(how_made())
        parameters = list(model.parameters())
        groups = [{"params": (p for p in parameters[:2]), "fused": False}, {"params": parameters[2:]}]
        mixed = torch.optim.Adam(iter(groups), foreach=True)
        seen["mixed"] = forms(mixed)
        seen["saved"] = forms(made.state_dict()) + forms(mixed.state_dict())
        state = made.state_dict()
        state["param_groups"][0].update(foreach=True, lr=0.5)
        made.load_state_dict(state)
        seen["loaded"] = forms(made) + [made.param_groups[0]["lr"]] + forms(made.state_dict())
        seen["foreach"] = forms(torch.optim.RMSprop(model.parameters()))
        named = torch.optim.SGD(model.named_parameters(), 0.1)
        seen["named"] = forms(named)
        named.add_param_group({"params": [("more", nn.Parameter(torch.ones(1)))]})
        seen["named"] += forms(named)
    seen["undone"] = forms(mixed)
    return seen


def forms(optimizer):
    groups = optimizer["param_groups"] if isinstance(optimizer, dict) else optimizer.param_groups
    return [[group.get("fused"), group.get("foreach")] for group in groups]


def faults_of(bytes_of_one, times=10):
    """Pages asked for while a tensor is made and dropped, each time after the first few."""
    counts = []
    for _ in range(5 + times):
        torch.ones(bytes_of_one // 4)
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    return (counts[-1] - counts[-1 - times]) / times


@program
def heap():
    """Tensors that malloc maps, whatever it has learned of the job, and smaller ones."""
    seen = {"plain": faults_of(80 << 20)}  # huge pages are fewer
    with decided(HEAP="keep"):
        seen["kept"] = [faults_of(n << 20) for n in (40, 20)]
        _, _, seen["seen"] = train()
        seen.update(how_made())
    seen["given"] = faults_of(80 << 20)  # the heap still has room for less
    plan_heap = sys.modules["_taut._plan_heap"]
    with tempfile.NamedTemporaryFile("w") as maps:
        maps.write("7f00-7f01 r-xp 0 08:01 7 /usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n")
        maps.flush()
        seen["theirs"] = [plan_heap.other(maps.name), plan_heap.other()]
    plan_heap.other, own = lambda: "jemalloc", plan_heap.other
    seen["refused"] = refusal(ready, HEAP="keep")
    plan_heap.other = own
    return seen


@program
def amp():
    seen = {}
    with decided(AMP="bf16"):
        model, _, seen["seen"] = train()
        seen.update(how_made())
        out = model(torch.zeros(2, 16))
        seen["out"] = str(out.dtype)
        model.module.types.clear()
        model.eval()(torch.zeros(2, 16))
        seen["evaluated"] = model.module.types
    with decided(AMP="bf16"), torch.autocast("cpu", dtype=torch.float16):
        seen["own"] = [str(DDP(Net())(torch.zeros(2, 16)).dtype), how_made()["not_made"]]
    return seen


@program
def all_together():
    """On PyTorch's own class, or on Taut's exchange."""
    more = {"COMPRESS": "bf16", "BUCKET": "20000"} if is_stock() else {}
    with decided(WORKERS="1", RECOMPUTE="nn.Module: blocks.*", AMP="bf16", OPTIMIZER="fused", **more):
        model, _, seen = train()
        seen.update(how_made())
        seen["taut"] = "_taut" in model.__dict__
    return seen


def is_stock():
    return not hasattr(DDP, "_taut_begin")


@program
def given_back():
    """Taut's exchange has no hook; PyTorch's own class, which it becomes, has."""
    with decided():
        model = DDP(Net())
    with decided(COMPRESS="fp16"):
        model.reducer
        found = how_made()["made"]
        line = error_of(lambda: model.register_comm_hook(None, print))
    with decided():
        model = DDP(Net())
    with decided(COMPRESS="mxint8"):
        model.reducer
        ours = how_made()
    with decided(COMPRESS="mxint8"):
        alone = dist.new_group([dist.get_rank()], use_local_synchronization=True)
        DDP(Net(), process_group=alone)
        of_one = how_made()
    return {"made": found, "line": line, "ours": ours, "of_one": of_one["made"]}


def error_of(call):
    said.clear()
    try:
        call()
    except SystemExit:
        return said[0] if said else ""
    return None


# --- what is refused -------------------------------------------------------------------------


def ready(model=None, **options):
    model = DDP(model or Net(), **options)
    return model(torch.zeros(2, 16))


def hook(state, bucket):
    raise AssertionError


class Own(torch.optim.SGD):
    def step(self, closure=None):
        return None


class Foreign(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})


def made_of(cls, **options):
    def call():
        model = DDP(Net())
        cls(model.parameters(), **options)
        model(torch.zeros(2, 16))

    return call


def sparse():
    model = nn.Sequential(nn.Embedding(4, 4, sparse=True))
    model = DDP(model)
    torch.optim.SGD(model.parameters())


def own_forward():
    net = Net()
    net.blocks[1].forward = net.blocks[1].forward
    DDP(net)


def registers():
    DDP(Net()).register_comm_hook(None, hook)


def caught():
    """A job that catches the end ends at its first forward pass."""
    with contextlib.suppress(SystemExit):
        model = DDP(Net())
    ready()


REFUSED = {
    "ranks": (ready, {"JOB": "ranks=4"}),
    "caught": (ready, {"JOB": "ranks=1"}),
    "larger": (ready, {"JOB": "ranks=2 gradients=32768x6,5000,512x20"}),
    "missing": (ready, {"JOB": "gradients=32768x7"}),
    "fewer": (ready, {"JOB": "gradients=32768"}),
    "wrong": (ready, {"JOB": "gradients=ax2"}),
    "right": (ready, {"JOB": "ranks=2 gradients="}),
    "bytes": (ready, {"BUCKET": "4M"}),
    "row": (ready, {"BUCKET": "4096+0"}),
    "row_first": (ready, {"BUCKET": "4096+8192", "BUCKET_FIRST": "4096"}),
    "row_unused": (lambda: ready(find_unused_parameters=True), {"BUCKET": "4096+8192"}),
    "word": (ready, {"COMPRESS": "int8"}),
    "hook": (registers, {"COMPRESS": "fp16"}),
    "no such module": (ready, {"RECOMPUTE": "blocks*"}),
    "compiled again": (ready, {"RECOMPUTE": "nn.Module: *.1", "COMPILE": "nn.Module: blocks.*"}),
    "own forward": (own_forward, {"RECOMPUTE": "nn.Module: blocks.*"}),
    "fp16": (ready, {"AMP": "fp16"}),
    "narrow": (lambda: DDP(Net().bfloat16()), {"AMP": "bf16"}),
    "number": (ready, {"WORKERS": "two"}),
    "heap": (ready, {"HEAP": "give"}),
    "form": (ready, {"OPTIMIZER": "foreach"}),
    "LBFGS": (made_of(torch.optim.LBFGS), {"OPTIMIZER": "fused"}),
    "own step": (made_of(Own), {"OPTIMIZER": "fused"}),
    "foreign": (made_of(Foreign), {"OPTIMIZER": "fused"}),
    "differentiable": (made_of(torch.optim.Adam, differentiable=True), {"OPTIMIZER": "fused"}),
    "tensor": (made_of(torch.optim.RMSprop, lr=torch.tensor(0.1)), {"OPTIMIZER": "fused"}),
    "sparse": (sparse, {"OPTIMIZER": "fused"}),
    "sparse sums": (lambda: DDP(nn.Embedding(4, 4, sparse=True)), {"COMPRESS": "fp16"}),
}


@program
def refused():
    found = {name: refusal(call, **variables) for name, (call, variables) in REFUSED.items()}
    sizes = sorted((p.nbytes for p in Net().parameters()), reverse=True) * 2
    text = "gradients=" + ",".join(map(str, sizes))
    found["others"] = refusal(ready, WORKERS=str(dist.get_rank()))
    found["two models"] = refusal(lambda: (DDP(Net()), ready()), JOB=text)
    found["one of two"] = refusal(ready, JOB=text)
    return {"found": found, "gradients": sizes[::2]}


@program
def refused_by_taut():
    return {
        "bucket": refusal(ready, BUCKET="4096"),
        "compress": refusal(ready, COMPRESS="fp16"),
        "blocks": refusal(ready, COMPRESS="mxint8"),
        "hook": refusal(registers),
    }


if __name__ == "__main__":
    sys.modules["_taut._options"].say = said.append
    try:
        main()
    except SystemExit:
        print(said, file=sys.stderr)
        raise
