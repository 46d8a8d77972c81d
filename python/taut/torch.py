# SPDX-License-Identifier: Apache-2.0
"""PyTorch jobs whose gradients Taut sums, by hand:

    import taut.torch

    model = taut.torch.DistributedDataParallel(model)

and the rest of the job as it is. Before the first optimizer is made. `taut run` does
the same for a job that knows nothing of it; the options are its environment's.

With it dist.init_process_group("taut") is a process group over libtaut's collectives."""

import importlib as _importlib
import sys as _sys

import torch as _  # first: under `taut run`, its import is what brings _taut._ddp

if "_taut._ddp" in _sys.modules:  # a job of `taut run`
    _ddp = _sys.modules["_taut._ddp"]
    _pending = _sys.modules["_taut._pending"]
else:
    from . import _backend, _ddp, _pending

    _ddp.install_around()
    _backend.register()

DistributedDataParallel = _ddp.DistributedDataParallel
ServerOptimizer = _importlib.import_module(
    _ddp.__package__ + "._torch_server"
).ServerOptimizer


def finish():
    """Waits for all gradients, and makes all updates, that are under way. Needed only
    before memory of a parameter is read past PyTorch, by an address kept from
    earlier."""
    _pending.finish_all()


def counts(model):
    """What was exchanged for a DistributedDataParallel of Taut's, as a dict: by its
    process group's end, when that is gone. None: it is PyTorch's own."""
    control = model.__dict__.get("_taut")
    if control is None:
        return None
    found = dict(control.sums.counts() or {})
    found.update(
        engine=control.engine.name,
        crosses=control.sums.crossing,
        busy_ns=control.sums.busy_ns(),
    )
    return found
