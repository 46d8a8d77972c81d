#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the network of src/plan/fusion/learned.h on what sample.py measured, and writes
it as JSON for C: `build/bench/fused_cost SAMPLES.jsonl MODEL.json` says how good it is.

    train.py SAMPLES.jsonl -o MODEL.json

Of ten fusions eight are learned from; one says when to stop; the last of ten, which
fused_cost judges by, is not looked at. The loss is the mean square of
log(predicted / measured), as DisCo's."""

import argparse
import json
import math
import sys
import time

import torch
from torch import nn

LEARN, STOP, JUDGE = range(8), 8, 9  # of `fusion` % 10
RELATIONS = 3  # itself, is read by it, reads it
PARTS = 32  # TAUTI_LEARNED_PARTS


def dense_weights(dense):
    """As the file has them: a row for each input."""
    return [dense.weight.t(), dense.bias]


class Layer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.relation = nn.Parameter(torch.zeros(heads, RELATIONS))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x, relation):
        n, parts, width = x.shape
        q, k, v = (
            one.view(n, parts, self.heads, -1).transpose(1, 2)
            for one in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        score = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        bias = torch.cat([self.relation, torch.full((self.heads, 1), -1e9)], 1)
        score = score + bias[:, relation].transpose(0, 1)
        mixed = (score.softmax(-1) @ v).transpose(1, 2).reshape(n, parts, width)
        x = x + self.out(mixed)
        return x + self.down(torch.relu(self.up(self.norm2(x))))

    def weights(self):
        norms = [(norm.weight, norm.bias) for norm in (self.norm1, self.norm2)]
        dense = [dense_weights(d) for d in (self.qkv, self.out, self.up, self.down)]
        return [*norms[0], *dense[0], self.relation, *dense[1], *norms[1], *dense[2], *dense[3]]


class Network(nn.Module):
    def __init__(self, n_types, width=32, heads=4, inner=64, layers=6):
        super().__init__()
        self.sizes = {"width": width, "heads": heads, "inner": inner, "layers": layers}
        self.kind = nn.Embedding(n_types, width)
        self.entry = nn.Linear(4, width)
        self.layers = nn.ModuleList(Layer(width, heads, inner) for _ in range(layers))
        self.head = nn.ModuleList(
            [nn.Linear(width + 3, inner), nn.Linear(inner, inner), nn.Linear(inner, 1)]
        )

    def forward(self, types, told, relation, is_part, of_all):
        x = self.kind(types) + self.entry(told)
        for layer in self.layers:
            x = layer(x, relation)
        z = torch.cat([(x * is_part[:, :, None]).sum(1), of_all], 1)
        z = torch.relu(self.head[1](torch.relu(self.head[0](z))))
        return self.head[2](z)[:, 0]

    def weights(self):
        rows = [self.kind.weight, *dense_weights(self.entry)]
        for layer in self.layers:
            rows += layer.weights()
        for dense in self.head:
            rows += dense_weights(dense)
        return torch.cat([row.detach().flatten() for row in rows])


def told_of(line):
    """As tauti_fused has it: of each part (ns, in, out, saved); of all."""
    parts = [tuple(node[key] for key in ("ns", "in", "out", "saved")) for node in line["nodes"]]
    moved = sum(p[1] + p[2] - p[3] for p in parts)
    return parts, (sum(p[0] for p in parts), moved, len(parts))


def tensors(lines, types):
    n, most = len(lines), max(len(line["nodes"]) for line in lines)
    kind = torch.zeros(n, most, dtype=torch.long)
    told, of_all = torch.zeros(n, most, 4), torch.zeros(n, 3)
    relation = torch.full((n, most, most), RELATIONS, dtype=torch.long)
    relation[:, range(most), range(most)] = 0
    is_part, ratio = torch.zeros(n, most), torch.zeros(n)
    for row, line in enumerate(lines):
        parts, whole = told_of(line)
        k = len(parts)
        kind[row, :k] = torch.tensor([types.index(node["type"]) for node in line["nodes"]])
        told[row, :k] = torch.log1p(torch.tensor(parts, dtype=torch.float64)).float()
        of_all[row] = torch.log1p(torch.tensor(whole, dtype=torch.float64)).float()
        is_part[row, :k] = 1
        for to_read, reader, _ in line["ties"]:
            relation[row, reader, to_read] = 1
            relation[row, to_read, reader] = 2
        ratio[row] = math.log(line["ns"] / whole[0])
    return [kind, told, relation, is_part, of_all], ratio


def scales(inputs):
    told, is_part, of_all = inputs[1], inputs[3], inputs[4]
    seen = told[is_part > 0]
    mean = torch.cat([seen.mean(0), of_all.mean(0)])
    return mean, torch.cat([seen.std(0), of_all.std(0)]).clamp(min=1e-3)


def scaled(inputs, mean, scale):
    kind, told, relation, is_part, of_all = inputs
    told, of_all = (told - mean[:4]) / scale[:4], (of_all - mean[4:]) / scale[4:]
    return [kind, told, relation, is_part, of_all]


def train(net, learn, stop, options):
    (given, ratio), (judged, truth) = learn, stop
    best, kept = math.inf, None
    steps = options.epochs * math.ceil(len(ratio) / options.batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, total_steps=steps)
    end = time.monotonic() + 60 * options.minutes
    for epoch in range(options.epochs):
        net.train()
        for rows in torch.randperm(len(ratio)).split(options.batch):
            optimizer.zero_grad()
            off = net(*(one[rows] for one in given)) - ratio[rows]
            (off * off).mean().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        net.eval()
        with torch.no_grad():
            off = (net(*judged) - truth).abs()
        if float((off * off).mean()) < best:
            best = float((off * off).mean())
            kept = {name: value.clone() for name, value in net.state_dict().items()}
        if epoch % 20 == 19:
            within = float((off.exp() - 1 < 0.14).float().mean())
            print(f"epoch {epoch + 1}: median {float(off.median()):.3f}, {within:.0%} within 14 %")
        if time.monotonic() > end:
            break
    net.load_state_dict(kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("samples", metavar="SAMPLES.jsonl")
    parser.add_argument("-o", "--out", metavar="MODEL.json", required=True)
    parser.add_argument("--epochs", type=int, default=140)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--minutes", type=float, default=30, help="at most")
    options = parser.parse_args()
    torch.manual_seed(1)
    with open(options.samples) as file:
        lines = [json.loads(line) for line in file]
    types = sorted({node["type"] for line in lines for node in line["nodes"]})
    learn = tensors([line for line in lines if line["fusion"] % 10 in LEARN], types)
    stop = tensors([line for line in lines if line["fusion"] % 10 == STOP], types)
    if not len(learn[1]) or not len(stop[1]):
        sys.exit(f"{options.samples}: too few fusions to learn from")
    mean, scale = scales(learn[0])
    net = Network(len(types))
    learn, stop = ((scaled(given, mean, scale), ratio) for given, ratio in (learn, stop))
    train(net, learn, stop, options)
    told = {
        "taut_fused": 1,
        "types": types,
        **net.sizes,
        "parts": min(PARTS, learn[0][0].shape[1]),
        "mean": mean.tolist(),
        "scale": scale.tolist(),
        "weights": [float(f"{w:.7g}") for w in net.weights().tolist()],
    }
    with open(options.out, "w") as file:
        json.dump(told, file)
    print(f"{options.out}: {len(told['weights'])} weights, {len(lines)} samples")


if __name__ == "__main__":
    main()
