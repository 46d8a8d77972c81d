# SPDX-License-Identifier: Apache-2.0
"""What `taut run` tells its job, in TAUT_RUN_...; docs/running.md has the table."""

import collections
import os
import sys

# groups: bytes of gradients that always go together, in the order of backward; the last
# holds for all behind it; (): what goes together follows from fuse.
Limits = collections.namedtuple("Limits", "order piece credit fuse halves ordered way groups")

NAMES = {
    "SCHEDULE": ("on", "off"),
    "ORDER": ("agreed", "declared"),
    "ENGINE": ("auto", "coll", "process-group", "server"),
    "GATE": ("on", "off"),
    "HALVES": ("off", "on"),
    "ORDERED": ("off", "on"),
    "TUNE": ("off", "on"),
    "WAY": ("auto", "direct", "doubling", "halving", "ring", "tree", "hosts", "flat"),
    "BACKEND": ("job", "taut"),
    "LOAD": ("off", "auto"),
    "ON_LOSS": ("end", "continue", "rescale"),
    "ASYNC": ("off", "on"),
    "COMPRESS": ("none", "fp16", "bf16", "mxint8"),
    "ROWS": ("off", "on"),
}
UNDER_WAY = 2  # pieces, of a size that fits the link
BYTES = {"PIECE": 1 << 20, "CREDIT": 4 << 20, "FUSE": 1 << 20, "LOAD_CACHE": 0}
# Of servers: their parts are cut before a link is measured, and what is long holds up the
# part behind it on its way there, its sum, and its way back.
SERVED = {"piece": 256 << 10, "credit": 1 << 20}
# And their defaults. SAY_AFTER: seconds, after which a rank says what it waits for.
NUMBERS = {"SERVERS": 0, "STALENESS": None, "SAY_AFTER": 60}


class Options:
    """The first of each row of NAMES is the default. ValueError: which variable is
    not what it should be."""

    def __init__(self, environment=os.environ):
        for name, values in NAMES.items():
            value = environment.get("TAUT_RUN_" + name) or values[0]
            if value not in values:
                raise ValueError(
                    "TAUT_RUN_%s: expected %s, found '%s'" % (name, " or ".join(values), value)
                )
            setattr(self, name.lower(), value)
        self.groups = ()
        self.given = [name.lower() for name in BYTES if environment.get("TAUT_RUN_" + name)]
        for name, default in BYTES.items():
            value = environment.get("TAUT_RUN_" + name) or str(default)
            if name == "FUSE" and "+" in value:
                try:
                    self.groups, value = sizes_of(value), str(default)
                except ValueError as why:
                    raise ValueError("TAUT_RUN_%s: %s" % (name, why)) from None
            if not value.isdecimal():
                raise ValueError("TAUT_RUN_%s: expected bytes, found '%s'" % (name, value))
            setattr(self, name.lower(), int(value))
        if self.groups and self.halves == "on":
            raise ValueError("TAUT_RUN_HALVES: each gradient goes in halves by itself, and "
                             "TAUT_RUN_FUSE has groups")
        if self.groups and self.tune == "on":
            raise ValueError("TAUT_RUN_TUNE: tries what goes together, and TAUT_RUN_FUSE has "
                             "groups, of which that is fixed")
        for name, default in NUMBERS.items():
            value = environment.get("TAUT_RUN_" + name)
            if value and not value.isdecimal():
                raise ValueError("TAUT_RUN_%s: expected a number, found '%s'" % (name, value))
            setattr(self, name.lower(), int(value) if value else default)
        self.server = environment.get("TAUT_RUN_SERVER") or None
        self.update = environment.get("TAUT_RUN_UPDATE") or "sum"
        self._check_servers()
        if self.ordered == "on" and self.way not in ("auto", "direct", "flat"):
            raise ValueError("TAUT_RUN_WAY: %s does not sum in the order of the ranks" % self.way)

    def _check_servers(self):
        """TAUT_RUN_SERVER: addresses of servers; TAUT_RUN_SERVERS: how many to start."""
        has_servers = bool(self.server or self.servers)
        if self.server and self.servers:
            raise ValueError("expected TAUT_RUN_SERVER or TAUT_RUN_SERVERS")
        if self.engine == "server" and not has_servers:
            raise ValueError(
                "engine server: TAUT_RUN_SERVER names servers, TAUT_RUN_SERVERS starts some"
            )
        if has_servers and self.engine not in ("auto", "server"):
            raise ValueError("TAUT_RUN_ENGINE: %s has no servers" % self.engine)
        if has_servers:
            self.engine = "server"

    def served(self, name):
        """PIECE or CREDIT, where servers sum."""
        return getattr(self, name) if name in self.given else SERVED[name]

    def limits(self, order):
        on, serves = "on", self.engine == "server"
        return Limits(
            order,
            self.served("piece") if serves else self.piece,
            self.served("credit") if serves else self.credit,
            0 if self.groups else self.fuse,
            self.halves == on,
            self.ordered == on,
            self.way,
            self.groups,
        )

    def fitted(self, limits, piece):
        """These, where the link wants pieces of so many bytes: but for what is given, and
        for servers."""
        if self.engine == "server":
            return limits
        given = limits.piece if "piece" in self.given else 0
        fits = {"piece": piece, "credit": UNDER_WAY * (given or piece), "fuse": piece}
        return limits._replace(**{k: v for k, v in fits.items() if k not in self.given})


def sizes_of(text):
    """Of "1048576+4096"."""
    sizes = text.split("+")
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise ValueError("expected bytes of each group, like 4096+65536, found '%s'" % text)
    return tuple(map(int, sizes))


def joining(sizes, groups):
    """Of each tensor of so many bytes, whether it goes with the one before it: a group
    is closed when it has come to its size. Without groups none does."""
    number, filled = 0, 0
    for size in sizes:
        yield filled > 0
        filled += size
        if not groups or filled >= groups[min(number, len(groups) - 1)]:
            number, filled = number + 1, 0


def size_text(n_bytes):
    """In KiB, where it is a whole number of them; 0: no limit."""
    if not n_bytes:
        return "any size"
    return "%d bytes" % n_bytes if n_bytes % 1024 else "%d KiB" % (n_bytes // 1024)


def say(text):
    """One line on the log of the job."""
    print("taut: " + text, file=sys.stderr, flush=True)


def was_seen():
    """What `taut run` looks for behind the job (src/cli/run_unseen.h), from a program that
    imports Taut itself, perhaps in a Python that loads no sitecustomize."""
    folder = os.environ.get("TAUT_RUN_UNSEEN")
    try:
        if folder:
            os.rmdir(folder)
    except OSError:
        pass  # another process was the first, or this is another host
