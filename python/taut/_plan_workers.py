# SPDX-License-Identifier: Apache-2.0
"""The number of worker processes of the DataLoaders that train: those that are iterated
while gradients are enabled and no model of the job is in eval mode. Which batches come,
and in which order, is the sampler's as before; only a data set that draws random
numbers for its items draws others in a worker than in the main process.

Undone: a loader has the number that the job gave it from its next iteration on."""

import weakref

from . import _decisions

_FIELDS = ("num_workers", "prefetch_factor", "persistent_workers", "timeout", "_iterator")


def make(values):
    if not values["WORKERS"].isdecimal():
        raise ValueError("expected a number, found '%s'" % values["WORKERS"])
    return Workers(int(values["WORKERS"]))


class Workers(_decisions.Decision):
    def __init__(self, number):
        super().__init__("workers=%d" % number)
        self.number = number
        self.given = weakref.WeakKeyDictionary()  # DataLoader -> fields as the job made them

    def install(self, torch):
        self.torch, self.data = torch, torch.utils.data

        def make(own):
            def __iter__(loader):
                self.look_at(loader)
                return own(loader)

            return __iter__

        self.replace(self.data.DataLoader, "__iter__", make)

    def look_at(self, loader):
        if not self.is_on or loader in self.given or not self.trains():
            return
        if loader.num_workers == self.number:
            self.made()
            return
        why = self.why_not(loader)
        if why is None:
            self.change(loader)
            self.made()
        elif not self.is_made:
            self.why = why

    def trains(self):
        models = list(_decisions.models)
        return (
            self.torch.is_grad_enabled()
            and self.data.get_worker_info() is None
            and all(model.training and model.module.training for model in models)
        )

    def why_not(self, loader):
        if isinstance(loader.dataset, self.data.IterableDataset):
            return "the data set is iterable: what comes depends on the workers"
        if not self.number and loader.worker_init_fn is not None:
            return "the DataLoader has a worker_init_fn, which only workers call"
        if self.number and self.holds_device(loader.dataset):
            return "the data set holds tensors of a device, which a worker cannot read"
        return None

    def holds_device(self, dataset):
        held = list(getattr(dataset, "__dict__", {}).values())
        held += [t for v in held if type(v) in (list, tuple) for t in v[:8]]
        return any(isinstance(v, self.torch.Tensor) and v.device.type != "cpu" for v in held)

    def change(self, loader):
        """Past __setattr__, which keeps persistent_workers as it is."""
        mine = {"num_workers": self.number, "_iterator": None}
        if not self.number:
            mine.update(prefetch_factor=None, persistent_workers=False, timeout=0)
        elif loader.prefetch_factor is None:
            mine["prefetch_factor"] = 2  # PyTorch's own default
        self.given[loader] = {n: loader.__dict__[n] for n in _FIELDS if n != "_iterator"}
        loader.__dict__.update(mine)

    def undo(self):
        super().undo()
        for loader, fields in self.given.items():
            loader.__dict__.update(fields, _iterator=None)
        self.given.clear()
