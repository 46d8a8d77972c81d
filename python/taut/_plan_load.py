# SPDX-License-Identifier: Apache-2.0
"""Batches that Taut's loader makes: whether there were any. They are put in the place of
PyTorch's by _load_torch.py, which is there already.

Undone: a DataLoader is PyTorch's own from its next iteration on."""

from . import _decisions, _load_torch


def make(values):
    if values["LOAD"] != "auto":
        raise ValueError("expected auto, found '%s'" % values["LOAD"])
    return Load(values["LOAD_CACHE"])


class Load(_decisions.Decision):
    def __init__(self, cache):
        super().__init__("loader=taut" + (" cache=%sB,policy=pinned" % cache if cache else ""))

    def install(self, torch):
        if _load_torch.swaps is None:
            raise ValueError("Taut's loader is not there")
        _load_torch.swaps.see = self.saw

    def saw(self, why):
        if why is None:
            self.made()
        elif not self.is_made:
            self.why = why

    def undo(self):
        super().undo()
        _load_torch.swaps.is_on = False
