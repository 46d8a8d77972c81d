# SPDX-License-Identifier: Apache-2.0
"""Starts a job of MXNet's parameter server on this machine: one scheduler, one
server, two workers. usage: mxnet_launch.py SCRIPT ARG...
Ends with the status of the first worker that fails."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from ports import free_port  # noqa: E402

WORKERS, SERVERS = 2, 1


def main(command):
    shared = dict(
        os.environ,
        DMLC_PS_ROOT_URI="127.0.0.1",
        DMLC_PS_ROOT_PORT=str(free_port()),
        DMLC_NUM_WORKER=str(WORKERS),
        DMLC_NUM_SERVER=str(SERVERS),
        DMLC_INTERFACE="lo",
    )

    def start(role):
        return subprocess.Popen(
            [sys.executable, *command], env=dict(shared, DMLC_ROLE=role)
        )

    others = [start("scheduler")] + [start("server") for _ in range(SERVERS)]
    workers = [start("worker") for _ in range(WORKERS)]
    failed = 0
    for worker in workers:
        failed = failed or worker.wait()
    for other in others:
        if failed:
            other.kill()
        failed = failed or other.wait()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
