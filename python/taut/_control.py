# SPDX-License-Identifier: Apache-2.0
"""The sums of one module through a job: at first as DistributedDataParallel does
them, while the gate measures; then perhaps across the barrier."""

import atexit
import collections
import contextlib
import os
import queue
import sys
import threading
import weakref

import torch
import torch.distributed as dist
from torch import nn

from . import _agree, _cross, _decisions, _gate, _group, _norms, _options, _past, _pending
from . import _plan_rows, _rows, _sums

DRAIN_SECONDS = 10  # at the end of a job, for what other ranks wait for
LEAVE_SECONDS = 2
# In evaluation these take one operator for many parameters, if those are plain tensors.
JOINED = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)

_live = []  # controls whose engines are not closed


def engine_class(options):
    """ValueError: there is none."""
    from . import _lib, _sync

    has_coll = _lib.has(*_sync.NEEDS)
    if options.groups and options.engine == "server":
        raise ValueError("TAUT_RUN_FUSE: servers have no groups of gradients")
    if options.compress != "none" or options.ordered == "on":
        _check_sums(options, has_coll)
    if options.engine == "server":
        return _server_engine(options)
    if options.engine == "coll" and not has_coll:
        raise ValueError("libtaut has no collectives")
    if has_coll and options.engine != "process-group":
        return _sync.Engine
    if not _lib.has(*_group.NEEDS):
        raise ValueError("there is no libtaut: TAUT_LIB names it")
    return _group.Engine


def _check_sums(options, has_coll):
    """ValueError: what sums gradients does not narrow them, or has an order of its own."""
    if options.engine == "server":
        if options.compress != "none":
            raise ValueError("--compress: servers sum gradients as they are")
    elif options.engine == "process-group" or not has_coll:
        if options.compress != "none":
            raise ValueError("--compress: engine process-group sums gradients as they are")
        raise ValueError("--ordered: engine process-group sums gradients in an order of its own")


def _server_engine(options):
    from . import _lib, _torch_server

    if not _lib.has(*_torch_server.NEEDS):
        raise ValueError("libtaut has no parameter servers")
    _torch_server.check(options)
    return _torch_server.Engine


def make(module, named, process_group, why, careful, static, norms=None):
    """A Control on all ranks, or on all ranks a ValueError that says why there is
    none: what one rank cannot do the others do not begin. why: this rank's reason,
    if it has one already. norms: _norms.describe() of the module."""
    votes, plan, control = _agree.Votes(process_group), None, None
    unseen = why_not_cross(module)
    try:
        options = _options.Options()
        engine = None if why else engine_class(options)
        plan = dict(vars(options), engine=engine and engine.__module__)
    except ValueError as error:
        why = why or str(error)
    said = votes.hold((why, plan, unseen, norms))
    _agree.check([(why, plan) for why, plan, _, _ in said])
    try:
        control = Control(module, named, process_group, options, engine, careful, static)
        control.why_not = _agree.first([unseen for _, _, unseen, _ in said])
        if options.rows == "on":
            control.may_have_rows(module, careful)
        if norms and engine.broadcasts and all(other == norms for _, _, _, other in said):
            control.sums.norms = _norms.Norms(module, norms, control.engine.rank == 0)
    except Exception as error:  # whatever it is, the others wait to hear of it
        why = str(error) or type(error).__name__
    try:
        # Others may wait for this rank, as it does, where ranks meet.
        _agree.check(votes.hold((why, plan), 3 * _agree.SECONDS))
    except (ValueError, RuntimeError):
        if control:
            control.close(leaves=False)
        raise
    return control


def why_not_cross(module):
    """Why parameters of the module may be read unseen; None: they are not."""
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            return "%s is TorchScript" % type(part).__name__
        if type(part).__name__ == "OptimizedModule" or getattr(part, "_compiled_call_impl", None):
            return "a part of it is compiled"
    return None


def stop_crossing(module, why):
    """From here on parameters of the module may be read unseen."""
    own = {id(p) for p in module.parameters()}
    for control in list(_live):
        if any(id(r.parameter) in own for r in control.sums.records):
            control.stop_crossing(why)


