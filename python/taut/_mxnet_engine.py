# SPDX-License-Identifier: Apache-2.0
"""Gradients of MXNet summed by Taut as operations of MXNet's own engine, which orders
them with all else.

A sum is an asynchronous operation that changes its array. The engine begins it
when what computes the gradient is done, wherever the job's program is by then, and
lets nobody read the array before it is completed. So the backward pass, sums, updates
and the next forward pass overlap layer by layer, across what would be a barrier, and
no other place has to wait:

    engine's thread  the gradient is there   -> taut_sync_ready(), returns at once
    libtaut's thread                            sums, by priority
    our thread       taut_sync_next()        -> completes the operation

The calls are those of MXNet's C interface, and of its header engine.h the three words
of a CallbackOnComplete: what is called, the engine, and its parameter. Memory's
address comes by DLPack. A failure completes the operation with an error, a
std::runtime_error as the C++ library lays it out, so that whoever needs the array gets
an MXNetError with the line; and the next call of the job's own raises it as well.

Written against MXNet 1.9.1; of another series nothing is promised, and nothing done."""

import ctypes
import sys
import threading
import time

import mxnet as mx
from mxnet.base import _LIB, MXNetError, check_call

SERIES = "1.9."
CPU_PRIORITIZED = 3  # enum class FnProperty: threads that no computation keeps
SECONDS = 1.0  # in which our thread looks whether it shall end
LOOK_SECONDS = 5.0  # after which a sum that does not come is looked for
DRAIN_SECONDS = 10.0  # at the end of a job, for what is under way

_pointer = ctypes.c_void_p
_BEGIN = ctypes.CFUNCTYPE(None, _pointer, _pointer, _pointer)
_COMPLETE = ctypes.CFUNCTYPE(None, _pointer, _pointer, _pointer)


class _Context(ctypes.Structure):  # mxnet::Context
    _fields_ = [("dev_type", ctypes.c_int), ("dev_id", ctypes.c_int32)]


class _Completion(ctypes.Structure):  # mxnet::engine::CallbackOnComplete
    _fields_ = [("callback", _pointer), ("engine", _pointer), ("parameter", _pointer)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", _pointer),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", _pointer),
        ("strides", _pointer),
        ("byte_offset", ctypes.c_uint64),
    ]


def address(array):
    """Where its elements are, once nothing changes it. MXNetError: they lie in an
    order that only MXNet's kernels know. Waits for nothing."""
    managed = _pointer()
    check_call(_LIB.MXNDArrayToDLPack(array.handle, ctypes.byref(managed)))
    try:
        found = ctypes.cast(managed, ctypes.POINTER(_DLTensor)).contents
        return found.data + found.byte_offset
    finally:
        check_call(_LIB.MXNDArrayCallDLPackDeleter(managed))


class _Error:
    """A std::runtime_error: its table of functions, and its text."""

    def __init__(self, text):
        library = ctypes.CDLL("libstdc++.so.6")
        self.destroy = library._ZNSt13runtime_errorD1Ev
        self.memory = (_pointer * 4)()
        self.address = ctypes.addressof(self.memory)
        library._ZNSt13runtime_errorC1EPKc(_pointer(self.address), text.encode())

    def __enter__(self):
        return self.address

    def __exit__(self, *exception):
        self.destroy(_pointer(self.address))


def _is_in(code, frame):
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


