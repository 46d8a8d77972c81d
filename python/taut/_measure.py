# SPDX-License-Identifier: Apache-2.0
"""How long the steps of this rank take, each from the end of one optimizer step to the
end of the next: TAUT_RUN_MEASURE names the folder for it. What a framework knows of its
job is a class derived from Measure (_torch_measure.py, _job_measure.py).

A step costs one look at the clock. The first WARM steps are left out, and more while
the job is not settled, MOST_WARM at most. Of the rest the last KEPT are kept. They are
written whole or not at all when the process ends: by its last line, an exit, an
exception, or SIGTERM."""

import array
import atexit
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import threading
import time

from . import _options

WARM, MOST_WARM = 20, 100
KEPT = 4096
LEADER_IS_GONE = 64  # steps of other optimizers, without one of the first
_HANDLER_SECONDS = 1  # for the main thread to see a signal


class Measure:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        # Made by `taut run` for itself: no other host has it, and nobody would remove it there.
        self.is_of_run = folder == os.environ.get("TAUT_RUN_MEASURE_HERE")
        self.begin()

    def begin(self):
        self.times = array.array("q", bytes(8 * (KEPT + 1)))  # ends of steps, a ring
        self.n = 0  # ends of steps so far
        self.first = None  # the one from which on they are measured
        self.leader, self.others = None, 0  # id of the optimizer whose steps count
        self.place, self.is_written = None, False

    # --- what the framework knows ---------------------------------------------------------

    def find_place(self):
        """(rank, world size)"""
        raise NotImplementedError

    def is_settled(self):
        """Whether the job goes on as it is now."""
        return True

    def is_rank(self):
        """Whether this process is one though no step of it ended."""
        return False

    def applied(self):
        """Texts of the decisions that were made."""
        return []

    def not_applied(self):
        """Of the others, and why."""
        return {}

    def peak_bytes(self):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    # --- steps ------------------------------------------------------------------------------

    def stepped(self, optimizer, args=(), kwargs=None):
        """Behind each step()."""
        if id(optimizer) != self.leader and not self.leads(optimizer):
            return
        n = self.n
        self.times[n % (KEPT + 1)] = time.monotonic_ns()
        self.n, self.others = n + 1, 0
        if self.first is None:
            self.warm_up()

    def leads(self, optimizer):
        """Where several step by turns, the first one counts."""
        self.others += 1
        if self.leader is not None and self.others < LEADER_IS_GONE:
            return False
        self.leader, self.others = id(optimizer), 0
        return True

    def warm_up(self):
        if self.n == 1:
            self.place = self.find_place()
            watch_ends(self)
        if self.n >= MOST_WARM or self.n >= WARM and self.is_settled():
            self.first = self.n - 1

    # --- the end --------------------------------------------------------------------------

    def step_ns(self):
        if self.first is None:
            return []
        ends = range(max(self.first, self.n - KEPT - 1), self.n)
        at = [self.times[i % (KEPT + 1)] for i in ends]
        return [b - a for a, b in zip(at, at[1:])]

    def told(self):
        rank, n_ranks = self.place or self.find_place()
        return {
            "rank": rank,
            "world": n_ranks,
            "steps": 0 if self.first is None else self.n - 1 - self.first,
            "step_ns": self.step_ns(),
            "applied": self.applied(),
            "not_applied": self.not_applied(),
            "warm": self.n if self.first is None else self.first + 1,
            "peak_memory_bytes": self.peak_bytes(),
        }

    def write(self):
        """Once. Launchers, and what a rank starts, have no steps and write nothing."""
        if self.is_written or not (self.n or self.is_rank()):
            return
        if self.is_of_run and not os.path.isdir(self.folder):
            return
        self.is_written = True
        try:
            told = self.told()
            if not self.is_of_run:
                os.makedirs(self.folder, exist_ok=True)
            path = os.path.join(self.folder, "rank-%d.json" % told["rank"])
            part = "%s.%d.part" % (path, os.getpid())
            with open(part, "w", encoding="ascii") as file:
                json.dump(told, file)
            os.replace(part, path)
        except (OSError, RuntimeError) as why:
            _options.say("TAUT_RUN_MEASURE: %s" % why)

    def watch(self):
        """Once, when its framework is there."""
        os.register_at_fork(after_in_child=self.begin)
        atexit.register(self.write)


# --- ends that Python does not see -----------------------------------------------------------


def watch_ends(measure):
    """From the first step on, so that launchers stay as they are."""
    process = sys.modules.get("multiprocessing.process")
    if process and process.parent_process():  # no atexit there
        from multiprocessing import util

        util.Finalize(None, measure.write, exitpriority=0)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        _Terminated(measure).watch()


class _Terminated:
    """A process that SIGTERM ends writes, and then ends by it as ever. Python looks at
    signals between its own steps: where the main thread waits for another rank, in C, a
    thread of ours does it."""

    def __init__(self, measure):
        self.measure, self.pid = measure, os.getpid()
        self.handler = self.handle  # one object, to be known again

    def watch(self):
        self.read, self.bell = socket.socketpair()
        self.bell.setblocking(False)
        usual = signal.set_wakeup_fd(self.bell.fileno(), warn_on_full_buffer=False)
        if usual != -1:
            signal.set_wakeup_fd(usual)  # the job's
        signal.signal(signal.SIGTERM, self.handler)
        os.register_at_fork(
            before=self.before_fork, after_in_parent=self.after_fork, after_in_child=self.forked
        )
        threading.Thread(target=self.listen, daemon=True, name="taut-measure").start()

    def is_ours(self):
        return signal.getsignal(signal.SIGTERM) is self.handler and os.getpid() == self.pid

    def handle(self, number, frame):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.end()

    def listen(self):
        while True:
            if signal.SIGTERM not in self.read.recv(4096):
                continue
            time.sleep(_HANDLER_SECONDS)
            if self.is_ours():
                # Only the main thread may ask Python for this.
                ctypes.CDLL(None).signal(int(signal.SIGTERM), ctypes.c_void_p(0))
                self.end()

    def end(self):
        self.measure.write()
        os.kill(os.getpid(), signal.SIGTERM)

    def before_fork(self):
        """A signal that the child gets before it is itself waits until it is."""
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def after_fork(self):
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)

    def forked(self):
        """A child is no rank, must end at once when it is told to, and not ring here."""
        if signal.getsignal(signal.SIGTERM) is self.handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        bell = signal.set_wakeup_fd(-1)
        if bell not in (-1, self.bell.fileno()):
            signal.set_wakeup_fd(bell)
        self.after_fork()
