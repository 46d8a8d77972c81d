#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real NCCL with libtaut-nccl.so, where PyTorch with CUDA, NCCL and a GPU are; 77
where not. usage: nccl_test.py [LIBTAUT-NCCL.SO]; else TAUT_NCCL_LIB, else build/.

One rank a GPU, up to eight; with two or more, NCCL is made to use its sockets
(no shared memory, no direct access), so that proxies have something to do."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SKIP = 77
STEPS = 20
# Fewer than this would not be a recording of a network.
LEAST_CHUNKS = 100

WORKER = """
import ctypes, json, os, sys, time
import torch, torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))

class Plugin(ctypes.Structure):
    _fields_ = [("interface", ctypes.c_void_p * 10), ("magic", ctypes.c_char * 8),
                ("recording", ctypes.POINTER(ctypes.c_uint32))]

path = os.environ.get("NCCL_PROFILER_PLUGIN")
switch = None
if path:
    switch = Plugin.in_dll(ctypes.CDLL(path), "ncclProfiler_v7").recording
x = torch.ones(1 << 22, device="cuda")

def steps(n):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(n):
        dist.all_reduce(x)
        x.div_(dist.get_world_size())
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / n * 1e6

steps(10)
times = {"off": [], "on": []}
for _ in range(10):
    for state in "off", "on":
        if switch:
            switch[0] = state == "on"
        times[state].append(steps(STEPS))
if switch:
    switch[0] = 0
assert bool((x == 1).all()), "the plugin changed a result"
if rank == 0:
    print(json.dumps({k: sorted(v)[len(v) // 2] for k, v in times.items()}))
dist.destroy_process_group()
"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def plugin_path():
    paths = sys.argv[1:] or [os.environ.get("TAUT_NCCL_LIB", "build/libtaut-nccl.so")]
    path = pathlib.Path(paths[0]).resolve()
    if not path.exists():
        skip(f"no {path}")
    return path


def gpus():
    try:
        import torch
        import torch.distributed
    except ImportError:
        skip("no PyTorch")
    if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
        skip("no GPU, or no NCCL")
    print("PyTorch", torch.__version__, "NCCL", torch.cuda.nccl.version())
    return min(torch.cuda.device_count(), 8)


def run(n, folder, plugin, events):
    """Microseconds of a step as rank 0 saw them, without and with the switch."""
    env = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29517",
        "WORLD_SIZE": str(n),
    }
    if n > 1:
        env.update(NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", NCCL_NET="Socket")
    if plugin:
        env.update(
            TAUT_RECORD=str(folder),
            NCCL_PROFILER_PLUGIN=str(plugin),
            TAUT_NCCL_EVENTS=events,
        )
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(n)
    ]
    deadline = time.monotonic() + 300
    outputs = [r.communicate(timeout=deadline - time.monotonic())[0] for r in ranks]
    assert not any(rank.returncode for rank in ranks), outputs
    return json.loads(outputs[0].splitlines()[-1])


def count(path):
    """How many records of each type a log has."""
    data = path.read_bytes()
    capacity, reserved = (int.from_bytes(data[a : a + 8], "little") for a in (32, 40))
    counts, i = {}, 0
    while i < min(capacity, reserved):
        at = 4096 + 128 * i
        kind = int.from_bytes(data[at : at + 4], "little")
        counts[kind] = counts.get(kind, 0) + 1
        if kind == 1:
            i += (int.from_bytes(data[at + 40 : at + 44], "little") + 127) // 128
        i += 1
    return counts


def main():
    plugin, n = plugin_path(), gpus()
    with tempfile.TemporaryDirectory() as folder:
        for events in "coll,p2p,step", "coll,p2p,step,kernel":
            out = pathlib.Path(folder) / events.replace(",", "-")
            bare, ours = run(n, out, None, ""), run(n, out, plugin, events)
            print(f"{n} ranks, {events}: without {bare['off']:.1f} us a step, "
                f"idle {ours['off']:.1f}, recording {ours['on']:.1f}")
            logs = sorted(out.rglob("nccl-*.tautlog"))
            assert len(logs) == n, logs
            for log in logs:
                counts = count(log)
                print(" ", log.parent.name, counts)
                assert counts.get(4, 0) == 10 * STEPS or n == 1, counts
                assert counts.get(5, 0) >= LEAST_CHUNKS or n == 1, counts
    print("ok")


if __name__ == "__main__":
    main()
