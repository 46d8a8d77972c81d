# SPDX-License-Identifier: Apache-2.0
"""The phases that `taut stalls` has a rank go through, in place of an epoch: batches in
place, from storage, from the page cache, from both; by turns, so that what is compared ran
within seconds. The job only takes batches and computes; what is between two of them is a
step.

All ranks count alike: they are in the same phase at the same step. A step in which the
job did something else (another loader began) counts without that."""

import contextlib
import ctypes
import math
import os
import sys
import time

from . import _heap
from . import _stalls_measured as measured

HELD = 4  # batches that are used again and again
MOST_TURN = 257  # batches of an update, from which on phases are no multiple of it
RUN_UP = 2  # steps of a job that has all its batches
_PATIENCE_S = 30  # for the other ranks, at the end
_clock = time.perf_counter_ns


class Source:
    """A loader that was taken over: what phases need of it. Each framework has its own."""

    loader = ""  # as the file has it, as these:
    unit = "batch"
    workers = depth = 0
    items = -1
    group = 1  # batches come in groups of so many
    has_processes = False  # workers are processes of their own
    knows_waits = True

    def epoch_items(self, samples):
        """Items that this rank takes in one, with so many samples in a batch; -1: unknown."""
        return -1

    def run_up(self):
        """Batches that a fresh loader gives before it is at its pace: what was made ahead
        in its first moments is used up."""
        return self.depth + max(1, self.workers)

    def ahead(self):
        """Batches that it may have read beyond the last that it gave."""
        return self.depth

    def begin(self, n):
        """Picks what the next phases load: n batches, each time the same."""

    def open(self):
        """An iterator over (batch, samples), by a fresh loader, as the job made it."""
        raise NotImplementedError

    def first(self):
        """As open(), for batches to be kept."""
        return self.open()

    def read_on(self, batches, n):
        """n more, of an iterator of open()'s."""
        for _ in range(n):
            next(batches)

    def close(self):
        """Ends that loader and its workers."""

    def processes(self):
        """Of its workers."""
        return []

    def peek(self):
        """Whether a batch is there already, for taken(); None: none is, or unknown."""
        return None

    def taken(self, peeked):
        """Whether the batch that was now taken was there."""
        return bool(peeked)

    def forget(self):
        """What it has written for itself: nothing more is loaded."""

    def has_device(self):
        return False

    def sync(self):
        """Waits until all that was asked of devices is done."""

    def keep(self, batch):
        """A Kept of it."""
        return Kept(batch)

    def half(self, batch, samples):
        """Its first half, or None."""
        return None


class Kept:
    """A batch to be given again and again."""

    def __init__(self, batch):
        self.batch = batch

    def give(self):
        return self.batch

    def is_written(self):
        """Whether the job wrote into it."""
        return False

    def restore(self):
        """As it was."""


class Window:
    """Steps in a row, as they count. Its clock stands still while it is paused."""

    def __init__(self, source, control):
        self.source, self.control = source, control
        self.steps = []  # (wall, wait, take)
        self.samples = 0
        self.others = 0  # batches that other loaders gave within these steps
        self.stopped = None
        self.paused_ns = 0
        self.sums = None
        self._begin_sums()
        self.at = self._now()

    def _begin_sums(self):
        self.before = measured.Sums(self.control, self.source.processes())

    def _end_sums(self):
        after = measured.Sums(self.control, self.source.processes(), is_end=True)
        found = after.since(self.before)
        if self.sums:
            unknown = min(found[3], self.sums[3]) < 0
            found = [a + b for a, b in zip(found, self.sums)]
            found[3] = -1 if unknown else found[3]
        self.sums = found

    def _now(self):
        return _clock() - self.paused_ns

    def pause(self):
        if self.stopped is None:
            self.stopped = _clock()
            self._end_sums()

    def resume(self):
        if self.stopped is not None:
            self._begin_sums()
            self.paused_ns += _clock() - self.stopped
            self.stopped = None

    def asked(self):
        """The job wants the next batch: its step is computed."""
        self.resume()
        self.asked_at = self._now()
        self.peeked = self.source.peek()

    def given(self, samples):
        now = self._now()
        wait = now - self.asked_at
        take = wait if self.source.taken(self.peeked) else -1
        self.steps.append((now - self.at, wait, take))
        self.samples += samples
        self.at = now

    def end(self):
        """The last step ends when devices are done."""
        wall, wait, take = self.steps.pop()
        self.source.sync()
        self.steps.append((wall + self._now() - self.at, wait, take))
        self._end_sums()

    def wall_ns(self):
        return sum(step[0] for step in self.steps)

    def wait_ns(self):
        return sum(step[1] for step in self.steps)


