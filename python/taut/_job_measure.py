# SPDX-License-Identifier: Apache-2.0
"""Steps of jobs of TensorFlow and MXNet, measured: _measure.py. Their ranks are those of
taut.tensorflow or taut.mxnet, which the program imports as a package of its own."""

import sys

from . import _job_plan, _launcher, _measure, _options

_made = []  # texts of decisions that were made when the framework was imported


def job():
    """The Job of the program's package; None: there is none."""
    module = sys.modules.get("taut._job")
    return module.get() if module and module.has_started() else None


class Measure(_measure.Measure):
    def begin(self):
        super().begin()
        self.ours = None  # the exchange's decisions, once a job was seen

    def find_place(self):
        found = job() or _launcher.find()
        return found.rank, found.size

    def warm_up(self):
        super().warm_up()
        found = job()
        if self.ours is None and found and found.rows:
            self.ours = _job_plan.decisions(found.options)

    def applied(self):
        return _made + (self.ours or [])

    def not_applied(self):
        if self.ours is not None:
            return {}
        asked = _job_plan.decisions(_options.Options())
        return {text: "taut.tensorflow summed no gradients" for text in asked}


def decided(text):
    """A decision of the process, which was made."""
    _made.append(text)


def install(framework, folder):
    measure = Measure(folder)
    steps = _steps(framework)
    steps(lambda: measure.stepped(measure)).watch()
    measure.watch()


def _steps(framework):
    """The class that finds the ends of steps, as the recorder does."""
    if framework == "tensorflow":
        from . import _tensorflow as adapter
    else:
        from . import _mxnet as adapter
    return adapter.Steps
