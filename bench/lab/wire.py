# SPDX-License-Identifier: Apache-2.0
"""A small TCP sender and receiver, to see what a link gives.

    wire.py receive PORT          one connection; prints bytes and seconds
    wire.py send HOST PORT BYTES

The receiver's time is from the first byte's arrival to the last's."""

import json
import socket
import sys
import time

CHUNK = 1 << 18


def receive(port):
    with socket.create_server(("0.0.0.0", port)) as server:
        print("listening", flush=True)
        peer, _ = server.accept()
        buffer, total, begin = bytearray(CHUNK), 0, None
        while got := peer.recv_into(buffer):
            begin = begin or time.perf_counter()
            total += got
        print(json.dumps({"bytes": total, "seconds": time.perf_counter() - begin}))


def send(host, port, size):
    block = bytes(CHUNK)
    with socket.create_connection((host, port)) as peer:
        while size > 0:
            size -= peer.send(block[:size] if size < CHUNK else block)


def main():
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))


if __name__ == "__main__":
    main()