class Phases:
    """next() gives the job its batches. The last call ends the process. turn: of batches
    that the job computes gradients of before it uses them; each phase has whole turns."""

    def __init__(self, source, control, file, ranks, rounds, steps, turn=1):
        self.source, self.control, self.file, self.ranks = source, control, file, ranks
        self.rounds, self.steps = rounds, _whole(steps, turn if turn < MOST_TURN else 1)
        both = source.group * turn // math.gcd(source.group, turn)
        self.loaded_steps = _whole(self.steps, both if both < MOST_TURN else source.group)
        self.window = None
        self.held = []
        self.batches = self._all()

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.batches)

    def other_gave(self):
        """A batch of another loader: part of a step, where no other epoch is gone through
        between two of them."""
        if self.window and self.window.stopped is None:
            self.window.others += 1

    def pause(self):
        """The job does something else."""
        if self.window:
            self.window.pause()

    def _all(self):
        n = self.source.run_up() + self.loaded_steps + 1 + self.source.ahead()
        self.source.begin(n)
        yield from self._hold()
        for number in range(self.rounds):
            if number:
                self.source.begin(n)
            yield from self._count(number, "place", self._in_place(), RUN_UP, self.steps)
            yield from self._loaded(number, "cold", measured.ALL_PPM, reads_all=True)
            yield from self._loaded(number, "cached", 0)
            yield from self._loaded(number, "part", measured.ALL_PPM // 2)
            self.control.list(measured.NOTHING)
        self.source.forget()
        yield from self._halves()
        self._leave()

    def _hold(self):
        """Batches as large as they come; the job computes with them, too."""
        found = []
        with contextlib.closing(self._opened(self.source.first)) as batches:
            for _ in range(HELD):
                batch, samples = next(batches)
                found.append((self.source.keep(batch), samples))
                yield found[-1][0].give()
        most = max(samples for _, samples in found)
        self.held = [pair for pair in found if pair[1] == most]
        source = self.source
        self.file.header(
            loader=source.loader,
            unit=source.unit,
            workers=source.workers,
            depth=source.depth,
            batch=most,
            items=source.items,
            cores=measured.cores(),
            device=int(source.has_device()),
            fault_ns=round(_heap.fault_seconds() * 1e9),
        )
        epoch = source.epoch_items(most)
        if epoch > 0:
            self.file.header(epoch=epoch)

    def _opened(self, begin):
        """A fresh loader, and another where a stream was too short."""
        source = self.source
        try:
            batches = begin()
            while True:
                n = 0
                for pair in batches:
                    n += 1
                    yield pair
                if not n:
                    raise RuntimeError("taut stalls: the loader gave no batch")
                self.pause()
                source.close()
                batches = source.open()
        finally:
            source.close()

    def _listed(self, batches, number):
        """The same. What is opened from the first one on are items, for workers that begin
        have read what they need themselves by then. One round is enough to know them by."""
        for pair in batches:
            if not number:
                self.control.list(measured.LOADED)
            yield pair

    def _loaded(self, number, name, ppm, reads_all=False):
        """reads_all: also what later phases will have read ahead at their ends."""

        def begin():
            before = _clock()
            batches = self.source.open()
            self.file.start(number, name, _clock() - before)
            return batches

        self.control.cold(ppm)
        with contextlib.closing(self._opened(begin)) as batches:
            run_up, steps = self.source.run_up(), self.loaded_steps
            listed = self._listed(batches, number)
            yield from self._count(number, name, listed, run_up, steps)
            if reads_all:
                self.source.read_on(batches, self.source.ahead())
        self.control.cold(0)
        self.control.list(measured.NOTHING if number else measured.OPENED)

    def _in_place(self):
        while True:
            for kept, samples in self.held:
                if kept.is_written():
                    self.pause()
                    kept.restore()
                    if self.window:
                        self.window.resume()
                yield kept.give(), samples

    def _count(self, number, name, batches, run_up, steps):
        for _ in range(run_up):
            yield next(batches)[0]
        batch, samples = next(batches)
        self.source.sync()
        window = self.window = Window(self.source, self.control)
        for _ in range(steps):
            yield batch
            window.asked()
            batch, following = next(batches)
            window.resume()
            window.given(samples)
            samples = following
        window.end()
        self.window = None
        self.file.phase(number, name, window, self.source)

    def _halves(self):
        """A job whose batches may have no other size ends here, in its own way."""
        halves = []
        for kept, samples in self.held:
            if kept.is_written():
                kept.restore()
            half = self.source.half(kept.batch, samples) if samples > 1 else None
            if half is not None:
                halves.append((self.source.keep(half), samples // 2))
        if not halves:
            return
        self.held = halves
        for number in range(self.rounds):
            yield from self._count(number, "half", self._in_place(), RUN_UP, self.steps)

    # --- the end ------------------------------------------------------------------------

    def _leave(self):
        self.source.sync()
        self.file.end()
        for flush in (sys.stdout.flush, sys.stderr.flush, _flush_c):
            with contextlib.suppress(Exception):
                flush()
        self._await_others()
        _end_workers()
        os._exit(0)

    def _await_others(self):
        """No rank goes while another may still need it for its last step. Those without a
        loader of their own wrote nothing, and end by whom they wait for."""
        folder = self.control.folder
        open(os.path.join(folder, "rank-%d.done" % self.ranks[0]), "w").close()
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            names = os.listdir(folder)
            n, done = (
                sum(name.startswith("rank-") and name.endswith(end) for name in names)
                for end in (".stalls", ".done")
            )
            if done >= n:
                return
            time.sleep(0.02)


def _whole(n, turn):
    """The first multiple of it from n on."""
    return -(-n // turn) * turn


def _flush_c():
    ctypes.CDLL(None).fflush(None)


def _end_workers():
    """Of other loaders: nobody would end them."""
    multiprocessing = sys.modules.get("multiprocessing")
    for child in multiprocessing.active_children() if multiprocessing else ():
        if child.daemon:
            child.terminate()


def again_and_again(sampler):
    """What a sampler gives, epoch after epoch."""
    while True:
        n = 0
        for index in sampler:
            n += 1
            yield index
        if not n:
            raise RuntimeError("taut stalls: the sampler gives nothing")


def rebuilt(batch, leaf):
    """The same containers, new, so that a job may change them; of what is in them,
    leaf()."""
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(rebuilt(part, leaf) for part in batch))
    if type(batch) in (list, tuple) and not is_row(batch):
        return type(batch)(rebuilt(part, leaf) for part in batch)
    if hasattr(batch, "keys") and hasattr(batch, "__setitem__"):
        import copy

        new = copy.copy(batch)
        for key in list(batch.keys()):
            new[key] = rebuilt(batch[key], leaf)
        return new
    return leaf(batch)


def is_row(batch):
    """A list with a word or a number for each sample."""
    return type(batch) is list and batch and isinstance(batch[0], (str, bytes, int, float))


def parts(batch):
    """All that is in the containers, in one order."""
    found = []

    def note(part):
        found.append(part)
        return part

    rebuilt(batch, note)
    return found


def samples_of(batch, otherwise=1):
    """The length of its first array."""
    return next(filter(None, map(_length, parts(batch))), otherwise)


def _length(part):
    shape = getattr(part, "shape", None)
    return int(shape[0]) if shape else 0


def half_of(batch, samples, is_array):
    """What is as long as the batch, its first half; None: nothing is."""
    n_cut = 0

    def cut(part):
        nonlocal n_cut
        length = len(part) if is_row(part) else is_array(part) and _length(part)
        if length == samples:
            n_cut += 1
            return part[: samples // 2]
        return part

    new = rebuilt(batch, cut)
    return new if n_cut else None
