# SPDX-License-Identifier: Apache-2.0
"""How ranks meet for rounds (engine process-group), whoever else calls: those who do
not know the secret are not let in, and keep nobody out. No PyTorch in it."""

import os
import pathlib
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from taut import _rounds

SECRET = b"of the job"


class Meeting:
    """Ranks that are threads. secrets: by rank."""

    def __init__(self, secrets):
        self.secrets, n = secrets, len(secrets)
        self.listeners = [_rounds.Listener("127.0.0.1") for _ in secrets]
        self.addresses = [listener.address for listener in self.listeners]
        self.peers, self.errors = [None] * n, [None] * n
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(n)]

    def run(self, rank):
        try:
            self.peers[rank] = _rounds.meet(
                self.listeners[rank], rank, self.addresses, self.secrets[rank]
            )
        except OSError as why:
            self.errors[rank] = str(why)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for s in self.listeners + [s for p in self.peers if p for s in p.values()]:
            s.close()

    def meet(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()


class Rounds(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, _rounds, "MEET_SECONDS", _rounds.MEET_SECONDS)
        self.addCleanup(setattr, _rounds, "GUEST_SECONDS", _rounds.GUEST_SECONDS)

    def test_strangers_keep_nobody_out(self):
        """More than are listened to at once, silent, half said, and garbage; each of
        them would be waited for till long after the ranks have given up."""
        _rounds.GUEST_SECONDS = 3600
        _rounds.MEET_SECONDS = 30
        strangers = []
        with Meeting([SECRET] * 3) as meeting:
            for i in range(_rounds.GUESTS + 40):
                s = socket.create_connection(meeting.addresses[i % 2])
                s.sendall((b"", b"\1\0", os.urandom(200))[i % 3])
                strangers.append(s)
            meeting.meet()
            self.assertEqual(meeting.errors, [None] * 3)
            for rank, peers in enumerate(meeting.peers):
                self.assertEqual(set(peers), {0, 1, 2} - {rank})
                for other, s in peers.items():
                    s.send(b"%d to %d" % (rank, other))
            for rank, peers in enumerate(meeting.peers):
                for other, s in peers.items():
                    s.settimeout(10)
                    self.assertEqual(s.recv(100), b"%d to %d" % (other, rank))
        for s in strangers:
            s.close()

    def test_another_secret(self):
        _rounds.MEET_SECONDS = 0.5
        with Meeting([SECRET, b"another"]) as meeting:
            meeting.meet()
        self.assertEqual(meeting.errors[0], "rank 1 is not there")
        self.assertIn("rank 0 is not there", meeting.errors[1])

    def test_a_host_that_does_not_know_it(self):
        """It hears no proof that it could use, and its own is not taken."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=self.pretend, args=(listener,))
            thread.start()
            end = time.monotonic() + 30
            with self.assertRaisesRegex(OSError, "rank 0 does not know the job's secret"):
                _rounds._call(listener.getsockname(), 1, 0, SECRET, end)
            thread.join()

    @staticmethod
    def pretend(listener):
        s, _ = listener.accept()
        with s:
            s.recv(_rounds._HELLO, socket.MSG_WAITALL)
            s.sendall(os.urandom(_rounds._NONCE))
            s.recv(_rounds._PROOF, socket.MSG_WAITALL)
            s.sendall(os.urandom(_rounds._PROOF))


if __name__ == "__main__":
    unittest.main(verbosity=2)
