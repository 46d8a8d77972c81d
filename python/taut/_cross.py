# SPDX-License-Identifier: Apache-2.0
"""Optimizers whose step() leaves for later what is made of gradients that are not
summed yet: for each such parameter the optimizer's own step runs, restricted to
it, with the options as they were, before anybody looks at the parameter."""

import contextlib
import functools
import sys
import threading
import time
import weakref

import torch
from torch.optim import Optimizer

from . import _pending
from ._pending import STEPPED, SUMMING

# What these do to a parameter depends on that parameter, its gradient, its state
# and its group's options alone. Of their own classes, not of those derived.
SEPARABLE = {
    getattr(torch.optim, name)
    for name in "SGD Adam AdamW Adamax NAdam RAdam RMSprop Rprop Adagrad Adadelta ASGD".split()
    if hasattr(torch.optim, name)
}

_raw_steps = {}  # class -> its step() without hooks
_late = {}  # id of an optimizer -> how many of its updates are to be made
gates = weakref.WeakSet()  # that want to hear what each step() takes


class Step:
    """One call of step(), as far as it is not made."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.raw = _raw_steps[type(optimizer)]
        self.options = [
            {k: _fixed(v) for k, v in group.items() if k != "params"}
            for group in optimizer.param_groups
        ]
        self.places = {}

    def add(self, record, group):
        record.state, record.step, record.group = STEPPED, self, group
        _late[id(self.optimizer)] = _late.get(id(self.optimizer), 0) + 1

    def make(self, records):
        """The updates of these parameters, whose gradients are summed; the lock is
        held."""
        some = list(dict.fromkeys(records))
        groups = [dict(options, params=[]) for options in self.options]
        after = []
        for r in some:
            before = _pending.raw_grad(r.parameter)
            after.append((r.parameter, None if before is None else r.grad))
            groups[r.group]["params"].append(r.parameter)
            r.step = None
            _pending.set_raw_grad(r.parameter, r.grad)
        alone = _pending.is_alone()
        if alone:
            for r in some:
                _pending.settle(r)
        try:
            self.run(groups, None if alone else threading.get_ident())
        finally:
            _late[id(self.optimizer)] -= len(some)
            for parameter, grad in after:
                _pending.set_raw_grad(parameter, grad)
            for r in some:
                _pending.settle(r)

    def run(self, groups, thread):
        before, _pending.updating = _pending.updating, thread
        try:
            with _as_in_step(), _in_its_place(self.optimizer, groups) as optimizer:
                self.raw(optimizer)
        finally:
            _pending.updating = before


@contextlib.contextmanager
def _in_its_place(optimizer, groups):
    """An optimizer with these groups and all else of this one, whose own groups a signal's
    handler, or another thread, may look at meanwhile."""
    before = dict(optimizer.__dict__)
    other = object.__new__(type(optimizer))
    other.__dict__.update(before, param_groups=groups)
    try:
        yield other
    finally:
        for name, value in other.__dict__.items():
            if name != "param_groups" and value is not before.get(name, other):
                optimizer.__dict__[name] = value


def _fixed(value):
    """An option as it is now: schedulers write into those that are tensors."""
    return value.clone() if isinstance(value, torch.Tensor) else value


@contextlib.contextmanager
def _as_in_step():
    """What a forward pass may have set does not hold for an update."""
    with contextlib.ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        yield


# --- step() --------------------------------------------------------------------------


def _has_closure(args, kwargs):
    """Or whatever else a step() is given."""
    return any(each is not None for each in (*args, *kwargs.values()))


def _may_be_late(optimizer, args, kwargs):
    return (
        type(optimizer) in SEPARABLE
        and type(optimizer) in _raw_steps
        and not _has_closure(args, kwargs)
        and not optimizer.defaults.get("differentiable")
        and not _has_hooks(optimizer)
    )


def _has_hooks(optimizer):
    """Hooks of the job around step(), which may look at all groups. Our own do not."""
    module = sys.modules[Optimizer.__module__]
    some = [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
    for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        some.append(getattr(module, name, {}))
    return any(
        not getattr(hook, "__module__", "").startswith(__package__ + ".")
        for hooks in some
        for hook in hooks.values()
    )


def _records(optimizer):
    """Pairs of a group's place and a record of it."""
    found = []
    for place, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            record = _pending.records.get(id(parameter))
            if record is not None:
                found.append((place, record))
    return found


def _leave(optimizer, late):
    """Makes of these what can be late a Step; the others end. The ids of the
    parameters that step() leaves out."""
    step, left, ends = Step(optimizer), set(), []
    for sums in {id(r.sums): r.sums for _, r in late}.values():
        sums.collect()
    for place, record in late:
        if (
            record.state != SUMMING
            or type(record.parameter) is not _pending.Pending
            or record.is_there
            or record.is_unused
            or _is_shared(record.parameter)
        ):
            ends.append(record)
        else:
            step.add(record, place)
            left.add(id(record.parameter))
    _pending.finish(ends)
    return left


