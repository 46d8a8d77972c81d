# SPDX-License-Identifier: Apache-2.0
"""What PyTorch does with a tensor without a word to the tensor's class: each of these is
made to look first whether it is given a parameter that is Pending."""

import functools
import threading

import torch
from torch._functorch import eager_transforms, vmap
from torch.nn import Parameter
from torch.utils import _device

from . import _pending
from ._pending import Pending

_base = torch._C.TensorBase
_is_compiling, _count_modes = torch.compiler.is_compiling, torch._C._len_torch_function_stack

# They read what they are given, or keep its memory.
FUNCTIONS = (
    (torch, "tensor as_tensor asarray to_dlpack"),
    (torch, "sparse_coo_tensor sparse_compressed_tensor"),
    (torch, "sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor"),
    (torch.utils.dlpack, "to_dlpack"),
    # What torch.func transforms becomes other tensors.
    (eager_transforms, "_wrap_for_grad _wrap_functional_tensor"),
    (vmap, "_add_batch_dim"),
)
METHODS = "new new_tensor set_ as_subclass"  # of torch.Tensor
SET = "data real imag"  # attributes of torch.Tensor
STATIC = ((torch.Tensor, "__new__"), (torch.Tensor, "_make_subclass"), (Parameter, "__new__"))


def _look(things):
    for thing in things:
        if type(thing) is Pending and _pending.updating != threading.get_ident():
            _pending.touch((thing,))


def _looks_first(own, look=_look, is_told=False):
    """is_told: PyTorch tells modes (torch.device() as a context) what is called, by the
    object that has its name. For what is in C it would not be this one."""

    @functools.wraps(own)
    def call(*args, **kwargs):
        if not _is_compiling():
            if is_told and _count_modes():
                return torch.overrides.handle_torch_function(call, (), *args, **kwargs)
            look(args)
            if kwargs:
                look(kwargs.values())
        return own(*args, **kwargs)

    return call


def replace(module, name, call):
    """In the place of PyTorch's own, as which pickle, TorchScript and torch.device() as a
    context know it, too."""
    own, builtins = getattr(module, name), torch.jit._builtins
    call.__qualname__ = name
    setattr(module, name, call)
    op = builtins._find_builtin(own)
    if op and hasattr(builtins, "_register_builtin"):
        builtins._register_builtin(call, op)
    if own in _device._device_constructors():
        _device._device_constructors().add(call)


def _watch_functions():
    for module, names in FUNCTIONS:
        for name in names.split():
            own = getattr(module, name, None)
            if own is not None:
                is_told = own in _device._device_constructors()
                replace(module, name, _looks_first(own, is_told=is_told))
    own = torch.nested.nested_tensor  # of a list
    replace(torch.nested, "nested_tensor", _looks_first(own, _pending.touch))


def _watch_tensors():
    for name in METHODS.split():
        call = _looks_first(getattr(_base, name))
        call.__module__, call.__qualname__ = "torch", "Tensor." + name
        setattr(torch.Tensor, name, call)
    for cls, name in STATIC:
        setattr(cls, name, staticmethod(_looks_first(getattr(cls, name))))
    for name in SET.split():
        own = getattr(_base, name)
        setattr(
            torch.Tensor,
            name,
            property(own.__get__, _looks_first(own.__set__), doc=own.__doc__),
        )


def install():
    """Once, where gradients are summed."""
    _watch_functions()
    _watch_tensors()
