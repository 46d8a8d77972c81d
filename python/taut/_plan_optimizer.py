# SPDX-License-Identifier: Apache-2.0
"""Optimizers of torch.optim in their fused form, where class, device and parameters
allow it, else in their foreach form. What a job saves of one has the form that the job
gave it, and what it loads does not change the form that it has here.

Undone: their steps are made in the form that the job gave them."""

import inspect
import weakref

from . import _decisions

_ON_CPU_ALONE = ("Adagrad",)  # fused
_FORM = ("fused", "foreach")


def make(values):
    if values["OPTIMIZER"] != "fused":
        raise ValueError("expected fused, found '%s'" % values["OPTIMIZER"])
    return Fused()


class Fused(_decisions.Decision):
    def __init__(self):
        super().__init__("optimizer=fused")
        self.forms = weakref.WeakKeyDictionary()  # Optimizer -> _Form
        self.others = []  # names of classes that are not PyTorch's
        self.inside = 0  # a constructor that is being changed

    def install(self, torch):
        self.torch = torch
        self.base = torch.optim.Optimizer
        own = [c for c in vars(torch.optim).values() if inspect.isclass(c)]
        self.known = [c for c in own if issubclass(c, self.base) and c is not self.base]
        for cls in self.known:
            if "__init__" in cls.__dict__:
                self.replace(cls, "__init__", lambda init, cls=cls: self.constructor(cls, init))
        self.replace(self.base, "__init__", self.watching)
        self.replace(self.base, "state_dict", self.saving)
        self.replace(self.base, "load_state_dict", self.loading)

    # --- what is made ---------------------------------------------------------------------

    def constructor(self, cls, own):
        signature = inspect.signature(own)

        def __init__(optimizer, *args, **kwargs):
            if not self.is_on or self.inside:
                return own(optimizer, *args, **kwargs)
            try:
                bound = signature.bind(optimizer, *args, **kwargs)
            except TypeError:
                return own(optimizer, *args, **kwargs)  # which says so better
            self.construct(cls, own, bound)

        return __init__

    def construct(self, cls, own, bound):
        bound.apply_defaults()
        optimizer, given = bound.args[0], bound.arguments
        groups = _listed(given["params"])
        if groups is not None:
            given["params"] = groups
            form = self.form_of(cls, optimizer, given, groups)
            self.forms[optimizer] = form
            form.put(given, groups)
        self.inside += 1
        try:
            own(*bound.args, **bound.kwargs)
        except BaseException:
            self.forms.pop(optimizer, None)
            raise
        finally:
            self.inside -= 1
        if groups is not None:
            self.made()

    def form_of(self, cls, optimizer, given, groups):
        name = type(optimizer).__name__
        tensors = [t for group in groups for t in _tensors(group)]
        if "foreach" not in given and "fused" not in given:
            self.refuse("%s has neither a fused nor a foreach form" % name)
        if inspect.unwrap(type(optimizer).step) is not inspect.unwrap(cls.step):
            self.refuse("%s has a step() of its own" % name)
        if given.get("differentiable"):
            self.refuse("%s is differentiable" % name)
        self.look_at(tensors)
        if "fused" in given and self.can_fuse(cls, tensors):
            return _Form(given, {"fused": True, "foreach": False})
        if "foreach" not in given:
            self.refuse("%s has no fused form for these parameters" % name)
        if isinstance(given.get("lr"), self.torch.Tensor) and not given.get("capturable"):
            self.refuse("the learning rate of %s is a tensor" % name)
        form = {"foreach": True, "fused": False}
        return _Form(given, {k: v for k, v in form.items() if k in given})

    def look_at(self, tensors):
        nn, sparse = self.torch.nn, set()
        for model in list(_decisions.models):
            for part in model.modules():
                if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.sparse:
                    sparse.add(id(part.weight))
        if any(id(t) in sparse for t in tensors):
            self.refuse("gradients are sparse")
        for t in tensors:
            if type(t) is not self.torch.Tensor and not _is_parameter(self.torch, t):
                self.refuse("a parameter is a %s" % type(t).__name__)

    def can_fuse(self, cls, tensors):
        from torch.utils import _foreach_utils

        devices = _foreach_utils._get_fused_kernels_supported_devices()
        if cls.__name__ in _ON_CPU_ALONE:
            devices = ["cpu"]
        return all(t.is_floating_point() and t.device.type in devices for t in tensors)

    def refuse(self, why):
        _decisions.refuse("%s: %s" % (self.text, why))

    def watching(self, own):
        """Of classes that are not PyTorch's only what they are made of may be: that is
        known when training begins."""

        def __init__(optimizer, *args, **kwargs):
            if self.is_on and not any(isinstance(optimizer, cls) for cls in self.known):
                self.others.append(type(optimizer).__name__)
            return own(optimizer, *args, **kwargs)

        return __init__

    def begins(self):
        if self.others and not self.is_made:
            return "%s is no optimizer of torch.optim" % self.others[0]
        return None

    # --- what is saved and loaded -----------------------------------------------------------

    def saving(self, own):
        def state_dict(optimizer):
            found = own(optimizer)
            form = self.forms.get(optimizer)
            if form:
                for i, group in enumerate(found["param_groups"]):
                    group.update(form.of_job(i))
            return found

        return state_dict

    def loading(self, own):
        def load_state_dict(optimizer, state_dict):
            form, groups = self.forms.get(optimizer), None
            if form and isinstance(state_dict, dict):
                groups = state_dict.get("param_groups")
            if not groups:
                return own(optimizer, state_dict)
            ours = [dict(group, **form.form) for group in groups]
            result = own(optimizer, dict(state_dict, param_groups=ours))
            form.groups = [{k: g[k] for k in form.form if k in g} for g in groups]
            return result

        return load_state_dict

    def undo(self):
        super().undo()
        for optimizer, form in self.forms.items():
            optimizer.defaults.update(form.defaults)
            for i, group in enumerate(optimizer.param_groups):
                group.update(form.of_job(i))
        self.forms.clear()


