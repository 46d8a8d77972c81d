# SPDX-License-Identifier: Apache-2.0
"""Lookups of embeddings, whoever asks: which have a gradient of their rows alone, and what
else a parameter is used for."""

import torch


def is_plain(module, ids):
    """A lookup whose gradient is that of its rows, in a pass that is not made again."""
    hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    levels = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)
    return (
        torch.is_grad_enabled()
        and module._parameters["weight"].requires_grad
        and module.max_norm is None
        and not module.scale_grad_by_freq
        and not module.sparse
        and type(ids) is torch.Tensor
        and ids.dtype in (torch.int64, torch.int32)
        and not (hooks and hooks(True))
        and not (levels and levels())
        and not torch.jit.is_tracing()
    )


class Uses:
    """Of parameters, in the graph of what a forward pass returned."""

    def __init__(self, tensors):
        self.of = {}  # by id of the parameter: nodes that its gradient comes from
        self.is_hidden = False  # a part of the graph is made in the backward pass
        nodes = [t.grad_fn for t in tensors if t.grad_fn is not None]
        visited = set(nodes)
        while nodes:
            node = nodes.pop()
            self.is_hidden = self.is_hidden or node.name().startswith("CheckpointFunction")
            for other, _ in node.next_functions:
                if other is None:
                    continue
                parameter = getattr(other, "variable", None)
                if parameter is not None:
                    self.of.setdefault(id(parameter), []).append(node)
                elif other not in visited:
                    visited.add(other)
                    nodes.append(other)
