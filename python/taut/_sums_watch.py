# SPDX-License-Identifier: Apache-2.0
"""What a recording of PyTorch tells of gradients that Taut's exchange sums: when each is
handed over and waited for, and what of it went when. Of engine coll; what others sum is
in the framework's own recording, or out of sight.

A recorder opens a Watch; _sums.py then tells it what happens (_sums.recording), and nothing
is told, and nothing costs, while there is none."""

import collections
import contextlib
import sys
import threading
import time

from . import _log

MOST = 1 << 16  # pieces of an exchange that are kept
CALLS = 1 << 18  # hand-overs and waits that are kept: the last ones, as of pieces


class Watch:
    def __init__(self, sums_module, controls):
        self.module, self.controls = sums_module, controls
        self.numbers, self.n_exchanges = {}, 0  # of exchanges that are watched, by id
        self.gradients = []  # exchange's number, task, type, elements
        self.calls = collections.deque(maxlen=CALLS)  # exchange's number, task, waits, thread, start and end
        self.pieces = []  # exchange's number, group, ranks, pieces
        sums_module.recording = self
        for control in list(controls):
            self.opened(control.sums)

    # --- told by the sums of a module -----------------------------------------------------

    def opened(self, sums):
        with sums.changing, contextlib.suppress(RuntimeError):  # the job hears of it elsewhere
            exchange = sums.exchange
            if not hasattr(exchange, "watch") or id(exchange) in self.numbers:
                return
            exchange.watch(MOST)
            number = self.numbers[id(exchange)] = self.n_exchanges
            self.n_exchanges += 1
            tasks = list(sums.task_of.items())
            if sums.rows:
                tasks += [(entry.record, task) for task, entry in sums.rows.of_task.items()]
            for record, task in tasks:
                kind = str(record.parameter.dtype).rpartition(".")[2]
                self.gradients.append((number, task, kind, record.parameter.numel()))

    def closes(self, sums):
        with sums.changing, contextlib.suppress(RuntimeError):
            exchange = sums.exchange
            number = self.numbers.pop(id(exchange), None)
            if number is None:
                return
            pieces = exchange.watched(MOST)
            self.pieces.append((number, exchange.group, sums.engine.ranks, pieces))
            exchange.watch(0)

    def called(self, sums, task, waits, start_ns):
        number = self.numbers.get(id(sums.exchange))
        if number is not None:
            row = number, task, waits, threading.get_native_id()
            self.calls.append((*row, start_ns, time.monotonic_ns()))

    # --- asked by the recorder ------------------------------------------------------------

    def close(self):
        """Nothing is told any more."""
        self.module.recording = None
        for control in list(self.controls):
            self.closes(control.sums)

    def records(self):
        """How many of a log it takes, texts included."""
        n_pieces = sum(len(pieces) for *_, pieces in self.pieces)
        return len(self.gradients) + len(self.calls) + n_pieces + 64 * (2 + len(self.pieces))

    def write(self, log, first):
        """first: the number of the first exchange in this log."""
        since_ns = time.time_ns() - time.monotonic_ns()
        for number, *gradient in self.gradients:
            log.gradient(first + number, *gradient)
        for number, task, waits, thread, start_ns, end_ns in self.calls:
            times = start_ns + since_ns, end_ns + since_ns
            log.sum_call(first + number, task, waits, thread, *times)
        for number, group, ranks, pieces in self.pieces:
            texts = log.text(group), log.text(str(list(ranks)))
            for p in pieces:
                row = _log.Piece(first + number, p.task, *texts, len(ranks), p.message, p.bytes)
                log.piece(p.start_ns + since_ns, p.end_ns + since_ns, row)


def _controls():
    """Pairs of the module _sums and the controls that live, of each copy of this package
    that the process has: one that `taut run` brought, one that the job imported."""
    for name in dict.fromkeys((__package__, "taut")):
        control = sys.modules.get(name + "._control")
        if control is not None:
            yield sys.modules[name + "._sums"], control._live


def forked():
    """In a child made by fork, in which nobody records yet."""
    for sums, _ in _controls():
        sums.recording = None


def begin():
    """At the begin of a window: watches, for end()."""
    return [Watch(sums, live) for sums, live in _controls()]


def end(watches, job):
    """At its end. job: the recorder's, which gives the log; None: the window is thrown
    away."""
    for watch in watches:
        watch.close()
    watches = [watch for watch in watches if watch.calls]
    if not watches or job is None:
        return
    log, _ = job.open_log("sums", sum(watch.records() for watch in watches))
    if log:
        first = 0
        for watch in watches:
            watch.write(log, first)
            first += watch.n_exchanges
        log.state("gradients that Taut summed in the window")
        log.close()
