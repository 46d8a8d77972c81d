# SPDX-License-Identifier: Apache-2.0
"""What all ranks of a process group must decide alike, before anything of Taut's goes
through that group: a rank that waits in a collective for one that makes another, or
for one on which Taut is not, would wait for ever.

Each rank says what it has to say in the store of the job, where nobody waits for
longer than told. Rank 0 reads them and puts down what was said by all; or who was
not heard in time; or another rank that rank 0 was not. What is put down first
holds, for all."""

import json
import time

import torch.distributed as dist

SECONDS = 60  # for a rank to be heard
_held = {}  # by name of the group: how often was asked


class Silent(ValueError):
    """A rank said nothing in time. All that hear of it hear the same."""


class Votes:
    def __init__(self, process_group):
        self.rank, self.n_ranks = process_group.rank(), process_group.size()
        self.group = process_group
        self.store = _store(process_group)
        self.name = "taut/%s/" % getattr(process_group, "group_name", "")

    def hold(self, mine, seconds=None):
        """What each rank says, by rank: lists and dicts of texts and numbers. All
        ranks that vote return the same, or raise Silent with the same line."""
        if self.store is None:
            said = [None] * self.n_ranks
            dist.all_gather_object(said, mine, group=self.group)
            return said
        seconds = SECONDS if seconds is None else seconds
        number = _held[self.name] = _held.get(self.name, 0) + 1
        place = "%s%d/" % (self.name, number)
        self.store.set(place + str(self.rank), json.dumps(mine))
        if self.rank:
            found = self._await(place, 2 * seconds)
        else:
            found = self._decide(place, seconds)
        if "silent" in found:
            raise Silent(found["silent"])
        return found["said"]

    def _decide(self, place, seconds):
        keys = [place + str(rank) for rank in range(self.n_ranks)]
        end = time.monotonic() + seconds
        missing = [rank for rank in range(1, self.n_ranks) if not self._is_there(keys[rank], end)]
        if missing:
            return self._put(place, {"silent": _silent(missing[0], seconds)})
        return self._put(place, {"said": [json.loads(self.store.get(key)) for key in keys]})

    def _await(self, place, seconds):
        """Longer than rank 0 does, which may have come later."""
        if not self._is_there(place + "all", time.monotonic() + seconds):
            return self._put(place, {"silent": _silent(0, seconds)})
        return json.loads(self.store.get(place + "all"))

    def _is_there(self, key, end):
        pause = 0.001
        while not self.store.check([key]):
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return True

    def _put(self, place, found):
        """What is there afterwards: the first one's."""
        return json.loads(self.store.compare_set(place + "all", "", json.dumps(found)))


def _store(process_group):
    """That of the group, or of the job; None: the backend has none."""
    module = dist.distributed_c10d
    try:
        return module._world.pg_map[process_group][1]
    except (AttributeError, KeyError, IndexError):
        return module._get_default_store()


def _silent(rank, seconds):
    return "rank %d has not said in %g s whether Taut sums its gradients" % (rank, seconds)


def check(said):
    """Of each rank, by rank: what is wrong, or None, and what it was told. ValueError,
    on all that hold the same: something is, or they were told different things."""
    why = first([why for why, _ in said])
    for rank, (_, told) in enumerate(said):
        if told != said[0][1]:
            why = why or "rank %d has other options than rank 0, or another engine" % rank
    if why:
        raise ValueError(why)


def first(reasons):
    """Of a reason of each rank, or None, the one that holds for all."""
    for rank, why in enumerate(reasons):
        if why:
            return why if all(r == why for r in reasons) else "rank %d: %s" % (rank, why)
    return None
