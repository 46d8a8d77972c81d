# SPDX-License-Identifier: Apache-2.0
"""Small jobs with a loop of their own, run as they are and with TAUT_RUN_GRAPHS, in one
process without a GPU: what stands in for the device's part of a capture (Recorder) notes the
operations of a pass with the tensors that they had, and plays them again into the same
memory. What a real graph's memory would have become meanwhile is made to be no number.

    graphs.py NAME...    prints a line of JSON for each"""

import contextlib
import random
import sys

import torch
from base import digest, error_of, main, program
from plan import decided, how_made, refusal, said
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

STEPS, BATCH, WORDS = 6, 10, 50


# --- a device that is none --------------------------------------------------------------------


class Tape(TorchDispatchMode):
    def __init__(self, others):
        super().__init__()
        self.rows, self.others = [], others
        self.given, self.made = set(), {}  # memory

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing\nmore of it")
        for tensor in tensors_of((args, kwargs)):
            if memory(tensor) not in self.made:
                self.given.add(memory(tensor))
        out = function(*args, **(kwargs or {}))
        for tensor in tensors_of(out):
            if memory(tensor) not in self.given:
                self.made[memory(tensor)] = tensor.detach()
        self.rows.append((function, *_pytree.tree_map(noted, (args, kwargs or {}, out))))
        return out

    @torch.no_grad()
    def replay(self):
        """A graph's memory is that of its other, too, but for what this one reads."""
        for other in self.others:
            if other is not self and self.others.index(other) > self.others.index(self):
                other.spoil()
        with torch.autocast("cpu", enabled=False):  # it was seen to
            self.play()
        for other in self.others:
            if self.others.index(other) < self.others.index(self):
                other.spoil()

    def play(self):
        for function, args, kwargs, out in self.rows:
            again = function(*args, **kwargs)
            for mine, new in zip(tensors_of(out), tensors_of(again)):
                if memory(mine) != memory(new):
                    mine.copy_(new)

    def spoil(self):
        for tensor in self.made.values():
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))


def noted(value):
    """The memory, and not the tensor: a graph holds none of those either."""
    return value.detach() if isinstance(value, torch.Tensor) else value


def tensors_of(values):
    return [t for t in _pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]


def memory(tensor):
    return tensor.untyped_storage().data_ptr()


class Recorder:
    captures = 0

    def __init__(self, device):
        self.device, self.graphs = device, []

    def aside(self):
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def capture(self):
        if len(self.graphs) == 2:
            self.graphs = []  # of another form
        tape = Tape(self.graphs)
        self.graphs.append(tape)
        Recorder.captures += 1
        with tape:
            yield tape

    def random_states(self):
        return {}

    def set_random(self, states):
        pass

    def drawn(self):
        return sys.modules["_taut._left_behind"].drawn()


@contextlib.contextmanager
def graphs(**others):
    """The decision, on the host."""
    import _taut._graph_capture as capture
    import _taut._plan_graphs as plan

    own = capture.Recorder, plan.DEVICE
    capture.Recorder, plan.DEVICE = Recorder, "cpu"
    Recorder.captures = 0
    try:
        with decided(GRAPHS="on", **others):
            yield
    finally:
        capture.Recorder, plan.DEVICE = own


# --- jobs ------------------------------------------------------------------------------------


class Layers(nn.Module):
    def __init__(self, norm=None):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.GELU(), *([norm] if norm else []))
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.drop(self.body(x)))


class Unused(Layers):
    def __init__(self):
        super().__init__()
        self.never = nn.Linear(3, 3)


class Pair(nn.Module):
    """Two parameters that get one gradient, and one that is returned."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.ones(8)) for _ in range(3))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(x * (self.a + self.b)), self.c


class Words(nn.Module):
    """A transformer with a mask and tied weights; it returns a dict."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, WORDS)
        self.out.weight = self.words.weight

    def forward(self, words, *, causal=None):
        x = self.layer(self.words(words), src_mask=causal)
        return {"logits": self.out(x), "hidden": x, "causal": causal is not None, "of": len(words)}


def rows_of(step, batch=BATCH):
    g = torch.Generator().manual_seed(100 * step)
    return torch.randn(batch, 8, generator=g), torch.randint(4, (batch,), generator=g)


