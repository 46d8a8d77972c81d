# SPDX-License-Identifier: Apache-2.0
"""The recording of this process: counts steps, opens and closes the window in
which they are recorded, and says on the disk what it is doing.

There is one Job at a time. Adapters of frameworks (_adapter.py has the
contract) tell it when a step ends; the first adapter that does leads, another
framework in the same process is not recorded. Nothing here prints or raises
into the job, but for Block, which somebody called."""

import atexit
import importlib
import os
import re
import sys
import threading
import time

from . import _heap, _log, _nccl, _window
from ._clocks import Clocks
from ._process import ProcessFile, StepTimes, place

DEFAULT_STEPS = (10, 14)
LONGEST_S = 600  # of a window, whose end may never come
LOOK_EVERY_S = 1
LOG_RECORDS = 16384  # of 128 bytes: clocks, facts, waits for batches

WAITS, DISCARDS, RECORDS, ENDED = "waits", "discards", "records", "ended"

_job = None
_adapters = {}  # framework -> Adapter, or None where it could not be made


def parse_steps(text):
    """ "A:B" as (A, B); ValueError says what is wrong."""
    found = re.fullmatch(r"\s*(\d+):(\d+)\s*", text)
    if not found or int(found[1]) >= int(found[2]):
        raise ValueError("steps are A:B with A < B, found %r" % text)
    return int(found[1]), int(found[2])


class _Bound:
    """Of a window: how long it may be, None without end, and how much memory it may
    take, half of what was free when it began."""

    def __init__(self, seconds):
        self.thread = threading.get_ident()
        self.next_look = time.monotonic() + LOOK_EVERY_S
        self.end = time.monotonic() + seconds if seconds else float("inf")
        free = _heap.available_bytes()
        self.most_bytes = _heap.resident_bytes() + free // 2 if free else float("inf")

    def why_over(self):
        """A line, or None; costs next to nothing."""
        now = time.monotonic()
        if now < self.next_look or threading.get_ident() != self.thread:
            return None
        self.next_look = now + LOOK_EVERY_S
        if now > self.end:
            return "took more than %d s" % LONGEST_S
        if _heap.resident_bytes() > self.most_bytes:
            return "took more than half of the memory that was free"
        return None


