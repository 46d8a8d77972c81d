# SPDX-License-Identifier: Apache-2.0
"""What a recording of TensorFlow tells of gradients that Taut's exchange sums: events of
its profile that say which gradients there are, and what of them went when. Operations
say by themselves when they hand one over and wait for it (_tensorflow_sums.py)."""

import sys
import time

MOST = 1 << 16  # pieces of a window that are kept


def job():
    """The Job of the package that the program has imported, which is not this one:
    a recorder has a copy of its own. None: nothing of its is summed."""
    module = sys.modules.get("taut._job")
    if module is None or not module.has_started():
        return None
    found = module.get()
    # Servers sum out of sight.
    return found if found.size > 1 and found.sums is found.sync else None


def begin(say):
    """At the begin of a window. say(event, **stats) writes an event."""
    found = job()
    if found is None:
        return
    found.sync.watch(MOST)
    for task, (kind, count, _, _) in enumerate(found.rows):
        say("taut_gradient", taut_task=task, taut_dtype=kind, taut_elements=count)


def end(say):
    """At its end, while the profiler still runs."""
    found = job()
    if found is None:
        return
    pieces = found.sync.watched(MOST)
    found.sync.watch(0)
    since_ns = time.time_ns() - time.monotonic_ns()
    for piece in pieces:
        say(
            "taut_piece",
            taut_task=piece.task,
            taut_message=piece.message,
            taut_bytes=piece.bytes,
            taut_start_ns=piece.start_ns + since_ns,
            taut_end_ns=piece.end_ns + since_ns,
        )
