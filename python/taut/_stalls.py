# SPDX-License-Identifier: Apache-2.0
"""What `taut stalls` does in a process of its job: finds the loader that trains, and gives
the job that loader's phases (_stalls_phases.py) in its place.

The loader that trains is the first that has given more than a few batches while gradients
were asked for. Others (of validation, of a first check) stay as they are; what they give
within a step that counts is told."""

import importlib
import os
import sys
import weakref

from . import _adapter, _options
from . import _stalls_measured as measured
from ._stalls_phases import Phases

WARM = 5  # batches that a loader has given, over its epochs, before it can be taken
FAR = 100  # then it is, though no optimizer stepped that is known
_ADAPTERS = {"torch": "torch", "tensorflow": "tensorflow", "mxnet": "mxnet"}


def framework_imported(name, module):
    """At the end of the framework's import. Never fails the job's import."""
    if not hasattr(os, "register_at_fork") or name not in _ADAPTERS:
        return
    for part in ("taut", _ADAPTERS[name]):
        try:
            importlib.import_module("._stalls_" + part, __package__).install(module)
        except Exception as why:
            _options.say("stalls: loaders of %s stay as they are: %s" % (part, why))


def _number(name, default):
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() and int(text) else default


def ranks():
    """(rank, world size)"""
    distributed = sys.modules.get("torch.distributed")
    if distributed and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return (_adapter.launcher_ranks() or (0, 1, 0))[:2]


class _Given:
    """To the job, by one loader."""

    def __init__(self, steps):
        self.batches = self.updated = 0  # so many at the last update
        self.turn = 1  # batches of an update
        self.steps_before = steps


class Watch:
    """Of all loaders of this process."""

    def __init__(self):
        self.given = weakref.WeakKeyDictionary()  # loader -> _Given
        self.steps = 0  # of optimizers
        self.taken = self.phases = None
        self.is_off = False

    def forked(self):
        """A copy of a rank is a worker of some kind; one of a process that is none may
        become a rank."""
        self.is_off = self.is_off or self.phases is not None

    def gave(self, loader):
        if loader not in self.given:
            self.given[loader] = _Given(self.steps)
        self.given[loader].batches += 1

    def stepped(self):
        """An optimizer, perhaps after several batches, or another one after the same."""
        self.steps += 1
        for given in self.given.values():
            if given.batches > given.updated:
                given.turn = given.batches - given.updated
                given.updated = given.batches

    def wants(self, loader, is_training=True):
        """Whether this is the one, before its next batch."""
        found = self.given.get(loader)
        if self.is_off or self.phases or not found or not is_training:
            return False
        if found.batches < WARM:
            return False
        return self.steps > found.steps_before or found.batches >= FAR

    def next(self, loader, is_training, take, give):
        """The next batch of a loader: that which give() gives, or take() is called once,
        for take(), and phases give it."""
        if self.is_off:
            return give()
        if self.wants(loader, is_training):
            take()
        if self.is_taken(loader):
            return next(self.phases)
        batch = give()
        self.gave(loader)
        if self.phases and is_training:
            self.phases.other_gave()
        return batch

    def is_taken(self, loader):
        return self.phases is not None and loader is self.taken

    def began(self):
        """Some loader begins an epoch."""
        if self.phases and not self.is_off:
            self.phases.pause()

    def take(self, loader, make_source):
        """True: phases are what the job gets of it now."""
        self.is_off = True  # whatever fails, fails once
        try:
            folder, which = os.environ["TAUT_STALLS"], ranks()
            control = measured.Control(folder)
            file = measured.RankFile(folder, which)
            rounds = _number("TAUT_STALLS_ROUNDS", 5)
            steps = _number("TAUT_STALLS_STEPS", 20)
            turn = self.given[loader].turn
            self.phases = Phases(make_source(), control, file, which, rounds, steps, turn)
        except Exception as why:
            _options.say("stalls: not measured: %s: %s" % (type(why).__name__, why))
            return False
        self.taken, self.is_off = loader, False
        return True


watch = Watch()
os.register_at_fork(after_in_child=watch.forked)
