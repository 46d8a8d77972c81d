# SPDX-License-Identifier: Apache-2.0
"""Steps of PyTorch's jobs, measured: _measure.py."""

import sys

from . import _decisions, _measure


class Measure(_measure.Measure):
    def __init__(self, torch, folder):
        super().__init__(folder)
        self.torch = torch

    def find_place(self):
        return _decisions.place()[1:]

    def is_settled(self):
        """Whether each model that trains on Taut's exchange is decided on (_control.py)."""
        control = sys.modules.get(__package__ + "._control")
        return all(
            c.is_decided and c.trial is None and c.tuner is None or not c.gate.steps
            for c in (control._live if control else ())
        )

    def is_rank(self):
        return _decisions.had_model()

    def applied(self):
        return _decisions.made()

    def not_applied(self):
        return _decisions.not_made()

    def peak_bytes(self):
        """Of the devices, where some are used, else of the process."""
        cuda = self.torch.cuda
        if cuda.is_initialized():
            return sum(cuda.max_memory_allocated(i) for i in range(cuda.device_count()))
        return super().peak_bytes()


def install(torch, folder):
    from torch.optim.optimizer import register_optimizer_step_post_hook

    measure = Measure(torch, folder)
    register_optimizer_step_post_hook(measure.stepped)
    measure.watch()
