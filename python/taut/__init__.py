# SPDX-License-Identifier: Apache-2.0
"""Records training steps of the process that imports it.

    import taut

    with taut.record("run"):
        ...                  # the steps in here
    taut.step()              # ends a step, in a loop without an optimiser

A job that `taut record` runs needs neither: its steps end with its optimiser's.
"""

import sys as _sys


def _the_recorder():
    """In a job of `taut record` the recorder is there already, as _taut._recorder."""
    recorder = _sys.modules.get("_taut._recorder")
    if recorder is None:
        from . import _recorder as recorder
    return recorder


def record(out, steps=None):
    """A context manager: what runs inside it is recorded into the folder out,
    which `taut report` reads. With steps, a text "A:B", only those of its steps
    are, counted from 0 at its beginning. In a job that `taut record` runs, it
    does nothing: that recording goes on."""
    return _the_recorder().Block(out, steps)


def step():
    """Ends a step. From the first call on, optimisers end none."""
    _the_recorder().step_by_hand()