class Control:
    def __init__(self, module, named, process_group, options, engine, careful, static):
        self.options, self.process_group = options, process_group
        self.engine = engine(process_group)
        self.engine.compress = self.compresses = options.compress
        self.sums = _sums.Sums(self.engine, named, careful, static)
        self.order, self.waiters = [], []
        self.why_not = None  # cross, on any rank
        self.is_decided = self.is_stopped = False
        self.tuner = self.trial = None
        self.gate = _gate.Gate(self.sums)
        _cross.gates.add(self.gate)
        try:
            self.sums.open(self.plain_limits(), [], False)
        except BaseException:
            self.sums.close()
            self.engine.close()
            raise
        self.sums.watch()
        _live.append(self)

    def may_have_rows(self, module, careful):
        """Before the first forward pass."""
        if hasattr(self.sums.exchange, "all_reduce") and not careful:
            _rows.install()
            self.sums.rows = _rows.Rows(self.sums, module)

    def plain_limits(self):
        """As without crossing: whole tasks, some together, when they are ready. Servers
        cut them all the same, and never get all at once."""
        limits = self.options.limits("declared")
        credit = limits.credit if self.options.engine == "server" else 0
        return limits._replace(piece=0, credit=credit, fuse=self.options.fuse, groups=())

    def watch_modules(self, module, whole):
        """Of the module, after it was made. whole: parts of it that read all their
        parameters when they begin."""
        mine = {id(r.parameter): r for r in self.sums.records}
        whole, inside = {id(part) for part in whole}, set()
        for part in module.modules():
            if id(part) in inside:
                continue
            if id(part) in whole:
                inside.update(id(each) for each in part.modules())
            parameters = part.parameters(recurse=id(part) in whole)
            own = [mine[id(p)] for p in parameters if id(p) in mine]
            if own:
                self.waiters.append(_Waiter(part, own, self.gate))
        _watched.add(self, stays=bool(whole))

    # --- forward passes ----------------------------------------------------------------

    def begin(self, sums):
        """sums: the gradients of this forward pass are to be summed."""
        if self.sums.exchange is None:
            if not sums:
                return
            raise RuntimeError(self.sums.ended)
        completed = self.sums.has_completed()
        if torch.is_grad_enabled():
            self.sums.begin(sums)
        if sums and self.tuner:
            self.tuner.begin(completed)
        if sums and self.trial:
            self.trial.begin(completed)
            if self.trial.is_over():
                self.sums.at_first = self.judge
        if sums and not self.is_decided:
            self.gate.begin(completed)
            if self.options.gate == "off" and self.gate.steps or self.gate.is_over():
                self.sums.at_first = self.decide

    def has_buffers(self):
        """The module's buffers are rank 0's: nobody else is to send them."""
        norms = self.sums.norms
        return norms is not None and self.sums.told(norms.take, self.sums.exchange)

    def forward_ended(self, wants_buffers, tensors):
        """Of a pass that is summed. wants_buffers: the next one does. tensors: what it
        returned, where rows want to know."""
        if self.sums.rows:
            self.sums.rows.forward_ended(tensors)
        if not self.is_decided:
            self.gate.forward_ended()
        norms = self.sums.norms
        if norms and wants_buffers:
            self.sums.told(norms.send, self.sums.exchange)
        elif norms:
            self.sums.told(norms.forget)

    def decide(self):
        """On all ranks at the same place: the first gradient of a backward(), for a
        forward pass may be one that this rank alone makes. Nothing is under way."""
        self.is_decided = True
        self.stop_measuring()
        self.sums.wait_all()
        crosses, why, bound = self.why_not is None, self.why_not, None
        limits = self.options.limits(self.options.order)
        if crosses and self.options.gate == "on":
            bound = self.gate.bound(self.process_group)
            crosses = bound.gain >= _gate.LEAST_GAIN
            why = _bound_text(bound) + self.gate.window_text(bound)
            if self.engine.rank == 0:
                self.gate.write(bound)
            if crosses:
                self.trial = _gate.Trial(self.gate.step_ns)
                limits = self.options.fitted(limits, self.gate.piece_bytes(bound))
                why += "; pieces of %s, %s under way" % (
                    _options.size_text(limits.piece),
                    _options.size_text(limits.credit),
                )
        if crosses:
            why = self.choose_rows(limits, why, bound)
            self.sums.open(limits, self.shared_order(), not self.is_stopped)
        else:
            self.stop_rows()
            self.forget_modules()
        how = "crosses the barrier" if crosses else "does not cross the barrier"
        self.say(how + (": " + why if why else ""))
        if not self.trial:
            self.may_tune()

    def choose_rows(self, limits, why, bound):
        """With what is said of it."""
        rows, text = self.sums.rows, "no gradient by rows"
        if self.options.rows == "off":
            return why
        if rows is None:
            text += ": engine coll sums them, where all parameters have a gradient in each step"
        elif limits.order != "agreed" or limits.halves:
            text += ": that needs order agreed, without halves"
        else:
            text = rows.choose(self.process_group, bound, self.gate)
        are_taken = bool(rows and rows.are_taken)
        if not are_taken:
            self.stop_rows()
        for decision in _decisions.of(_plan_rows.Rows):
            decision.decided(text, are_taken)
        return why + "; " + text if why else text

    def stop_rows(self):
        if self.sums.rows:
            self.sums.rows.stop()

    def stop_measuring(self):
        _cross.gates.discard(self.gate)
        for waiter in self.waiters:
            waiter.gate = None

    def judge(self):
        """As decide(): whether crossing has paid."""
        before_ns, crossed_ns = self.trial.steps_ns(self.process_group)
        self.trial = None
        if crossed_ns > before_ns:
            self.sums.wait_all()
            self.stop_rows()
            self.sums.open(self.plain_limits(), [], False)
            self.forget_modules()
            self.say(
                "crosses the barrier no longer: a step took %.1f ms, and %.1f ms before"
                % (crossed_ns / 1e6, before_ns / 1e6)
            )
        self.may_tune()

    def may_tune(self):
        if self.options.tune == "on":
            from . import _tune

            self.tuner = _tune.make(self)

    def say(self, text):
        if self.engine.rank == 0:
            _options.say("DistributedDataParallel " + text)

    def stop_crossing(self, why):
        """On this rank alone, whatever the others do: from here on backward() waits
        for its sums."""
        if self.is_stopped:
            return
        self.finish()
        crossed = self.sums.crossing
        self.is_stopped, self.sums.crossing = True, False
        if crossed:
            _options.say(
                "rank %d crosses the barrier no longer: %s" % (self.engine.rank, why)
            )

    def shared_order(self):
        """Tasks in the order of the forward pass, as rank 0 saw it."""
        order = [self.order]
        source = dist.get_global_rank(self.process_group, 0)
        dist.broadcast_object_list(order, src=source, group=self.process_group)
        return order[0]

    def forget_modules(self):
        _watched.remove(self)
        self.waiters = []

    # --- the end --------------------------------------------------------------------------

    def finish(self):
        if not self.sums.is_stuck():
            self.sums.wait_all()

    def retire(self, seconds=DRAIN_SECONDS):
        """What is summed in time is the parameters', of which nothing here holds
        one any more. The engine may stay, for what others still ask."""
        with _reaping:
            self.forget_modules()
            if self.sums.exchange:
                self.sums.drain(seconds)
                _pending.finish(self.sums.arrived())
                self.sums.close()

    def forked(self):
        """In a child made by fork: the sums are the parent's."""
        self.forget_modules()
        self.sums.forked()
        self.engine.forked()

    def close(self, leaves=True):
        with _reaping:
            self.retire(DRAIN_SECONDS if leaves else 0)
            if self in _live:
                _live.remove(self)
                self.engine.close(LEAVE_SECONDS if leaves else 0)


