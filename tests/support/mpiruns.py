# SPDX-License-Identifier: Apache-2.0
"""Jobs of programs under the launchers of both MPIs, for tests."""

import os
import shutil
import subprocess

LAUNCH = {
    "openmpi": ["--allow-run-as-root", "--oversubscribe"]
    + ["--mca", "mpi_yield_when_idle", "1"],
    "mpich": [],
}


def has(flavour):
    return all(shutil.which(tool + "." + flavour) for tool in ("mpicc", "mpirun"))


def environment(**more):
    env = dict(os.environ, OMP_NUM_THREADS="1", **more)
    # what a test harness or an outer launcher may have left
    for name in list(env):
        if name.startswith(("OMPI_", "PMI", "HYD", "TAUT_RECORD")):
            del env[name]
    return env


def launch(flavour, n, own, words, patience_s):
    """own: variables of the job alone. They come last: the launcher needs none."""
    command = ["mpirun." + flavour, *LAUNCH[flavour], "-n", str(n)]
    command += ["env"] + ["%s=%s" % item for item in own.items()]
    return subprocess.run(
        command + [str(w) for w in words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
