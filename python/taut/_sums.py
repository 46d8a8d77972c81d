# SPDX-License-Identifier: Apache-2.0
"""The gradients of one module: from backward() into an exchange, and back.

    hook of a parameter -> exchange.ready()        SUMMING
    wait_for()          -> exchange.next()         the sum is there

Without crossing, backward() ends when all are summed. With it, backward() ends
at once, and each parameter is Pending until its sum is there."""

import contextlib
import functools
import threading
import time

import torch
from torch.nn import Parameter

from . import _coll, _options, _past, _pending, _rows
from ._pending import IDLE, STEPPED, SUMMING, Record

WAIT_SECONDS = 0.2  # after which Python looks for signals
recording = None  # _sums_watch.Watch, while a recording has its window open
MOST_HELD_BYTES = 64 << 10  # of gradients that wait for the next one


_asking = threading.local()  # .grad: this thread is in torch.autograd.grad()


def watch_grad():
    """What asks for the gradients of some tensors gives parameters none."""
    own = torch.autograd.grad

    @functools.wraps(own)
    def grad(outputs, inputs, *args, **kwargs):
        if torch.compiler.is_compiling():
            return own(outputs, inputs, *args, **kwargs)
        _rows.check_asked(inputs)
        before, _asking.grad = getattr(_asking, "grad", False), True
        try:
            return own(outputs, inputs, *args, **kwargs)
        finally:
            _asking.grad = before

    _past.replace(torch.autograd, "grad", grad)


