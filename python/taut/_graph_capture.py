# SPDX-License-Identifier: Apache-2.0
"""Forward and backward pass of a model, captured for one form of batches and played again.

What is captured reads a batch from memory of its own, and parameters through leaves of its
own that share the memory of the model's: the wrapper has made nodes for the model's leaves on
another stream, where nothing can be captured. Autograd sees one function of all parameters
that have a gradient, and hands its gradients to the model's leaves, so that hooks there, of
the wrapper or of the job, see what they saw.

What a replay writes is the graph's, and is written again by the next one. Results are copied.
Gradients are not: as long as a parameter's .grad is one, the next forward pass gives it
memory of its own first, and where somebody else holds one nothing is played any more."""

import contextlib
import gc
import os
import traceback

import torch
from torch.func import functional_call
from torch.utils import _pytree

from . import _left_behind

WARM_UP = 3  # passes before a capture, so that libraries have made what they make once


class Failed(Exception):
    """Why a model cannot be captured, in one line."""


class Recorder:
    """The device's part: a stream aside, on which is warmed up and captured."""

    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    @contextlib.contextmanager
    def aside(self):
        with torch.cuda.device(self.device):
            now = torch.cuda.current_stream()
            self.stream.wait_stream(now)
            with torch.cuda.stream(self.stream):
                yield
            now.wait_stream(self.stream)

    @contextlib.contextmanager
    def capture(self):
        """Yields what has replay(). Calls of other threads, as of one that pins memory,
        do not end it."""
        graph = torch.cuda.CUDAGraph()
        was_on = gc.isenabled()
        gc.collect()
        gc.disable()  # what is freed meanwhile may wait for the device
        try:
            with torch.cuda.device(self.device), torch.cuda.graph(
                graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
            ):
                yield graph
        finally:
            if was_on:
                gc.enable()

    def random_states(self):
        return {self.device: torch.cuda.get_rng_state(self.device)}

    def set_random(self, states):
        for device, state in states.items():
            torch.cuda.set_rng_state(state, device)

    def drawn(self):
        """Of the generators that no graph draws from."""
        return [*_left_behind.drawn(), torch.get_rng_state().numpy().tobytes()]


class Token:
    """Of a forward pass that was played: whether its backward pass is still to come."""

    def __init__(self):
        self.is_done = False

    def spend(self):
        if torch.is_grad_enabled():
            raise RuntimeError("taut: graphs: gradients of gradients cannot be played")
        if self.is_done:
            raise RuntimeError(
                "taut: graphs: a second backward pass through one forward pass cannot be played"
            )
        self.is_done = True


class _Play(torch.autograd.Function):
    @staticmethod
    def forward(ctx, captured, leaves, token, widens, *parameters):
        ctx.captured, ctx.token = captured, token
        ctx.set_materialize_grads(False)
        captured.load(leaves)
        captured.forward_graph.replay()
        results = tuple(_taken_out(result, widens) for result in captured.results)
        ctx.mark_non_differentiable(
            *(r for r, slot in zip(results, captured.slots) if slot is None)
        )
        return results

    @staticmethod
    def backward(ctx, *grads):
        ctx.token.spend()
        return (None, None, None, None, *ctx.captured.play_backward(grads))


