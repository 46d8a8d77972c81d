# SPDX-License-Identifier: Apache-2.0
"""Gradients summed by a process group of PyTorch, in the order that the scheduler
of libtaut.so says.

Engine: what is made once for a module; Exchange: one set of tasks and limits over
it, at a time. _sync.py has the same two over libtaut's own collectives.

An exchange has declare(), then for each gradient ready(), and next() for what is
summed. A thread of its own does all that the scheduler asks for."""

import collections
import os
import threading
import time

import torch
import torch.distributed as dist

from . import _lib, _place, _rounds, _sched

NEEDS = tuple("taut_sched_" + n for n in ("create", "ready", "finished", "agreed"))


def flat(tensor):
    """The elements of a dense tensor as they lie in memory."""
    return tensor.detach().as_strided((tensor.numel(),), (1,), tensor.storage_offset())


class Engine:
    name = "process-group"
    broadcasts = False  # an exchange has broadcast()
    lingers = True  # others may still enter a round, and know it as lost otherwise
    compress = "none"

    def __init__(self, process_group):
        ranks = dist.get_process_group_ranks(process_group)
        self.rank, self.n_ranks = dist.get_rank(process_group), len(ranks)
        # Gloo whatever the job has: gradients that lie in the host's memory.
        self.group = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
        self.rounds = _rounds.Rounds(self._meet() if self.n_ranks > 1 else {})

    def _meet(self):
        own, listener, why = _place.addresses(self.group)[self.rank], None, None
        try:
            listener = _rounds.Listener(own)
        except OSError as error:
            why = "%s: %s" % (own, error)  # which the others wait to hear
        try:
            said = [None] * self.n_ranks
            secret = os.urandom(32) if not self.rank else None
            mine = listener and listener.address, why, secret
            dist.all_gather_object(said, mine, group=self.group)
            for rank, (_, why, _) in enumerate(said):
                if why:
                    raise OSError("rank %d cannot be met: %s" % (rank, why))
            addresses = [address for address, _, _ in said]
            return _rounds.meet(listener, self.rank, addresses, said[0][2])
        finally:
            if listener:
                listener.close()

    def exchange(self, limits):
        return Exchange(self, limits)

    def close(self, seconds=0):
        """With a time, which may pass: the others are not told that this rank is
        lost. Without, what they still want of it fails there."""
        if seconds:
            self.rounds.leave(seconds)
        self.rounds.close()
        self.group = None

    def forked(self):
        """In a child made by fork, which has no part in it: its descriptors are
        closed, and nothing is said."""
        self.rounds.forked()
        self.group = None


class UnderWay:
    """Pieces that are summed as one. Once the sums are where they belong it holds no
    memory of the job's: who hears of a sum asks whether anybody else has the gradient."""

    def __init__(self, numbers, parts):
        self.numbers, self.parts = numbers, parts
        self.whole = parts[0] if len(parts) == 1 else torch.cat(parts)

    def take_apart(self):
        parts, whole = self.parts, self.whole
        self.parts = self.whole = None
        if len(parts) > 1:
            torch._foreach_copy_(parts, list(whole.split([p.numel() for p in parts])))


