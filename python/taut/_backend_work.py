# SPDX-License-Identifier: Apache-2.0
"""What a collective of the backend is while it is under way: torch.distributed's Work,
over one run of the library or several.

Where memory of a tensor cannot be used as it lies, the run has a copy; `after` puts
things where they belong, once, when all runs are over, and before anybody hears of
it."""

import time

import torch
import torch.distributed as dist

from . import _channel, _lib


class Work(dist.Work):
    """seconds: None: as long as the group says."""

    def __init__(self, channel, tensors, seconds=None):
        super().__init__()
        self.channel, self.tensors = channel, tensors
        self.seconds = channel.seconds if seconds is None else seconds
        self.began = time.monotonic()
        self.runs, self.kept, self.after = [], [], []
        self.is_begun = self.is_over = False  # begun: with all of its runs
        self.error = None
        self.first = self.future = self.late = None  # late: words of the future alone
        channel.keep(self)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """What was refused before all of it was begun: its memory stays as long as
        runs have it, and nothing is put anywhere."""
        if kind is not None and not self.is_begun:
            self.after = []
            self.is_begun = True
            self.settle(0)

    # --- what it is made of ----------------------------------------------------------

    def in_place(self, tensor):
        """Memory with the tensor's elements, one after the other, which are the
        tensor's at the end."""
        flat = self.source(tensor)
        if flat is not tensor:
            self.after.append(lambda: tensor.copy_(flat))
        return flat

    def source(self, tensor):
        """The same, of what is only read."""
        if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
            copy = torch.empty(tensor.shape, dtype=tensor.dtype)
            tensor = copy.copy_(tensor.detach())
        self.kept.append(tensor)
        return tensor

    def scratch(self, *shape, dtype):
        tensor = torch.empty(shape, dtype=dtype)
        self.kept.append(tensor)
        return tensor

    def start(self, *arguments):
        try:
            self.runs.append(self.channel.start(*arguments))
        except _lib.Failed as why:
            raise dist.DistBackendError("taut: %s" % why) from None

    # --- how it ends ------------------------------------------------------------------

    def settle(self, seconds):
        """Whether it is over; what it gave is in its place then."""
        if self.is_over or not self.is_begun:
            return self.is_over
        error = None
        try:
            for run in self.runs:
                if not self.channel.finish(run, int(seconds * 1e9)):
                    return False
        except _lib.Failed as why:
            error = str(why)
        with self.channel.lock:
            if not self.is_over:
                self._end(error)
        return True

    def _end(self, error):
        try:
            with torch.no_grad():
                for call in () if error else self.after:
                    call()
        except (RuntimeError, ValueError) as why:
            error = str(why)
        self.error = error
        self.after = ()
        if error is None:
            self.kept = ()
        self.is_over = True
        self.channel.let_go(self)

    def wait(self, timeout=None):
        if not self.is_over:
            seconds = timeout.total_seconds() if timeout else 0
            self._wait(time.monotonic(), seconds if seconds > 0 else self.seconds)
        if self.error is not None:
            raise dist.DistBackendError("taut: " + self.error)
        return True

    def _wait(self, began, seconds):
        end = began + seconds
        while not self.settle(min(_channel.WAIT_SECONDS, seconds)):
            seconds_left = end - time.monotonic()
            if seconds_left <= 0:
                raise dist.DistBackendError(
                    "taut: rank %d: a collective is not over within %g s"
                    % (self.channel.rank, seconds)
                )

    def is_completed(self):
        return self.settle(0)

    def is_success(self):
        return self.settle(0) and self.error is None

    def exception(self):
        if self.settle(0) and self.error is not None:
            return dist.DistBackendError("taut: " + self.error)
        return None

    def synchronize(self):
        self.wait()

    def result(self):
        self.wait()
        return self.tensors

    def get_future(self):
        with self.channel.lock:
            is_mine = self.future is None
            if is_mine:
                # What fails in a then() is an error for C++ too; set_exception() is
                # one for Python alone.
                self.first = torch.futures.Future()
                self.future = self.first.then(self._outcome)
        if is_mine and self.settle(0):
            self.complete()
        elif is_mine:
            self.channel.watch(self)
        return self.future

    def _outcome(self, _):
        if self.late:
            raise dist.DistBackendError(self.late)
        self.wait()
        return self.tensors

    def complete(self):
        """On the thread that does nothing else."""
        try:
            self._wait(self.began, self.seconds)
        except dist.DistBackendError as why:
            self.late = str(why)
        self.first.set_result(None)
        self.first = None
