# SPDX-License-Identifier: Apache-2.0
"""Gradients of embeddings, of which those rows are summed that some rank has looked up.

The gradient of a lookup is zero but in its rows. PyTorch makes a whole one of it, and
where the parameter has another use, as the output of a language model that is tied to
it, adds the two: nothing of either is there before the backward pass ends, and the next
forward pass begins with it.

    PyTorch   output's gradient ................. lookups' added | the sum of all of it
    Taut      output's gradient, summed meanwhile ... lookups' rows | the sum of those

    forward pass    lookup() in the place of nn.Embedding's forward() notes the rows
    backward pass   the first gradient: which rows any rank has, a byte each
                    the last lookup's gradient: those rows, as a task of their own
    wait            they are put into the parameter's gradient

What has lookups alone goes as a whole, on all ranks alike, in an iteration in which some
rank has kept a gradient from before, or in which most rows are looked up."""

import threading
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from . import _lookups, _pending, _sync
from ._pending import IDLE, SUMMING

WAIT_SECONDS = 0.2  # after which Python looks for signals
LEAST_GAIN = 1.02  # of a step, for a gradient in two parts: there is more to send
HOOKS = "_backward_hooks", "_post_accumulate_grad_hooks"
WHOLE, ROWS = "whole", "rows"  # parts of a gradient: that of other uses, that of lookups

_entries = {}  # id of a parameter -> its Entry, whose lookups are noted
_own_forward = nn.Embedding.forward


# --- lookups --------------------------------------------------------------------------------


class _Lookup(Function):
    """carrier: a tensor that all lookups of a parameter have in common: its gradient is
    there when all of theirs are, which the entry has kept."""

    @staticmethod
    def forward(ctx, carrier, ids, weight, padding, entry):
        ctx.save_for_backward(ids)
        ctx.padding, ctx.entry = padding, entry
        return functional.embedding(ids, weight, padding)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        ctx.entry.came.append((*ctx.saved_tensors, ctx.padding, grad))
        return torch.empty(0), None, None, None, None


def lookup(self, input):
    """nn.Embedding.forward()"""
    if torch.compiler.is_compiling() or not _entries:
        return _own_forward(self, input)
    entry = _entries.get(id(self._parameters.get("weight")))
    if entry is None or not entry.rows.in_forward or not _lookups.is_plain(self, input):
        return _own_forward(self, input)
    return entry.look_up(self, input)


def _add(into, came, place_of):
    """Gradients of lookups, in their order: as PyTorch adds them."""
    for ids, padding, grad in came:
        ids, grad = ids.reshape(-1).long(), grad.reshape(-1, into.shape[1])
        if padding is not None:
            kept = ids != padding
            ids, grad = ids[kept], grad[kept]
        into.index_add_(0, place_of(ids), grad)


# --- a parameter ----------------------------------------------------------------------------