class Exchange:
    def __init__(self, engine, limits):
        if limits.halves:
            raise ValueError("all-reduce in halves needs engine coll")
        self.engine = engine
        self.options = _sched.Options(
            order=_lib.ORDERS[limits.order],
            n_ranks=engine.n_ranks,
            piece_bytes=limits.piece,
            credit_bytes=limits.credit,
            fuse_bytes=limits.fuse,
        )
        self.sched = _sched.Sched(self.options, self)
        self.factors, self.flats = [], []
        self.commands = collections.deque()  # of calls to be made on the thread
        self.done_tasks = collections.deque()
        self.changed = threading.Condition()
        self.failure = None
        self.thread = None
        self.is_closing = False
        self.under_way, self.busy_since_ns, self.busy = 0, 0, 0

    # --- the job's threads -------------------------------------------------------------

    def declare(self, like, priority, factor):
        """A task for tensors of this size and type; its number."""
        self.factors.append(factor)
        self.flats.append(None)
        return self.sched.declare(like.numel() * like.element_size(), priority)

    def join(self):
        """The task that was declared last goes with the one before it."""
        self.sched.join()

    def ready(self, task, tensor, more=False):
        """This rank's part is in the tensor, which becomes the sum. more: another one
        follows soon, and may bring this one along."""
        self._check()
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, daemon=True, name="taut-sums")
            self.thread.start()
        self._post(self._ready, task, flat(tensor))

    def next(self, seconds):
        """The next task that is summed, in the order in which they were; None: not
        within the time."""
        with self.changed:
            if not self.done_tasks and not self.failure:
                if not seconds or not self.changed.wait(seconds):
                    return None
            if self.done_tasks:
                return self.done_tasks.popleft()
        self._check()
        return None

    def busy_ns(self):
        return self.busy

    def counts(self):
        counts = self.sched.counts()
        return {name: getattr(counts, name) for name, _ in counts._fields_}

    def close(self):
        """Nothing is under way, or the job ends by an error."""
        if self.thread:
            self.is_closing = True
            self.engine.rounds.wake()
            self.thread.join()
        self.sched.destroy()

    def _check(self):
        if self.failure:
            raise RuntimeError("gradients cannot be summed: " + self.failure)

    def _post(self, call, *arguments):
        self.commands.append((call, arguments))
        self.engine.rounds.wake()

    # --- its own thread ----------------------------------------------------------------

    def _run(self):
        try:
            self._serve()
        except Exception as why:
            self._fail(str(why) or type(why).__name__)

    def _serve(self):
        rounds = self.engine.rounds
        asked = rounds.asked_already()
        while not self.is_closing:
            if asked is not None and self.options.order == _lib.ORDERS["agreed"]:
                self.sched.asked(asked)
            while self.commands:
                call, arguments = self.commands.popleft()
                call(*arguments)
                call = arguments = None  # a tensor of the job's is held no longer than needed
            result = rounds.result()
            while result:
                self.sched.agreed(*result)
                result = rounds.result()
            asked = None if self.commands else rounds.wait(None)

    def _fail(self, why):
        with self.changed:
            self.failure = self.failure or why
            self.changed.notify_all()
        self.sched.fail(why)
        self.engine.rounds.close()  # so that the others know

    def _ready(self, task, tensor):
        self.flats[task] = tensor
        if self.factors[task] != 1:
            tensor.mul_(self.factors[task])
        self.sched.ready(task)

    # --- what the scheduler asks for -------------------------------------------------------

    def start(self, pieces):
        by_type = {}
        for task, number, first, nbytes in pieces:
            whole = self.flats[task]
            size = whole.element_size()
            part = whole[first // size : (first + nbytes) // size]
            by_type.setdefault(whole.dtype, []).append((number, part))
        if not self.under_way:
            self.busy_since_ns = time.monotonic_ns()
        for parts in by_type.values():
            self.under_way += 1
            self._reduce([n for n, _ in parts], [p for _, p in parts])

    def _reduce(self, numbers, parts):
        under_way = UnderWay(numbers, parts)
        work = dist.all_reduce(under_way.whole, group=self.engine.group, async_op=True)
        work.get_future().add_done_callback(lambda f: self._post(*self._ended(f, under_way)))

    def _ended(self, future, under_way):
        """On a thread of PyTorch's: the command that follows. It has no part of the
        future, which holds memory of the job's."""
        try:
            future.value()
        except Exception as why:
            return self._fail, str(why) or type(why).__name__
        return self._finished, under_way

    def _finished(self, under_way):
        under_way.take_apart()
        self.under_way -= 1
        if not self.under_way:
            self.busy += time.monotonic_ns() - self.busy_since_ns
        for number in under_way.numbers:
            self.sched.finished(number)

    def agree(self, number, words):
        self.engine.rounds.enter(number, words)

    def done(self, task, iteration, status):
        self.flats[task] = None
        if status != _lib.OK:
            return  # _fail() tells
        with self.changed:
            self.done_tasks.append(task)
            self.changed.notify_all()
