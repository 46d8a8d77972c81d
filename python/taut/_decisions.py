# SPDX-License-Identifier: Apache-2.0
"""What a plan has decided to change in a PyTorch job that knows nothing of it. Each
decision is a row here and a module of its own; docs/running.md says what they do.

A decision that cannot be made is refused before the first step, by name: the job
ends with a line and a status that is not 0. What only the end can tell, that there
was nothing to change, is told there."""

import atexit
import collections
import functools
import importlib
import os
import sys
import time
import weakref

from . import _options

PREFIX = "TAUT_RUN_"
HEARD_SECONDS = 2  # for what another rank says of its own end

# variables: the first one is the decision's, the others are more of it; module: has
# make(values), which returns a Decision, and ValueError for a wrong value; unmet: why
# it is not made as long as nothing was there to be changed.
Row = collections.namedtuple("Row", "variables module unmet")
ROWS = (
    Row(("JOB",), "_plan_job", ""),
    Row(("LOAD", "LOAD_CACHE"), "_plan_load", "no DataLoader was iterated"),
    Row(("WORKERS",), "_plan_workers", "no DataLoader was iterated in training"),
    Row(("HEAP",), "_plan_heap", ""),
    Row(("RECOMPUTE",), "_plan_recompute", "no DistributedDataParallel was made"),
    Row(("COMPILE",), "_plan_compile", "no DistributedDataParallel was made"),
    Row(("MICROBATCHES",), "_plan_microbatches", "no DistributedDataParallel was run in training"),
    Row(("GRAPHS",), "_plan_graphs", "no DistributedDataParallel was run in training"),
    Row(("AMP",), "_plan_amp", "no DistributedDataParallel was run in training"),
    Row(("OPTIMIZER",), "_plan_optimizer", "no optimizer was made"),
    Row(("BUCKET", "BUCKET_FIRST"), "_plan_bucket", "no DistributedDataParallel was made"),
    Row(("COMPRESS",), "_plan_compress", "no DistributedDataParallel was made"),
    Row(("ROWS",), "_plan_rows", "no DistributedDataParallel crossed the barrier"),
)

_NOTHING = "none", "off"  # is decided

models = weakref.WeakSet()  # DistributedDataParallels of the job
_made = []  # Decisions
_refused = []  # the line of the refusal, once there was one
_ranks = []  # (process, rank) of this one, once there was a model
_stock = []  # PyTorch's own class
_n_said = []  # 1 for each refusal
_first_forward = []  # the handle of the hook that waits for it


class Decision:
    """text: as a plan has it, "compress=fp16"; "" is none to be told of. what: it is
    the why of that it is not made."""

    def __init__(self, text):
        self.text, self.why = text, ""
        self.is_made, self.is_on = False, True
        self.replaced = []

    def install(self, torch):
        """Before anything of the job."""

    def check(self, ddp):
        """At the end of the constructor of a DistributedDataParallel: why it cannot be
        changed, or None. Changes nothing, for another rank may see what this one does
        not."""

    def apply(self, ddp):
        """No rank has a reason against it."""

    def given_back(self, ddp):
        """It was on Taut's exchange, and is PyTorch's own from here on."""

    def whole(self, model, wrapper):
        """Modules of a model, which a class of that name wraps, that read all their
        parameters when they begin."""
        return ()

    def begins(self):
        """Before the first forward pass of such a model: why it cannot be made, or
        None."""

    def made(self):
        self.is_made, self.why = True, ""

    def replace(self, owner, name, make):
        """Puts make(what is there) in the place of a function of PyTorch's."""
        own = owner.__dict__[name]
        ours = functools.wraps(own)(make(own))
        setattr(owner, name, ours)
        self.replaced.append((owner, name, own, ours))

    def replace_forward(self):
        """Of a wrapped model: run(own, ddp, inputs, kwargs) where trains(ddp)."""

        def make(own):
            def _run_ddp_forward(ddp, *inputs, **kwargs):
                if not self.trains(ddp):
                    return own(ddp, *inputs, **kwargs)
                return self.run(own, ddp, inputs, kwargs)

            return _run_ddp_forward

        self.replace(stock(), "_run_ddp_forward", make)

    def undo(self):
        """From here on nothing is changed. What somebody has wrapped stays and, with
        is_on, does nothing."""
        self.is_on = False
        for owner, name, own, ours in reversed(self.replaced):
            if owner.__dict__.get(name) is ours:
                setattr(owner, name, own)
        self.replaced.clear()


# --- the begin of a job --------------------------------------------------------------


def install(torch):
    """Once, at the end of the import of torch, and before Taut's class takes the place
    of PyTorch's."""
    if torch.distributed.is_available():
        from torch.nn.parallel import distributed

        _stock.append(distributed.DistributedDataParallel)
        _watch(_stock[0])
        atexit.register(_tell)
    decide(torch, os.environ)


def stock():
    if not _stock:
        raise ValueError("there is no torch.distributed")
    return _stock[0]


def decide(torch, environment):
    for row in ROWS:
        values = {name: environment.get(PREFIX + name) or "" for name in row.variables}
        values = {n: "" if value in _NOTHING else value for n, value in values.items()}
        if any(values.values()):
            _install(torch, row, values)
    if _made and _stock:
        register = torch.nn.modules.module.register_module_forward_pre_hook
        _first_forward.append(register(_before_forward))


