# SPDX-License-Identifier: Apache-2.0
"""Ports that a process of a job is met at."""

import socket


class Port:
    """A port of an address of this host that nobody else is given as long as this
    is open: bound, at which the library then listens. address None: no port is
    wanted. where: "HOST:PORT"; None: why says why there is none."""

    def __init__(self, address):
        self.where = self.why = self.socket = None
        if address is None:
            return
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self.socket = socket.socket(family, socket.SOCK_STREAM)
            # Both who bind say so, and neither listens yet: the system lets them.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((address, 0))
            host = "[%s]" % address if family == socket.AF_INET6 else address
            self.where = "%s:%d" % (host, self.socket.getsockname()[1])
        except OSError as why:
            self.why = "%s: %s" % (address, why)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.socket:
            self.socket.close()
