# SPDX-License-Identifier: Apache-2.0
"""Rounds of the scheduler between the ranks of a process group: words that each
rank sends to each other one, over TCP connections of their own.

A message with the words of a round is also what tells a rank that others have
entered it. Who does not know the secret, which goes through the process group
of the job, is not let in."""

import hmac
import os
import selectors
import socket
import struct
import threading
import time

_HEAD = struct.Struct("<QI")  # round, words
_NONCE = 16
_PROOF = 32
MEET_SECONDS = 60
_GOODBYE = (1 << 64) - 1  # in place of a round


def _proof(secret, role, rank, nonce):
    return hmac.digest(secret, b"%s %d " % (role, rank) + nonce, "sha256")


def _take(s, n):
    parts = b""
    while len(parts) < n:
        more = s.recv(n - len(parts))
        if not more:
            raise OSError("the connection was closed")
        parts += more
    return parts


def own_address(master):
    """The address by which others reach this host: that of the interface
    towards rank 0's, which needs no answer to be known."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((master, 9))
            return s.getsockname()[0]
    except OSError:
        return "127.0.0.1"


class Listener:
    """Where this rank can be met; made before addresses are exchanged."""

    def __init__(self, master):
        self.socket = socket.create_server(("", 0), backlog=64)
        self.address = own_address(master), self.socket.getsockname()[1]

    def close(self):
        self.socket.close()


def meet(listener, rank, addresses, secret):
    """A socket to each other rank, by rank. OSError: one is not there in time."""
    end = time.monotonic() + MEET_SECONDS
    peers = {}
    try:
        for other in range(rank):
            peers[other] = _call(addresses[other], rank, other, secret, end)
        _accept(listener, rank, len(addresses), secret, end, peers)
    except OSError:
        for s in peers.values():
            s.close()
        raise
    for s in peers.values():
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.setblocking(False)
    return peers


def _accept(listener, rank, n_ranks, secret, end, peers):
    while len(peers) < n_ranks - 1:
        listener.socket.settimeout(max(end - time.monotonic(), 0.001))
        try:
            s, _ = listener.socket.accept()
        except socket.timeout:
            gone = set(range(n_ranks)) - set(peers) - {rank}
            raise OSError("rank %d is not there" % min(gone)) from None
        other = _let_in(s, rank, n_ranks, secret)
        if other is None or other in peers:
            s.close()
        else:
            peers[other] = s


def _call(address, rank, other, secret, end):
    s = socket.create_connection(address, timeout=max(end - time.monotonic(), 0.001))
    try:
        nonce = os.urandom(_NONCE)
        s.sendall(struct.pack("<I", rank) + nonce)
        answer = _take(s, _PROOF + _NONCE)
        proof = _proof(secret, b"server", other, nonce)
        if not hmac.compare_digest(answer[:_PROOF], proof):
            raise OSError("rank %d does not know the job's secret" % other)
        s.sendall(_proof(secret, b"client", rank, answer[_PROOF:]))
    except OSError:
        s.close()
        raise
    return s


def _let_in(s, rank, n_ranks, secret):
    """The rank that called, or None."""
    s.settimeout(5)
    try:
        (other,) = struct.unpack("<I", _take(s, 4))
        nonce, own = _take(s, _NONCE), os.urandom(_NONCE)
        s.sendall(_proof(secret, b"server", rank, nonce) + own)
        proof = _take(s, _PROOF)
    except OSError:
        return None
    known = hmac.compare_digest(proof, _proof(secret, b"client", other, own))
    return other if known and rank < other < n_ranks else None


class _Peer:
    def __init__(self, rank, s):
        self.rank, self.socket = rank, s
        self.came, self.to_send = bytearray(), bytearray()
        self.words = {}  # round -> its words
        self.has_left = False


class Rounds:
    """The other ranks, and a thread's place to wait for them. One thread uses
    it, but for wake() and close(), after which wake() does nothing."""

    def __init__(self, peers):
        self.peers = [_Peer(rank, s) for rank, s in sorted(peers.items())]
        self.selector = selectors.DefaultSelector()
        self.wakes, self.waker = os.pipe()
        self.lock = threading.Lock()  # of these two, -1 when closed
        os.set_blocking(self.wakes, False)
        os.set_blocking(self.waker, False)
        self.selector.register(self.wakes, selectors.EVENT_READ, None)
        for peer in self.peers:
            self.selector.register(peer.socket, selectors.EVENT_READ, peer)
        self.own = None  # round, words

    def wake(self):
        with self.lock:
            if self.waker < 0:
                return
            try:
                os.write(self.waker, b"w")
            except BlockingIOError:
                pass  # as many as fit are there already

    def enter(self, number, words):
        message = _HEAD.pack(number, len(words)) + struct.pack("<%dQ" % len(words), *words)
        self.own = number, words
        for peer in self.peers:
            if peer.has_left:
                raise OSError("rank %d has left the job" % peer.rank)
            peer.to_send += message
            self._send(peer)

    def leave(self, seconds):
        """Nothing is under way here. Others may still be at it: returns when they
        have said the same, or the time is over. No other thread is in here."""
        end = time.monotonic() + seconds
        try:
            for peer in self.peers:
                peer.to_send += _HEAD.pack(_GOODBYE, 0)
                self._send(peer)
            while not all(p.has_left and not p.to_send for p in self.peers):
                left = end - time.monotonic()
                if left <= 0:
                    return
                self.wait(left)
        except OSError:
            pass  # a peer is gone: nobody to wait for

    def _send(self, peer):
        try:
            sent = peer.socket.send(peer.to_send)
        except BlockingIOError:
            sent = 0
        except OSError as why:
            raise self._gone(peer, why) from None
        del peer.to_send[:sent]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.to_send else 0)
        if self.selector.get_key(peer.socket).events != events:
            self.selector.modify(peer.socket, events, peer)

    @staticmethod
    def _gone(peer, why):
        return OSError("rank %d is gone: %s" % (peer.rank, why))

    def wait(self, seconds):
        """Sleeps until woken, or something came. The greatest round that a
        peer has entered since, or None. OSError: a peer is gone."""
        asked = None
        for key, events in self.selector.select(seconds):
            peer = key.data
            if peer is None:
                self._drain()
                continue
            if events & selectors.EVENT_WRITE:
                self._send(peer)
            if events & selectors.EVENT_READ:
                for number in self._receive(peer):
                    asked = number if asked is None else max(asked, number)
        return asked

    def _drain(self):
        try:
            while len(os.read(self.wakes, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def _receive(self, peer):
        try:
            data = peer.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError as why:
            raise self._gone(peer, why) from None
        if not data and peer.has_left:
            self.selector.unregister(peer.socket)
            return []
        if not data:
            raise self._gone(peer, "its connection was closed")
        peer.came += data
        came = []
        while len(peer.came) >= _HEAD.size:
            number, n = _HEAD.unpack_from(peer.came)
            end = _HEAD.size + 8 * n
            if len(peer.came) < end:
                break
            if number == _GOODBYE:
                peer.has_left = True
            else:
                peer.words[number] = struct.unpack_from("<%dQ" % n, peer.came, _HEAD.size)
                came.append(number)
            del peer.came[:end]
        return came

    def result(self):
        """The number and the and of the words of the round that this rank is
        in, once; None: some are missing."""
        if self.own is None:
            return None
        number, words = self.own
        if not all(number in peer.words for peer in self.peers):
            return None
        self.own = None
        for peer in self.peers:
            theirs = peer.words.pop(number)
            if len(theirs) != len(words):
                raise OSError("rank %d sent another number of words" % peer.rank)
            words = [a & b for a, b in zip(words, theirs)]
        return number, words

    def asked_already(self):
        """The greatest round that a peer has entered before this rank listened."""
        return max((max(p.words) for p in self.peers if p.words), default=None)

    def close(self):
        """More than once does nothing: the descriptors may be others' by then."""
        with self.lock:
            both = self.wakes, self.waker
            self.wakes = self.waker = -1
        if both[0] < 0:
            return
        self.selector.close()
        for peer in self.peers:
            peer.socket.close()
        for descriptor in both:
            os.close(descriptor)
