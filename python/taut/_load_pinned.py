# SPDX-License-Identifier: Apache-2.0
"""Slots of a loader as pinned memory of CUDA's: registered once, where they are.

A copy to a device may still be under way when the job has dropped its tensor, and CUDA knows
nothing of who fills the memory next. So a batch is held until what the job's stream had to
do when it took the next one is done. A copy on another stream must be waited for by that
one before the next batch is taken, as who uses the copy does anyhow."""

import ctypes

from . import _load

_PORTABLE = 1  # for all devices of the process


def _runtime():
    """The libcudart that this process has loaded: none is loaded by us."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "libcudart" in line}
    if not paths:
        raise RuntimeError("pin_memory: this process has no libcudart")
    runtime = ctypes.CDLL(min(paths))
    runtime.cudaHostRegister.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
    runtime.cudaHostUnregister.argtypes = (ctypes.c_void_p,)
    return runtime


def find(asked):
    """torch.cuda, where memory is to be pinned; None: nothing is. As DataLoader: without a
    device it is not."""
    if not asked:
        return None
    import torch

    return torch.cuda if torch.cuda.is_available() else None


class Pinned:
    """Of one loader."""

    def __init__(self, load, cuda):
        self._event, self._held = cuda.Event, []
        cuda.init()
        n, runtime = ctypes.c_size_t(), _runtime()
        address = _load.library().taut_load_memory(load, ctypes.byref(n))
        fault = runtime.cudaHostRegister(address, n.value, _PORTABLE)
        if fault:
            raise OSError(
                "pin_memory: CUDA cannot register %d bytes (error %d)" % (n.value, fault)
            )
        _load.library().taut_load_memory_end(
            load, ctypes.cast(runtime.cudaHostUnregister, ctypes.c_void_p)
        )

    def keep(self, batch):
        """The job has it now."""
        _load.library().taut_batch_hold(batch)
        self._held.append([batch, None])

    def pass_on(self):
        """The job wants the next: what it told its stream until now is marked, and the one
        before it has been done."""
        if self._held and self._held[-1][1] is None:
            self._held[-1][1] = event = self._event()
            event.record()
        while len(self._held) > 1:
            self._let_go(*self._held.pop(0))

    def end(self):
        """The job wants no more of this epoch."""
        self.pass_on()
        while self._held:
            self._let_go(*self._held.pop(0))

    def _let_go(self, batch, event):
        event.synchronize()
        _load.library().taut_batch_release(batch)