class Sums:
    """engine: _group.Engine or _sync.Engine. named: pairs of name and parameter, in
    the order of the module. careful: some parameters may get no gradient, or
    several, in a backward(), at whose end all that is left is given."""

    def __init__(self, engine, named, careful, static):
        self.engine, self.careful, self.static = engine, careful, static
        self.records = []
        self.forms = [(p.dtype, p.numel()) for _, p in named]  # what may be summed of each
        self.fires = [0] * len(named)  # of this iteration
        self.touched = set()  # tasks with a gradient since the last sums
        self.expected = [1] * len(named)
        self.learns = static  # fires of the first backward() are counted
        self.seen = set()  # tasks that were ready since the last forward
        self.armed = False
        self.at_first = None  # called before the next gradient that is summed
        self.is_complete = True
        self.has_callback = False
        self.used_is_there, self.used_is_given = True, False
        self.crossing = False
        self.held_bytes = 0  # of gradients that wait for the next one to bring them along
        self.mates = {}  # by task: records of its group, with which it is summed
        self.exchange = self.used = None
        self.changing = threading.RLock()  # the exchange, which a recorder may look at
        self.told_waits = ()  # records of which a recorder knows that they were waited for
        self.norms = None  # _norms.Norms, which the exchange carries, too
        self.rows = None  # _rows.Rows, where lookups may be summed by rows
        self.last_hook_ns = 0
        self.ready_ns = [0] * len(named)  # when each had its last gradient
        self.exposed_ns = 0  # that backward() waited at its end
        self.last_counts = self.last_busy_ns = None  # when the exchange is closed
        self.ended = "the process group of this module is gone"
        self.was_told = False  # that nothing is summed any more, and why: the job
        self.lost = None  # the same, where the job was not told
        self.handles, self.hook_ids = [], []  # ids: of each parameter's hook that gives
        self.behind = set()  # records that had hooks of the job's still to come
        for task, (name, parameter) in enumerate(named):
            self.records.append(Record(parameter, name, task, self))

    def watch(self):
        for record in self.records:
            _pending.records[id(record.parameter)] = record
            before = functools.partial(self.before_accumulate, record)
            after = functools.partial(self.accumulated, record)
            parameter = record.parameter
            self.handles.append(parameter.register_hook(before))
            self.handles.append(parameter.register_post_accumulate_grad_hook(after))
            self.hook_ids.append(self.handles[-1].id)

    def open(self, limits, order, crossing):
        """A new exchange; no gradient is under way. order: task of each priority."""
        for record in self.records:
            self.check_form(record, record.parameter)
        if self.exchange:
            if self.norms:
                self.norms.settle()
            self.drop_exchange().close()
        self.limits, self.crossing = limits, crossing
        self.exchange = self.engine.exchange(limits)
        place = {task: i for i, task in enumerate(order)}
        factor = 1 / self.engine.n_ranks
        # DECLARED goes in the order of tasks: the last parameter's is the first.
        self.task_of, self.record_of, self.mates = {}, [], {}
        n = len(self.records)
        sizes = (r.parameter.numel() * r.parameter.element_size() for r in reversed(self.records))
        joined = _options.joining(sizes, limits.groups)
        by_rows = self.rows.entries if self.rows and self.rows.are_taken else ()
        mates, was_alone = [], False
        priorities = {}
        for record, goes_along in zip(reversed(self.records), joined):
            priority = place.get(record.task, n) if order else n - record.task
            priorities[record.task] = priority
            self.task_of[record] = self.exchange.declare(record.parameter, priority, factor)
            self.record_of.append(record)
            alone = record.task in by_rows  # goes with nothing else
            if goes_along and not (alone or was_alone):
                self.exchange.join()
            else:
                mates = []
            was_alone = alone
            mates.append(record)
            if limits.groups:
                self.mates[record.task] = mates
        if self.careful:
            self.used = torch.zeros(n, dtype=torch.int32)
            self.used_task = self.exchange.declare(self.used, -1, 1)
        if self.rows and self.rows.are_taken:
            self.rows.declare(self.exchange, priorities, factor)
        watch = recording
        if watch:
            watch.opened(self)

    def drop_exchange(self):
        """The exchange, which nobody finds here any more."""
        watch = recording
        with self.changing:
            if watch:
                watch.closes(self)
            exchange, self.exchange = self.exchange, None
        return exchange

    def close(self):
        self.forget_parameters()
        if self.exchange:
            self.last_counts, self.last_busy_ns = self.counts(), self.busy_ns()
            self.drop_exchange().close()
        self.norms = None  # whose memory was the exchange's until here

    def forget_parameters(self):
        """What is not summed by now never is, and the parameters are the job's."""
        with _pending.lock:
            if self.rows:
                self.rows.forget()
            for handle in self.handles:
                handle.remove()
            for record in self.records:
                if _pending.records.get(id(record.parameter)) is record:
                    del _pending.records[id(record.parameter)]
                    _pending.settle(record)
            self.handles, self.records, self.record_of, self.task_of = [], [], [], {}
            self.hook_ids, self.mates = [], {}
            self.behind.clear()
            self.armed, self.at_first, self.used = False, None, None

    def forked(self):
        self.exchange = self.norms = None
        self.changing = threading.RLock()  # of which another thread may have been in the middle
        self.ended = "the gradients of this module are summed in another process, by fork"
        self.forget_parameters()

    def counts(self):
        """Of the exchange; of the last one, once there is none."""
        return self.exchange.counts() if self.exchange else self.last_counts

    def busy_ns(self):
        return self.exchange.busy_ns() if self.exchange else self.last_busy_ns

    def bytes_of(self, record):
        """Of its gradient, as it goes on the wire."""
        parameter = record.parameter
        if parameter.dtype == torch.float32:
            return _coll.sent_bytes(self.engine.compress, parameter.numel())
        return parameter.numel() * parameter.element_size()

    def gradient_bytes(self):
        return sum(map(self.bytes_of, self.records))

    # --- of an iteration -------------------------------------------------------------

    def begin(self, sums):
        """Before a forward pass with gradients, whose backward passes are summed, or
        not. One that is not summed leaves an iteration as it is whose backward() is
        to come: that one is summed, as by PyTorch."""
        if not sums:
            self.armed = self.armed and not self.is_complete
            return
        if self.seen and not self.is_complete:
            raise RuntimeError(self.incomplete())
        while not self.used_is_there:
            self.collect(WAIT_SECONDS)
        self.armed, self.has_callback = True, False
        if self.rows:
            self.rows.begin()
        self.seen.clear()
        self.behind.clear()
        self.is_complete, self.used_is_given = False, False
        self.fires = [0] * len(self.records)

    def end_iteration(self):
        """Its gradients were taken for a step. What backward() gives behind that is not the
        forward pass's, but of a use of the module that this rank may have alone."""
        if self.is_complete:
            self.armed = False

    def has_completed(self):
        """The last iteration that was begun had all its gradients."""
        return self.is_complete and bool(self.seen)

    def is_whole(self, record):
        """Its gradient is under way, and that of no backward pass that is in its middle."""
        if record.state == IDLE or record.rows and record.rows.to_come:
            return False
        return self.is_complete or not self.seen

    def incomplete(self):
        missing = [r for r in self.records if r.task not in self.seen]
        frozen = [r.name for r in missing if not r.parameter.requires_grad]
        names = [r.name for r in missing]
        why = "find_unused_parameters=True allows it"
        if frozen:
            names, why = frozen, "requires_grad of a parameter must stay as it was"
        more = " and %d more" % (len(names) - 4) if len(names) > 4 else ""
        return (
            "backward() of the last iteration gave no gradient to %s%s, for which the "
            "other ranks wait: %s" % (", ".join(names[:4]), more, why)
        )

    def before_accumulate(self, record, grad):
        """A gradient comes to a parameter; the one before it may be under way."""
        if record.state != IDLE:
            _pending.finish([record])

    def accumulated(self, record, parameter):
        if self.careful:
            self.touched.add(record.task)
        if not self.armed:
            return
        if self.rows:
            self.rows.see_gradient(record)
        self.before_first()
        is_last = self.is_last(record)
        if self.careful:
            if self.used_is_given:
                raise RuntimeError("one backward() in an iteration is summed with "
                                   "find_unused_parameters or static_graph")
            self.fires[record.task] += 1
            if self.learns or self.fires[record.task] < self.expected[record.task]:
                return
        if is_last:
            self.came(record, parameter)
            return
        self.behind.add(record)
        if not self.has_callback:
            self.call_back(self.backward_ended)

    def is_last(self, record):
        """Of the hooks of its parameter ours is the last, which sees what the others made
        of the gradient, as PyTorch's class does. Younger ones come before it next time."""
        hooks = _pending.raw(record.parameter, "_post_accumulate_grad_hooks")
        own = self.hook_ids[record.task]
        if next(reversed(hooks)) == own:
            return True
        hooks[own] = hooks.pop(own)
        return False

    def came(self, record, parameter):
        """All of a gradient, or a second one of its iteration."""
        self.behind.discard(record)
        if self.has_turns() and record.task in self.seen:
            self.again(record)
        if record.rows and not record.rows.whole_came():
            return
        self.give(record, self.dense(parameter))
        self.last_hook_ns = self.ready_ns[record.task] = time.monotonic_ns()

    def before_first(self):
        call, self.at_first = self.at_first, None
        if call:
            call()
        if self.rows:
            self.rows.ask()

    def call_back(self, call):
        self.has_callback = True
        torch.autograd.Variable._execution_engine.queue_callback(call)

    @staticmethod
    def dense(parameter):
        """Its gradient, laid out as the parameter is, as on all ranks."""
        grad = parameter.grad
        if grad is None:  # a hook of the job's took it
            grad = parameter.grad = torch.zeros_like(parameter, requires_grad=False)
        if grad.layout != torch.strided:
            raise RuntimeError("gradients that are sparse cannot be summed; taut run "
                               "--no-schedule leaves them to PyTorch")
        if grad.stride() != parameter.stride() or grad.dtype != parameter.dtype:
            grad = torch.empty_like(parameter).copy_(grad.detach())
            parameter.grad = grad
        return grad

    def has_turns(self):
        """A gradient waits for others of its iteration."""
        return self.limits.order == "declared" or bool(self.limits.groups)

    def again(self, record):
        """A second backward() of one iteration: the declared order has one turn, and so
        has a group."""
        if not self.is_complete:
            raise RuntimeError(
                "%s got a second gradient in an iteration before all parameters had "
                "their first: TAUT_RUN_GATE=off and TAUT_RUN_ORDER=agreed, without groups in "
                "TAUT_RUN_FUSE, allow it" % record.name
            )
        self.wait_all()
        limits = self.limits._replace(order="agreed", groups=())
        self.open(limits, [], self.crossing)

    def check_form(self, record, tensor):
        """An exchange reads and writes as much memory as was declared to it, whatever is
        there: a parameter may have other memory by now."""
        form = tensor.dtype, tensor.numel()
        if form != self.forms[record.task]:
            raise RuntimeError(
                "%s has %d elements of %s, and had %d of %s when the model was wrapped: "
                "wrap it anew once it has changed"
                % (record.name, form[1], form[0], *reversed(self.forms[record.task]))
            )

    def give(self, record, grad):
        self.check_form(record, grad)
        with _pending.lock:
            at_once = type(record.parameter) is not Parameter or _pending.is_held(grad)
            record.grad, record.is_there = grad, False
            watch, start_ns = recording, recording and time.monotonic_ns()
            if record.rows:
                record.rows.whole_given()
            self.ready(self.task_of[record], grad, self.may_wait(record, grad))
            if watch:
                watch.called(self, self.task_of[record], False, start_ns)
            record.state = SUMMING
            self.saw(record, at_once)

    def give_part(self, task, part):
        """Rows of a gradient: a task of their own."""
        watch, start_ns = recording, recording and time.monotonic_ns()
        self.told(self.exchange.ready_part, task, part)
        if watch:
            watch.called(self, task, False, start_ns)

    def saw(self, record, at_once):
        """A gradient, or a part of it, is under way."""
        if not (record.rows and record.rows.to_come):
            self.seen.add(record.task)
            self.is_complete = len(self.seen) == len(self.records)
        if self.crossing and not at_once:
            record.parameter.__class__ = _pending.Pending
        elif not self.has_callback:
            self.call_back(self.backward_ended)

    def may_wait(self, record, grad):
        """For the next gradient, which comes soon: of the small ones of normalization and
        biases each would cost the core as much as a large one."""
        self.held_bytes += grad.nbytes
        left = len(self.records) - len(self.seen) - (record.task not in self.seen)
        if self.rows:
            left -= self.rows.to_come()
        if not left or self.held_bytes >= MOST_HELD_BYTES:
            self.held_bytes = 0
        return self.held_bytes > 0

    def ready(self, task, tensor, more=False):
        self.told(self.exchange.ready, task, tensor, more)

    def told(self, call, *arguments):
        """Makes a call; the job hears of it when that fails."""
        try:
            return call(*arguments)
        except RuntimeError:
            self.was_told = True
            raise

    # --- the end of backward() -----------------------------------------------------------

    def backward_begins(self):
        """careful: something of the module's output gets a gradient."""
        if getattr(_asking, "grad", False):
            return
        if self.armed and not self.has_callback:
            self.call_back(self.backward_ended)

    def backward_ended(self):
        self.has_callback = False
        if not self.armed:
            return
        for record in list(self.behind):
            self.came(record, record.parameter)
        if self.careful:
            self.give_rest()
        if self.has_turns() and not self.is_complete:
            return  # another backward() has the rest
        begin_ns = time.monotonic_ns()
        for record in self.records:
            late = type(record.parameter) is _pending.Pending
            comes = record.rows and record.rows.to_come  # of another backward()
            if record.state == SUMMING and not late and not comes:
                _pending.finish([record])
        self.exposed_ns += time.monotonic_ns() - begin_ns

    def give_rest(self):
        if self.learns:
            self.expected = [max(n, 1) for n in self.fires]
            self.learns = False
        if self.used_is_given:
            return
        self.before_first()
        for record in self.records:
            self.used[record.task] = int(record.task in self.touched)
        for record in reversed(self.records):
            if record.task in self.seen:
                continue
            parameter = record.parameter
            self.before_accumulate(record, None)
            if self.fires[record.task]:
                self.give(record, self.dense(parameter))
                continue
            grad = _pending.raw_grad(parameter)
            record.is_unused = True
            with torch.no_grad():
                self.give(record, torch.zeros_like(parameter) if grad is None else grad.clone())
        self.touched.clear()
        self.used_is_there, self.used_is_given = False, True
        self.ready(self.used_task, self.used)

    # --- what is summed -----------------------------------------------------------------

    def collect(self, seconds=0):
        """Notes what was summed. True: something was."""
        task = self.told(self.exchange.next, seconds)
        some = task is not None
        while task is not None:
            if task < len(self.record_of):
                self.is_summed(self.record_of[task])
            elif self.rows and task in self.rows.of_task:
                self.rows.of_task[task].is_summed(_rows.ROWS)
            else:
                self.used_is_there = True
            task = self.exchange.next(0)
        return some

    @staticmethod
    def is_summed(record):
        if record.rows:
            record.rows.is_summed(_rows.WHOLE)
        else:
            record.is_there = True

    def wait_for(self, record):
        """Its gradient is summed when this returns. The lock is held."""
        self.wait_sum(record)
        if record.is_unused:
            record.is_unused = False
            self.take_unused(record)
        if record.state == SUMMING:
            _pending.settle(record)

    def wait_sum(self, record):
        watch, start_ns = recording, recording and time.monotonic_ns()
        while not (record.is_there and (not record.is_unused or self.used_is_there)):
            self.check_turn(record)
            if record.rows:
                record.rows.check()
            self.collect(WAIT_SECONDS)
        if watch and record not in self.told_waits:
            by_rows = record.rows and not record.rows.is_whole
            task = record.rows.task if by_rows else self.task_of[record]
            watch.called(self, task, True, start_ns)

    def check_turn(self, record):
        """A sum may be one for which others must come first. What had no gradient yet in
        this iteration waits for one that had all."""
        if not self.has_turns() or self.is_complete or record.task not in self.seen:
            return
        mates = [r for r in self.mates.get(record.task, ()) if r.task not in self.seen]
        first = [r for r in self.records[record.task + 1 :] if r.task not in self.seen]
        if self.limits.order == "declared" and first:
            raise RuntimeError(
                "%s or its gradient was read before backward() had that of %s, which is "
                "summed first: find_unused_parameters=True, or TAUT_RUN_GATE=off and "
                "TAUT_RUN_ORDER=agreed, allow it"
                % (record.name, first[-1].name)
            )
        if mates:
            raise RuntimeError(
                "%s or its gradient was read before backward() had that of %s, with which it "
                "is summed: TAUT_RUN_FUSE without groups allows it"
                % (record.name, mates[-1].name)
            )

    def is_stuck(self):
        """Some gradients never came, before which others may not go."""
        if self.rows and self.rows.is_stuck():
            return True
        if self.limits.order == "declared":
            return bool(self.seen) and not self.is_complete
        return not self.is_complete and any(
            r.task not in self.seen for task in self.seen for r in self.mates.get(task, ())
        )

    def take_unused(self, record):
        """The others' mean, where one of them used the parameter."""
        if not int(self.used[record.task]):
            return
        before = _pending.raw_grad(record.parameter)
        if before is None:
            _pending.set_raw_grad(record.parameter, record.grad)
        else:
            before.copy_(record.grad)

    def wait_all(self):
        _pending.finish([r for r in self.records if r.state != IDLE])

    def finish_some(self, wanted):
        """These, and all others whose sums came by then: few calls of step() for
        many parameters."""
        with _pending.lock, _pending.outside():
            self.collect()
            if not all(r.is_there for r in wanted):
                _pending.finish(self.arrived())
                waited = [r for r in wanted if not r.is_there and r.state != IDLE]
                for record in waited:
                    self.wait_sum(record)
                self.told_waits = waited
            ready = set(self.arrived())
            try:
                _pending.finish(list(ready.union(wanted)))
            finally:
                self.told_waits = ()

    def arrived(self):
        """Updates whose gradients are summed."""
        return [r for r in self.records if r.state == STEPPED and r.is_there]

    def is_under_way(self):
        is_used_given = self.exchange and self.used_is_given
        return (is_used_given and not self.used_is_there) or any(
            r.state != IDLE and not r.is_there for r in self.records
        )

    def drain(self, seconds):
        """Waits for what is under way, as long as it may come."""
        end = time.monotonic() + seconds
        self.drain_sums(seconds)
        if self.norms and not self.lost:
            with contextlib.suppress(RuntimeError):  # a rank is gone
                self.norms.settle(max(0, end - time.monotonic()))

    def drain_sums(self, seconds):
        end, told = time.monotonic() + seconds, self.was_told
        while self.is_under_way():
            if time.monotonic() >= end or self.is_stuck():
                return
            try:
                self.collect(WAIT_SECONDS)
            except RuntimeError as why:  # a rank is gone
                self.was_told, self.lost = told, str(why)
                return
