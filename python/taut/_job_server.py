# SPDX-License-Identifier: Apache-2.0
"""The gradients of a job of _job.py summed by parameter servers, where TAUT_RUN_SERVER or
TAUT_RUN_SERVERS asks for it. Its other collectives stay libtaut's own."""

import contextlib
import ctypes
import os

from . import _coll, _lib, _place, _server, _servers

_WHOLE = 1 << 40  # bytes: no part is longer


def _address(job):
    """By which the others meet this host, as ranks of PyTorch's jobs are met."""
    host = job.meet.rpartition(":")[0].strip("[]")
    return _place.of_ranks(job.rank, job.allgather_object, host)[job.rank]


def check(options):
    if options.engine == "server" and options.groups:
        raise ValueError("TAUT_RUN_FUSE: servers have no groups of gradients: expected bytes")
    if options.engine == "server" and options.compress != "none":
        raise ValueError("TAUT_RUN_COMPRESS: servers sum gradients as they are")
    if options.servers and (options.update != "sum" or getattr(options, "async") == "on"):
        raise ValueError("the servers train (--update, --async): these optimizers want sums")


def open_sums(job, options):
    """Sums of job.rows, by servers that take these alone. On all ranks at the same place
    of the program; job.sync works."""
    if options.server:
        if job.sums is not job.sync:
            raise RuntimeError(
                "gradients that nobody knew of before: servers that run already take those of "
                "a job once; TAUT_RUN_SERVERS starts others"
            )
        return Sums(job, options, options.server, os.environ.get("TAUT_SECRET"), False)
    if job.sums is not job.sync:
        job.sums.close()
    gather, lost_after_ns = job.allgather_object, job.lost_after_ns
    its = _servers.Beside(job.rank, job.size, _address(job), gather, options, lost_after_ns)
    return its.join(lambda: Sums(job, options, its.places, its.secret, True), Sums.close)


class Sums(_coll._Handle):
    """What _coll.Sync has of gradients."""

    def __init__(self, job, options, places, secret, listening):
        super().__init__(_server.library(), "the sums of the job", "taut_server_leave")
        self.patience = job.patience
        how = _server.Options(
            worker=job.rank,
            n_workers=job.size,
            servers=places.encode(),
            secret=secret.encode() if secret else None,
            part_bytes=options.served("piece") or _WHOLE,
            credit_bytes=options.served("credit"),
            lost_after_ns=job.lost_after_ns,
            mode=_server.SUMS,
            listening=listening,
        )
        _lib.call(self.lib.taut_server_join, ctypes.byref(how), ctypes.byref(self.handle))
        try:
            for number, row in enumerate(job.rows):
                self._declare(number, *row)
        except BaseException:
            self.close()
            raise

    def _declare(self, task, kind, count, priority, factor):
        key = _server.Key(b"%06d" % task, _coll.TYPES[kind], count)
        number = _lib.u32()
        arguments = ctypes.byref(key), priority, factor, ctypes.byref(number)
        self._call("taut_server_declare", *arguments)

    def ready(self, task, address):
        self._call("taut_server_start", task, _server.PUSH_PULL, address)

    def wait(self, task):
        self._call_until(self.patience, "gradient %d" % task, "taut_server_wait", task)

    def next(self, seconds):
        """A task that is done; None: none in time."""
        task, passes = _lib.u32(), (_lib.EAGAIN,)
        arguments = int(seconds * 1e9), ctypes.byref(task)
        if self._call("taut_server_next", *arguments, passes=passes):
            return None
        return task.value

    def fail(self, why):
        """At any moment; nothing when it was closed."""
        with contextlib.suppress(RuntimeError), self._used() as handle:
            self.lib.taut_server_fail(handle, _lib.EIO, why.encode("utf-8", "replace"))

    def counts(self):
        with self._used() as handle:
            return _server.counts_of(self.lib, handle)