class Entry:
    def __init__(self, rows, record):
        self.rows, self.record, self.sums = rows, record, rows.sums
        self.n_rows = len(record.parameter)
        self.is_tied = False  # it has other uses, too
        self.is_looked_up = False
        self.is_checked = self.has_unseen_uses = False  # that the graph of a pass has not
        self.nodes = []  # of the first pass: the graph's nodes of its lookups
        self.noted = torch.zeros(self.n_rows, dtype=torch.uint8)
        self.carrier = torch.empty(0, requires_grad=True)
        itself = weakref.ref(self)  # the collector does not see what a hook holds
        self.carrier.register_post_accumulate_grad_hook(lambda _: itself().all_came())
        self.came = []  # gradients of lookups: ids, padding, gradient
        # A byte of each row, and one more: a gradient is kept from before.
        self.flags = torch.zeros(self.n_rows + 1, dtype=torch.uint8)
        self.asking = self.union = None
        self.place = torch.zeros(self.n_rows, dtype=torch.int64)  # of a row in the union
        self.task = self.part = None  # of the exchange; rows that are summed
        self.is_fresh = False  # all else of the gradient is zero
        self.is_whole = False  # in this iteration all goes as one gradient
        self.to_come = set()  # parts that the backward pass is to give yet
        self.waits = set()  # parts that are not summed yet
        self.lock = threading.Lock()  # of waits: who collects sums may be two threads

    def look_up(self, module, ids):
        if self.rows.are_taken:
            weight = module.weight.detach()
            result = _Lookup.apply(self.carrier, ids, weight, module.padding_idx, self)
        else:
            result = _own_forward(module, ids)
            if not self.rows.is_seen:
                self.nodes.append(result.grad_fn)
        self.noted.index_fill_(0, ids.reshape(-1).long(), 1)
        return result

    def has_hooks(self):
        """Of the job's, beside the two of the sums: they would miss a part."""
        hooks = (_pending.raw(self.record.parameter, name) for name in HOOKS)
        return any(len(some or ()) > 1 for some in hooks)

    def check_hooks(self):
        if self.has_hooks():
            raise RuntimeError(
                "a hook of %s would miss its lookups: TAUT_RUN_ROWS=off allows it"
                % self.record.name
            )

    def see_gradient(self):
        """Of a pass of which the lookups were noted."""
        self.is_checked, grad = True, self.record.parameter.grad.detach()
        if grad.layout == torch.strided:
            used = grad.ne(0).any(1)
            self.has_unseen_uses = bool((used & (self.noted == 0)).any())

    # --- the backward pass ------------------------------------------------------------------

    def ask(self, exchange):
        """At its begin: which rows there are on all ranks. None: none are summed."""
        self.hear()  # of a backward pass that was broken off: its memory comes back
        self.to_come, self.waits = {ROWS, WHOLE} if self.is_tied else {ROWS}, set()
        self.is_whole, self.union, self.is_fresh = exchange is None, None, False
        if exchange is not None:
            self.flags[:-1] = self.noted
            kept = not self.is_tied and _pending.raw_grad(self.record.parameter) is not None
            self.flags[-1] = kept
            self.asking = self.sums.told(exchange.all_reduce, self.flags, "max")
        self.noted.zero_()

    def hear(self):
        asking, self.asking = self.asking, None
        if asking is None:
            return
        while not self.sums.told(asking.wait, WAIT_SECONDS):
            pass
        self.union = self.flags[:-1].nonzero().flatten()
        self.place[self.union] = torch.arange(len(self.union))
        if not self.is_tied:
            is_few = _sync.takes_rows(len(self.union), self.n_rows)
            self.is_whole = bool(self.flags[-1]) or not is_few

    def whole_came(self):
        """The gradient of other uses than lookups. Whether it is to be summed now."""
        if not self.is_tied:
            raise RuntimeError(
                "%s has a gradient of another use than lookups, and had none before: "
                "TAUT_RUN_ROWS=off allows it" % self.record.name
            )
        if not self.is_whole:
            self.whole_given()
        self.to_come.discard(WHOLE)
        return not self.is_whole or not self.to_come

    def all_came(self):
        """Those of all lookups that a backward() goes through."""
        self.carrier.grad = None
        came, self.came = self.came, []
        with torch.no_grad():
            if not self.sums.armed:
                self.add_whole(came)
                return
            self.sums.before_first()
            with _pending.lock:
                self.give(came)

    def give(self, came):
        self.hear()
        record, is_second = self.record, ROWS not in self.to_come
        if is_second and record.state != IDLE:
            _pending.finish([record])
        elif is_second and self.waits:
            raise RuntimeError(
                "%s had gradients of lookups in two backward() and none of its other use yet: "
                "TAUT_RUN_ROWS=off allows it" % record.name
            )
        self.to_come.discard(ROWS)
        if not self.is_whole:
            self.give_rows(came)
            return
        if self.sums.has_turns() and record.task in self.sums.seen:
            self.sums.again(record)
        self.add_whole(came)
        if not self.to_come:
            self.sums.give(record, self.sums.dense(record.parameter))

    def add_whole(self, came):
        grad, _ = self.gradient()
        _add(grad, came, lambda ids: ids)

    def gradient(self):
        """The parameter's, and whether it had none and is zero."""
        parameter = self.record.parameter
        grad = _pending.raw_grad(parameter)
        if grad is not None:
            return grad, False
        grad = torch.zeros_like(parameter, requires_grad=False)
        _pending.set_raw_grad(parameter, grad)
        return grad, True

    def give_rows(self, came):
        record, sums = self.record, self.sums
        sums.check_form(record, record.parameter)
        shape = len(self.union), record.parameter.shape[1]
        part = torch.zeros(shape, dtype=record.parameter.dtype)
        _add(part, came, self.place_of)
        self.take_up()
        if len(self.union):
            self.part = part
            self.waits.add(ROWS)
            sums.give_part(self.task, part)
        else:
            self.is_summed(ROWS)

    def place_of(self, ids):
        if not self.flags[ids].all():
            raise RuntimeError(
                "%s: a backward() of lookups from before the last one that was summed: "
                "TAUT_RUN_ROWS=off allows it" % self.record.name
            )
        return self.place[ids]

    def take_up(self):
        """The gradient is under way, unless the part of other uses comes yet, which then
        is what is waited for."""
        record = self.record
        if WHOLE in self.to_come:
            return
        at_once = type(record.parameter) is not _pending.Pending
        if record.state != SUMMING:
            record.grad, self.is_fresh = self.gradient()
            record.is_there, record.state = False, SUMMING
            at_once = not self.is_fresh or type(record.parameter) is not nn.Parameter
        self.sums.saw(record, at_once)

    # --- the sums ---------------------------------------------------------------------------

    def whole_given(self):
        self.is_fresh = False
        self.waits.add(WHOLE)

    def is_summed(self, what):
        """The rows are put into the gradient once all else of it is summed."""
        with self.lock:
            self.put(what)

    def put(self, what):
        self.waits.discard(what)
        if self.waits or self.to_come:
            return
        part, self.part = self.part, None
        if part is not None:
            grad = self.record.grad
            put = grad.index_copy_ if self.is_fresh else grad.index_add_
            with torch.no_grad():
                put(0, self.union, part)
        self.record.is_there = True

    def check(self):
        if self.to_come:
            raise RuntimeError(
                "%s or its gradient was read before backward() had all of it: "
                "TAUT_RUN_ROWS=off allows it" % self.record.name
            )


