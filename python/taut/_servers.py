# SPDX-License-Identifier: Apache-2.0
"""`taut server` processes that ranks of a job start beside themselves, each set of them
for the tensors of one model (or of one optimizer).

Server i of n is started by rank i * ranks // n, so they are spread over the hosts
as ranks are. They end by themselves, when all workers have left or one is lost; nobody
waits for them, and the signals of a terminal are not theirs."""

import contextlib
import os
import shutil
import subprocess
import threading

from . import _ports


def command():
    """The command `taut`, as `taut run` was called, or as the system finds it; None."""
    return os.environ.get("TAUT_RUN_COMMAND") or shutil.which("taut")


def rank_of(server, n_servers, n_ranks):
    """Who starts it."""
    return server * n_ranks // n_servers


def words_of(options):
    """What the user wants of servers, for their command line."""
    words = ["--update", options.update, "--on-loss", options.on_loss]
    if getattr(options, "async") == "on":
        words += ["--async"]
        if options.staleness is not None:
            words += ["--staleness", str(options.staleness)]
    return words


class Beside:
    """Servers of all ranks, for the time in which these join them: `places` and
    `secret` are what workers need. On all ranks at the same place of the program.

    address: of this rank; gather(mine): what all ranks said, by rank. OSError, on all
    ranks: a rank cannot start one."""

    def __init__(self, rank, n_ranks, address, gather, options):
        n = options.servers
        mine = [i for i in range(n) if rank_of(i, n, n_ranks) == rank]
        self.processes, self.stack = [], contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            ports = [stack.enter_context(_ports.Port(address)) for _ in mine]
            secret = os.urandom(32).hex() if rank == 0 else None
            said = gather(([port.where for port in ports], _why_not(ports), secret))
            for other, (_, why, _) in enumerate(said):
                if why:
                    raise OSError("rank %d cannot start a server: %s" % (other, why))
            self.places = ",".join(where for wheres, _, _ in said for where in wheres)
            self.secret = said[0][2]
            for i in mine:
                self._start(i, ["--workers", str(n_ranks), *words_of(options)])
            self.stack = stack.pop_all()  # the ports, until the servers have them

    def _start(self, index, words):
        self.processes.append(
            subprocess.Popen(
                [command(), "server", "--servers", self.places, "--index", str(index), *words],
                env=dict(os.environ, TAUT_SECRET=self.secret),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        """This rank has joined, or cannot."""
        self.stack.close()
        if kind is not None:
            for process in self.processes:
                process.kill()
        for process in self.processes:  # so that none stays a zombie
            threading.Thread(target=process.wait, daemon=True, name="taut-server").start()


def _why_not(ports):
    for port in ports:
        if port.where is None:
            return port.why
    if not ports:
        return None
    own = command()
    if not own:
        return "there is no command taut: TAUT_RUN_COMMAND names it"
    if not os.access(own, os.X_OK):
        return "%s cannot be run" % own
    return None