class Captured:
    """Made by make(), which changes nothing but what is captured; Failed. Not to be played
    while the backward pass of an earlier play is still to come."""

    def __init__(self, recorder, module, leaves, form):
        self.recorder, self.module, self.form = recorder, module, form
        self.leaves = [_copy(leaf) for leaf in leaves]
        self.named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        self.slots = None  # gradients of results; None of what needs none
        self.backward_graph = None

    # --- one pass -----------------------------------------------------------------------

    def call(self, shadows=None):
        """What the model returns. shadows: leaves in the place of its parameters."""
        inputs, kwargs = _pytree.tree_unflatten(self.leaves, self.form)
        torch.clear_autocast_cache()  # what is cast belongs to one pass
        try:
            if shadows is None:
                return self.module(*inputs, **kwargs)
            names = (name for name, _ in self.named)
            return functional_call(self.module, dict(zip(names, shadows)), inputs, kwargs)
        finally:
            torch.clear_autocast_cache()

    def shadows(self):
        return [p.detach().requires_grad_() for _, p in self.named]

    def tensors_of(self, result):
        flat, self.result_form = _pytree.tree_flatten(result)
        self.rest = [None if isinstance(r, torch.Tensor) else r for r in flat]
        for value in self.rest:
            if not isinstance(value, _left_behind.PLAIN):
                raise Failed("it returns a %s" % type(value).__name__)
        self.is_tensor = [isinstance(r, torch.Tensor) for r in flat]
        tensors = [r for r in flat if isinstance(r, torch.Tensor)]
        if self.slots is None:
            self.slots = [_slot(t) for t in tensors]
        return tensors

    def gradients(self, tensors, leaves):
        """As backward() of the job's own, which stands outside of autocast."""
        pairs = [(t, s) for t, s in zip(tensors, self.slots) if s is not None]
        if not pairs:
            raise Failed("nothing that it returns has a gradient")
        outputs, slots = zip(*pairs)
        with torch.autocast(self.recorder.device.type, enabled=False):
            return torch.autograd.grad(outputs, leaves, slots, allow_unused=True)

    def eager(self):
        """(results, gradients, buffers after it) of the model itself."""
        tensors = self.tensors_of(self.call())
        grads = self.gradients(tensors, [p for _, p in self.named])
        return [t.detach() for t in tensors], list(grads), _buffers(self.module)

    # --- capturing ------------------------------------------------------------------------

    def make(self):
        before = _Before(self.module, self.recorder)
        try:
            first, second = self.look(before)
            self.capture()
            before.restore()
            self.check(first, second)
        finally:
            before.restore()
        return self

    def look(self, before):
        """Two passes as the job would make them; what in them no graph can do."""
        versions = [_version(leaf) for leaf in self.leaves]
        versions += [p._version for _, p in self.named]
        first = self.eager()
        before.restore()
        drawn, kept = self.recorder.drawn(), _left_behind.kept(self.module)
        second = self.eager()
        before.check_buffers()
        if self.recorder.drawn() != drawn:
            raise Failed("its forward pass draws random numbers that are not the device's")
        name = _left_behind.changed(kept, _left_behind.kept(self.module))
        if name:
            raise Failed("its forward pass changes %s, which no graph does" % name)
        now = [_version(leaf) for leaf in self.leaves] + [p._version for _, p in self.named]
        if now != versions:
            raise Failed("its forward pass changes what it is given, or a parameter")
        before.restore()
        slack = self.slack()
        for a, b in zip(first[0], second[0]):  # gradients may be no more than rounding
            if not _is_near(b, a, a, slack):
                raise Failed("two passes with the same random numbers return other values")
        self.named = [row for row, grad in zip(self.named, first[1]) if grad is not None]
        used = [grad is not None for grad in first[1]]
        for _, grads, _ in (first, second):
            grads[:] = [grad for grad, is_used in zip(grads, used) if is_used]
        return first, second

    def capture(self):
        with self.recorder.aside():
            for _ in range(WARM_UP):
                shadows = self.shadows()
                self.gradients(self.tensors_of(self.call(shadows)), shadows)
        shadows = self.shadows()
        self.forward_graph, result = self.recorded("forward", lambda: self.call(shadows))
        tensors = self.tensors_of(result)
        del result
        self.backward_graph, grads = self.recorded(
            "backward", lambda: self.own_memory(self.gradients(tensors, shadows), tensors)
        )
        self.results = [t.detach() for t in tensors]
        self.grads = _Grads([g.detach() for g in grads])
        self.leaves_to_load = [i for i, x in enumerate(self.leaves) if torch.is_tensor(x)]

    def recorded(self, which, call):
        """Of an error the first counts: the end of a capture that it has broken has one,
        too."""
        faults = []
        try:
            with self.recorder.capture() as graph:
                try:
                    result = call()
                except Exception as why:
                    faults.append(why)
                    raise
        except Exception as why:
            first = faults[0] if faults else why
            if isinstance(first, Failed):
                raise first from None
            line = "its %s pass cannot be captured: %s" % (which, _line(first))
            raise Failed(line) from None
        return graph, result

    def own_memory(self, grads, tensors):
        """Each gradient for itself: two parameters may have got one tensor, or what came
        in as a gradient; then a step of one would be seen in the other."""
        taken = {_storage(t) for t in self.slots if t is not None}
        taken |= {_storage(t) for t in tensors} | {_storage(p) for _, p in self.named}
        taken |= {_storage(x) for x in self.leaves if torch.is_tensor(x)}
        own = []
        for (name, _), grad in zip(self.named, grads):
            if grad is None:
                raise Failed("%s is read past the module that has it" % name)
            grad = grad.clone() if _storage(grad) in taken else grad
            taken.add(_storage(grad))
            own.append(grad)
        return own

    def check(self, first, second):
        """That a play gives what the model gave for the same batch."""
        self.forward_graph.replay()
        results = [r.clone() for r in self.results]
        self.backward_graph.replay()
        mine = results, self.grads.tensors, _buffers(self.module)
        name = self.differs(mine, first, second)
        if name:
            raise Failed("a play of its graph gives something else for %s" % name)

    def slack(self):
        return 16 * _left_behind.precision(self.module, self.recorder.device.type)

    def differs(self, mine, first, second):
        """The name of what is farther from the first than the second is, or None."""
        names = ["what it returns"] * len(first[0]), [n for n, _ in self.named]
        names += (list(dict(self.module.named_buffers())),)
        slack = self.slack()
        for kinds, *rows in zip(names, mine, first, second):
            for name, *values in zip(kinds, *rows):
                if not _is_near(*values, slack):
                    return name
        return None

    # --- playing ------------------------------------------------------------------------------

    def lets_go(self):
        """Whether nobody holds the gradients of the last play: a .grad that is one becomes
        a copy."""
        return self.grads.let_go(p for _, p in self.named)

    def play(self, leaves, token, widens):
        """widens: what is bfloat16 is copied out as float32, as who called would make it."""
        parameters = [p for _, p in self.named]
        results = iter(_Play.apply(self, leaves, token, widens, *parameters))
        flat = [next(results) if is_t else r for is_t, r in zip(self.is_tensor, self.rest)]
        return _pytree.tree_unflatten(flat, self.result_form)

    def load(self, leaves):
        for i in self.leaves_to_load:
            self.leaves[i].copy_(leaves[i], non_blocking=True)

    def play_backward(self, grads):
        for slot, grad in zip(self.slots, grads):
            if slot is not None and grad is None:
                slot.zero_()
            elif slot is not None:
                slot.copy_(grad)
        self.backward_graph.replay()
        return self.grads.given()


