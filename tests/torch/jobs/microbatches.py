# SPDX-License-Identifier: Apache-2.0
"""Small jobs with a loop of their own, run again and again in one group of processes: as
they are, and with their batches in micro-batches, as TAUT_RUN_MICROBATCHES of the
environment would have it.

    microbatches.py NAME...    prints a line of JSON for each, on each rank"""

import random
import sys

import torch
import torch.distributed as dist
from base import digest, main, program
from plan import decided, how_made, refusal, said
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel as DDP

decisions = sys.modules["_taut._decisions"]
STEPS, BATCH, WORDS = 4, 10, 50
IGNORED = -100


class Layers(nn.Module):
    def __init__(self, width=16, depth=2, norm=None):
        super().__init__()
        parts = [nn.Linear(8, width)]
        for _ in range(depth):
            parts += [nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)]
        self.body = nn.Sequential(*parts, *([norm] if norm else []))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.body(x))


class WithUnused(Layers):
    def __init__(self):
        super().__init__()
        self.never = nn.Linear(3, 3)


class Words(nn.Module):
    """A transformer with a mask of padding, and tied weights. What it returns is a dict."""

    def __init__(self, drop=0.0):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=drop, batch_first=True)
        self.out = nn.Linear(16, WORDS)
        self.out.weight = self.words.weight

    def forward(self, words, *, padding=None, causal=None):
        x = self.layer(self.words(words), src_mask=causal, src_key_padding_mask=padding)
        return {"logits": self.out(x), "hidden": x, "causal": causal is not None}


def rows_of(step, batch=BATCH):
    g = torch.Generator().manual_seed(100 * step + dist.get_rank())
    return torch.randn(batch, 8, generator=g).double(), torch.randint(4, (batch,), generator=g)


def text_of(step, batch=BATCH, length=7):
    """Sentences of other lengths: what a loss divides by differs from part to part."""
    g = torch.Generator().manual_seed(100 * step + dist.get_rank())
    words = torch.randint(WORDS, (batch, length), generator=g)
    n = torch.randint(1, length + 1, (batch,), generator=g)
    padding = torch.arange(length)[None] >= n[:, None]
    return words, padding, words.roll(-1, 1).masked_fill(padding, IGNORED)


def saw(model, losses, calls):
    """Parameters and the last gradients as numbers: they are compared as such."""
    parameters = torch.cat([p.detach().flatten() for p in model.parameters()])
    gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return {
        "losses": losses,
        "parameters": parameters.tolist(),
        "gradients": gradients.tolist(),
        "calls": calls,
        "made": how_made(),
    }


def counting(module):
    """How many rows each call of a module was given."""
    calls = []
    own = module.forward

    def forward(x, *args, **kwargs):
        calls.append(len(x))
        return own(x, *args, **kwargs)

    object.__setattr__(module, "forward", forward)
    return calls


def train(make, step_of, optimizer=torch.optim.SGD, steps=STEPS, scheduler=False, **options):
    torch.manual_seed(3)
    model = DDP(make().double(), **options)
    calls = counting(next(p for p in model.module.modules() if not list(p.children())))
    optimizer = optimizer(model.parameters(), lr=0.05)
    losses = []
    torch.manual_seed(4 + dist.get_rank())
    for step in range(steps):
        optimizer.zero_grad()
        loss = step_of(model, step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return saw(model, losses, calls)


def of_rows(model, step, reduction="mean"):
    x, y = rows_of(step)
    return functional.cross_entropy(model(x), y, reduction=reduction)


def of_text(model, step):
    """The number of words that count is only known of the whole batch."""
    words, padding, target = text_of(step)
    causal = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64)
    seen = model(words, padding=padding.double() * -1e9, causal=causal)
    loss = functional.cross_entropy(
        seen["logits"].flatten(0, 1), target.flatten(), ignore_index=IGNORED
    )
    return loss + 0.1 * seen["hidden"].square().mean()


