# SPDX-License-Identifier: Apache-2.0
"""Parameters whose gradient, or whose update, is under way.

Such a parameter is an object of another class, Pending, until somebody touches
it. What PyTorch is asked to do with one, by whatever name, in whatever list, comes
to Pending.__torch_function__ first. There its gradient is waited for, its update is
made, it is a Parameter again, and then what was asked for is done. What PyTorch does
without asking the class, _past.py has made to look. So no reader, of a value or of a
gradient, ever sees what a job that waits in backward() and updates in step() would
not have seen.

What does not come this way is another tensor over the same memory; a parameter
that has one when its update could begin to be late is not updated late
(is_shared)."""

import contextlib
import sys
import threading

import torch
from torch._functorch import pyfunctorch
from torch.nn import Parameter
from torch.utils import _python_dispatch

_without = torch._C._disabled_torch_function_impl
_base = torch._C.TensorBase
_get_grad = torch.Tensor.grad.__get__
_set_grad = torch.Tensor.grad.__set__

# States of a Record.
IDLE, SUMMING, STEPPED = range(3)

# One thread at a time waits and updates; the others then find it done.
lock = threading.RLock()
records = {}  # id of a parameter -> its Record, which holds the parameter
# The thread that makes an update, of parameters that stay Pending meanwhile, for
# other threads may touch them.
updating = None


def _names_of_nothing():
    """What can be asked without a look at values or gradients."""
    for name in ("requires_grad", "shape", "dtype", "device", "layout", "is_leaf", "ndim"):
        yield getattr(torch.Tensor, name).__get__
    for name in ("is_cuda", "is_sparse", "is_meta", "is_quantized", "grad_fn"):
        yield getattr(torch.Tensor, name).__get__
    for name in ("size", "numel", "dim", "stride", "is_floating_point", "element_size"):
        yield getattr(torch.Tensor, name)


_FREE = frozenset(_names_of_nothing())


class Record:
    """One parameter of a module."""

    __slots__ = (
        "parameter",
        "name",
        "task",
        "sums",  # of which module
        "state",
        "grad",  # SUMMING: what is summed; STEPPED: what the update is made of
        "is_there",  # the sum
        "is_unused",  # this rank had no gradient; the others may have
        "rows",  # _rows.Entry, where lookups go by themselves; else None
        "step",  # STEPPED: the step() that is to be made, None while it is, and
        "group",  # the place of the parameter's group in it
    )

    def __init__(self, parameter, name, task, sums):
        self.parameter, self.name, self.task, self.sums = parameter, name, task, sums
        self.state, self.is_there, self.is_unused = IDLE, False, False
        self.grad = self.rows = self.step = self.group = None


