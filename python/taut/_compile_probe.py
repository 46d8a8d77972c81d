# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's compiler would make of modules of a job: of each kind that `taut record
--compile` names, a copy of one is compiled when the window is over, and its forward and
backward pass are timed beside those of a copy that is not, by turns. For `taut whatif
compile=PATTERN`, as facts of the log:

  compile.NAME      six factors of a call's time: forward, its quartiles, and the same backward
  compile_not.NAME  why it cannot be compiled, or was not measured
  compile_none      why there is neither

NAME is that of its calls, with * in the place of the number at its end: "blocks.*" of blocks.0
and blocks.1, which are taken to be alike.

A call of the thrown-away window tells of which shapes its inputs are, whether they need
gradients, and its autocast; their values are made up, but for those of integers, which are
kept: they may say where to look. Only hosts are measured, and only what one rank can do by
itself."""

import copy
import statistics
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import _compiler, _patterns, _torch_modules

TURNS, MOST_TURNS_NS = 9, 4_000_000_000
WARM = 2  # calls, the first of which compiles
# Of results, in 32 bits and under autocast. What is wrong is so by a factor; rounding comes
# to some per cent behind fifty norms.
ERROR, NARROW_ERROR = 0.1, 0.3
MOST_SECONDS = 240  # of all kinds: others may wait for this rank
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


def kind_of(name):
    """"blocks.*" of "blocks.11"; of another name itself."""
    bare = name.rstrip("0123456789")
    return bare + "*" if bare.endswith(".") and bare != name else name


class Probe:
    def __init__(self, patterns):
        self.patterns, self.match = _patterns.split(patterns), _patterns.matcher()
        self.inside = [set() for _ in self.patterns]  # ids of modules that one holds
        self.found = {}  # by kind: _Call, or why there is none

    # --- what its calls are like ---------------------------------------------------------

    def saw(self, module, name, args, kwargs):
        """A call of a module, outer ones first. Of each pattern outermost ones count; the
        first call of one of each kind tells."""
        name = name[len(_patterns.PREFIX) :]
        for pattern, inside in zip(self.patterns, self.inside):
            if id(module) in inside or not self.match(pattern, name):
                continue
            inside.update(id(part) for part in module.modules())
            kind = kind_of(name)
            if kind not in self.found and module.training and torch.is_grad_enabled():
                self.found[kind] = self.noted(_torch_modules.wrapped(module), args, kwargs)

    @staticmethod
    def noted(module, args, kwargs):
        try:
            return _Call(module, args, kwargs)
        except Exception as why:
            return _line(why)

    # --- what compiling would give ---------------------------------------------------------

    def facts(self, why_none):
        """(key, text); why_none: why nothing was seen, where that is so."""
        if not self.found:
            yield "compile_none", why_none
            return
        settings, end = _compiler.Settings(), time.monotonic() + MOST_SECONDS
        try:
            settings.set()
            for kind, call in self.found.items():
                try:
                    if isinstance(call, str):
                        raise ValueError(call)
                    if time.monotonic() > end:
                        raise ValueError("the others have taken too long")
                    with _compiler.unseen():
                        text = " ".join("%.4g" % f for f in call.factors())
                    yield "compile." + kind, text
                except Exception as why:
                    yield "compile_not." + kind, _line(why)
        except Exception as why:
            yield "compile_none", _line(why)
        finally:
            settings.undo()
            self.found.clear()


def _line(why):
    return (" ".join(str(why).split()) or type(why).__name__)[:200]


class _Like:
    """A tensor of which only the form is kept."""

    def __init__(self, tensor):
        if tensor.device.type != "cpu":
            raise ValueError("an input is on %s" % tensor.device.type)
        self.size, self.stride = tuple(tensor.shape), tensor.stride()
        self.dtype, self.needs_grad = tensor.dtype, tensor.requires_grad

    def make(self):
        """Of a dimension that is one element seen often, one is made."""
        size = [1 if stride == 0 else n for n, stride in zip(self.size, self.stride)]
        made = torch.empty_strided(size, self.stride, dtype=self.dtype).normal_()
        return made.expand(self.size).requires_grad_(self.needs_grad)


def _noted(value):
    """Of what a module is given: tensors of numbers by their form, plain values as they are."""
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            raise ValueError("an input is a %s" % type(value).__name__)
        return _Like(value) if value.is_floating_point() else value.detach().clone()
    if type(value) in _PLAIN:
        return value
    if not isinstance(value, (list, tuple, dict)):
        raise ValueError("an input is a %s" % type(value).__name__)
    return _each(_noted, value)


def _made(value):
    if isinstance(value, (list, tuple, dict)):
        return _each(_made, value)
    return value.make() if isinstance(value, _Like) else value


def _each(make, value):
    if isinstance(value, dict):
        return {key: make(part) for key, part in value.items()}
    parts = [make(part) for part in value]
    if isinstance(value, torch.Size):
        return value
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def _tensors(value):
    """All that need gradients."""
    if isinstance(value, torch.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [t for part in value for t in _tensors(part)]


def _norm(tensor):
    return 0.0 if tensor is None else float(torch.linalg.vector_norm(tensor.double()))


class _Alone(TorchDispatchMode):
    """Other ranks do not take part in what is done here."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "c10d" in getattr(func, "namespace", ""):
            raise ValueError("it talks to other ranks")
        return func(*args, **(kwargs or {}))


class _Call:
    def __init__(self, module, args, kwargs):
        for part in module.modules():
            if isinstance(part, torch.nn.SyncBatchNorm):
                raise ValueError("it has a SyncBatchNorm, which talks to other ranks")
        if "forward" in module.__dict__:
            raise ValueError("it has a forward() of its own")
        devices = {p.device.type for p in module.parameters()} - {"cpu"}
        if devices:
            raise ValueError("it is on %s, and what compiling gives is known of hosts" % devices.pop())
        self.module = module
        self.args, self.kwargs = _noted(args), _noted(kwargs)
        self.is_narrow = torch.is_autocast_enabled("cpu")
        self.narrow_type = torch.get_autocast_dtype("cpu")

    def factors(self):
        """Forward and backward: what is left of the time, its median and quartiles. The
        compiler begins anew, so that nothing that it saw before makes it general."""
        module, other = copy.deepcopy(self.module), copy.deepcopy(self.module)
        forward = type(module).forward
        with _Alone():
            was = self.results(module, forward)
        torch._dynamo.reset()
        compiled = _compiler.compiled(_own(torch.compile), forward)
        try:
            self.compare(was, self.results(other, compiled))
            for _ in range(WARM):
                self.timed(module, forward), self.timed(other, compiled)
            rows = list(self.turns(module, forward, other, compiled))
        finally:
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
        for way in (0, 1):
            left = [now[way] / was[way] for was, now in rows]
            low, _, high = statistics.quantiles(left, n=4, method="inclusive")
            yield from (statistics.median(left), low, high)

    def results(self, module, forward):
        """What it gives, and gradients, of the same inputs and random numbers each time."""
        torch.manual_seed(1)
        results = []
        self.timed(module, forward, results)
        return results

    def compare(self, was, now):
        """The compiler is not always right: of a buffer that a forward pass changes and
        uses, PyTorch 2.13 makes wrong gradients. Gradients that are next to nothing beside
        the others, as of what a norm takes away again, are rounding errors anyway."""
        most = NARROW_ERROR if self.is_narrow else ERROR
        for names, some, others in zip(("results", "gradients"), was, now):
            whole = sum(_norm(a) ** 2 for a in some) ** 0.5
            for a, b in zip(some, others):
                apart = _norm(b if a is None else a if b is None else a.double() - b)
                if not apart <= most * _norm(a) + most / 10 * whole:
                    share = apart / max(_norm(a), 1e-30)
                    raise ValueError("compiled, it gives other %s: %.2g of them" % (names, share))

    def turns(self, module, forward, other, compiled):
        begun = time.perf_counter_ns()
        for turn in range(TURNS):
            yield self.timed(module, forward), self.timed(other, compiled)
            if turn >= 2 and time.perf_counter_ns() - begun > MOST_TURNS_NS:
                return

    def timed(self, module, forward, results=None):
        """Nanoseconds of a forward and of a backward pass."""
        args, kwargs = _made(self.args), _made(self.kwargs)
        with torch.enable_grad():
            begin = time.perf_counter_ns()
            with torch.autocast("cpu", self.narrow_type, enabled=self.is_narrow):
                out = _tensors(forward(module, *args, **kwargs))
            between = time.perf_counter_ns()
            if not out:
                raise ValueError("nothing that it gives needs gradients")
            wanted = _tensors([args, kwargs])
            wanted += [p for p in module.parameters() if p.requires_grad]
            grads = [torch.randn_like(t) for t in out]
            middle = time.perf_counter_ns()
            grads = torch.autograd.grad(out, wanted, grads, allow_unused=True)
            end = time.perf_counter_ns()
        if results is not None:
            results += [t.detach() for t in out], grads
        return between - begin, end - middle


def _own(function):
    """PyTorch's own, which Taut's exchange may have wrapped."""
    return getattr(function, "__wrapped__", function)
