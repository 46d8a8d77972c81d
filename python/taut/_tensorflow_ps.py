# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's parameter servers: the chief hands closures to workers, and the
processes of workers and servers only answer.

A step is one closure that a worker has run, counted by the chief. When its
number is one at which the recording changes (it begins or ends), the chief lets
the closures that run come to their end and starts none, writes the number into
the RUN folder, and waits until the others, who look there, have followed. So
nothing is under way when a window opens or closes, and every tensor that is
sent in it is received in it."""

import contextlib
import functools
import glob
import os
import threading
import time

from ._imports import when_imported

COORDINATOR = "tensorflow.python.distribute.coordinator.cluster_coordinator"
LOOK_S = 0.02  # how often the others look
FOLLOW_S = 5.0  # for so long the chief waits for them, once


def attach(adapter):
    kind, index, tasks = adapter.cluster
    if kind in ("worker", "ps"):
        Follower(adapter, "%s%d" % (kind, index)).begin()
        return
    followers = tasks.get("worker", 0) + tasks.get("ps", 0)
    chief = Chief(adapter, followers)
    when_imported(COORDINATOR, chief.watch)


def _count_file(run):
    return os.path.join(run, "processes", "tensorflow-steps")


class Chief:
    def __init__(self, adapter, followers):
        self.adapter = adapter
        self.followers = followers
        self.condition = threading.Condition()
        self.running = 0
        self.closed = False

    def watch(self, module):
        chief = self
        execute_on = module.Closure.execute_on

        @functools.wraps(execute_on)
        def executed(self, worker):
            with chief.entered():
                result = execute_on(self, worker)
            chief.closure_ended()
            return result

        module.Closure.execute_on = executed

    @contextlib.contextmanager
    def entered(self):
        with self.condition:
            while self.closed:
                self.condition.wait()
            self.running += 1
        try:
            yield
        finally:
            with self.condition:
                self.running -= 1
                self.condition.notify_all()

    def closure_ended(self):
        with self.condition:
            while self.closed:
                self.condition.wait()
            job = self.adapter.job
            if not job:
                return
            if job.steps_seen + 1 < job.next_change:
                self.adapter.step_ended()
                return
            self.closed = True
            try:
                while self.running:
                    self.condition.wait()
                self.change(job)
            finally:
                self.closed = False
                self.condition.notify_all()

    def change(self, job):
        """Followers begin before the chief does and end before it does:
        nothing runs now, so the order is of no matter."""
        number = job.steps_seen + 1
        if self.followers and number > 1:
            self.tell(job.run, number)
        self.adapter.step_ended()
        if job.phase == "ended":
            self.tidy(job.run)

    def tidy(self, run):
        if self.followers:
            for name in glob.glob(_count_file(run) + "*"):
                with contextlib.suppress(OSError):
                    os.unlink(name)

    def tell(self, run, number):
        path = _count_file(run)
        try:
            with open(path + ".part", "w") as f:
                f.write(str(number))
            os.rename(path + ".part", path)
        except OSError:
            self.followers = 0
            return
        end = time.monotonic() + FOLLOW_S
        while time.monotonic() < end:
            if self.followed(run, number) >= self.followers:
                return
            time.sleep(LOOK_S / 2)
        self.followers = 0  # on hosts that do not share the folder

    def followed(self, run, number):
        return len(glob.glob("%s-%d-*" % (_count_file(run), number)))


class Follower:
    def __init__(self, adapter, name):
        self.adapter = adapter
        self.name = name
        self.written = None

    def begin(self):
        thread = threading.Thread(target=self.look, name="taut", daemon=True)
        thread.start()

    def look(self):
        while True:
            job = self.adapter.job
            if job:
                number = self.number(job.run)
                if number > job.steps_seen:
                    self.follow(job, number)
                if job.pid is None or job.phase == "ended":
                    return
            time.sleep(LOOK_S)

    def number(self, run):
        try:
            with open(_count_file(run)) as f:
                return int(f.read())
        except (OSError, ValueError):
            return 0

    def follow(self, job, number):
        while job.pid is not None and job.steps_seen < number:
            self.adapter.step_ended()
        path = "%s-%d-%s" % (_count_file(job.run), number, self.name)
        try:
            if self.written:
                os.unlink(self.written)
            open(path, "w").close()
            self.written = path
        except OSError:
            pass
