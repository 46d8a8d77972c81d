# SPDX-License-Identifier: Apache-2.0
"""Rows of a batch: what is cut into parts and joined again, and whether a model takes each
row by itself.

That is seen from what it returns for some rows of a batch, and for two halves of them, in
training as it is but for dropout, which is left out; and from what it leaves behind."""

import contextlib
import inspect

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from . import _decisions, _left_behind, _plan_modules


class Unlike(Exception):
    """What a model returns for parts does not fit together."""


class Given:
    """What a model is called with. Cut are tensors with as many rows as the first one; in
    later batches the same ones."""

    def __init__(self, leaves, form):
        self.leaves, self.form = leaves, form
        sizes = [_rows_of(leaf) for leaf in leaves]
        first = next((n for n in sizes if n is not None), None)
        self.is_cut = [n is not None and n == first for n in sizes]

    def cut(self):
        return [leaf for leaf, is_cut in zip(self.leaves, self.is_cut) if is_cut]

    def count(self):
        """Of rows; that there are any why_not() tells."""
        return self.cut()[0].size(0)

    def why_not(self):
        counts = {_rows_of(leaf) for leaf in self.cut()}
        if not counts:
            return "it is given no tensor with a row for each sample"
        if len(counts) > 1 or None in counts:
            return "it is given tensors of which some have other numbers of rows now"
        return None

    def sizes(self, n):
        """Of n parts, the larger ones first."""
        count = self.count()
        return [count // n + (i < count % n) for i in range(n)]

    def rows(self, begin, end):
        return [
            leaf[begin:end] if is_cut else leaf for leaf, is_cut in zip(self.leaves, self.is_cut)
        ]

    def parts(self, n):
        parts, begin = [], 0
        for size in self.sizes(n):
            parts.append(self.rows(begin, begin + size))
            begin += size
        return parts


def _rows_of(leaf):
    """None: it has none, or they cannot be cut."""
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_nested:
        return None
    return leaf.size(0) if leaf.dim() else None


def join(results, sizes):
    """What the model returned for parts of so many rows each, as for all of them."""
    flat = [_pytree.tree_flatten(result) for result in results]
    if any(form != flat[0][1] for _, form in flat):
        raise Unlike("it returns other things for each part of a batch")
    joined = [_joined(values, sizes) for values in zip(*(leaves for leaves, _ in flat))]
    return _pytree.tree_unflatten(joined, flat[0][1])


def _joined(values, sizes):
    if not isinstance(values[0], torch.Tensor):
        if not all(isinstance(v, _left_behind.PLAIN) and v == values[0] for v in values):
            raise Unlike("it returns a %s for each part of a batch" % type(values[0]).__name__)
        return values[0]
    for value, size in zip(values, sizes):
        shape, first = list(value.shape), list(values[0].shape)
        if _rows_of(value) != size:
            raise Unlike(
                "it returns a tensor of %s for %d samples: not a row for each" % (shape, size)
            )
        if shape[1:] != first[1:]:
            raise Unlike(
                "it returns rows of %s for %d samples, and of %s for %d"
                % (first[1:], sizes[0], shape[1:], size)
            )
    return torch.cat(values)


# --- whether rows are taken one by one ------------------------------------------------------


def why_not(own, ddp, given, number):
    """None: what the model gives for a row does not depend on the others. own: its forward
    pass."""
    count = given.count()
    m = min(count, max(2, -(-count // number)))
    halves = [(0, m), (0, m // 2), (m // 2, m)]
    devices = list({p.device for p in ddp.module.parameters() if p.device.type == "cuda"})
    with contextlib.ExitStack() as stack:
        for decision in _decisions.of(_plan_modules.Modules):
            stack.enter_context(decision.as_it_was())
        stack.enter_context(torch.random.fork_rng(devices))
        try:
            return _Look(own, ddp, devices).why_not(given, halves)
        except Unlike as why:
            return str(why)
        except Exception as why:
            line = " ".join(str(why).split())[:200]
            return "its forward pass fails on some rows of a batch: " + line


class _Look:
    def __init__(self, own, ddp, devices):
        self.own, self.ddp, self.devices = own, ddp, devices

    def why_not(self, given, ranges):
        results, left = [], []
        before = self.left_behind()
        for begin, end in ranges:
            inputs, kwargs = _pytree.tree_unflatten(given.rows(begin, end), given.form)
            with _WithoutDropout():
                result = self.own(self.ddp, *inputs, **kwargs)
            results.append(_pytree.tree_map(_detached, result))
            del result
            left.append(self.left_behind())
        why = _moved(before, left[0], True) or _moved(left[0], left[-1], False)
        if why:
            return why
        m = ranges[0][1]
        whole = join(results[:1], [m])
        halves = join(results[1:], [m // 2, m - m // 2])
        return self.compare(whole, halves)

    def left_behind(self):
        """By name: what a forward pass may leave behind, in a form that can be compared."""
        found = {"random": _left_behind.drawn()}
        found["torch"] = [torch.get_rng_state()]
        found["torch"] += [torch.cuda.get_rng_state(device) for device in self.devices]
        found["buffers"] = {n: b.detach().clone() for n, b in self.ddp.module.named_buffers()}
        found["kept"] = _left_behind.kept(self.ddp.module)
        return found

    def compare(self, whole, halves):
        pairs = zip(_pytree.tree_leaves(whole), _pytree.tree_leaves(halves))
        for mine, theirs in pairs:
            if isinstance(mine, torch.Tensor) and not self.are_near(mine, theirs):
                return "what it returns for a sample depends on the others of its batch"
        return None

    def are_near(self, a, b):
        if not (a.is_floating_point() or a.is_complex()):
            return torch.equal(a, b)
        finite = a[a.isfinite()].abs()
        scale = float(finite.max()) if finite.numel() else 0.0
        most = _left_behind.precision(self.ddp.module, a.device.type) ** 0.5 * scale
        return torch.allclose(a, b, rtol=0, atol=most, equal_nan=True)


def _detached(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def _moved(before, after, is_first):
    """What of it a forward pass changed. What is made once, as a table, may be made by
    the first one."""
    if before["random"] != after["random"]:
        return "its forward pass draws random numbers that are not PyTorch's"
    if not all(a.equal(b) for a, b in zip(before["torch"], after["torch"])):
        return "its forward pass draws random numbers, and not by dropout alone"
    for name, was in before["buffers"].items():
        now = after["buffers"].get(name)
        if now is None or now.shape != was.shape or not torch.equal(now, was):
            return "its forward pass changes the buffer " + name
    name = None if is_first else _left_behind.changed(before["kept"], after["kept"])
    if name:
        return "its forward pass changes %s, and would do so for each part" % name
    return None


class _WithoutDropout(TorchFunctionMode):
    """No dropout, so that what a row gives does not hang on what was drawn before."""

    _NAMES = ("dropout", "dropout_", "feature_dropout", "feature_dropout_", "alpha_dropout")
    _NAMES += ("alpha_dropout_", "feature_alpha_dropout", "feature_alpha_dropout_")
    _ATTENTION = "scaled_dot_product_attention", "multi_head_attention_forward"

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in self._NAMES and args:
            return args[0]
        kwargs = dict(kwargs or {})
        if name in self._ATTENTION:
            at = _DROPOUT_AT[name]
            args = (*args[:at], 0.0, *args[at + 1 :]) if len(args) > at else args
            if len(args) <= at:
                kwargs["dropout_p"] = 0.0
        return function(*args, **kwargs)


# The place of dropout_p among an attention's arguments.
_DROPOUT_AT = {
    "scaled_dot_product_attention": 4,
    "multi_head_attention_forward": list(
        inspect.signature(torch.nn.functional.multi_head_attention_forward).parameters
    ).index("dropout_p"),
}