class _Form:
    """form: the options of an optimizer that are decided here. defaults, groups: what the
    job gave for them."""

    def __init__(self, given, form):
        self.form, self.groups = form, []
        self.defaults = {k: given.get(k) for k in form}

    def put(self, given, groups):
        given.update(self.form)
        for group in groups:
            own = group if isinstance(group, dict) else {}
            self.groups.append({k: own[k] for k in self.form if k in own})
            own.update({k: self.form[k] for k in self.form if k in own})
        if groups and not isinstance(groups[0], dict):
            self.groups = [{}]

    def of_job(self, i):
        return dict(self.defaults, **(self.groups[i] if i < len(self.groups) else {}))


def _listed(params):
    """A list of what an optimizer is given, that can be looked at before; None: it is
    nothing that PyTorch takes, or of its own names."""
    if hasattr(params, "is_floating_point") or isinstance(params, (str, dict)):
        return None
    groups = list(params)
    for group in groups:
        if isinstance(group, dict) and not isinstance(group.get("params"), set):
            inner = group.get("params")
            if inner is not None and not hasattr(inner, "is_floating_point"):
                group["params"] = list(inner)
    return groups


def _tensors(group):
    """Of a group, or of what stands in the place of one: a tensor, or it and its name."""
    items = group.get("params", ()) if isinstance(group, dict) else [group]
    items = [items] if hasattr(items, "is_floating_point") else items
    for item in items or ():
        item = item[1] if isinstance(item, tuple) else item
        if hasattr(item, "is_floating_point"):
            yield item


def _is_parameter(torch, tensor):
    """Also one whose gradient is under way on Taut's exchange."""
    return type(tensor) is torch.nn.Parameter or type(tensor).__name__ == "Pending"