class Job:
    """One recording of this process into the folder run.

    steps: (A, B), or None for a window that begin() and end() make.
    is_fork: the process is a copy of one that has a Job. Most such copies are
    workers of some kind, so this one says nothing until it ends a step."""

    def __init__(self, run, steps, is_fork=False):
        self.run = run
        self.pid = os.getpid()
        self.file = ProcessFile(run, time.time_ns())
        self.times = StepTimes()
        self.adapters = []
        self.leader = None
        self.ranks = None
        self.clocks = None
        self.log = None
        self.log_fault = self.window_fault = ""
        self.window = None
        self.bound = None  # of the window that is open
        self.steps_seen = 0
        self.phase = WAITS
        self.asked = steps
        self.first = None  # step of the window, once it has begun
        self.end_step = None
        self.by_hand = False
        self.is_fork = is_fork
        self.state = ""
        self._plan(steps)

    def _plan(self, steps):
        """When the next thing happens, in steps seen."""
        if steps:
            # The end of step A-1 begins the window: step 0 cannot be in it.
            self.first = max(steps[0], 1)
            self.end_step = max(steps[1], self.first + 1)
            # One step is left between the window that is thrown away and the
            # real one: ranks that took longer to set up meet again in it.
            self.discard_at = max(self.first - 2, 1)
            self.next_change = 1
        else:
            self.next_change = float("inf")

    # --- from the adapters ------------------------------------------------

    def add(self, adapter):
        self.adapters.append(adapter)
        if len(self.adapters) == 1:
            self.file.told["framework"] = adapter.framework
            ranks = adapter.ranks()
            if ranks and not self.is_fork and _is_no_child():
                self._tell_ranks(ranks)
                self.tell("waits for the first step to end")

    def step(self, adapter):
        """The adapter's framework ended a step."""
        if self.pid is None:
            return
        try:
            self._step(adapter)
        except Exception as error:
            self.give_up("%s: %s" % (type(error).__name__, error))

    def look(self):
        """In the window, also within a step: ends it where it goes on for too long. In
        any thread, as often as you like."""
        why = self.bound and self.bound.why_over()
        if not why:
            return
        try:
            self._end_early(why)
        except Exception as error:
            self.give_up("%s: %s" % (type(error).__name__, error))

    def step_by_hand(self):
        adapter = self.leader or (self.adapters[0] if self.adapters else None)
        if adapter:
            self.by_hand = False
            self.step(adapter)
            self.by_hand = True

    def _step(self, adapter):
        if self.by_hand or adapter is not (self.leader or self._lead(adapter)):
            return
        times = self.times
        times.ended(self.phase is RECORDS, adapter.issue_began, adapter.update_began)
        self.steps_seen += 1
        if self.steps_seen >= self.next_change:
            self._change()
        elif self.phase is RECORDS:
            self.look()
        if self.phase is RECORDS and self.steps_seen > self.first:
            adapter.between_steps()
        times.next_begins(self.phase is not DISCARDS and not adapter.watches())

    def _lead(self, adapter):
        self.leader = adapter
        self.file.told["framework"] = adapter.framework
        return adapter

    # --- the window -------------------------------------------------------

    def _change(self):
        seen = self.steps_seen
        if seen == 1:
            self._first_step()
        if self.phase is DISCARDS:
            self.bound = None
            self.leader.stop(None)
            self.times.measure()
            self.leader.prepare()
            self.phase = WAITS
        if self.phase is RECORDS and seen >= self.end_step:
            self._stop("recorded steps %d:%d" % (self.first, seen))
        elif self.phase is WAITS and seen >= self.first:
            self._start()
        elif self.phase is WAITS and seen == self.discard_at:
            self._discard()
        self._next_change()

    def _next_change(self):
        seen = self.steps_seen
        if self.phase is RECORDS:
            self.next_change = self.end_step
        elif self.phase is DISCARDS:
            self.next_change = seen + 1
        elif self.phase is ENDED:
            self.next_change = float("inf")
        else:
            waits_for = self.discard_at if seen < self.discard_at else self.first
            self.next_change = waits_for

    def _first_step(self):
        ranks = self.leader.ranks()
        self._tell_ranks(ranks)
        self.clocks = Clocks(self.run, self.leader)
        if ranks and ranks[0] == 0 and ranks[1] > 1:
            self.clocks.serve()
        self.tell("waits for step %d" % self.first)

    def _discard(self):
        if self._may_record():
            self._compare_clocks()
            self.phase = DISCARDS
            self.bound = _Bound(LONGEST_S)
            self.leader.start(True)

    def _may_record(self):
        """Whether there is a place for it and nobody else records."""
        why = self.leader.busy()
        if not why and not self.log:
            why = self._prepare()
        if why:
            self.give_up(why)
        return not why

    def _prepare(self):
        """Makes the folder and the log; why it cannot, or None."""
        self._tell_ranks(self.leader.ranks())
        folder = self._folder()
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            return "cannot make %s: %s" % (folder, error.strerror)
        if self.ranks and os.path.exists(os.path.join(folder, self.leader.output)):
            return "rank %d was recorded already, by another process" % self.ranks[0]
        self.log, self.log_fault = self.open_log(self.leader.framework)
        return None

    def _folder(self):
        """Where files go, by what is known of the rank now. A process that no
        launcher started and that is alone is rank 0, unless another was first."""
        if not self.ranks and self.leader.ranks() is None:
            try:
                os.mkdir(os.path.join(self.run, "rank0"))
                self._tell_ranks((0, 1, 0))
            except OSError:
                pass
        if self.ranks:
            return os.path.join(self.run, "rank%d" % self.ranks[0])
        return os.path.join(self.run, "processes")

    def log_path(self, source):
        if self.ranks:
            return os.path.join(self._folder(), "%s-%d.tautlog" % (source, self.pid))
        return os.path.join(
            self.run, "processes", "%s-%s.tautlog" % (source, self.file.name)
        )

    def open_log(self, source, records=LOG_RECORDS):
        """(log, "") or (None, why)."""
        try:
            path = self.log_path(source)
            return _log.Log(path, source, self.ranks, records), ""
        except OSError as error:
            return None, "no event log: %s" % error

    def _start(self):
        if not self._may_record():
            return
        self.first = self.steps_seen
        self.phase = RECORDS
        self.tell("records steps %d:%s" % (self.first, self.end_step or ""))
        self.bound = _Bound(LONGEST_S if self.asked else None)
        self.leader.start(False)
        _nccl.record(True)
        self._open_window()

    def _stop(self, state):
        """Ends the window and brings what was recorded where it belongs."""
        self.phase, self.bound = ENDED, None
        _nccl.record(False)
        self._tell_ranks(self.leader.ranks())
        self._close_window(time.time_ns())
        if self.ranks:
            self._move_log()
        self.leader.stop(self._folder())
        self.times.measure()  # where no window was thrown away
        self._compare_clocks()
        whole = self.steps_seen > self.first
        recorded = [self.first, self.steps_seen] if whole else None
        self.tell(state, recorded=recorded, **self.times.told())
        self._close_log(state)

    def _end_early(self, why):
        """With the steps that it has, if any."""
        seen = self.steps_seen
        if self.phase is not RECORDS:
            self.give_up("step %d, before those to record, %s" % (seen, why))
        elif seen == self.first:
            self.give_up("step %d %s" % (seen, why))
        else:
            self._stop("ended in step %d: the window %s" % (seen, why))
            self._next_change()

    def _open_window(self):
        """Others that record in it follow: workers of loaders, MPI."""
        try:
            self.window = _window.Window(_window.path_of(self.run, self.pid), create=True)
        except OSError as error:
            self.window_fault = "no file of the window: %s" % error.strerror
            return
        self.window_ns = time.time_ns()
        self.window.set(self.window_ns, 0, self.ranks)

    def _close_window(self, end_ns):
        """end_ns None: what was recorded in it is thrown away."""
        if self.window:
            self.window.set(self.window_ns, end_ns or self.window_ns, self.ranks)

    def _move_log(self):
        """To the folder of a rank that was not known when the log was opened."""
        path = self.log_path(self.leader.framework)
        if self.log and self.log.path != path:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            place(self.log.path, path)
            self.log.path = path

    def _close_log(self, state):
        if self.log:
            self.log.state(state)
            self.log.close()
        self.log = None

    def _compare_clocks(self):
        rank, world, local = self.ranks or (0, 1, 0)
        if self.clocks and rank != 0 and world > 1 and not local:
            self.clocks.ask(self.log)

    # --- saying it --------------------------------------------------------

    def _tell_ranks(self, ranks):
        if not ranks or ranks == self.ranks:
            return
        self.ranks = tuple(ranks)
        told = self.file.told
        told["rank"], told["world_size"], told["local_rank"] = self.ranks
        if self.log:
            self.log.ranks(self.ranks)

    def tell(self, state, **changes):
        self.state = state
        for fault in filter(None, (self.log_fault, self.window_fault)):
            state += "; " + fault
        if self.log:
            self.log.state(state)
        self.file.write(state=state, steps_seen=self.steps_seen, **changes)

    def give_up(self, why):
        """Ends a recording that cannot go on. What it had is thrown away."""
        was, self.phase, self.bound = self.phase, ENDED, None
        _nccl.record(False)
        self.next_change = float("inf")
        self._close_window(None)
        try:
            if was in (DISCARDS, RECORDS):
                self.leader.stop(None)
            elif self.leader:
                self.leader.unwatch()
        except Exception:
            pass
        state = "not recorded: " + " ".join(why.split())
        self._close_log(state)
        self.tell(state)

    # --- the end ----------------------------------------------------------

    def end(self):
        """At the end of the process, however Python ends it; also of a Block."""
        if self.pid is None:
            return
        try:
            self._end()
        except Exception as error:
            self.give_up("%s: %s" % (type(error).__name__, error))
        if self.clocks:
            self.clocks.stop()
        if self.window:
            self.window.remove()
        for adapter in self.adapters:
            try:
                adapter.ended()
            except Exception:
                pass
        self.pid = None

    def _end(self):
        how = "failed" if getattr(sys, "last_type", None) else "ended"
        state = self.state
        if self.phase is RECORDS:
            state = self._cut(how)
            self._stop(state)
        elif self.phase is not ENDED:
            if not self._is_worth_telling():
                return
            if self.phase is DISCARDS:
                self.leader.stop(None)
            state = self._too_short(how)
            self._close_log(state)
        self.phase = ENDED
        self.tell(state, ended_ns=time.time_ns(), **self.times.told())

    def _cut(self, how):
        if not self.asked:
            return "recorded steps %d:%d" % (self.first, self.steps_seen)
        return "the job %s in step %d, before all of steps %d:%d were recorded" % (
            how,
            self.steps_seen,
            self.first,
            self.end_step,
        )

    def _too_short(self, how):
        asked = "; steps %d:%d were asked for" % self.asked if self.asked else ""
        seen = self.steps_seen
        return "not recorded: the job %s after %d steps%s" % (how, seen, asked)

    def _is_worth_telling(self):
        """Whether a process in which no step ended was to be a rank: neither a
        worker of one nor a launcher."""
        if self.steps_seen or self.file.is_written or self.is_fork:
            return self.steps_seen > 0 or self.file.is_written
        launches = any(
            name in sys.modules
            for name in ("torch.distributed.run", "torch.distributed.launcher.api")
        )
        return bool(self.adapters) and _is_no_child() and not launches

    # --- for Block --------------------------------------------------------

    def begin(self):
        """The window of a Block without steps: from now to its end."""
        if self.adapters:
            self._lead(self.adapters[0])
            self._first_step_of_block()
            self._start()

    def _first_step_of_block(self):
        self._tell_ranks(self.leader.ranks())
        self.clocks = Clocks(self.run, self.leader)
        self.first = self.steps_seen
        self.end_step = None