def _install(torch, row, values):
    try:
        decision = importlib.import_module("." + row.module, __package__).make(values)
        decision.why = decision.why or row.unmet
        decision.install(torch)
    except Exception as why:
        names = " ".join(PREFIX + name for name in row.variables if values[name])
        refuse("%s: %s" % (names, why))
    _made.append(decision)


def _watch(stock):
    own = stock.__init__

    @functools.wraps(own)
    def __init__(self, *args, **kwargs):
        own(self, *args, **kwargs)
        if not hasattr(type(self), "_taut_begin"):  # that one calls wrapped() itself
            wrapped(self)

    stock.__init__ = __init__


# --- models ----------------------------------------------------------------------------


def wrapped(ddp):
    """At the end of its constructor, on all ranks."""
    if not _stock:
        return
    models.add(ddp)
    _ranks[:] = [(os.getpid(), place()[1])]
    if not _made:
        return
    _end_if(_agreed(ddp.process_group, _first_reason(lambda d: d.check(ddp))))
    for decision in _made:
        _try(decision, decision.apply, ddp)


def of(cls):
    """Decisions of this class that are being made."""
    return [decision for decision in _made if isinstance(decision, cls)]


def whole(model, wrapper):
    """Modules of it that read all their parameters when they begin."""
    return [part for decision in _made for part in decision.whole(model, wrapper)]


def agree(ddp, why):
    """Ends the job where a rank of the model's has a reason. All of them come here."""
    _end_if(_agreed(ddp.process_group, why))


def given_back(ddp):
    for decision in _made:
        _try(decision, decision.given_back, ddp)


def _try(decision, call, ddp):
    try:
        call(ddp)
    except Exception as why:
        refuse("%s: %s" % (decision.text, " ".join(str(why).split())))


def _first_reason(ask):
    for decision in _made:
        why = ask(decision)
        if why:
            return "%s: %s" % (decision.text, why) if decision.text else why
    return None


def _agreed(group, why):
    """The reason that holds for all ranks. One on which other things were decided
    would sum what the others do not."""
    if group.size() == 1:
        return why
    from . import _agree

    texts = [decision.text for decision in _made]
    try:
        said = _agree.Votes(group).hold([texts, why])
    except _agree.Silent as silent:
        return "%s what it is to change" % str(silent).split(" whether ")[0]
    for rank, (theirs, _) in enumerate(said):
        if theirs != said[0][0]:
            return "rank %d has other decisions than rank 0" % rank
    return _agree.first([why for _, why in said])


def _before_forward(module, inputs):
    if not isinstance(module, _stock[0]):
        return
    if _refused:  # the job has caught that it was to end
        raise SystemExit(1)
    _end_if(_first_reason(lambda d: d.begins()))
    _first_forward.pop().remove()


# --- the end ------------------------------------------------------------------------------


def _end_if(why):
    if why:
        refuse(why)


def refuse(why):
    """The job ends, before its first step. Of ranks that say the same one is heard."""
    first = not _refused
    _refused.append(why)
    if first:
        _say_once(why)
    raise SystemExit(1)


def _say_once(why):
    store, rank, n_ranks = place()
    if store is None:
        if rank == 0:
            _options.say(why)
        return
    _n_said.append(1)
    key = "taut/refused/%d" % len(_n_said)
    heard = key + "/heard"
    try:
        if rank == 0:
            store.set(key, why)
            _options.say(why)
            _await(lambda: store.add(heard, 0) >= n_ranks - 1)
        else:
            if not _await(lambda: store.check([key])) or store.get(key).decode() != why:
                _options.say("rank %d: %s" % (rank, why))
            store.add(heard, 1)
    except (RuntimeError, OSError):
        pass  # rank 0 has the store, and is gone: it has said why


def _await(is_so):
    end = time.monotonic() + HEARD_SECONDS
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def place():
    """The job's store, or None; this rank, and of how many."""
    dist = sys.modules.get("torch.distributed")
    if dist and dist.is_available() and dist.is_initialized():
        store = dist.distributed_c10d._get_default_store()
        return store, dist.get_rank(), dist.get_world_size()
    rank, n_ranks = (int(os.environ.get(n) or 0) for n in ("RANK", "WORLD_SIZE"))
    return None, rank, n_ranks or 1


def had_model():
    """In this process, and not in one that it was forked from."""
    return bool(_ranks) and _ranks[0][0] == os.getpid()


def made():
    """Texts of the decisions that were made."""
    return [d.text for d in _made if d.text and d.is_made]


def not_made():
    """Of the others, and why."""
    return {d.text: d.why for d in _made if d.text and not d.is_made}


def undo():
    """The job goes on as it would have been, as far as that goes; each module says
    what stays."""
    for decision in _made:
        decision.undo()
    for handle in _first_forward:
        handle.remove()
    for kept in (_made, _first_forward, _refused):
        kept.clear()


def _tell():
    """At the end of a job that had a model: what was not made."""
    if _refused or _ranks != [(os.getpid(), 0)] or getattr(sys, "last_type", None) is not None:
        return
    for text, why in not_made().items():
        _options.say("%s was not made: %s" % (text, why))