def twice(model, step):
    """Called twice, as a job that compares does, and differentiated in two goes."""
    (x, _), (z, _) = rows_of(step), rows_of(step + 50)
    a, b = model(x), model(z)
    (a.square().mean() / 2).backward(retain_graph=True)
    return (a - b.detach().mean()).abs().sum() + b.square().mean()


def accumulates(model, step):
    """Over two batches of the job's own; what is cut are these."""
    with model.no_sync():
        of_rows(model, step + 50).backward()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(of_rows(model, step)).backward()
    return sum(p.sum() for p in model.parameters()) / 100


def uneven(model, step):
    """The last batch is smaller, of one sample even."""
    x, y = rows_of(step, (BATCH, 7, 2, 1)[step])
    return functional.cross_entropy(model(x), y)


def of_input(model, step):
    """The gradient of what the model is given is wanted, too."""
    x, y = rows_of(step)
    x.requires_grad_()
    loss = functional.cross_entropy(model(x), y)
    (g,) = torch.autograd.grad(loss, x, create_graph=True)
    return loss + g.square().sum()


KINDS = {
    "rows": lambda: train(Layers, of_rows),
    "sum": lambda: train(Layers, lambda m, s: of_rows(m, s, "sum"), torch.optim.Adam),
    "text": lambda: train(Words, of_text, torch.optim.AdamW),
    "twice": lambda: train(Layers, twice),
    "accumulates": lambda: train(Layers, accumulates),
    "uneven": lambda: train(Layers, uneven),
    "input": lambda: train(Layers, of_input),
    "unused": lambda: train(WithUnused, of_rows, find_unused_parameters=True),
    "static": lambda: train(Layers, of_rows, static_graph=True),
    "views": lambda: train(Layers, of_rows, gradient_as_bucket_view=True),
}


@program
def same():
    """How far what was seen is from what is seen without, at most."""
    seen = {}
    for name, run in KINDS.items():
        with decided(MICROBATCHES="3"):
            mine = run()
        seen[name] = compared(mine, run())
    return seen


def compared(mine, plain):
    keys = ("losses", "parameters", "gradients")
    far = {key: far_of(mine[key], plain[key]) for key in keys}
    return {"far": far, "calls": [plain["calls"], mine["calls"]], **mine["made"]}


def far_of(mine, theirs):
    assert len(mine) == len(theirs)
    return max(abs(a - b) for a, b in zip(mine, theirs))


@program
def together():
    with decided(MICROBATCHES="3", RECOMPUTE="nn.Module: body", OPTIMIZER="fused"):
        mine = train(Layers, of_rows)
    seen = compared(mine, train(Layers, of_rows))
    with decided(MICROBATCHES="2", AMP="bf16"):
        model = DDP(Layers())
        model(rows_of(0)[0].float()).sum().backward()
        seen["narrow"] = how_made()["made"]
    return seen


# --- random numbers, memory ------------------------------------------------------------------

drawn = []


class Drop(nn.Dropout):
    def forward(self, x):
        drawn.append([len(x), digest([super().forward(torch.ones_like(x))])])
        return super().forward(x)


@program
def dropout():
    """Of a step, what each call drew; and of the job's own numbers afterwards."""
    with decided(MICROBATCHES="3"):
        torch.manual_seed(7)
        model = DDP(Layers(norm=Drop(0.5)).double())
        for step in range(2):
            drawn.clear()
            of_rows(model, step).backward()
        seen = how_made()
    seen["drawn"] = list(drawn)
    return seen


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(8)))

    def forward(self, x):
        return self.body(x).mean(1)


def peak_of(step):
    """Bytes above what there was, of a step that is not the first."""
    step()
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # the peak is what there is
    begin = status("VmRSS")
    step()
    return status("VmHWM") - begin


def status(name):
    with open("/proc/self/status") as rows:
        return next(int(row.split()[1]) << 10 for row in rows if row.startswith(name + ":"))