class _Waiter:
    """A module, and the records of its own parameters. gate: to be told when they are
    needed; None: nobody is."""

    def __init__(self, module, records, gate):
        self.module, self.records, self.gate = module, records, gate
        self.is_new = True


class _Watched:
    """Modules before whose forward pass something is to be done. One hook for all,
    which is PyTorch's own: hooks of a module would be copied and saved with it."""

    def __init__(self):
        self.waiters = {}  # by id of the module
        self.handle = None
        self.stays = False  # what is compiled is compiled anew when the hook goes

    def add(self, control, stays):
        self.stays = self.stays or stays
        for waiter in control.waiters:
            self.waiters[id(waiter.module)] = (weakref.ref(control), waiter)
        if self.waiters and self.handle is None:
            register = torch.nn.modules.module.register_module_forward_pre_hook
            self.handle = register(self.before_forward)

    def remove(self, control):
        for waiter in control.waiters:
            self.waiters.pop(id(waiter.module), None)
        if not self.waiters and self.handle is not None and not self.stays:
            self.handle.remove()
            self.handle = None

    @contextlib.contextmanager
    def away(self):
        """Without the hook, which is then in its place again: what is compiled by it stays."""
        handle, hooks = self.handle, torch.nn.modules.module._global_forward_pre_hooks
        own = hooks.pop(handle.id, None) if handle else None
        try:
            yield
        finally:
            if own and self.handle is handle:
                hooks[handle.id] = own

    def before_forward(self, module, inputs):
        """Its parameters' updates are made, and those of others whose gradients are
        there by now."""
        if torch.compiler.is_compiling():
            return  # it is within one that is run as a whole
        if isinstance(module, JOINED) and not module.training and not torch.is_grad_enabled():
            _pending.touch(module.parameters())
        found = self.waiters.get(id(module))
        if found is None:
            return
        waiter = found[1]
        if waiter.is_new:
            waiter.is_new = False
            order = found[0]().order
            known = set(order)
            order += [r.task for r in waiter.records if r.task not in known]
        if waiter.gate:
            waiter.gate.needed(waiter.records)
        for record in waiter.records:
            if record.state == _pending.STEPPED:
                record.sums.finish_some(waiter.records)
                return


_watched = _Watched()


