# SPDX-License-Identifier: Apache-2.0
"""Rounds of the scheduler between the ranks of a process group: words that each
rank sends to each other one, over TCP connections of their own.

A message with the words of a round is also what tells a rank that others have
entered it.

Who does not know the secret, which goes through the process group of the job, is
not let in, and keeps nobody out: of any number that call, each has some seconds.

    rank r                        a rank below
    rank, nonce             ->
                            <-    nonce
    proof of all that       ->            wrong: closed, without a word
                            <-    proof of the same"""

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
_HELLO = 4 + _NONCE
MEET_SECONDS = 60
GUEST_SECONDS = 5  # in which one that called must have proved itself
GUESTS = 256  # at once; of more, the first that came go
_GOODBYE = (1 << 64) - 1  # in place of a round


def _proof(secret, role, caller, host, nonces):
    names = b"taut rounds %s %d %d " % (role, caller, host)
    return hmac.digest(secret, names + nonces, "sha256")


class Listener:
    """Where this rank can be met; made before addresses are exchanged."""

    def __init__(self, address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket.create_server((address, 0), family=family, backlog=GUESTS)
        self.address = self.socket.getsockname()[:2]

    def close(self):
        self.socket.close()


def meet(listener, rank, addresses, secret):
    """A socket to each other rank, by rank. OSError: one is not there in time."""
    end = time.monotonic() + MEET_SECONDS
    peers = {}
    try:
        for other in range(rank):
            peers[other] = _call(addresses[other], rank, other, secret, end)
        _Door(listener, rank, len(addresses), secret, peers).open(end)
    except OSError:
        for s in peers.values():
            s.close()
        raise
    for s in peers.values():
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.setblocking(False)
    return peers


# --- who calls ---------------------------------------------------------------------------


def _call(address, rank, other, secret, end):
    """One that was closed before it said anything was one of too many."""
    while True:
        try:
            return _call_once(address, rank, other, secret, end)
        except (ConnectionError, TimeoutError) as why:
            if time.monotonic() >= end:
                raise OSError("rank %d is not there: %s" % (other, why)) from None
        time.sleep(0.05)


def _call_once(address, rank, other, secret, end):
    s = socket.create_connection(address, timeout=_left(end))
    try:
        hello = struct.pack("<I", rank) + os.urandom(_NONCE)
        s.sendall(hello)
        nonces = hello[4:] + _take(s, _NONCE, end)
        s.sendall(_proof(secret, b"caller", rank, other, nonces))
        answer = _take(s, _PROOF, end)
        if not hmac.compare_digest(answer, _proof(secret, b"host", rank, other, nonces)):
            raise OSError("rank %d does not know the job's secret" % other)
    except OSError:
        s.close()
        raise
    return s


def _left(end):
    return max(end - time.monotonic(), 0.001)


def _take(s, n, end):
    parts = b""
    while len(parts) < n:
        s.settimeout(_left(end))
        more = s.recv(n - len(parts))
        if not more:
            raise ConnectionError("the connection was closed")
        parts += more
    return parts


# --- who is called -----------------------------------------------------------------------


class _Guest:
    def __init__(self, s):
        self.socket, self.end = s, time.monotonic() + GUEST_SECONDS
        self.came, self.own = b"", os.urandom(_NONCE)

    def hear(self):
        """Takes what came, and answers. True: all of it. OSError: it goes."""
        more = self.socket.recv(_HELLO + _PROOF - len(self.came))
        if not more:
            raise OSError("the connection was closed")
        before, self.came = len(self.came), self.came + more
        if before < _HELLO <= len(self.came):
            self.send(self.own)
        return len(self.came) == _HELLO + _PROOF

    def send(self, answer):
        if self.socket.send(answer) != len(answer):
            raise OSError("it does not read")


class _Door:
    def __init__(self, listener, rank, n_ranks, secret, peers):
        self.listener, self.rank, self.n_ranks = listener.socket, rank, n_ranks
        self.secret, self.peers = secret, peers
        self.selector = selectors.DefaultSelector()
        self.guests = {}  # socket -> _Guest, in the order in which they came

    def open(self, end):
        """Until all ranks above are in."""
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        try:
            while len(self.peers) < self.n_ranks - 1:
                self.move(end)
        finally:
            for s in list(self.guests):
                self.drop(s)
            self.selector.close()

    def move(self, end):
        now = time.monotonic()
        if now >= end:
            gone = set(range(self.n_ranks)) - set(self.peers) - {self.rank}
            raise OSError("rank %d is not there" % min(gone))
        for s in [s for s, guest in self.guests.items() if guest.end <= now]:
            self.drop(s)
        first = min([end] + [guest.end for guest in self.guests.values()])
        for key, _ in self.selector.select(first - now):
            if key.fileobj is self.listener:
                self.accept()
            elif key.fileobj in self.guests:
                self.hear(key.fileobj)

    def accept(self):
        try:
            s, _ = self.listener.accept()
        except OSError:
            return  # it went again
        s.setblocking(False)
        if len(self.guests) == GUESTS:
            self.drop(next(iter(self.guests)))
        self.guests[s] = _Guest(s)
        self.selector.register(s, selectors.EVENT_READ)

    def hear(self, s):
        guest = self.guests[s]
        try:
            if guest.hear():
                self.let_in(guest)
        except OSError:
            self.drop(s)

    def let_in(self, guest):
        (other,) = struct.unpack_from("<I", guest.came)
        nonces = guest.came[4:_HELLO] + guest.own
        proof = _proof(self.secret, b"caller", other, self.rank, nonces)
        if not hmac.compare_digest(guest.came[_HELLO:], proof):
            raise OSError("it does not know the secret")
        if not self.rank < other < self.n_ranks or other in self.peers:
            raise OSError("no such rank is missing")
        guest.send(_proof(self.secret, b"host", other, self.rank, nonces))
        self.selector.unregister(guest.socket)
        del self.guests[guest.socket]
        self.peers[other] = guest.socket

    def drop(self, s):
        self.selector.unregister(s)
        del self.guests[s]
        s.close()


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

    def forked(self):
        """In a child, whose parent may have held the lock."""
        self.lock = threading.Lock()
        self.close()

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
