# SPDX-License-Identifier: Apache-2.0
"""Whether this is the job that a plan is for: its ranks, and the gradients of its
models together. What another job would gain by it nobody has predicted."""

import collections

from . import _decisions


def make(values):
    return Job(values["JOB"])


class Planned:
    """The job of a plan, and this one as far as it is known."""

    def __init__(self, text):
        self.framework, self.n_ranks, self.planned = _read(text)
        self.there = []  # bytes of the gradients so far, the largest first

    def other_framework(self, mine):
        if self.framework == mine:
            return None
        return "the plan is for a job of %s, this is one of %s" % (self.framework, mine)

    def other_ranks(self, n_ranks):
        if self.n_ranks in (0, n_ranks):
            return None
        return "the plan is for %s, this job has %d" % (_many(self.n_ranks, "rank"), n_ranks)

    def foreign(self):
        """The first difference, where some gradient is none of the plan's."""
        more = collections.Counter(self.there) - collections.Counter(self.planned)
        return self.difference() if more else None

    def difference(self):
        if not self.planned:
            return None
        for i, (theirs, mine) in enumerate(zip(self.planned, self.there)):
            if theirs != mine:
                return "the plan's %slargest gradient is %d bytes, this job's %d" % (
                    _ordinal(i + 1),
                    theirs,
                    mine,
                )
        if len(self.planned) != len(self.there):
            planned = _many(len(self.planned), "gradient")
            return "the plan is for %s, this job has %d" % (planned, len(self.there))
        return None


class Job(Planned, _decisions.Decision):
    def __init__(self, text):
        _decisions.Decision.__init__(self, "")
        Planned.__init__(self, text)

    def install(self, torch):
        if self.framework:
            raise ValueError(self.other_framework("pytorch"))
        self.dist = torch.distributed

    def check(self, ddp):
        """A job may wrap several models one after the other: here all that is there
        must be in the plan, before the first forward pass the other way round, too."""
        self.there = sorted(self.there + list(_gradients(ddp)), reverse=True)
        return self.other_ranks(self.dist.get_world_size()) or self.foreign()

    def begins(self):
        return self.difference()


def _read(text):
    """"ranks=4 gradients=4194304x2,1024x7": 0 ranks or no gradients are not known. A
    framework before them is another than PyTorch."""
    framework, n_ranks, sizes = "", 0, []
    for word in text.split():
        key, _, value = word.partition("=")
        if key == "framework":
            framework = value
        elif key == "ranks" and value.isdecimal():
            n_ranks = int(value)
        elif key == "gradients":
            for item in filter(None, value.split(",")):
                n_bytes, _, count = item.partition("x")
                if not n_bytes.isdecimal() or not (count or "1").isdecimal():
                    raise ValueError("expected BYTESxCOUNT, found '%s'" % item)
                sizes += [int(n_bytes)] * int(count or 1)
        else:
            raise ValueError("expected ranks=N gradients=BYTESxCOUNT,..., found '%s'" % word)
    return framework, n_ranks, sorted(sizes, reverse=True)


def _gradients(ddp):
    """Bytes of what the model sums, each parameter once."""
    for name, p in ddp.module.named_parameters():
        if p.requires_grad and name not in ddp.parameters_to_ignore:
            yield p.numel() * p.element_size()


def _many(number, what):
    return "%d %s%s" % (number, what, "" if number == 1 else "s")


def _ordinal(number):
    """ "" of the first, "2nd ", "3rd ", "11th "... of the others."""
    if number == 1:
        return ""
    last = 0 if number // 10 % 10 == 1 else number % 10
    return "%d%s " % (number, {1: "st", 2: "nd", 3: "rd"}.get(last, "th"))
