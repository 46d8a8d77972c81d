# SPDX-License-Identifier: Apache-2.0
"""What a recording of PyTorch tells of gradients that Taut's exchange sums: when each is
handed over and waited for, and what of it went when. Of engine coll; what others sum is
in the framework's own recording, or out of sight.

A recorder opens a Watch; _sums.py then tells it what happens (_sums.recording), and nothing
is told, and nothing costs, while there is none."""

import sys
import threading
import time

from . import _log

MOST = 1 << 16  # pieces of an exchange that are kept
CALLS = 1 << 18  # of hand-overs and waits


class Watch:
    def __init__(self, sums_module, controls):
        self.module = sums_module
        self.numbers = {}  # of exchanges that are watched, by id
        self.gradients = []  # exchange's number, task, type, elements
        self.calls = []  # exchange's number, task, waits, thread, start and end
        self.pieces = []  # exchange's number, group, ranks, pieces
        for control in list(controls):
            self.opened(control.sums)
        sums_module.recording = self

    # --- told by the sums of a module -----------------------------------------------------

    def opened(self, sums):
        exchange = sums.exchange
        if not hasattr(exchange, "watch"):
            return
        exchange.watch(MOST)
        number = self.numbers[id(exchange)] = len(self.numbers)
        for record, task in sums.task_of.items():
            kind = str(record.parameter.dtype).rpartition(".")[2]
            self.gradients.append((number, task, kind, record.parameter.numel()))

    def closes(self, sums):
        exchange = sums.exchange
        number = self.numbers.pop(id(exchange), None)
        if number is None:
            return
        self.numbers[number] = None  # so that numbers stay what they are
        self.pieces.append((number, exchange.group, sums.engine.ranks, exchange.watched(MOST)))
        exchange.watch(0)

    def called(self, sums, record, waits, start_ns):
        number = self.numbers.get(id(sums.exchange))
        if number is not None and len(self.calls) < CALLS:
            row = number, sums.task_of[record], waits, threading.get_native_id()
            self.calls.append((*row, start_ns, time.monotonic_ns()))

    # --- asked by the recorder ------------------------------------------------------------

    def close(self, controls):
        """Nothing is told any more."""
        self.module.recording = None
        for control in list(controls):
            self.closes(control.sums)

    def records(self):
        """How many of a log it takes, texts included."""
        n_pieces = sum(len(pieces) for *_, pieces in self.pieces)
        return len(self.gradients) + len(self.calls) + n_pieces + 64 * (2 + len(self.pieces))

    def write(self, log):
        since_ns = time.time_ns() - time.monotonic_ns()
        for gradient in self.gradients:
            log.gradient(*gradient)
        for number, task, waits, thread, start_ns, end_ns in self.calls:
            log.sum_call(number, task, waits, thread, start_ns + since_ns, end_ns + since_ns)
        for number, group, ranks, pieces in self.pieces:
            texts = log.text(group), log.text(str(list(ranks)))
            for p in pieces:
                row = _log.Piece(number, p.task, *texts, len(ranks), p.message, p.bytes)
                log.piece(p.start_ns + since_ns, p.end_ns + since_ns, row)


def _controls():
    """Pairs of the module _sums and the controls that live, of each copy of this package
    that the process has: one that `taut run` brought, one that the job imported."""
    for name in dict.fromkeys((__package__, "taut")):
        control = sys.modules.get(name + "._control")
        if control is not None:
            yield sys.modules[name + "._sums"], control._live


def begin():
    """At the begin of a window: watches, for end()."""
    return [Watch(sums, live) for sums, live in _controls()]


def end(watches, job):
    """At its end. job: the recorder's, which gives the log; None: the window is thrown
    away."""
    for watch, (_, live) in zip(watches, _controls()):
        watch.close(live)
    watches = [watch for watch in watches if watch.calls]
    if not watches or job is None:
        return
    log, _ = job.open_log("sums", sum(watch.records() for watch in watches))
    if log:
        for watch in watches:
            watch.write(log)
        log.state("gradients that Taut summed in the window")
        log.close()