def without_hook():
    """For who makes forward passes that no hook of all modules may be in."""
    return _watched.away()


def _bound_text(bound):
    passes = "forward %.1f ms, backward %.1f ms" % (bound.forward / 1e6, bound.backward / 1e6)
    if bound.update >= 5e4:
        passes += ", update %.1f ms" % (bound.update / 1e6)
    return (
        "%s, communication %.1f ms, of which it waits for %.1f ms: at most %.2f times as fast"
        % (passes, bound.communication / 1e6, bound.exposed / 1e6, bound.gain)
    )


# --- wrappers that are gone --------------------------------------------------------------
#
# A finalizer runs in whatever thread drops the last reference, or collects garbage:
# in the middle of anything, perhaps in the thread without which nothing is summed.
# So it only tells; a thread of its own waits for what is under way.

_gone = collections.deque()  # their controls
_bell = queue.SimpleQueue()  # put() may be called from finalizers
_reaper = []  # the thread, once there was something to end
# Taken before _pending.lock, by whoever takes both.
_reaping = threading.RLock()


def gone(control):
    _gone.append(control)
    _bell.put(None)


def watch_wrapper(wrapper, control):
    weakref.finalize(wrapper, gone, control).atexit = False
    if not _reaper:
        _reaper.append(threading.Thread(target=_reap, daemon=True, name="taut-ends"))
        _reaper[0].start()


def _reap():
    while True:
        _bell.get()
        reap()


def reap():
    """The wrappers that are gone have ended when this returns: their parameters are
    the job's alone."""
    with _reaping:
        while _gone:
            _reap_one(_gone.popleft())


def _reap_one(control):
    try:
        control.retire() if control.engine.lingers else control.close()
    except (RuntimeError, OSError) as why:
        _options.say("updates of a model that is gone are lost: %s" % why)


# --- processes that fork -----------------------------------------------------------------


def _before_fork():
    """The child finds parameters that are updated, and no thread in the middle of
    anything here."""
    _reaping.acquire()
    _pending.lock.acquire()
    for control in list(_live):
        told = control.sums.was_told
        try:
            control.finish()
        except (RuntimeError, OSError):
            control.sums.was_told = told  # the job hears of it in its own place


def _after_fork():
    _pending.lock.release()
    _reaping.release()


def _in_child():
    """All that is under way is the parent's, and so are its connections: nothing
    here touches them, at the child's end neither."""
    global _reaping, _bell
    _reaping, _bell, _pending.lock = threading.RLock(), queue.SimpleQueue(), threading.RLock()
    for control in {id(c): c for c in (*_live, *_gone)}.values():
        control.forked()
    _live.clear()
    _gone.clear()
    _reaper.clear()


# --- the end of a job ------------------------------------------------------------------


def close_all():
    """Before the process group goes: all updates are made that can be. What cannot
    keeps no group from its end. What is lost that the job has not heard of; None:
    nothing."""
    lost = None
    reap()
    for control in list(_live):
        told = control.sums.was_told
        try:
            control.finish()
            control.close()
        except (RuntimeError, OSError) as why:
            _options.say("updates under way are lost: %s" % why)
            lost = lost or (None if told else str(why))
            _give_up(control)
    return lost


def _give_up(control):
    try:
        control.close(leaves=False)
    except (RuntimeError, OSError):
        pass  # the same that was told


@atexit.register
def _at_exit():
    """Others may wait for what this rank has begun; who ended by an error has
    nothing more to give."""
    failed = getattr(sys, "last_type", None) is not None
    for control in list(_live):
        try:
            control.close(leaves=not failed)
            if control.sums.lost and not failed and not control.sums.was_told:
                _options.say("updates under way are lost: %s" % control.sums.lost)
        except Exception:
            pass  # the job's end is its own


def install():
    """What looks at gradients or parameters past PyTorch's own dispatch."""
    _cross.install()
    _sums.watch_grad()
    _past.install()
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child
    )
    module = dist.distributed_c10d
    destroy, check, check_list = (
        module.destroy_process_group,
        module._check_single_tensor,
        module._check_tensor_list,
    )

    def destroy_process_group(group=None):
        lost = None
        if group is None or group is module.GroupMember.WORLD:
            lost = close_all()
        destroy(group)
        if lost:  # a job that ends here, and well, would not have trained what it says
            raise RuntimeError("updates under way are lost: " + lost)

    def _check_single_tensor(param, param_name):
        _pending.touch((param,))
        return check(param, param_name)

    def _check_tensor_list(param, param_name):
        _pending.touch((param,))
        return check_list(param, param_name)

    module.destroy_process_group = dist.destroy_process_group = destroy_process_group
    module._check_single_tensor = _check_single_tensor
    module._check_tensor_list = _check_tensor_list