def of_rows(model, step, batch=BATCH):
    x, y = rows_of(step, batch)
    return functional.cross_entropy(model(x), y)


def of_pair(model, step):
    x, y = rows_of(step)
    out, c = model(x)
    return functional.cross_entropy(out, y) + 0.1 * c.square().sum()


def of_text(model, step):
    words = torch.randint(WORDS, (BATCH, 7), generator=torch.Generator().manual_seed(step))
    seen = model(words, causal=nn.Transformer.generate_square_subsequent_mask(7))
    loss = functional.cross_entropy(seen["logits"].flatten(0, 1), words.flatten())
    return loss + 0.1 * seen["hidden"].square().mean()


def twice(model, step):
    """Two forward passes before a backward pass."""
    (x, _), (z, _) = rows_of(step), rows_of(step + 50)
    return (model(x) - model(z)).square().mean()


def accumulates(model, step):
    """Two batches to a step, of which the first is not summed."""
    with model.no_sync():
        of_rows(model, step + 50).backward()
    return of_rows(model, step)


def uneven(model, step):
    return of_rows(model, step, (BATCH, 7, BATCH, 7, 7, 7)[step])


def evaluates(model, step):
    model.eval()(rows_of(step)[0])
    model.train()
    with torch.no_grad():
        model(rows_of(step)[0])
    return of_rows(model, step)


def modes(model, step):
    """Its norm is trained for three steps, and its dropout grows."""
    model.module.body[-1].train(step < 3)
    model.module.drop.p = 0.1 if step < 4 else 0.3
    return of_rows(model, step)


def moved(model, step):
    """A parameter is put into other memory by its .data."""
    if step == 3:
        model.module.head.weight.data = model.module.head.weight.data.clone()
    return of_rows(model, step)


def train(make, step_of, optimizer=torch.optim.SGD, none=True, late=False, keep=False, **options):
    """late: gradients are cleared after the forward pass; none: they are gone by that; keep:
    what the model returned and the gradients are kept by the job for the end."""
    torch.manual_seed(3)
    model = DDP(make(), **options)
    kept = []
    optimizer = optimizer(model.parameters(), lr=0.05)
    losses = []
    torch.manual_seed(4)
    for step in range(STEPS):
        if not late:
            optimizer.zero_grad(set_to_none=none)
        loss = step_of(model, step)
        if late:
            optimizer.zero_grad(set_to_none=none)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.item())
        if keep:
            kept += [p.grad for p in model.parameters()]
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    state = [*model.parameters(), *model.buffers(), *grads, torch.get_rng_state()]
    return {"losses": losses, "digest": digest(state), "kept": digest(kept)}


class Twice(Words):
    """Under autocast a weight is cast once for both."""

    def forward(self, words, *, causal=None):
        seen = super().forward(words, causal=causal)
        return {**seen, "hidden": seen["hidden"] + seen["logits"] @ self.out.weight}


def outputs(model, step):
    """Results of the steps before are read again."""
    x, y = rows_of(step)
    out = model(x)
    model.seen = [*getattr(model, "seen", []), out.detach()]
    return functional.cross_entropy(out, y) + sum(o.square().sum() for o in model.seen)


NORM = {"make": lambda: Layers(nn.BatchNorm1d(16))}
KINDS = {
    "rows": {},
    "adam": {"optimizer": torch.optim.AdamW, "late": True},
    "zeroed": {"none": False},
    "zeroed late": {"none": False, "late": True},
    "norm": NORM,
    "text": {"make": Words, "step_of": of_text, "optimizer": torch.optim.AdamW},
    "pair": {"make": Pair, "step_of": of_pair},
    "twice": {"step_of": twice},
    "accumulates": {"step_of": accumulates},
    "uneven": {**NORM, "step_of": uneven},
    "evaluates": {**NORM, "step_of": evaluates},
    "modes": {**NORM, "step_of": modes},
    "moved": {"step_of": moved},
    "outputs": {"step_of": outputs},
    "kept": {"keep": True},
    "unused": {"make": Unused, "find_unused_parameters": True, "optimizer": torch.optim.AdamW},
    "static": {**NORM, "static_graph": True},
    "views": {"gradient_as_bucket_view": True, "step_of": accumulates},
}


