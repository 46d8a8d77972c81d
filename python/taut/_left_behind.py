# SPDX-License-Identifier: Apache-2.0
"""What a forward pass may leave behind beside what it returns: random numbers drawn, and
attributes of modules. Taken before and after, in a form that can be compared; and how near two
passes are when they compute the same."""

import collections
import random
import sys

import torch

PLAIN = type(None), bool, int, float, str
_LISTS = list, tuple, dict, set, collections.deque
# What of a module's attributes are not the job's.
OWN = set(vars(torch.nn.Module())) | {"_is_full_backward_hook"}


def drawn():
    """Of the generators that are neither PyTorch's nor a device's."""
    found = [hash(random.getstate())]
    numpy = sys.modules.get("numpy")
    if numpy:
        kind, keys, *rest = numpy.random.get_state()
        found.append((kind, keys.tobytes(), *rest))
    return found


def precision(module, device):
    """Of the coarsest type that the model computes in."""
    types = {p.dtype for p in module.parameters() if p.is_floating_point()}
    if torch.is_autocast_enabled(device):
        types.add(torch.get_autocast_dtype(device))
    least = max(torch.finfo(t).eps for t in types or {torch.float32})
    if device == "cuda" and torch.float64 not in types:
        least = max(least, 2.0**-10)  # TF32
    return least


def kept(model):
    """By the name of an attribute of the model's modules."""
    found = {}
    for name, part in model.named_modules():
        for key, value in vars(part).items():
            if key not in OWN:
                found[(name + "." + key).lstrip(".")] = Kept(value)
    return found


def changed(before, after):
    """The name of an attribute that is another one now, or None."""
    for name, now in after.items():
        if not now.is_as(before.get(name)):
            return name
    return None


class Kept:
    """A value as it was, as far as an object, a number or a length tell. Holds it, so that
    no other gets its place in memory."""

    def __init__(self, value):
        self.value = value
        self.length = len(value) if isinstance(value, _LISTS) else 0

    def is_as(self, other):
        if other is None or self.length != other.length:
            return False
        if isinstance(self.value, PLAIN):
            return type(self.value) is type(other.value) and self.value == other.value
        return self.value is other.value
