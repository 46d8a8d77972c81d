# SPDX-License-Identifier: Apache-2.0
"""When a process records: RUN/processes/.HOST-PID.window, which docs/recording.md
defines. The recorder writes it; workers of PyTorch's DataLoaders and
src/record/mpi/window.c map it."""

import mmap
import os
import struct

from ._process import process_name

_WINDOW = struct.Struct("<qqiii")  # from, to (0: not yet), rank, world, local


def path_of(run, pid):
    return os.path.join(run, "processes", ".%s.window" % process_name(pid))


class Window:
    """The file, mapped. OSError: why it cannot be."""

    def __init__(self, path, create=False):
        own = path + ".part" if create else path
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        fd = os.open(own, flags | os.O_CLOEXEC, 0o644)
        try:
            if create:
                os.write(fd, bytes(_WINDOW.size))  # on a full disk it fails, not the map
            self.map = mmap.mmap(fd, _WINDOW.size)
        finally:
            os.close(fd)
        if create:
            os.rename(own, path)  # nobody maps an empty one
        self.path = path

    def get(self):
        return _WINDOW.unpack_from(self.map, 0)

    def set(self, start_ns, end_ns, ranks):
        """end_ns that is start_ns: what there was is thrown away."""
        ranks = [-1 if n is None else n for n in ranks or (None,) * 3]
        _WINDOW.pack_into(self.map, 0, start_ns, end_ns, *ranks)

    def remove(self):
        try:
            os.unlink(self.path)
        except OSError:
            pass
