# SPDX-License-Identifier: Apache-2.0
"""Batches in pinned memory of PyTorch's, filled where they are.

Who drops a pinned tensor need not have waited for its copies to a device: PyTorch knows which
streams still read its own pinned memory, and gives none of it out again before they have.
So a slot of the loader is filled in a tensor of PyTorch's. With the batch that tensor becomes
the job's, and the slot gets another."""

import ctypes
import functools


def find(asked):
    """What makes a pinned tensor of a shape and a dtype; None: nothing is pinned. As
    DataLoader: without a device it is not."""
    if not asked:
        return None
    import torch

    return functools.partial(torch.empty, pin_memory=True) if torch.cuda.is_available() else None


class Pinned:
    """Of one loader, whose slots have room for so many samples each."""

    def __init__(self, empty, room):
        self._empty, self._room = empty, room
        self._tensors = {}  # address of a slot -> the tensor that it is filled in

    def own(self, batch, lent):
        """The parts of a batch, of which data is the first, as the job's own."""
        return [self._data(batch, lent[0]), *map(self._copy, lent[1:])]

    def _data(self, batch, lent):
        """The slot's own memory is copied from, once; after that none is."""
        slot = ctypes.addressof(batch.contents)
        filled = self._tensors.pop(slot, None)
        fresh = self._empty((self._room, *lent.shape[1:]), dtype=lent.dtype)
        batch.contents.data = fresh.data_ptr()
        self._tensors[slot] = fresh
        return self._copy(lent) if filled is None else filled[: len(lent)]

    def _copy(self, lent):
        own = self._empty(lent.shape, dtype=lent.dtype)
        return own.copy_(lent)
