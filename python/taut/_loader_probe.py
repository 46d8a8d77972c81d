# SPDX-License-Identifier: Apache-2.0
"""What Taut's loader would take for the batches of a job's DataLoader: some of its items are
made by both, one after the other, at the end of the recorded window. For `taut whatif
loader=taut`, as facts of the log:

  loader.taut_prepare  time on a core that Taut's needs for an item, of what PyTorch's does
  loader.taut_not      why it cannot take its place
"""

import os
import random
import sys
import time

ITEMS, PASSES = 16, 3  # of the passes the first one warms up what both read
BUDGET_NS = 200_000_000  # of the first item's time: fewer items where they are dear


def facts(loader):
    """(key, text)"""
    from . import _load_torch

    data = sys.modules["torch.utils.data"]
    try:
        plan = _load_torch.plan_of(data, loader)
        yield "loader.taut_prepare", "%.4g" % _share(plan)
    except Exception as why:
        yield "loader.taut_not", " ".join(str(why).split()) or type(why).__name__


def _share(plan):
    import torch

    kept = random.getstate()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            items, theirs_ns = _theirs(plan)
        finally:
            random.setstate(kept)
    return _ours(plan, items) / theirs_ns


def _theirs(plan):
    """Which items; nanoseconds of the calling thread for them, with what makes a batch of
    them, once."""
    data = sys.modules["torch.utils.data"]
    n = min(ITEMS, len(plan.folder))
    items = [i * len(plan.folder) // n for i in range(n)]
    begin = time.thread_time_ns()
    plan.folder[items[0]]
    first_ns = max(1, time.thread_time_ns() - begin)
    items = items[: max(1, min(n, BUDGET_NS // first_ns))]
    took = []
    for _ in range(PASSES):
        begin = time.thread_time_ns()
        data.default_collate([plan.folder[i] for i in items])
        took.append(time.thread_time_ns() - begin)
    return items, sum(took[1:]) / len(took[1:])


def _ours(plan, items):
    """The same of Taut's: all threads that it begins, and the calls."""
    from . import load
    from ._load_torch import set_of

    before = set(os.listdir("/proc/self/task"))
    own = load.Loader(
        set_of([plan.samples[i] for i in items]),
        batch_size=len(items),
        transform=load.Image(**plan.options),
        num_workers=1,
        arrays="torch",
        sampler=range(len(items)),
    )
    with own:
        threads = [t for t in os.listdir("/proc/self/task") if t not in before]
        took = []
        for _ in range(PASSES):
            begin = time.thread_time_ns() + _on_core(threads)
            for _batch in own:
                pass
            took.append(time.thread_time_ns() + _on_core(threads) - begin)
    return sum(took[1:]) / len(took[1:])


def _on_core(threads):
    total = 0
    for thread in threads:
        with open("/proc/self/task/%s/schedstat" % thread) as file:
            total += int(file.read().split()[0])
    return total