@program
def memory():
    """Activations are some 130 MB."""
    x = torch.randn(8192, 256)
    seen = {}
    for parts in ("1", "4"):
        with decided(MICROBATCHES=parts):
            model = DDP(Deep())
            seen[parts] = peak_of(lambda: model(x).square().mean().backward())
            seen["made " + parts] = how_made()["made"]
    return seen


# --- what is not the same --------------------------------------------------------------------


class Centred(Layers):
    def forward(self, x):
        return super().forward(x - x.mean(0))


class WithLoss(Layers):
    def forward(self, x):
        return super().forward(x).square().mean()


class Noisy(Layers):
    def forward(self, x):
        return super().forward(x + torch.rand_like(x))


class Skipping(Layers):
    def forward(self, x):
        return super().forward(x) * (1 + (random.random() < 0))


class Moving(Layers):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return super().forward(x)


class Keeping(Layers):
    def forward(self, x):
        out = super().forward(x)
        self.extra = out.square().mean()
        return out


class Turns(Layers):
    turn = 0

    def forward(self, x):
        self.turn += 1
        return super().forward(x) * self.turn


class Wanting(Layers):
    """Wants batches of no other size."""

    def forward(self, x):
        return super().forward(x.view(BATCH, 8))


class Pairs(Layers):
    """Of all samples with all, as contrastive losses have it."""

    def forward(self, x):
        out = super().forward(x)
        return out @ out.T


def runs(make, prepare=None, give=lambda x: (x,)):
    def call():
        model = DDP(make().double())
        if prepare:
            prepare(model)
        model(*give(rows_of(0)[0]))

    return call


def hooked(model):
    model.module.body.register_forward_hook(lambda *_: None)


class Box:
    def __init__(self, x):
        self.x = x


class Boxes(Layers):
    def forward(self, box):
        return super().forward(box.x)


REFUSED = {
    "norm": runs(lambda: Layers(norm=nn.BatchNorm1d(16))),
    "hook": runs(Layers, hooked),
    "centred": runs(Centred),
    "loss": runs(WithLoss),
    "noise": runs(Noisy),
    "random": runs(Skipping),
    "buffer": runs(Moving),
    "kept": runs(Keeping),
    "turns": runs(Turns),
    "size": runs(Wanting),
    "pairs": runs(Pairs),
    "one": runs(Layers, give=lambda x: (x[:1],)),
    "none": runs(Boxes, give=lambda x: (Box(x),)),
}


@program
def refused():
    found = {name: refusal(call, MICROBATCHES="2") for name, call in REFUSED.items()}
    found["value"] = [refusal(lambda: None, MICROBATCHES=v) for v in ("0", "two", "9999")]
    found["compile"] = refusal(runs(Layers), MICROBATCHES="2", COMPILE="nn.Module: body")
    return found


@program
def one_rank():
    """What is wrong with the batch of one rank ends the job on all."""
    n = 1 if dist.get_rank() else BATCH
    return {"said": refusal(runs(Layers, give=lambda x: (x[:n],)), MICROBATCHES="2")}


def frozen(model, step):
    """Its norm is trained from the third step on."""
    model.module.body[-1].train(step >= 2)
    return of_rows(model, step)


@program
def later():
    def run():
        return train(lambda: Layers(norm=nn.BatchNorm1d(16)), frozen)

    with decided(MICROBATCHES="2"):
        mine = run()
    return compared(mine, run())


@program
def evaluated():
    """Without gradients, or in evaluation, nothing is cut; undone, nothing either."""
    with decided(MICROBATCHES="2"):
        model = DDP(Layers().double())
        x, y = rows_of(0)
        model(x).sum().backward()
        calls = counting(model.module.head)
        with torch.no_grad():
            model(x)
        model.eval()(x)
    model.train()(x)
    return {"calls": calls}


if __name__ == "__main__":
    sys.modules["_taut._options"].say = said.append
    try:
        main()
    except SystemExit:
        print(said, file=sys.stderr)
        raise