class _Grads:
    """Gradients in the graph's memory, and who else holds them."""

    def __init__(self, tensors):
        self.tensors = tensors
        self.count = getattr(torch._C, "_storage_Use_Count", None)
        self.ids = {t.untyped_storage()._cdata for t in tensors}
        self.alone = None  # uses of their memory before anybody else had it

    def held(self):
        return sum(map(self.count, self.ids)) if self.count else 0

    def given(self):
        """As autograd gets them: it takes a tensor that nobody else has as it is."""
        if self.alone is None:
            self.alone = self.held()
        if self.count:
            return [t.detach() for t in self.tensors]
        return [t.clone() for t in self.tensors]

    def let_go(self, parameters):
        if self.alone is None or self.held() <= self.alone:
            return True
        for p in parameters:
            if p.grad is not None and p.grad.untyped_storage()._cdata in self.ids:
                p.grad = p.grad.clone()
        return self.held() <= self.alone


class _Before:
    """Random numbers and buffers as they were."""

    def __init__(self, module, recorder):
        self.module, self.recorder = module, recorder
        self.buffers = [(n, b, b.detach().clone()) for n, b in module.named_buffers()]
        self.host, self.device = torch.get_rng_state(), recorder.random_states()

    def check_buffers(self):
        now = dict(self.module.named_buffers())
        for name, buffer, _ in self.buffers:
            if now.get(name) is not buffer:
                raise Failed("its forward pass puts another tensor in the place of " + name)
        if len(now) != len(self.buffers):
            raise Failed("its forward pass makes buffers")

    @torch.no_grad()
    def restore(self):
        for _, buffer, copy in self.buffers:
            buffer.copy_(copy)
        torch.set_rng_state(self.host)
        self.recorder.set_random(self.device)


def _buffers(module):
    return [b.detach().clone() for b in module.buffers()]


def _copy(leaf):
    """Memory that the graph reads, with the same strides."""
    return leaf.detach().clone() if torch.is_tensor(leaf) else leaf


def _taken_out(result, widens):
    is_narrow = result.dtype == torch.bfloat16
    return result.float() if widens and is_narrow else result.clone()


def _slot(result):
    """Room for a result's gradient, and numbers of both signs for a first look."""
    if not result.requires_grad:
        return None
    slot = torch.empty_like(result)
    real = torch.linspace(-0.01, 0.01, slot.numel(), device=slot.device)
    slot.copy_(real.view(slot.shape))
    return slot


def _version(leaf):
    return leaf._version if torch.is_tensor(leaf) else None


def _storage(tensor):
    return tensor.untyped_storage().data_ptr()


def _is_near(mine, first, second, slack):
    """No farther from the first than the second is, about; slack: of the largest number."""
    if mine.shape != first.shape or mine.dtype != first.dtype:
        return False
    if torch.equal(mine, first):
        return True
    if not (mine.is_floating_point() or mine.is_complex()):
        return False
    if not torch.equal(mine.isfinite(), first.isfinite()):
        return False
    far, spread, scale = (_most(x) for x in (mine - first, second - first, first))
    return far <= 4 * spread + slack * scale


def _most(tensor):
    finite = tensor[tensor.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def _line(why):
    """What went wrong, and where in the job's code."""
    text = " ".join(str(why).split("\n")[0].split())[:200] or type(why).__name__
    ours = os.path.dirname(__file__), os.path.dirname(torch.__file__)
    for frame in reversed(traceback.extract_tb(why.__traceback__)):
        if not frame.filename.startswith(ours) and not frame.filename.startswith("<"):
            return "%s, at %s:%d" % (text, os.path.basename(frame.filename), frame.lineno)
    return text
