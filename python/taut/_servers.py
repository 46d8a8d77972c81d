# SPDX-License-Identifier: Apache-2.0
"""`taut server` processes that ranks of a job start beside themselves, each set of them
for the tensors of one model (or of one optimizer).

Server i of n is started by rank i * ranks // n, so they are spread over the hosts
as ranks are. They end by themselves, when all workers have left or one is lost; nobody
waits for them, and the signals of a terminal are not theirs. What one says on its
standard error its rank says on its own, as long as it is there."""

import contextlib
import functools
import os
import shutil
import subprocess
import threading
import time

from . import _cores, _ports

START_S = 60  # for a server to listen
_GONE_S = 0.5  # for one that ends to be gone
_KEPT_BYTES = 1024  # of what a server said last
_READY = b": ready at "  # of the line that says so
_MOST_LOST_S = 86400  # of `taut server --lost-after`


def command():
    """The command `taut`, as `taut run` was called, or as the system finds it; None."""
    return os.environ.get("TAUT_RUN_COMMAND") or shutil.which("taut")


def rank_of(server, n_servers, n_ranks):
    """Who starts it."""
    return server * n_ranks // n_servers


def words_of(options, lost_after_ns=0):
    """What the user wants of servers, for their command line. lost_after_ns: 0: as
    they have it."""
    words = ["--update", options.update, "--on-loss", options.on_loss]
    if getattr(options, "async") == "on":
        words += ["--async"]
        if options.staleness is not None:
            words += ["--staleness", str(options.staleness)]
    if lost_after_ns:
        seconds = -(-lost_after_ns // 10**9)
        words += ["--lost-after", str(min(max(seconds, 1), _MOST_LOST_S))]
    return words


class Beside:
    """Servers of all ranks, which listen: `places` and `secret` are what workers need
    to join them. On all ranks at the same place of the program.

    address: of this rank; gather(mine): what all ranks said, by rank; lost_after_ns:
    of silence, 0: as servers have it. OSError, on all ranks: one of the servers does
    not serve; ValueError, on all: ranks want different ones."""

    def __init__(self, rank, n_ranks, address, gather, options, lost_after_ns=0):
        n = options.servers
        words = ["--workers", str(n_ranks), *words_of(options, lost_after_ns)]
        mine = [i for i in range(n) if rank_of(i, n, n_ranks) == rank]
        self.gather, self.servers = gather, []
        with contextlib.ExitStack() as stack:
            # Theirs alone until they listen.
            ports = [stack.enter_context(_ports.Port(address)) for _ in mine]
            secret = os.urandom(32).hex() if rank == 0 else None
            wheres = [port.where for port in ports]
            said = gather((_why_not(ports), wheres, secret, [n, *words], _cores.of_rank()))
            whys, places, secrets, wanted, cores = zip(*said)
            _check(whys)
            for other, wants in enumerate(wanted):
                if wants != wanted[0]:
                    raise ValueError("rank %d wants other servers than rank 0" % other)
            self.places = ",".join(where for wheres in places for where in wheres)
            self.secret, self.cores = secrets[0], _cores.spare(rank, cores)
            try:
                _check(gather(self._start(mine, words)))
            except BaseException:
                self._kill()
                raise

    def _start(self, mine, words):
        """Why one of this rank's does not serve, which the others wait to hear; None:
        all of them listen."""
        self.servers = [_Server(i, self.places) for i in mine]
        try:
            for server in self.servers:
                _cores.start(self.cores, functools.partial(server.start, self.secret, words))
        except (OSError, RuntimeError) as why:  # no process, no thread
            return str(why)
        until = time.monotonic() + START_S
        return next(filter(None, (server.why_not(until) for server in self.servers)), None)

    def _kill(self):
        for server in self.servers:
            server.kill()

    def join(self, make, leave):
        """join() of these servers, which end where it fails. So no rank ends them while
        another is on its way to them."""
        try:
            return join(self.gather, make, leave, self._ended)
        except BaseException:
            self._kill()
            raise

    def _ended(self):
        """How this rank's ended. One that is being killed has closed its connections
        before it is seen to be gone."""
        until = time.monotonic() + _GONE_S
        return [server.end() for server in self.servers if server.ends(until)]


def join(gather, make, leave, ended=list):
    """make(): this rank's worker, which leave(worker) leaves. One on all ranks, or
    none: OSError, on all, what the first says that has none, behind what all know of how
    servers have ended: ended()."""
    worker, why, lines = None, None, []
    try:
        try:
            worker = make()
        except Exception as error:
            lines = ended()
            why = str(error) or type(error).__name__
        said = gather((why, lines))
        causes = _causes([line for _, lines in said for line in lines])
        _check([why and "; ".join([*causes, why]) for why, _ in said], "join the servers")
    except BaseException:
        if worker:
            leave(worker)
        raise
    return worker


def _causes(lines):
    """Without servers that ended because a worker did not join another one."""
    return [line for line in lines if " is gone: " not in line] or lines


def _check(reasons, what="start a server"):
    for rank, why in enumerate(reasons):
        if why:
            raise OSError("rank %d cannot %s: %s" % (rank, what, why))


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


class _Server:
    """One of them, and two threads that read what it says, as long as it does."""

    def __init__(self, index, places):
        self.index, self.places = index, places
        self.process = self.follower = None
        self.listens = False
        self.is_known = threading.Event()  # whether it listens
        self.errors = b""  # the last of them

    def start(self, secret, words):
        which = ["--servers", self.places, "--index", str(self.index)]
        self.process = subprocess.Popen(
            [command(), "server", *which, *words],
            env=dict(os.environ, TAUT_SECRET=secret),
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.follower = _in_background(self._follow)
        _in_background(self._hear)

    def _hear(self):
        said = b""
        for piece in _pieces(self.process.stdout):
            said = said[-_KEPT_BYTES:] + piece
            if not self.listens and _READY in said:
                self.listens = True
                self.is_known.set()
        self.is_known.set()

    def _follow(self):
        for piece in _pieces(self.process.stderr):
            self.errors = (self.errors + piece)[-_KEPT_BYTES:]
            with contextlib.suppress(OSError):
                os.write(2, piece)
        self.process.wait()  # so that it stays no zombie

    def why_not(self, until):
        """Why it does not serve, with its last line; None: it does."""
        self.is_known.wait(max(0, until - time.monotonic()))
        if self.listens and not self.has_ended():
            return None
        self.follower.join(max(0, until - time.monotonic()))
        return self.end()

    def has_ended(self):
        return self.process.poll() is not None

    def ends(self, until):
        try:
            self.process.wait(max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self):
        """How it has ended, with its last line."""
        if self.has_ended():
            self.follower.join(1)
        lines = self.errors.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        name = "server %d (%s)" % (self.index, self.places.split(",")[self.index])
        return "%s %s: %s" % (name, _how_ended(self.process.poll()), last)

    def kill(self):
        if self.process:
            self.process.kill()


def _how_ended(status):
    if status is None:
        return "does not listen after %g s" % START_S
    return "was ended by signal %d" % -status if status < 0 else "ended with status %d" % status


def _pieces(pipe):
    """As they come, until its end, at which it is closed."""
    with pipe:
        yield from iter(lambda: pipe.read(_KEPT_BYTES), b"")


def _in_background(call):
    thread = threading.Thread(target=call, daemon=True, name="taut-server")
    thread.start()
    return thread
