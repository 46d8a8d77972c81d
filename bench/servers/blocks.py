# SPDX-License-Identifier: Apache-2.0
"""How the ranks of bench/server_compare.py are told what to do, and answer: lines of
JSON on their standard input and output. A rank first says what it is; then it does
blocks of steps:

    {"steps": 12, "local": false}    local: steps of this rank alone

and answers each with the seconds of its steps."""

import json
import sys
import time


def tell(**what):
    print(json.dumps(what), flush=True)


def told():
    """The blocks, until nobody tells any more."""
    for line in sys.stdin:
        yield json.loads(line)


def run(barrier, summed, local):
    """barrier(): all ranks begin a block at once. summed(), local(): a step."""
    for block in told():
        step = local if block["local"] else summed
        barrier()
        seconds = []
        for _ in range(block["steps"]):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
        tell(seconds=seconds)