def _is_no_child():
    """Not a worker that multiprocessing started."""
    module = sys.modules.get("multiprocessing.process")
    parent = getattr(module, "parent_process", None)
    return not (parent and parent()) and "--multiprocessing-fork" not in sys.argv


# --- the one job of this process ----------------------------------------------


def job():
    return _job


def _begin_job(run, steps, is_fork=False):
    global _job
    _job = Job(run, steps, is_fork)
    for adapter in _adapters.values():
        if adapter:
            adapter.job = _job
            _job.add(adapter)
    return _job


def _end_job():
    global _job
    if _job:
        _job.end()
    for adapter in _adapters.values():
        if adapter:
            adapter.job = None
    _job = None


def _forked():
    """In a child made by fork: its parent's job is none of its own."""
    global _job
    was, _job = _job, None
    try:
        for adapter in _adapters.values():
            if adapter:
                adapter.job = None
                adapter.forked()
        if was and os.environ.get("TAUT_RECORD") == was.run:
            _begin_job(was.run, was.asked, is_fork=True)
    except Exception:
        _job = None


def _from_environment():
    """The job that `taut record` asks for, made once."""
    if _job or not os.environ.get("TAUT_RECORD"):
        return
    fault, steps = "", DEFAULT_STEPS
    try:
        if os.environ.get("TAUT_RECORD_STEPS"):
            steps = parse_steps(os.environ["TAUT_RECORD_STEPS"])
    except ValueError as error:
        fault = str(error)
    _begin_job(os.environ["TAUT_RECORD"], steps)
    if fault:
        _job.give_up(fault)