class Pending(Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _FREE or updating == threading.get_ident():
            return _without(func, types, args, kwargs)
        if func == _get_grad and has_no_grad(args[0]):
            return None
        touch(args)
        touch(kwargs.values())
        return func(*args, **kwargs)

    # These look at their object's class, or go past PyTorch. After a touch, or when
    # another thread has touched it meanwhile, it is no Pending any more: super() would
    # refuse it.
    def __deepcopy__(self, memo):
        touch((self,))
        return self.__deepcopy__(memo)  # that of Parameter, which it is now

    def __reduce_ex__(self, protocol):
        touch((self,))
        return self.__reduce_ex__(protocol)

    def __getattribute__(self, name):
        if name in ("_cdata", "set_", "_make_wrapper_subclass"):
            touch((self,))
        if name == "__torch_function__":  # asked of one thing for all that are in the call
            return Pending.__torch_function__
        return Parameter.__getattribute__(self, name)


def has_no_grad(parameter):
    """A step is still to be made, and its gradient was taken from the parameter
    meanwhile: None is what a job that waits would read."""
    record = records.get(id(parameter))
    return record is not None and record.state == STEPPED and raw_grad(parameter) is None


def raw(parameter, name):
    """An attribute that its class has in C, or None."""
    own = getattr(torch.Tensor, name, None)
    return own and _without(own.__get__, (type(parameter),), (parameter,), {})


def raw_grad(parameter):
    return _without(_get_grad, (type(parameter),), (parameter,), {})


def set_raw_grad(parameter, grad):
    _without(_set_grad, (type(parameter),), (parameter, grad), {})


def touch(things):
    """All that is pending in these, whatever holds it, ends."""
    found = []
    _search(things, found, 0)
    if found:
        finish(found)


def _search(things, found, depth):
    for thing in things:
        if type(thing) is Pending:
            record = records.get(id(thing))
            if record is None:  # its module is gone, and nothing is under way
                thing.__class__ = Parameter
            else:
                found.append(record)
        elif type(thing) in (list, tuple, set) and depth < 8:
            _search(thing, found, depth + 1)
        elif isinstance(thing, dict) and depth < 8:
            _search(thing.values(), found, depth + 1)
        elif isinstance(thing, (list, tuple)) and depth < 8:
            _search(thing, found, depth + 1)


_in_transform = torch._C._functorch.peek_interpreter_stack
_in_mode = torch._C._len_torch_dispatch_stack
_nothing = contextlib.nullcontext
_outside = getattr(pyfunctorch, "temporarily_clear_interpreter_stack", _nothing)
_without_modes = getattr(_python_dispatch, "_disable_current_modes", _nothing)


@contextlib.contextmanager
def outside():
    """Of grad(), vmap() and the like of torch.func, and of modes that are given what is
    dispatched: what is done here is no part of what they see."""
    with _outside() if _in_transform() else _nothing():
        with _without_modes() if _in_mode() else _nothing():
            yield


def finish(some):
    """Their gradients are summed, and their updates made, when this returns."""
    with lock, outside():
        for record in some:
            if record.state != IDLE:
                record.sums.wait_for(record)
        steps = {id(r.step): r.step for r in some if r.state == STEPPED and r.step}
        for step in steps.values():
            step.make([r for r in some if r.state == STEPPED and r.step is step])


def is_alone():
    """Whether no thread of the job could touch a parameter during an update."""
    return all(
        t is threading.current_thread() or t.name.startswith("taut-")
        for t in threading.enumerate()
    )


def finish_all():
    finish([r for r in records.values() if r.state != IDLE])


def finish_whole():
    """All but gradients of a backward pass that is in its middle, as where it runs parts
    of the forward pass again: others of it may have to be summed before."""
    finish([r for r in records.values() if r.state == STEPPED or r.sums.is_whole(r)])


def settle(record):
    """Its gradient is there: what follows is the parameter's, as ever."""
    record.state, record.is_there, record.grad, record.step = IDLE, False, None, None
    if type(record.parameter) is Pending:
        record.parameter.__class__ = Parameter


def is_shared(parameter):
    """Whether its memory has another owner, who could read it unseen: a tensor
    made earlier, an array, another process."""
    storage = parameter.untyped_storage()
    # One is the parameter's tensor, one the object that asks.
    return torch._C._storage_Use_Count(storage._cdata) > 2 or storage.is_shared()


class _Measured:
    """Asks for the references to a gradient that only its parameter has, as _sums.Sums
    does: what Pythons count on the way differs."""

    def __init__(self):
        self.grad = object()

    def hook(self):
        return self.give(self, self.dense(self))

    @staticmethod
    def dense(parameter):
        grad = parameter.grad
        return grad

    def give(self, record, grad):
        with lock:
            count = type(record.grad) is object and _references(grad)
            record.grad = grad
            return count


def _references(grad):
    return sys.getrefcount(grad)


_UNHELD = _Measured().hook()


def is_held(grad):
    """The same of a gradient, asked by who has it from its parameter."""
    return sys.getrefcount(grad) > _UNHELD or is_shared(grad)
