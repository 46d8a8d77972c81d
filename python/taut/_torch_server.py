# SPDX-License-Identifier: Apache-2.0
"""Gradients of PyTorch summed by parameter servers: the same two classes as _sync.py
has. And an optimizer that the servers carry out.

A job joins its servers once for each model, and its tensors are declared then. What is
pushed goes by priority and within a credit of this rank's own: an exchange that is
opened after another changes these two, and nothing that a server knows."""

import functools
import os
import sys
import warnings
import weakref

import torch
import torch.distributed as dist

from . import _agree, _lib, _options, _place, _server, _servers

NEEDS = _server.NEEDS + ("taut_server_prioritize",)
TYPES = {
    torch.float32: _server.FLOAT32,
    torch.float64: _server.FLOAT64,
    torch.float16: _server.FLOAT16,
    torch.bfloat16: _server.BFLOAT16,
    torch.int32: _server.INT32,
}
SCALED = (torch.float32, torch.float64)  # by a worker of libtaut
WHOLE = 1 << 40  # bytes: no part is longer
ITS_RULE = "the servers train all parameters by one rule, that of --update, which does not change"


def join(process_group, options, mode):
    """This rank's worker; the servers of TAUT_RUN_SERVER, or some that the ranks start.
    mode: what they must do, of _server.py."""
    rank, n_ranks = dist.get_rank(process_group), process_group.size()
    limits = {
        "part_bytes": options.served("piece") or WHOLE,
        "credit_bytes": options.served("credit"),
        "mode": mode,
    }
    if options.server:
        secret = os.environ.get("TAUT_SECRET")
        if not secret:
            raise ValueError("servers: set TAUT_SECRET to that of the servers")
        return _server.Worker(rank, n_ranks, options.server, secret, **limits)

    address = _place.addresses(process_group)[rank]
    gather = functools.partial(_gather, process_group)
    its = _servers.Beside(rank, n_ranks, address, gather, options)
    return its.join(
        lambda: _server.Worker(
            rank, n_ranks, its.places, its.secret, listening=True, **limits
        ),
        _server.Worker.leave,
    )


def join_alike(process_group, mode):
    """join() with the options of the environment, of a job whose ranks agreed on nothing
    before. A worker on all of them, or an error on all, with the same line: ValueError
    where it is options, else OSError."""
    gather = functools.partial(_gather, process_group)
    options = why = None
    try:
        options = _options.Options()
        if options.compress != "none":
            raise ValueError("--compress: servers take gradients as they are")
    except ValueError as error:
        why = str(error)
    _agree.check(gather((why, options and vars(options))))
    if not options.server:
        return join(process_group, options, mode)
    return _servers.join(
        gather, lambda: join(process_group, options, mode), _server.Worker.leave
    )


def _gather(process_group, mine):
    said = [None] * process_group.size()
    dist.all_gather_object(said, mine, group=process_group)
    return said


def check(options):
    """ValueError: servers as they are asked for do not sum gradients."""
    if options.servers and (options.update != "sum" or getattr(options, "async") == "on"):
        raise ValueError(
            "the servers train (--update, --async): taut.torch.ServerOptimizer is for them"
        )


class Engine:
    """The servers of one model."""

    broadcasts = False  # an exchange has broadcast()
    lingers = False  # what leaves in peace takes nothing from the others
    compress = "none"

    def __init__(self, process_group):
        options = _options.Options()
        self.rank, self.n_ranks = dist.get_rank(process_group), process_group.size()
        self.rescales = options.on_loss == "rescale"
        self.worker = join(process_group, options, _server.SUMS)
        self.keys = []  # type of each that was declared
        self.held = None  # tensors of the last exchange
        self.name = "server%s" % (
            " at " + options.server if options.server else ": %d started" % options.servers
        )

    def exchange(self, limits):
        if limits.halves:
            raise ValueError("all-reduce in halves needs engine coll")
        return Exchange(self, limits)

    def close(self, seconds=0):
        worker, self.worker = self.worker, None
        if worker:
            worker.leave()
        self.held = None

    def forked(self):
        """In a child made by fork, which has no part in it."""
        self.worker = self.held = None