def _adapter(name):
    if name not in _adapters:
        _adapters[name] = None
        module = importlib.import_module(__package__ + "._" + name)
        _adapters[name] = module.Adapter(_job)
        if _job:
            _job.add(_adapters[name])
    return _adapters[name]


def framework_imported(name, module):
    """Called by the import hook at the end of a framework's import."""
    try:
        _from_environment()
        _adapter(name)
    except Exception as error:
        if _job:
            _job.give_up("%s: %s: %s" % (name, type(error).__name__, error))


def step_by_hand():
    if _job:
        _job.step_by_hand()


class Block:
    """taut.record(). Raises where it was called wrongly: ValueError for steps,
    OSError for a folder that cannot be made."""

    def __init__(self, out, steps=None):
        self.out = os.path.abspath(os.fspath(out))
        self.steps = parse_steps(steps) if steps else None
        self.is_ours = False

    def __enter__(self):
        if _job:
            return self  # what is recorded already goes on
        os.makedirs(os.path.join(self.out, "processes"), exist_ok=True)
        for name in ("torch", "tensorflow", "mxnet"):
            if name in sys.modules:
                framework_imported(name, sys.modules[name])
        self.is_ours = True
        begun = _begin_job(self.out, self.steps)
        if not self.steps:
            try:
                begun.begin()
            except Exception as error:
                begun.give_up("%s: %s" % (type(error).__name__, error))
        return self

    def __exit__(self, *exception):
        if self.is_ours:
            _end_job()
        return False


atexit.register(_end_job)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
