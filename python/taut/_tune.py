# SPDX-License-Identifier: Apache-2.0
"""`taut run --tune`: other limits while the job runs, some steps each. Rank 0 searches;
at the first gradient of a backward(), where nothing is under way, all ranks tell how
long their steps took, hear what comes next, and set it."""

import os
import time

import torch
import torch.distributed as dist

from . import _lib, _options, _search

WARM, MEASURED = 2, 6  # steps of a trial


def make(control):
    """A Tuner on all ranks, or None on all: what decides is the same on each."""
    if not hasattr(control.sums.exchange, "tune"):
        _say(control, "tune: needs engine coll")
        return None
    search = None
    if control.engine.rank == 0:
        search = _make_search(control)
    return Tuner(control, search)


def _make_search(control):
    limits = control.sums.limits
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    n_ranks = control.engine.n_ranks
    n_hosts = -(-n_ranks // max(int(local), 1)) if local.isdecimal() else 1
    try:
        if not _lib.has(*_search.NEEDS):
            raise ValueError("libtaut has no search")
        whole = not control.sums.crossing
        words = "" if whole else os.environ.get("TAUT_RUN_TUNE_FROM", "")
        return _search.Search(
            n_ranks, n_hosts, whole, limits.ordered, _search.read_predicted(words)
        )
    except (ValueError, RuntimeError) as why:
        _options.say("tune: %s" % why)
        return None


def _say(control, text):
    if control.engine.rank == 0:
        _options.say(text)


class Tuner:
    """search: rank 0's; None: there is none, and the first turn ends it on all."""

    def __init__(self, control, search):
        self.control, self.search = control, search
        self.times, self.begun_ns = [], None
        limits = control.sums.limits
        self.plan = self.start = None
        self.is_found = False
        if search:
            self.start = _search.Setting(limits.piece, limits.credit, limits.fuse, limits.way)
            _options.say(
                "tune: at most %d trials of %d steps" % (_search.TRIALS, WARM + MEASURED)
            )
            self.plan = _search.trials(search, self.start, _options.say)
            next(self.plan)  # the start, which is how it is

    def begin(self, completed):
        """As Gate.begin()."""
        now = time.monotonic_ns()
        if completed and self.begun_ns is not None:
            self.times.append(now - self.begun_ns)
        self.begun_ns = now
        if len(self.times) >= WARM + MEASURED:
            self.control.sums.at_first = self.turn

    def turn(self):
        """On all ranks at the same place. Nothing is under way when it returns."""
        self.control.sums.wait_all()
        samples = self.samples()
        setting, is_over = self.decide(samples)
        self.times = []
        if setting:
            self.apply(setting)
        if is_over:
            self.control.tuner = None
            self.close(setting)

    def samples(self):
        """A step takes what it takes on the slowest rank."""
        times = torch.tensor(self.times[-MEASURED:], dtype=torch.float64)
        dist.all_reduce(times, dist.ReduceOp.MAX, group=self.control.process_group)
        return times.tolist()

    def decide(self, samples):
        """The next setting, or None, and whether it stays; the same on all ranks."""
        said = [None, True]
        if self.plan:
            try:
                said = [self.plan.send(samples), False]
            except StopIteration as end:
                said = [end.value, True]
                self.is_found = True
            except Exception as why:  # the others wait to hear something
                _options.say("tune: %s" % why)
                said = [self.start, True]  # not the trial that was running
        group = self.control.process_group
        dist.broadcast_object_list(said, src=dist.get_global_rank(group, 0), group=group)
        return (_search.Setting(*said[0]) if said[0] else None), said[1]

    def apply(self, setting):
        sums = self.control.sums
        if setting == (sums.limits.piece, sums.limits.credit, sums.limits.fuse, sums.limits.way):
            return
        sums.exchange.tune(*setting)
        sums.limits = sums.limits._replace(**setting._asdict())

    def close(self, setting):
        if not self.search:
            return
        self.search.close()
        path = os.environ.get("TAUT_RUN_TUNE_SAVE")
        if not path or not self.is_found or not setting:
            return
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(_search.file_of(setting))
        except OSError as why:
            _options.say("tune: %s" % why)
