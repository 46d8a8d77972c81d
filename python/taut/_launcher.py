# SPDX-License-Identifier: Apache-2.0
"""Where in a job this process is: its rank, where the ranks meet, and the secret by
which they know each other. From what launchers put into the environment.

    variables                                   set by
    TAUT_RANK, TAUT_RANKS, TAUT_MEET            hand
    RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT  torchrun and its like
    OMPI_COMM_WORLD_RANK, ..., PMI_RANK, ...    mpirun, mpiexec
    SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_ID   srun
    TF_CONFIG                                   TensorFlow's cluster managers

TAUT_MEET is where rank 0 listens, HOST:PORT, whoever told the ranks. None of these: a
job of one rank."""

import collections
import hashlib
import json
import os
import stat
import zlib

from . import _adapter

Place = collections.namedtuple("Place", "rank size local_rank local_size meet")

# How many ranks of the job are on this host.
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
# What tells one job on a host from another, and is the same on all ranks.
_JOB_NAMES = (
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "OMPI_MCA_orte_ess_jobid",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMI_JOBID",
)
_FIRST_PORT, _PORTS = 20000, 12000  # below those that systems give away


def _number(name, environment):
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        return None


def _cluster(environment):
    """(rank, size, meet) of TF_CONFIG; None: there is none."""
    try:
        config = json.loads(environment["TF_CONFIG"])
        cluster, task = config["cluster"], config["task"]
        names = [(kind, i) for kind in ("chief", "master", "worker")
                 for i in range(len(cluster.get(kind, ())))]  # fmt: skip
        rank = names.index((task["type"], int(task["index"])))
        kind, first = names[0]
        return rank, len(names), cluster[kind][first]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None


def _first_host(nodes):
    """Of Slurm's list of nodes, like a[03-05,9],b: a03."""
    head, bracket, rest = nodes.partition("[")
    if "," in head or not bracket:
        return head.split(",")[0]
    inside, _, tail = rest.partition("]")
    first = inside.split(",")[0].split("-")[0]
    return head + first + tail.split(",")[0]


def _own_port(environment):
    """A port that all ranks of this job on this host come to, and others hardly."""
    names = [environment.get(name, "") for name in _JOB_NAMES]
    if not any(names):
        raise ValueError(
            "the launcher gives the job no name: set TAUT_MEET=HOST:PORT to the same on all ranks"
        )
    return _FIRST_PORT + zlib.crc32(" ".join(names).encode()) % _PORTS


def _meet(size, environment):
    if environment.get("TAUT_MEET"):
        return environment["TAUT_MEET"]
    host, port = environment.get("MASTER_ADDR"), _number("MASTER_PORT", environment)
    if host and port is not None:
        return "%s:%d" % (host, port + 1)  # the port is that of the launcher's store
    local = [_number(name, environment) for name in _LOCAL_SIZES]
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    if size in local:
        host = "127.0.0.1"
    elif nodes and _number("SLURM_PROCID", environment) is not None:
        host = _first_host(nodes)
    else:
        raise ValueError(
            "where rank 0 listens is not told: set TAUT_MEET=HOST:PORT to the same on all ranks"
        )
    return "%s:%d" % (host, _own_port(environment))


def _told(environment):
    """(rank, size, local rank or None, where they meet or None); None: nobody told."""
    told = _adapter.launcher_ranks(environment)
    if told is not None:
        return (*told, None)
    cluster = _cluster(environment)
    if cluster is not None:
        rank, size, meet = cluster
        return rank, size, None, environment.get("TAUT_MEET") or meet
    return None


def find(environment=os.environ):
    """The Place of this process; local_rank, local_size None: not told. ValueError:
    what the environment lacks."""
    rank, size, local, meet = _told(environment) or (0, 1, 0, None)
    if not 0 <= rank < size:
        raise ValueError("there is no rank %d of %d" % (rank, size))
    if size == 1:
        return Place(0, 1, 0, 1, None)
    sizes = [_number(name, environment) for name in _LOCAL_SIZES]
    local_size = next((n for n in sizes if n is not None), None)
    return Place(rank, size, local, local_size, meet or _meet(size, environment))


# --- the secret -----------------------------------------------------------------------


def secret(place, environment=os.environ):
    """Of the job. TAUT_SECRET, or one made of what only this user can read, a file
    in the user's folder that the first job makes. None: one rank needs none.
    ValueError: there is none to be had."""
    if place.size == 1:
        return None
    if environment.get("TAUT_SECRET"):
        return environment["TAUT_SECRET"]
    folder = environment.get("XDG_CONFIG_HOME") or os.path.join(
        environment.get("HOME") or os.path.expanduser("~"), ".config"
    )
    try:
        kept = _kept(os.path.join(folder, "taut"))
    except OSError as why:
        raise ValueError("no secret: set TAUT_SECRET to the same on all ranks (%s)" % why) from None
    of_job = "%s %d %s" % (place.meet, place.size, kept)
    return hashlib.sha256(of_job.encode()).hexdigest()


def _kept(folder):
    path = os.path.join(folder, "secret")
    if not os.path.exists(path):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        own = "%s.%s" % (path, os.urandom(8).hex())
        file = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(file, "w") as f:
                f.write(os.urandom(32).hex())
            try:
                os.link(own, path)  # one of several ranks makes it
            except FileExistsError:
                pass
        finally:
            os.unlink(own)
    with open(path) as f:
        about = os.fstat(f.fileno())
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            raise PermissionError("%s can be read by others" % path)
        text = f.read()
    if len(text) < 32:
        raise PermissionError("%s is too short" % path)
    return text
