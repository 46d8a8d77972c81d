# SPDX-License-Identifier: Apache-2.0
"""What `taut run` does in a process of its job."""

import os

from . import _options

# Variables of a plan: its decisions, and the job that it is for.
_PLANNED = tuple(
    "TAUT_RUN_" + name
    for name in "JOB BUCKET COMPRESS WORKERS HEAP OPTIMIZER RECOMPUTE COMPILE MICROBATCHES GRAPHS AMP".split()
)


def framework_imported(name, module):
    """At the end of the framework's import. Never fails the job's import."""
    if name != "torch":
        _have_measure(name)
        return
    try:
        _have_loader(module)
    except Exception as why:
        _options.say("DataLoaders stay as they are: %s" % why)
    _have_decisions(module)
    try:
        if not module.distributed.is_available():
            return
        _have_backend()
    except Exception as why:
        _options.say("the backend taut is not there: %s" % why)
    try:
        _have_schedule()
    except Exception as why:
        _options.say("PyTorch's DistributedDataParallel stays as it is: %s" % why)


def _have_loader(torch):
    options = _options.Options()
    if options.load == "auto":
        from . import _load_torch

        _load_torch.install(torch.utils.data, options.load_cache)


def _have_decisions(torch):
    """After the loader's, which reads what a DataLoader is changed to, and before the
    schedule's, which takes functions of PyTorch's as they are then. Ends the job where
    a decision cannot be made."""
    folder = os.environ.get("TAUT_RUN_MEASURE")
    if not folder and not any(name.startswith(_PLANNED) for name in os.environ):
        return
    from . import _decisions

    _decisions.install(torch)
    if folder:
        from . import _torch_measure

        _torch_measure.install(torch, folder)


def _have_measure(framework):
    """Of a job of TensorFlow or MXNet: what does not depend on whether its gradients are
    Taut's to sum. That is told by taut.tensorflow or taut.mxnet itself."""
    folder, heap = (os.environ.get("TAUT_RUN_" + name) for name in ("MEASURE", "HEAP"))
    if not folder and not heap:
        return
    from . import _job_measure

    if heap:
        _keep_heap(_job_measure)
    if folder:
        _job_measure.install(framework, folder)


def _keep_heap(measure):
    from . import _launcher, _plan_heap

    try:
        keep = _plan_heap.make({"HEAP": os.environ["TAUT_RUN_HEAP"]})
        keep.install(None)
    except ValueError as why:
        if _launcher.find().rank == 0:
            _options.say("TAUT_RUN_HEAP: %s" % why)
        raise SystemExit(1) from None
    measure.decided(keep.text)


def _have_backend():
    from . import _backend

    _backend.register()
    if _options.Options().backend == "taut":
        _backend.take_place_of_gloo()


def _have_schedule():
    if _options.Options().schedule == "off":
        return
    from . import _ddp

    _ddp.install()
