# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's compiler would make of modules of a job: of each kind that `taut record
--compile` names, a copy of one is compiled when the window is over, and its forward and
backward pass are timed beside those of a copy that is not, by turns. For `taut whatif
compile=PATTERN`, as facts of the log:

  compile.NAME      six factors of a call's time: forward, its quartiles, and the same backward
  compile_not.NAME  why it cannot be compiled
  compile_none      why there is neither

NAME is that of its calls, with * in the place of the number at its end: "blocks.*" of blocks.0
and blocks.1, which are taken to be alike.

A call of the thrown-away window tells of which shapes its inputs are, and whether they need
gradients; their values are made up, but for those of integers, which are kept: they may say
where to look."""

import copy
import ctypes
import statistics
import time

import torch

from . import _torch_modules

TURNS, MOST_TURNS_NS = 9, 4_000_000_000
WARM = 3  # calls, the first of which compiles
_IGNORE_CASE = 1 << 4  # FNM_CASEFOLD


def kind_of(name):
    """"blocks.*" of "blocks.11"; of another name itself."""
    bare = name.rstrip("0123456789")
    return bare + "*" if bare.endswith(".") and bare != name else name


class Probe:
    def __init__(self, patterns):
        self.patterns = [p.encode() for p in patterns.split(",") if p]
        self.match = ctypes.CDLL(None).fnmatch
        self.match.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
        self.hooks, self.found = [], {}  # by kind: _Call, or why there is none

    def is_meant(self, name, pattern):
        text = (_torch_modules.PREFIX + name).encode()
        return self.match(pattern, text, _IGNORE_CASE) == 0

    # --- what its calls are like ---------------------------------------------------------

    def watch(self, named):
        """named: (module, name) of all that calls may have. Of each pattern outermost
        ones count; the first call of one of each kind tells."""
        named, seen = list(named), set()
        for pattern in self.patterns:
            inside = set()
            for module, name in named:
                if id(module) in inside or not self.is_meant(name, pattern):
                    continue
                inside.update(id(part) for part in module.modules())
                self.watch_kind(_torch_modules.wrapped(module), kind_of(name), seen)

    def watch_kind(self, module, kind, seen):
        if kind in seen or type(module).forward is torch.nn.Module.forward:
            return  # a list of modules is called by nobody
        seen.add(kind)
        hook = module.register_forward_pre_hook(self.sees(kind), with_kwargs=True)
        self.hooks.append(hook)

    def sees(self, kind):
        def hook(module, args, kwargs):
            if kind in self.found or not module.training or not torch.is_grad_enabled():
                return
            try:
                self.found[kind] = _Call(module, args, kwargs)
            except Exception as why:
                self.found[kind] = _line(why)

        return hook

    def unwatch(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()

    # --- what compiling would give ---------------------------------------------------------

    def facts(self):
        """(key, text)"""
        self.unwatch()
        if not self.found:
            yield "compile_none", "no module of this name was called in training"
        for kind, call in self.found.items():
            try:
                if isinstance(call, str):
                    raise ValueError(call)
                factors = call.factors()
                yield "compile." + kind, " ".join("%.4g" % f for f in factors)
            except Exception as why:
                yield "compile_not." + kind, _line(why)
        self.found.clear()


def _line(why):
    return (" ".join(str(why).split()) or type(why).__name__)[:200]


class _Like:
    """A tensor of which only the form is kept."""

    def __init__(self, tensor):
        self.size, self.stride = tuple(tensor.shape), tensor.stride()
        self.dtype, self.device = tensor.dtype, tensor.device
        self.needs_grad = tensor.requires_grad

    def make(self):
        made = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=self.device)
        return made.normal_().requires_grad_(self.needs_grad)


def _noted(value):
    """Of what a module is given: tensors of numbers by their form, all else as it is."""
    if isinstance(value, torch.Tensor):
        if type(value) is not torch.Tensor or value.layout is not torch.strided:
            raise ValueError("an input is a %s" % type(value).__name__)
        return _Like(value) if value.is_floating_point() else value.detach().clone()
    if isinstance(value, (list, tuple)):
        parts = [_noted(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: _noted(part) for key, part in value.items()}
    return value


def _made(value):
    if isinstance(value, _Like):
        return value.make()
    if isinstance(value, (list, tuple)):
        parts = [_made(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: _made(part) for key, part in value.items()}
    return value


def _tensors(value):
    """All that need gradients."""
    if isinstance(value, torch.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [t for part in value for t in _tensors(part)]


class _Call:
    def __init__(self, module, args, kwargs):
        self.module = module
        self.args, self.kwargs = _noted(args), _noted(kwargs)

    def factors(self):
        """Forward and backward: what is left of the time, its median and quartiles."""
        from torch._inductor import config

        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices=devices), config.patch(compile_threads=1):
            eager, compiled = self.copied(), self.copied()
            compiled.compile()
            for _ in range(WARM):
                self.timed(eager), self.timed(compiled)
            rows, begun = [], time.perf_counter_ns()
            while len(rows) < TURNS:
                rows.append((self.timed(eager), self.timed(compiled)))
                if time.perf_counter_ns() - begun > MOST_TURNS_NS and len(rows) > 2:
                    break
        for way in (0, 1):
            left = [now[way] / was[way] for was, now in rows]
            low, _, high = statistics.quantiles(left, n=4, method="inclusive")
            yield from (statistics.median(left), low, high)

    def copied(self):
        module = copy.deepcopy(self.module)
        for part in module.modules():
            if getattr(part, "_compiled_call_impl", None) is not None:
                raise ValueError("it is compiled already, or has parts that are")
        return module

    def timed(self, module):
        """Nanoseconds of a forward and of a backward pass."""
        args, kwargs = _made(self.args), _made(self.kwargs)
        begin = self.now()
        out = _tensors(module(*args, **kwargs))
        between = self.now()
        if not out:
            raise ValueError("nothing that it gives needs gradients")
        wanted = _tensors([args, kwargs]) + [p for p in module.parameters() if p.requires_grad]
        grads = [torch.ones_like(t) for t in out]
        middle = self.now()
        torch.autograd.grad(out, wanted, grads, allow_unused=True)
        return between - begin, self.now() - middle

    @staticmethod
    def now():
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter_ns()