def _agreed(process_group, mine):
    """What all ranks have."""
    said = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(said, mine, group=process_group)
    return [each for each in mine if all(each in others for others in said)]


# --- the parameters of a module -------------------------------------------------------------


class Rows:
    """Of one module's sums. At first lookups are noted; choose() then says of which
    parameters they are taken."""

    def __init__(self, sums, module):
        self.sums = sums
        self.entries = {}  # by task of the whole gradient
        self.of_task = {}  # of the exchange: that of rows
        self.in_forward = self.is_seen = self.are_taken = self.is_over = False
        self.is_asked = False
        self.why_not = None
        of_parameter = {id(r.parameter): r for r in sums.records}
        for part in module.modules():
            weight = isinstance(part, nn.Embedding) and part._parameters.get("weight")
            record = of_parameter.get(id(weight))
            if record and weight.is_contiguous():
                if record.task not in self.entries:
                    self.entries[record.task] = Entry(self, record)
                _entries[id(weight)] = self.entries[record.task]

    # --- passes -----------------------------------------------------------------------------

    def begin(self):
        """A forward pass whose backward pass is summed."""
        if self.is_over:
            self.forget()
            return
        self.in_forward, self.is_asked = True, False
        for entry in self.entries.values():
            entry.came.clear()  # of a backward() that was broken off
            if self.are_taken:
                entry.check_hooks()
                entry.record.rows = entry
            else:
                entry.noted.zero_()

    def forward_ended(self, tensors):
        """tensors: what it returned."""
        self.in_forward = False
        if not self.is_seen and self.entries:
            self.is_seen = True
            self.see_uses(tensors)

    def see_gradient(self, record):
        """That comes to a parameter; while lookups are noted alone."""
        entry = None if self.are_taken else self.entries.get(record.task)
        if entry and self.is_seen and not entry.is_checked and not entry.is_tied:
            entry.see_gradient()

    def ask(self):
        """Before the first gradient of a backward pass."""
        if self.is_asked or not self.are_taken:
            return
        self.is_asked = True
        for entry in self.entries.values():
            if entry.record.rows:
                entry.ask(None if self.is_over else self.sums.exchange)

    def stop(self):
        """From the next pass on no lookups are taken; this one's are summed as wholes."""
        self.is_over = True

    def forget(self):
        for entry in self.entries.values():
            entry.record.rows = None
            if _entries.get(id(entry.record.parameter)) is entry:
                del _entries[id(entry.record.parameter)]
        self.entries, self.are_taken, self.in_forward = {}, False, False
        self.of_task = {}

    def declare(self, exchange, priorities, factor):
        """Rows go with the priority of their parameter."""
        self.of_task = {}
        if self.is_over:
            return
        for task, entry in self.entries.items():
            entry.task = exchange.declare(entry.record.parameter, priorities[task], factor)
            self.of_task[entry.task] = entry

    def is_stuck(self):
        """Of some gradient a part never came."""
        return any((e.record.state != IDLE or e.waits) and e.to_come for e in self.entries.values())

    def to_come(self):
        """How many gradients still come, of which nothing is handed over but rows."""
        return sum(
            e.to_come == {ROWS} and e.record.rows is e and not e.is_whole
            for e in self.entries.values()
        )

    # --- what they are used for -----------------------------------------------------------------

    def see_uses(self, tensors):
        """Whether parameters have other uses than the lookups that were noted."""
        uses = _lookups.Uses(tensors)
        if uses.is_hidden:
            self.why_not = "what is checkpointed with use_reentrant is out of sight"
        for entry in self.entries.values():
            lookups, entry.nodes = set(entry.nodes), []
            own = uses.of.get(id(entry.record.parameter), ())
            entry.is_looked_up = any(node in lookups for node in own)
            entry.is_tied = any(node not in lookups for node in own)

    def choose(self, process_group, bound, gate):
        """On all ranks alike: takes lookups from the next pass on. bound: _gate.Bound;
        None: nothing was measured. What was decided, in words."""
        mine = [
            (task, e.is_tied)
            for task, e in sorted(self.entries.items())
            if self.why_not is None
            and e.is_looked_up
            and not (e.has_hooks() or e.has_unseen_uses)
        ]
        wanted, share = [], {}
        for task, is_tied in _agreed(process_group, mine):
            entry = self.entries[task]
            dist.all_reduce(entry.noted, dist.ReduceOp.MAX, group=process_group)
            n_noted = int(entry.noted.count_nonzero())
            share[task] = n_noted / entry.n_rows
            if _sync.takes_rows(n_noted, entry.n_rows) and (
                not is_tied or self.pays(entry, share[task], bound, gate)
            ):
                wanted.append(task)
        chosen = {task: self.entries[task] for task in _agreed(process_group, wanted)}
        texts = [
            "%s, %.0f %% of its rows" % (e.record.name, 100 * share[task])
            for task, e in chosen.items()
        ]
        for entry in set(self.entries.values()) - set(chosen.values()):
            del _entries[id(entry.record.parameter)]
        self.entries, self.are_taken = chosen, bool(chosen)
        for entry in chosen.values():
            entry.noted.zero_()
        if not chosen:
            return "no gradient by rows" + (": " + self.why_not if self.why_not else "")
        return "by rows: " + "; ".join(texts)

    def pays(self, entry, share, bound, gate):
        """A gradient in two parts: more bytes, of which fewer come last."""
        if bound is None:
            return True
        demands = gate.demands(bound.communication)
        takes = bound.communication * self.sums.bytes_of(entry.record)
        takes /= self.sums.gradient_bytes()
        parts = gate.asks.get(entry.record.task)
        if parts is None:
            return False
        demands.append((share * takes, *parts))
        # When the output's part is ready was not seen: right behind the forward pass.
        i = list(gate.asks).index(entry.record.task)
        demands[i] = (takes, parts.update, parts.need, bound.forward)
        then = _sync.bound(
            forward_ns=bound.forward,
            backward_ns=bound.backward,
            update_ns=bound.update,
            communication_ns=bound.communication + share * takes,
            window_ns=_sync.window(demands).bound_ns,
        )
        return bound.crossed >= LEAST_GAIN * then.crossed_ns


def check_asked(inputs):
    """What asks for the gradients of some tensors goes past lookups."""
    for each in inputs if isinstance(inputs, (list, tuple)) else [inputs]:
        entry = _entries.get(id(each))
        if entry and entry.rows.are_taken:
            raise RuntimeError(
                "torch.autograd.grad() of %s would miss its lookups: TAUT_RUN_ROWS=off "
                "allows it" % entry.record.name
            )


def install():
    """Before the first forward pass with rows."""
    if nn.Embedding.forward is not lookup:
        nn.Embedding.forward = lookup


def plainly(call):
    """With nn.Embedding as PyTorch has it: for who reads its source."""
    ours, nn.Embedding.forward = nn.Embedding.forward, _own_forward
    try:
        return call()
    finally:
        nn.Embedding.forward = ours
