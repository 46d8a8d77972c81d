# SPDX-License-Identifier: Apache-2.0
"""How much TCP hands to a network device at once: more than 64 kB (BIG TCP, Linux 6.3). A
network card cuts it into frames; a veth hands it on whole, and each is one packet for the
switch, the shapers, and who receives it. iproute2 can say it for IPv4 since 6.3 alone, so the
kernel is told by rtnetlink."""

import ctypes
import os
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

LEAST, MOST = 65536, 131072  # bytes
CLONE_NEWNET = 0x40000000
RTM_NEWLINK, NLM_F_REQUEST, NLM_F_ACK = 16, 1, 4
GSO_IPV4_MAX_SIZE, GRO_IPV4_MAX_SIZE = 63, 64  # IFLA_...


class Namespace:
    """The devices of one, from outside of it."""

    def __init__(self, name):
        self.most = LEAST
        with ThreadPoolExecutor(1) as inside:  # a thread has a namespace of its own
            inside.submit(self._look_inside, name).result()

    def _look_inside(self, name):
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{name}", "rb") as file:
            if libc.setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"network namespace {name}")
        self.devices = [i for i, device in socket.if_nameindex() if device != "lo"]
        # Both are of this namespace, wherever they are used.
        self.link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.routes = os.open("/proc/sys/net/ipv4/route/flush", os.O_WRONLY)

    def set(self, most):
        """Of all devices; connections that stand look it up anew. Older kernels pass over
        what they do not know."""
        if most == self.most:
            return
        self.most = most
        for device in self.devices:
            body = struct.pack("BxHiII", socket.AF_UNSPEC, 0, device, 0, 0)
            for kind in (GSO_IPV4_MAX_SIZE, GRO_IPV4_MAX_SIZE):
                body += struct.pack("HHI", 8, kind, most)
            head = struct.pack(
                "IHHII", 16 + len(body), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 0, 0
            )
            self.link.send(head + body)
            (error,) = struct.unpack_from("i", self.link.recv(4096), 16)
            if error:
                raise OSError(-error, f"packets of {most} bytes")
        os.write(self.routes, b"1")

    def close(self):
        self.link.close()
        os.close(self.routes)