def _is_shared(parameter):
    parameter.__class__ = torch.nn.Parameter
    shared = _pending.is_shared(parameter)
    parameter.__class__ = _pending.Pending
    return shared


def _step(step, optimizer, args, kwargs):
    with _pending.lock:
        found = _records(optimizer)
        late = [(place, r) for place, r in found if r.state != _pending.IDLE]
        if not late:
            result = _timed(step, optimizer, args, kwargs)
        elif _may_be_late(optimizer, args, kwargs):
            result = _step_but(_leave(optimizer, late), step, optimizer)
        else:
            _pending.finish([r for _, r in late])
            result = step(optimizer, *args, **kwargs)
        for sums in {id(r.sums): r.sums for _, r in found}.values():
            sums.end_iteration()
        return result


def _step_but(left, step, optimizer):
    """Of all parameters but those with these ids. Hooks, which are Taut's, know the
    optimizer itself."""
    groups = [
        dict(group, params=[p for p in group["params"] if id(p) not in left])
        for group in optimizer.param_groups
    ]
    with _in_its_place(optimizer, groups) as other:
        hook = optimizer.register_step_pre_hook(lambda *_: ((other,), {}))
        try:
            return step(optimizer)
        finally:
            hook.remove()


def _timed(step, optimizer, args, kwargs):
    """A step() that finds all gradients summed. With a closure there are passes in it."""
    begin_ns = time.monotonic_ns()
    result = step(optimizer, *args, **kwargs)
    if not _has_closure(args, kwargs):
        for gate in list(gates):
            gate.updated(optimizer, time.monotonic_ns() - begin_ns)
    return result


def _wrap(cls):
    step = cls.step
    if getattr(step, "_taut_cross", False):
        return

    @functools.wraps(step)
    def stepped(self, *args, **kwargs):
        if not _pending.records:
            return step(self, *args, **kwargs)
        return _step(step, self, args, kwargs)

    stepped._taut_cross = True
    cls.step = stepped


# --- what else looks at optimizers -------------------------------------------------------


def _before_state(optimizer):
    """Updates that are late are of the state as it is now; one that another thread is
    making ends first."""
    if _late.get(id(optimizer)):
        finish_late(optimizer)


def _get_state(optimizer):
    _before_state(optimizer)
    try:
        return optimizer.__dict__["state"]
    except KeyError:
        raise AttributeError("state") from None


def _set_state(optimizer, state):
    _before_state(optimizer)
    optimizer.__dict__["state"] = state


def _wrap_load(name):
    """These put a state into the optimizer's dict past the property."""
    load = getattr(Optimizer, name)

    @functools.wraps(load)
    def loaded(self, *args, **kwargs):
        _before_state(self)
        return load(self, *args, **kwargs)

    setattr(Optimizer, name, loaded)


def finish_late(optimizer):
    with _pending.lock:
        late = [r for r in _pending.records.values() if r.state == STEPPED]
        _pending.finish([r for r in late if r.step and r.step.optimizer is optimizer])


def _forget_grads(parameters):
    """Before zero_grad() to None: the gradients of late updates are no longer the
    parameters', who then have none."""
    for parameter in parameters:
        record = _pending.records.get(id(parameter))
        if record is not None and record.state == STEPPED:
            _pending.set_raw_grad(parameter, None)


def _wrap_zero_grad(cls, parameters_of):
    zero_grad = cls.zero_grad

    @functools.wraps(zero_grad)
    def zeroed(self, set_to_none=True):
        if set_to_none and _pending.records:
            _forget_grads(parameters_of(self))
        return zero_grad(self, set_to_none)

    cls.zero_grad = zeroed


def install():
    """Once, before the job makes its optimizers."""
    if hasattr(Optimizer, "_taut_cross"):
        return
    Optimizer._taut_cross = True
    patch = Optimizer._patch_step_function

    @functools.wraps(patch)
    def _patch_step_function(self):
        cls = type(self)
        if getattr(cls.step, "hooked", False):
            whose = next(c for c in cls.__mro__ if "step" in c.__dict__)
            if whose in _raw_steps:
                _raw_steps.setdefault(cls, _raw_steps[whose])
        else:
            _raw_steps[cls] = cls.step
        patch(self)
        _wrap(cls)

    Optimizer._patch_step_function = _patch_step_function
    Optimizer.state = property(_get_state, _set_state)
    for name in ("load_state_dict", "__setstate__"):
        _wrap_load(name)
    _wrap_zero_grad(
        Optimizer, lambda self: (p for group in self.param_groups for p in group["params"])
    )
    _wrap_zero_grad(torch.nn.Module, lambda self: self.parameters())
