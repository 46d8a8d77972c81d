# SPDX-License-Identifier: Apache-2.0
"""What `taut run` does in a process of its job."""

from . import _options


def framework_imported(name, module):
    """At the end of the framework's import. Never fails the job's import."""
    if name != "torch":
        return
    try:
        _have_loader(module)
    except Exception as why:
        _options.say("DataLoaders stay as they are: %s" % why)
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
