# SPDX-License-Identifier: Apache-2.0
"""A plan in a job of taut.tensorflow or taut.mxnet. Its exchange is made as the
variables of `taut run` say; here is what is refused of a plan, by name, and whether this
is the job that it is for. The C library's memory and measuring begin when the framework is
imported (_run.py)."""

import collections
import os

from . import _coll, _options, _plan_job

PREFIX = "TAUT_RUN_"
# Decisions of PyTorch's jobs, and their changes.
_NOT_MADE = {
    "LOAD": "loader",
    "WORKERS": "workers",
    "RECOMPUTE": "recompute",
    "COMPILE": "compile",
    "MICROBATCHES": "microbatches",
    "GRAPHS": "graphs",
    "AMP": "amp",
    "OPTIMIZER": "optimizer",
    "BUCKET": "bucket",
}
_NOTHING = "", "none", "off"
# Sums of a gradient after which those that never came are missing: optimizers may step at
# other rates, a critic's a hundred times for one of what it judges.
ALL_HAVE_COME = 128


def begin(framework, place):
    """Before ranks meet. Ends the job where a decision cannot be made of it."""
    plan = Plan(framework, place)
    for name, change in _NOT_MADE.items():
        value = os.environ.get(PREFIX + name, "")
        if value not in _NOTHING:
            plan.refuse("%s=%s: of a job of %s this is not made" % (change, value, framework))
    plan.refuse_if(plan.other())
    return plan


class Plan:
    def __init__(self, framework, place):
        self.framework, self.rank, self.size = framework, place.rank, place.size
        text = os.environ.get(PREFIX + "JOB")
        try:
            self.planned = _plan_job.Planned(text) if text else None
        except ValueError as why:
            self.refuse("TAUT_RUN_JOB: %s" % why)
        self.seen = {}  # bytes of tasks that were ready, until all of the job is known
        self.times = collections.Counter()  # how often they were

    def other(self):
        if not self.planned:
            return None
        named = self.planned.framework and self.planned.other_framework(self.framework)
        return named or self.planned.other_ranks(self.size)

    def declared(self, rows):
        """A program may declare more later: what is there must be the plan's."""
        if self.planned:
            self.planned.there += map(_bytes, rows)
            self.planned.there.sort(reverse=True)
            self.refuse_if(self.planned.foreign())

    def begins(self, task, row):
        """The task is ready: why the job cannot go on, or None."""
        planned = self.planned
        if not planned:
            return None
        self.seen[task] = _bytes(row)
        self.times[task] += 1
        if self.times[task] == 1:
            return None
        if self.times[task] < ALL_HAVE_COME and self._lacks(planned):
            return None
        return self._judged(planned)

    def ends(self):
        """The job does: what never came is said."""
        planned = self.planned
        if planned and max(self.times.values(), default=0) > 1:
            self._judged(planned)

    def _have(self, planned):
        """How many gradients have so many bytes: those that came, or were declared."""
        came = collections.Counter(list(self.seen.values()))
        return came | collections.Counter(planned.there)

    def _lacks(self, planned):
        return bool(collections.Counter(planned.planned) - self._have(planned))

    def _judged(self, planned):
        """Once: why this is not the plan's job, or None."""
        self.planned = None
        planned.there = sorted(self._have(planned).elements(), reverse=True)
        why = planned.difference()
        if why and self.rank == 0:
            _options.say(why)
        return why

    def refuse_if(self, why):
        if why:
            self.refuse(why)

    def refuse(self, why):
        if self.rank == 0:
            _options.say(why)
        raise SystemExit(1)


def _bytes(row):
    kind, count = row[:2]
    return count * _coll.BYTES[kind]


def decisions(options):
    """Of the exchange: those that the variables say, as a plan has them."""
    made = []
    if options.compress != "none":
        made.append("compress=%s" % options.compress)
    if options.groups:
        made.append("bucket=%s" % "+".join(map(str, options.groups)))
    if options.way != "auto":
        made.append("algorithm=%s" % options.way)
    given = [n for n in ("piece", "credit") if n in options.given]
    if given:
        sizes = ["%s=%d" % (n, getattr(options, n)) for n in given]
        made.append("schedule,%s" % ",".join(sizes))
    return made