class Engine:
    """Sums of the arrays of one job."""

    def __init__(self, job):
        if not mx.__version__.startswith(SERIES):
            raise RuntimeError("expected MXNet %sx, found %s" % (SERIES, mx.__version__))
        if job.limits.groups:
            raise ValueError(
                "TAUT_RUN_FUSE: MXNet gives gradients one by one, and groups are of PyTorch's and "
                "TensorFlow's: expected bytes"
            )
        self.job, self.tasks = job, {}
        self.changed = threading.Condition()
        self.pushed = {}  # task -> its array, until it is completed
        self.begun = {}  # task -> its _Completion
        self.is_parked, self.ends = True, False
        self.error = None  # the first failure's line
        self.begin = _BEGIN(self._begin)  # kept: the engine has its address
        self.thread = None
        self.context = _Context(1, 0)
        self.property = ctypes.c_int(CPU_PRIORITIZED)
        job.before_close.append(self.close)

    # --- the job's thread --------------------------------------------------------------------

    def check(self):
        if self.error:
            raise RuntimeError(self.error)

    def find_tasks(self, rows):
        """rows: (key, array, factor). Their tasks; those of new keys are declared,
        in this order, when all others are done."""
        named = [
            ((key, array.dtype.__name__, array.size, factor), array)
            for key, array, factor in rows
        ]
        new = [(name, array) for name, array in named if name not in self.tasks]
        if new:
            self.drain()
            self.check()
            first = len(self.job.rows)
            declared = self.job.declare(
                [(name[1], name[2], first + i, name[3]) for i, (name, _) in enumerate(new)]
            )
            self.tasks.update((name, task) for (name, _), task in zip(new, declared))
        return [self.tasks[name] for name, _ in named]

    def sum(self, task, array, priority):
        """array becomes the sum, in the order of the engine. Returns at once."""
        self._await_task(task)
        self.check()
        with self.changed:
            self.pushed[task] = array
            if self.thread is None:
                self.thread = threading.Thread(target=self._complete_all, daemon=True)
                self.thread.start()
            self.changed.notify_all()
        handles = (_pointer * 1)(array.handle)
        check_call(
            _LIB.MXEnginePushAsyncND(
                self.begin,
                _pointer(task + 1),
                None,
                ctypes.byref(self.context),
                None,
                ctypes.c_int(0),
                handles,
                ctypes.c_int(1),
                ctypes.byref(self.property),
                ctypes.c_int(priority),
                b"taut_sum",
                ctypes.c_bool(False),
            )
        )

    def _await_task(self, task):
        """Until its sum of the step before is completed: MXNet may be far behind. Not
        by its array, which this step's backward pass writes already, but where it
        takes so long that something may be wrong."""
        with self.changed:
            self.changed.wait_for(lambda: task not in self.pushed or self.error, LOOK_SECONDS)
            array = self.pushed.get(task)
        if array is not None and self.error is None:
            self._await(array)

    def _await(self, array):
        """Until its sum is completed. What could not compute the gradient is a failure:
        the engine then leaves the sum out, and begins nothing."""
        try:
            array.wait_to_read()
        except MXNetError as why:
            self._fail(why)

    def drain(self):
        """Until all that was pushed is completed and our thread is at rest."""
        for array in list(self.pushed.values()):
            self._await(array)
        self._rest(None)

    def leave(self):
        """drain(), and until no thread of the engine is in an operation of ours: what it
        hands over may be summed before it is back. A thread that has no such frame needs
        Python's lock, which this one has, no more."""
        self.drain()
        while any(_is_in(self._begin.__code__, each) for each in sys._current_frames().values()):
            time.sleep(0.0005)

    def _rest(self, seconds):
        with self.changed:
            self.changed.wait_for(
                lambda: (self.error or not self.pushed) and self.is_parked, seconds
            )

    # --- the engine's threads ---------------------------------------------------------------------

    def _begin(self, _, complete, number):
        task = number - 1
        completion = _Completion.from_buffer_copy(
            ctypes.string_at(complete, ctypes.sizeof(_Completion))
        )
        try:
            with self.changed:
                array = self.pushed[task]
                self.begun[task] = completion
            if self.error is None:
                self.job.ready(task, address(array), array)
        except Exception as why:  # nobody else would see it
            self._fail(why)
        if self.error is not None:
            self._complete(task)

    # --- our thread -------------------------------------------------------------------------------

    def _complete_all(self):
        since = time.monotonic()
        while self._await_work():
            try:
                task = self.job.next(SECONDS)
                if task is not None:
                    self.job.done(task)
                    self._complete(task)
                since = self._still_waits(task, since)
            except Exception as why:
                self._fail(why)

    def _still_waits(self, task, since):
        """Since when no sum is done, while some are under way."""
        with self.changed:
            waits = None if task is not None else min(self.begun, default=None)
        if waits is None:
            return time.monotonic()
        self.job.patience.waits("gradient %d" % waits, since)
        return since

    def _await_work(self):
        """Sleeps while nothing is pushed. False: it is the end."""
        with self.changed:
            self.is_parked = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.ends or (self.pushed and not self.error))
            self.is_parked = False
            return not self.ends

    # --- both ------------------------------------------------------------------------------------

    def _complete(self, task):
        with self.changed:
            completion = self.begun.pop(task, None)
            if completion is None:
                return
            self.pushed.pop(task)
            self.changed.notify_all()
        call = _COMPLETE(completion.callback)
        if self.error is None:
            call(completion.engine, completion.parameter, None)
            return
        with _Error(self.error) as error:
            call(completion.engine, completion.parameter, error)

    def _fail(self, why):
        with self.changed:
            if self.error is None:
                self.error = "%s" % why
                if self.job.sync:
                    self.job.fail("rank %d: %s" % (self.job.rank, why))
            self.changed.notify_all()
        for task in list(self.begun):
            self._complete(task)

    def close(self):
        """What is under way is waited for where it can come, then ended."""
        if getattr(sys, "last_value", None) is None and self.error is None:
            self._rest(DRAIN_SECONDS)
        with self.changed:
            is_over = not self.pushed
        if not is_over:
            self._fail("the job ended")
        with self.changed:
            self.ends = True
            self.changed.notify_all()
        if self.thread is not None:
            self.thread.join()


__all__ = ["Engine", "MXNetError", "address"]
