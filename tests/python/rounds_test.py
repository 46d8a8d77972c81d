# SPDX-License-Identifier: Apache-2.0
"""Rounds between the ranks of a process group (python/taut/_rounds.py): who is let
in, the and of their words, who has left and who is gone."""

import os
import pathlib
import socket
import struct
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from taut import _rounds  # noqa: E402

SECRET = b"of the job"


def meet(n_ranks, strangers=()):
    """The ranks' Rounds, each made by a thread; strangers come first."""
    listeners = [_rounds.Listener("127.0.0.1") for _ in range(n_ranks)]
    addresses = [listener.address for listener in listeners]
    found = [None] * n_ranks
    kept = [stranger(addresses[0]) for stranger in strangers]

    def one(rank):
        found[rank] = _rounds.Rounds(_rounds.meet(listeners[rank], rank, addresses, SECRET))

    threads = [threading.Thread(target=one, args=(r,)) for r in range(n_ranks)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for s in [*listeners, *filter(None, kept)]:
        s.close()
    return found


def says_nonsense(address):
    s = socket.create_connection(address)
    s.sendall(b"GET / HTTP/1.0\r\n\r\n" * 8)
    return s


def closes_at_once(address):
    socket.create_connection(address).close()


def knows_another_secret(address):
    """Claims to be rank 1, with a proof of its own."""
    s = socket.create_connection(address)
    s.sendall(struct.pack("<I", 1) + b"n" * 16 + b"p" * 32)
    return s


def answer(rounds):
    """What a round gives, once all words have come."""
    while True:
        result = rounds.result()
        if result:
            return result
        rounds.wait(10)


class Rounds(unittest.TestCase):
    def close(self, *some):
        for r in some:
            r.close()

    def test_and_of_all_words(self):
        ranks = meet(3)
        ranks[0].enter(0, [0b1110, 7])
        self.assertIsNone(ranks[0].result())
        self.assertEqual(ranks[2].wait(10), 0)  # asked
        ranks[1].enter(0, [0b0111, 1 << 63 | 5])
        ranks[2].enter(0, [0b1111, 1 << 63 | 4])
        for r in ranks:
            self.assertEqual(answer(r), (0, [0b0110, 4]))
        self.close(*ranks)

    def test_many_rounds(self):
        one, two = meet(2)
        for number in range(100):
            one.enter(number, [number] * 5000)
            two.enter(number, [~number & 0xFFFFFFFF] * 5000)
            self.assertEqual(answer(two), (number, [0] * 5000))
            self.assertEqual(answer(one), (number, [0] * 5000))
        self.close(one, two)

    def test_strangers_are_left_outside(self):
        ranks = meet(2, [says_nonsense, closes_at_once, knows_another_secret])
        ranks[0].enter(0, [3])
        ranks[1].enter(0, [6])
        self.assertEqual(answer(ranks[0]), (0, [2]))
        self.close(*ranks)

    def test_another_secret(self):
        """Of the rank that is called."""
        listener = _rounds.Listener("127.0.0.1")

        def other():
            s, _ = listener.socket.accept()
            with s:
                hello = s.recv(_rounds._HELLO, socket.MSG_WAITALL)
                own = bytes(_rounds._NONCE)
                s.sendall(own)
                s.recv(_rounds._PROOF, socket.MSG_WAITALL)
                nonces = hello[4:] + own
                s.sendall(_rounds._proof(b"of another job", b"host", 1, 0, nonces))

        thread = threading.Thread(target=other)
        thread.start()
        own = _rounds.Listener("127.0.0.1")
        with self.assertRaisesRegex(OSError, "rank 0 does not know the job's secret"):
            _rounds.meet(own, 1, [listener.address] * 2, SECRET)
        thread.join()
        self.close(listener, own)

    def test_other_numbers_of_words(self):
        one, two = meet(2)
        one.enter(0, [1])
        two.enter(0, [1, 2])
        with self.assertRaisesRegex(OSError, "rank 1 sent another number of words"):
            answer(one)
        self.close(one, two)

    def test_a_rank_is_gone(self):
        one, two = meet(2)
        two.close()
        with self.assertRaisesRegex(OSError, "rank 1 is gone"):
            one.enter(0, [1])
            answer(one)
        one.close()

    def test_a_rank_leaves(self):
        one, two = meet(2)
        leaving = threading.Thread(target=lambda: (two.leave(10), two.close()))
        leaving.start()
        one.leave(10)
        leaving.join()
        with self.assertRaisesRegex(OSError, "rank 1 has left the job"):
            one.enter(0, [1])
        one.close()

    def test_woken(self):
        one, two = meet(2)
        one.wake()
        self.assertIsNone(one.wait(None))
        self.close(one, two)

    def test_closed_twice(self):
        """The numbers of its descriptors are others' by then."""
        one, two = meet(2)
        one.close()
        pipes = [os.pipe() for _ in range(4)]
        one.wake()
        one.leave(10)
        one.close()
        two.close()
        for reads, writes in pipes:
            os.set_blocking(reads, False)
            with self.assertRaises(BlockingIOError):
                os.read(reads, 1)
            os.close(reads)
            os.close(writes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
