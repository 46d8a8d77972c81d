# SPDX-License-Identifier: Apache-2.0
"""launch.py N PROGRAM [WORD...]: a job's ranks on this host, where torchrun itself is
not what is tested: that one imports PyTorch for some seconds before it starts any."""

import os
import subprocess
import sys
import time

from frameworks import free_port


def main():
    world, command = sys.argv[1], [sys.executable, *sys.argv[2:]]
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": world}
    ranks = [
        subprocess.Popen(command, env=dict(os.environ, **meet, RANK=str(r), LOCAL_RANK=str(r)))
        for r in range(int(world))
    ]
    while any(rank.poll() is None for rank in ranks) and not any(r.poll() for r in ranks):
        time.sleep(0.05)
    for rank in ranks:  # where one failed, the others would wait for it
        if rank.poll() is None:
            rank.terminate()
    sys.exit(1 if any(rank.wait() for rank in ranks) else 0)


main()