class Exchange:
    def __init__(self, engine, limits):
        self.engine, self.worker = engine, engine.worker
        while self.worker.next(0) is not None:
            pass  # nothing of the exchange before is asked for any more
        self.worker.tune(limits.credit)
        self.tensors = []  # of each task, kept while they are summed
        self.factors = []  # by which a tensor is multiplied here

    def declare(self, like, priority, factor):
        """The first exchange's tasks are keys of the servers; those of others, which
        are declared in the same order, are the same ones."""
        task, keys = len(self.tensors), self.engine.keys
        if task < len(keys):
            self.worker.prioritize(task, priority)
        else:
            if self.engine.rescales and like.dtype not in SCALED:
                raise ValueError("servers rescale no sums of %s" % like.dtype)
            scales = factor if like.dtype in SCALED else 1
            name = "%06d" % task
            self.worker.declare(name, TYPES[like.dtype], like.numel(), priority, scales)
            keys.append(like.dtype)
        self.tensors.append(None)
        self.factors.append(1 if like.dtype in SCALED else factor)
        return task

    def ready(self, task, tensor, more=False):
        if self.factors[task] != 1:
            tensor.detach().mul_(self.factors[task])
        self.tensors[task] = tensor
        self.worker.start(task, tensor.data_ptr())

    def next(self, seconds):
        task = self.worker.next(seconds)
        if task is not None:
            self.tensors[task] = None
        return task

    def busy_ns(self):
        return self.worker.counts()["busy_ns"]

    def counts(self):
        return self.worker.counts()

    def close(self):
        """What is under way is written until the engine is closed."""
        self.engine.held = self.tensors


class _Parameters(dict):
    """One of param_groups. Its rule is the servers'."""

    def __missing__(self, key):
        raise KeyError("%s: %s" % (key, ITS_RULE))

    def check(self):
        for key in self:
            if key not in ("params", "param_names"):
                raise ValueError("param_groups: %s: %s" % (key, ITS_RULE))


