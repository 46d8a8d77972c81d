# SPDX-License-Identifier: Apache-2.0
"""Operators of random fusions: what they are called, what they read beside what is made
before them, and how PyTorch computes them. x is a matrix that the fusion makes or is given."""

import dataclasses
import random

# Beside x: "x" another matrix, "row" a vector of its columns, "mask" booleans of its shape.
# `whole` reads a row (or all rows) before it writes.
OPERATORS = {
    "relu": ("torch.relu({0})", (), False),
    "gelu": ("torch.nn.functional.gelu({0})", (), False),
    "silu": ("torch.nn.functional.silu({0})", (), False),
    "tanh": ("torch.tanh({0})", (), False),
    "sigmoid": ("torch.sigmoid({0})", (), False),
    "exp": ("torch.exp({0})", (), False),
    "neg": ("torch.neg({0})", (), False),
    "scale": ("torch.mul({0}, 0.5)", (), False),
    "shift": ("torch.add({0}, 0.25)", (), False),
    "add": ("torch.add({0}, {1})", ("x",), False),
    "sub": ("torch.sub({0}, {1})", ("x",), False),
    "mul": ("torch.mul({0}, {1})", ("x",), False),
    "maximum": ("torch.maximum({0}, {1})", ("x",), False),
    "add_row": ("torch.add({0}, {1})", ("row",), False),
    "mul_row": ("torch.mul({0}, {1})", ("row",), False),
    "dropout": ("torch.mul({0}, {1})", ("mask",), False),
    "relu_grad": ("torch.ops.aten.threshold_backward({0}, {1}, 0)", ("x",), False),
    "gelu_grad": ("torch.ops.aten.gelu_backward({0}, {1})", ("x",), False),
    "tanh_grad": ("torch.ops.aten.tanh_backward({0}, {1})", ("x",), False),
    "sigmoid_grad": ("torch.ops.aten.sigmoid_backward({0}, {1})", ("x",), False),
    "softmax": ("torch.softmax({0}, 1)", (), True),
    "layer_norm": (
        "torch.nn.functional.layer_norm({0}, ({0}.shape[1],), {1}, {2})",
        ("row", "row"),
        True,
    ),
    "sum_rows": ("torch.sum({0}, 0)", (), True),
    "sum_columns": ("torch.sum({0}, 1)", (), True),
}
SINKS = ("sum_rows", "sum_columns")  # nothing reads what is no matrix
FEW = 2  # operators of one fusion that read a row before they write


@dataclasses.dataclass
class Node:
    type: str
    reads: list  # ("node", i), or ("x" | "row" | "mask", number of the input)
    kept: bool = False  # others read its result: it is written


def make(seed):
    """The nodes of a random fusion. Each but the first reads one before it."""
    draw = random.Random(seed)
    nodes, inputs, n_whole = [], {"x": 0, "row": 0, "mask": 0}, 0
    size = draw.choice((2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12))

    def given(kind):
        # Now and then what another operator is given too, as in a residual.
        if inputs[kind] and draw.random() < 0.2:
            return (kind, draw.randrange(inputs[kind]))
        inputs[kind] += 1
        return (kind, inputs[kind] - 1)

    def made():
        matrices = [i for i, node in enumerate(nodes) if node.type not in SINKS]
        near = matrices[-1] if draw.random() < 0.6 else draw.choice(matrices)
        return ("node", near)

    while len(nodes) < size:
        name = draw.choice(list(OPERATORS))
        _, beside, whole = OPERATORS[name]
        if (whole and n_whole == FEW) or (name in SINKS and len(nodes) == 0):
            continue
        n_whole += whole
        reads = [made() if nodes else given("x")]
        for kind in beside:
            inner = kind == "x" and nodes and draw.random() < 0.35
            reads.append(made() if inner else given(kind))
        if nodes and len(reads) > 1 and draw.random() < 0.5 and beside[0] == "x":
            reads[0], reads[1] = reads[1], reads[0]
        nodes.append(Node(name, reads))
    read = {i for node in nodes for kind, i in node.reads if kind == "node"}
    for i, node in enumerate(nodes):
        node.kept = i not in read or draw.random() < 0.15
    return nodes


def name_of(read):
    kind, number = read
    return f"n{number}" if kind == "node" else f"{kind}{number}"


def inputs_of(nodes):
    return sorted({r for node in nodes for r in node.reads if r[0] != "node"})


def source(nodes):
    """A function of the inputs, in their order, that gives what is kept."""
    lines = [f"def fusion({', '.join(map(name_of, inputs_of(nodes)))}):"]
    for i, node in enumerate(nodes):
        made = OPERATORS[node.type][0].format(*map(name_of, node.reads))
        lines.append(f"    n{i} = {made}")
    kept = [f"n{i}" for i, node in enumerate(nodes) if node.kept]
    lines.append(f"    return ({', '.join(kept)},)")
    return "\n".join(lines)
