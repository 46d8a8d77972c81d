#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`taut run --graphs` on a real GPU: jobs that know nothing of it train what they train as they
are. 77 where PyTorch finds no GPU. TAUT: the command, else build/taut; TAUT_TORCH_PYTHON: an
interpreter with PyTorch, else build-python/torch.

Two runs of a job as it is say how far runs are apart at all: where they are the same to the bit
the third, with graphs, must be, too."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TAUT = os.environ.get("TAUT") or str(ROOT / "build" / "taut")
PATIENCE_S = 200

JOB = r"""
import hashlib, json, os, socket, sys
import torch, torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 8

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(500, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(64, 500)
        self.out.weight = self.words.weight

    def forward(self, words, *, scale=1.0):
        return {"logits": self.out(self.layers(self.words(words))) * scale, "of": len(words)}

class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
                                  nn.Conv2d(16, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU())
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.drop(self.body(x).mean((2, 3))))

class Waiting(Images):
    def forward(self, x):
        return super().forward(x) * (2 if x.sum().item() > 1e9 else 1)

class Noisy(Images):
    def __init__(self):
        super().__init__()
        self.own = torch.Generator("cuda").manual_seed(1)

    def forward(self, x):
        return super().forward(x + torch.randn(x.shape, device=x.device, generator=self.own))

def words(model, n, g):
    x = torch.randint(500, (n, 24), generator=g).cuda()
    return functional.cross_entropy(model(x)["logits"].flatten(0, 1), x.roll(1, 1).flatten())

def images(model, n, g):
    x, y = torch.randn(n, 3, 24, 24, generator=g), torch.randint(10, (n,), generator=g)
    return functional.cross_entropy(model(x), y.cuda())  # the wrapper moves x

def accumulated(model, n, g):
    with model.no_sync():
        images(model, n, g).backward()
    return images(model, n, g)

def twice(model, n, g):
    x = torch.randn(n, 3, 24, 24, generator=g).cuda()
    return (model(x) - model(x.flip(0))).square().mean()

KINDS = {
    "words": (Words, words), "images": (Images, images), "accumulated": (Images, accumulated),
    "twice": (Images, twice), "waiting": (Waiting, images), "noisy": (Noisy, images),
    "hooked": (Images, images),
}

def train(name):
    make, loss_of = KINDS[name]
    torch.manual_seed(3)
    model = DDP(make().cuda(), device_ids=[0], broadcast_buffers=name != "twice")
    if name == "hooked":
        model.module.body.register_forward_hook(lambda *_: None)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    g = torch.Generator().manual_seed(5)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, 5 if step == 4 else 8, g)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step == 5:
            with torch.no_grad():
                (words if name == "words" else images)(model.eval(), 8, g)
            model.train()
    state = {k: v.double().flatten().tolist()[:2000] for k, v in model.state_dict().items()}
    last = [p.grad.double().sum().item() for p in model.parameters()]
    return {"losses": losses, "state": state, "grads": last,
            "random": torch.cuda.get_rng_state().sum().item()}

def main():
    for wanted in ("flash", "mem_efficient", "cudnn"):  # sums in any order
        getattr(torch.backends.cuda, "enable_%s_sdp" % wanted, lambda _: None)(False)
    torch.backends.cudnn.deterministic = True
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    for name in sys.argv[1:]:
        seen = train(name)
        made = getattr(sys.modules.get("_taut._decisions"), "_made", [])
        for d in made:
            if d.text == "graphs":
                seen["counts"] = [d.n_played, d.n_others]
                d.n_played = d.n_others = 0
        print(json.dumps({"name": name, **seen}), flush=True)
    dist.destroy_process_group()

main()
"""


def python():
    for path in (os.environ.get("TAUT_TORCH_PYTHON"), ROOT / "build-python/torch/bin/python"):
        if path and os.access(path, os.X_OK):
            return str(path)
    return sys.executable


def has_gpu():
    words = [python(), "-c", "import sys, torch; sys.exit(not torch.cuda.is_available())"]
    return not subprocess.run(words, capture_output=True, check=False).returncode


def run(names, *options):
    """(status, what each job saw, standard error)"""
    own = {k: v for k, v in os.environ.items() if not k.startswith("TAUT_")}
    own["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    words = [python(), "-c", JOB, *names]
    if options:
        words = [TAUT, "run", *options, "--", *words]
    done = subprocess.run(
        words, env=own, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, {row.pop("name"): row for row in rows}, done.stderr


def far(a, b):
    """The largest difference of two numbers at one place, of the largest number there."""
    if isinstance(a, dict):
        return max((far(a[key], b[key]) for key in a), default=0)
    if isinstance(a, list):
        scale = max((abs(x) for x in a), default=0) or 1
        return max((abs(x - y) for x, y in zip(a, b)), default=0) / scale
    return float(a != b)


# Of each job: forward passes that were played, and others: its fifth batch is a smaller one.
COUNTS = {"words": [7, 1], "images": [7, 1], "accumulated": [14, 2], "twice": [7, 9]}
REFUSED = {
    "waiting": "taut: graphs: its forward pass cannot be captured: ",
    "noisy": "taut: graphs: two passes with the same random numbers return other values",
    "hooked": "taut: graphs: body has hooks of the job's, which no graph calls",
}


BESIDE = ("--amp", "bf16", "--optimizer", "fused")


class Graphs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """All processes beside each other: nothing here is timed."""
        asked = {}
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for others in ((), BESIDE):
                for turn, options in enumerate((others, others, ("--graphs", *others))):
                    asked[others, turn] = pool.submit(run, list(COUNTS), *options)
            for name in REFUSED:
                asked[name] = pool.submit(run, [name], "--graphs")
        cls.ended = {key: future.result() for key, future in asked.items()}

    def same(self, others):
        """As two runs as they are, or with others alone, are the same."""
        runs = [self.ended[others, turn] for turn in range(3)]
        for status, _, err in runs:
            self.assertEqual(status, 0, err)
        first, again, played = (seen for _, seen, _ in runs)
        for name in COUNTS:
            with self.subTest(name=name, others=others):
                self.assertEqual(played[name]["counts"], COUNTS[name], runs[2][2])
            for key in first[name]:
                apart = far(first[name][key], again[name][key])
                mine = far(first[name][key], played[name][key])
                print(name, *others, key, "runs apart:", apart, "with graphs:", mine)
                with self.subTest(name=name, others=others, key=key):
                    self.assertLessEqual(mine, 4 * apart)

    def test_same(self):
        self.same(())

    def test_beside_amp_and_fused(self):
        self.same(BESIDE)

    def test_refused(self):
        for name, line in REFUSED.items():
            with self.subTest(name=name):
                status, seen, err = self.ended[name]
                print(name, [text for text in err.splitlines() if text.startswith("taut:")])
                self.assertEqual((status, seen), (1, {}), err)
                self.assertIn(line, err)


if __name__ == "__main__":
    if not has_gpu():
        print("PyTorch finds no GPU here")
        sys.exit(77)
    unittest.main(verbosity=2)