@program
def same():
    """To the bit; how many passes were played, and how many captured."""
    found = {}
    for name, how in KINDS.items():
        how = {"make": Layers, "step_of": of_rows, **how}
        with graphs():
            mine = train(**how)
            (decision,) = sys.modules["_taut._decisions"]._made
            counts = [decision.n_played, decision.n_others, Recorder.captures]
            found[name] = {"counts": counts, **how_made()}
        plain = train(**how)
        found[name]["differs"] = [key for key in plain if plain[key] != mine[key]]
    return found


@program
def narrow():
    """Beside amp: what it is alone, tied weights and all."""
    how = {"make": Twice, "step_of": of_text, "optimizer": torch.optim.AdamW}
    with graphs(AMP="bf16", OPTIMIZER="fused"):
        mine = train(**how)
        made = how_made()
    with decided(AMP="bf16", OPTIMIZER="fused"):
        plain = train(**how)
    return {"differs": [key for key in plain if plain[key] != mine[key]], **made}


# --- what is not the same -----------------------------------------------------------------------


class Waiting(Layers):
    def forward(self, x):
        return super().forward(x) * (2 if x.sum().item() > 0 else 1)


class Drawing(Layers):
    def forward(self, x):
        return super().forward(x) * random.random()


class Keeping(Layers):
    def forward(self, x):
        self.extra = super().forward(x)
        return self.extra


class Counting(Layers):
    """Its number of batches is known to Python alone."""

    n = 0

    def forward(self, x):
        self.n += 1
        return super().forward(x) / self.n


class Putting(Layers):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        self.mean = x.mean(0)
        return super().forward(x)


class Past(Layers):
    """Reads a parameter that is also kept elsewhere."""

    def __init__(self):
        super().__init__()
        self.list = [self.head.weight]

    def forward(self, x):
        return functional.linear(self.body(x), self.list[0])


class Changing(Layers):
    def forward(self, x):
        return super().forward(x.mul_(2))


class Own(Layers):
    """Has random numbers of its own."""

    def __init__(self):
        super().__init__()
        self.own = torch.Generator().manual_seed(1)

    def forward(self, x):
        return super().forward(x + torch.randn(x.shape, generator=self.own))


class Remembering(Layers):
    """What it is on the first passes no play is."""

    seen = []

    def forward(self, x):
        self.seen.append(0)
        return super().forward(x) * (1 if len(self.seen) < 6 else 2)


def runs(make, prepare=None, give=lambda x: x, **options):
    def call():
        model = DDP(make(), **options)
        if prepare:
            prepare(model)
        model(give(rows_of(0)[0]))

    return call


def hooked(model):
    model.module.body.register_forward_hook(lambda *_: None)


def hooked_gradient(model):
    model.module.head.weight.register_hook(lambda g: g)


class Named:
    pass


REFUSED = {
    "waiting": runs(Waiting),
    "drawing": runs(Drawing),
    "keeping": runs(Keeping),
    "counting": runs(Counting),
    "putting": runs(Putting),
    "past": runs(Past),
    "changing": runs(Changing),
    "own": runs(Own),
    "remembering": runs(Remembering),
    "hook": runs(Layers, hooked),
    "gradient": runs(Layers, hooked_gradient),
    "wanted": runs(Layers, give=lambda x: x.requires_grad_()),
    "gaps": runs(Layers, give=lambda x: x.repeat(2, 1)[::2]),
    "script": runs(lambda: torch.jit.script(Layers())),
}


@program
def refused():
    found = {}
    for name, call in REFUSED.items():
        with graphs():
            found[name] = refusal(call)
    for name, value in (("RECOMPUTE", "nn.Module: body"), ("MICROBATCHES", "2")):
        with graphs(**{name: value}):
            found[name] = refusal(runs(Layers))
    found["host"] = refusal(runs(Layers), GRAPHS="on")
    found["value"] = refusal(lambda: None, GRAPHS="yes")
    return found


@program
def errors():
    """What ends in the job's own backward pass."""
    with graphs():
        model = DDP(Layers())
        loss = of_rows(model, 0)
        loss.backward(retain_graph=True)
        found = {"again": error_of(loss.backward)}
        loss = of_rows(model, 1)
        leaves = list(model.parameters())
        found["gradients"] = error_of(
            lambda: torch.autograd.grad(loss, leaves, create_graph=True)
        )
    return found


if __name__ == "__main__":
    sys.modules["_taut._options"].say = said.append
    main()