class ServerOptimizer(torch.optim.Optimizer):
    """An optimizer that servers carry out, by their own rule: step() pushes this rank's
    gradients and pulls the parameters. Servers are those of the environment, as with
    `taut run --servers 2 --update sgd:lr=0.1`, in rounds or, with --async, for each push
    by itself. All ranks begin with rank 0's parameters.

    factor: of gradients; None: 1/ranks, so that a round is a step with their mean;
    asynchronously 1. A parameter without a gradient counts as one whose gradient is 0;
    one that is frozen when the optimizer is made stays as rank 0 has it.

    The rule's constants are the servers', and so are its moments: param_groups has none,
    and a state_dict() neither. Parameters cannot be added later.

    A gradient is this rank's own until it is with the servers. So is what looks at it
    before: clip_grad_norm_() clips each rank's part by its own norm. step() is one of all
    ranks in a round: a GradScaler's is left out on all where one found an overflow, and
    a job that leaves one out by itself must do so on all."""

    _step_supports_amp_scaling = True  # step() is called with found_inf and grad_scale
    worker = None

    def __init__(self, params, process_group=None, factor=None):
        super().__init__(params, {})
        group = process_group or dist.distributed_c10d._get_default_group()
        self.group, self.worker = group, join_alike(group, _server.ANY)
        self.rows = []  # of each that is trained: it, its key, what is pushed and pulled
        self.frozen = []
        # With what is written until then.
        self.end = weakref.finalize(self, _end, self.worker, self.rows)
        try:
            self._begin(group.size(), factor)
        except BaseException as why:
            self.fail(why)
            raise

    def _begin(self, n_ranks, factor):
        mode = self.worker.mode()
        if mode not in (_server.TRAINS, _server.TRAINS_ASYNC):
            raise ValueError("the servers have no optimizer: --update RULE gives them one")
        if factor is None:
            factor = 1 / n_ranks if mode == _server.TRAINS else 1
        for group in self.param_groups:
            for p in group["params"]:
                if not p.numel():
                    continue  # servers have no keys without elements
                if p.requires_grad:
                    self.rows.append(self._declare(p, factor))
                else:
                    self.frozen.append(p)
        self._exchange(_server.FIRST)
        for p in self.frozen:
            self._take_first(p)

    def add_param_group(self, param_group):
        if self.worker:
            raise ValueError("parameters cannot be added: the servers were told all of them")
        param_group = _Parameters(param_group)
        param_group.check()
        super().add_param_group(param_group)

    def state_dict(self):
        warnings.warn("the state of a ServerOptimizer is the servers': none is saved", stacklevel=2)
        return super().state_dict()

    def load_state_dict(self, state_dict):
        raise RuntimeError(
            "the state of a ServerOptimizer is the servers', which begin anew: none can be loaded"
        )

    def _declare(self, p, factor):
        if p.dtype not in SCALED or p.device.type != "cpu":
            raise ValueError("servers train no %s on %s" % (p.dtype, p.device.type))
        # The order is that of the next forward pass, as far as it is known.
        number = len(self.rows)
        key = self.worker.declare("%06d" % number, TYPES[p.dtype], p.numel(), number, factor)
        return p, key, p.detach().clone(memory_format=torch.contiguous_format)

    def _take_first(self, p):
        """Rank 0's, of what the servers are not told of."""
        value = p.detach().clone(memory_format=torch.contiguous_format)
        dist.broadcast(value, dist.get_global_rank(self.group, 0), group=self.group)
        p.detach().copy_(value)

    def _check_frozen(self):
        """The servers' rule moves a parameter whose gradients are 0, too."""
        thaws = any(p.requires_grad for p in self.frozen)
        if thaws or not all(p.requires_grad for p, _, _ in self.rows):
            raise RuntimeError(
                "a parameter is %s now, and was not when the ServerOptimizer was made: "
                "servers train the same ones to the end" % ("trained" if thaws else "frozen")
            )

    @torch.no_grad()
    def _exchange(self, verb):
        """Pushes what the buffers have; then parameters are what was pulled."""
        for _, key, buffer in self.rows:
            self.worker.start(key, buffer.data_ptr(), verb)
        for p, key, buffer in self.rows:
            while not self._is_done(key):
                pass  # a signal is seen here
            p.copy_(buffer)

    def _is_done(self, key):
        try:
            self.worker.wait(key, 0.2)
        except _lib.Failed as why:
            if why.status != _lib.EAGAIN:
                raise
            return False
        return True

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        for group in self.param_groups:
            group.check()
        self._check_frozen()
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._overflowed():
            return loss
        scale = getattr(self, "grad_scale", None)
        for p, _, buffer in self.rows:
            if p.grad is None:
                buffer.zero_()
            else:
                buffer.copy_(p.grad)
                if scale is not None:
                    buffer.mul_(scale.double().reciprocal().to(buffer))
        self._exchange(_server.PUSH_PULL)
        return loss

    def _overflowed(self):
        """A GradScaler calls: is this step left out? In rounds all ranks must do alike."""
        found = getattr(self, "found_inf", None)
        if found is None:
            return False
        overflowed = bool(found)
        if self.worker.mode() == _server.TRAINS:
            overflowed = any(_gather(self.group, overflowed))
        return overflowed

    def contributors(self):
        """How many ranks' gradients are in what was pulled last: of all the least."""
        return min(self.worker.contributors(key) for _, key, _ in self.rows)

    def leave(self):
        """This rank is done; its parameters stay as they are. The end of the process
        does the same, unless that is an exception."""
        self.end()

    def fail(self, why):
        """This rank cannot go on, as the others hear."""
        if self.end.alive:
            self.worker.fail(str(why) or type(why).__name__)
        self.end()


def _end(worker, rows):
    """Who only goes is one that is lost, and the servers end the others' training."""
    why = getattr(sys, "last_value", None)
    if why is not None:
        worker.fail(str(why) or type(why).__name__)
    worker.leave()
    rows.clear()
