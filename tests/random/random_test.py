#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings that no job would write, from seeds: whatever the times, threads,
streams, correlations and groups are, the report must come, its categories must
add up, and the replay of the unchanged graph must give the recording back.

    random_test.py [first seed] [how many]
"""
import json
import os
import random
import subprocess
import sys
import tempfile

TAUT = os.environ.get("TAUT", "build/taut")
CALLS = ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize",
         "cudaDeviceSynchronize", "cudaEventRecord", "cudaStreamWaitEvent",
         "cudaEventSynchronize", "cudaMemcpy", "hipLaunchKernel", "cudaFree"]
COLLECTIVES = ["AllReduce", "AllGather", "Broadcast", "SendRecv",
               "ReduceScatter", "Generic"]


def host_events(rng, out, tid, end, grain, name):
    """Ranges that mostly nest, and sometimes do not."""
    at, stack = 0, [end]
    for _ in range(rng.randrange(5, 60)):
        at += rng.choice([0, grain, rng.randrange(1, 50) * grain])
        while len(stack) > 1 and stack[-1] <= at:
            stack.pop()
        if at >= end:
            break
        last = max(stack[-1], at)
        dur = rng.choice([0, grain, rng.randrange(0, max(1, last - at + 1))])
        if rng.random() < 0.03:
            dur += 40 * grain  # crosses the range around it
        event = {"ph": "X", "cat": name, "pid": 1, "tid": tid, "ts": at,
                 "dur": dur, "name": f"op{rng.randrange(9)}", "args": {}}
        if rng.random() < 0.3:
            event["args"]["Sequence number"] = rng.randrange(5)
        if tid == 11:
            event["args"]["Fwd thread id"] = 1
            event["name"] += "Backward0"
        out.append(event)
        stack.append(at + dur)


def calls_and_work(rng, out, end, grain):
    free, correlation = {}, 1
    for at in sorted(rng.randrange(0, end) for _ in range(
            rng.randrange(0, 60))):
        call, tid = rng.choice(CALLS), rng.choice([10, 10, 10, 11])
        out.append({"ph": "X", "cat": "cuda_runtime", "name": call, "pid": 1,
                    "tid": tid, "ts": at, "dur": rng.choice(
                        [0, grain, rng.randrange(0, 300)]),
                    "args": {"correlation": correlation}})
        if "Launch" in call or "Memcpy" in call:
            stream = rng.choice([7, 7, 7, 20, 21])
            start = max(at + rng.choice([-2, 0, 5, 200]),
                        free.get(stream, 0) + rng.choice([-1, 0, 1, 30]))
            dur = rng.choice([0, grain, rng.randrange(0, 200)])
            free[stream] = start + dur
            copy = "Memcpy" in call
            out.append({"ph": "X", "cat": "gpu_memcpy" if copy else "kernel",
                        "name": "Memcpy DtoH (Device -> Pageable)" if copy
                        else f"k{rng.randrange(5)}", "pid": 0, "tid": stream,
                        "ts": start, "dur": dur, "args": {
                            "device": 0, "stream": stream,
                            "correlation": correlation if rng.random() < 0.9
                            else 0, "bytes": 64}})
        correlation += 1
    return correlation


def collectives(rng, out, kinds, end, grain, correlation, named, rank):
    at = 0
    for number, kind in enumerate(kinds):
        at += rng.choice([0, grain, rng.randrange(0, end // 4 + 1)])
        args = {"device": 0, "stream": 30, "correlation": correlation}
        if named:
            args.update({"Process Group Name": "0", "Group size": 4,
                         "Process Group Ranks": "[0, 1]", "dtype": "Float",
                         "In msg nelems": rng.randrange(100)})
            if rng.random() < 0.8:
                args["Seq"] = number
            if kind == "SendRecv":
                args["Src Rank"], args["Dst Rank"] = rng.choice(
                    [(0, 1), (1, 0), (rank, rank)])
        out.append({"ph": "X", "cat": "cuda_runtime",
                    "name": "cudaLaunchKernelExC", "pid": 1, "tid": 10,
                    "ts": max(0, at - 5), "dur": 3,
                    "args": {"correlation": correlation}})
        dur = rng.choice([0, grain, rng.randrange(0, 300)])
        out.append({"ph": "X", "cat": "kernel", "pid": 0, "tid": 30, "ts": at,
                    "dur": dur, "name": f"ncclDevKernel_{kind}_Sum",
                    "args": args})
        at += dur
        correlation += 1


def gloo(rng, out, kinds, end):
    for kind in kinds:
        at = rng.randrange(0, end)
        size = rng.randrange(3)
        out.append({"ph": "X", "cat": "cpu_op", "name": f"c10d::{kind}_",
                    "pid": 1, "tid": 10, "ts": at, "dur": 5,
                    "args": {"Input Dims": [[[size]], []]}})
        out.append({"ph": "X", "cat": "user_annotation", "pid": 1,
                    "tid": rng.choice([12, 13]), "name": f"gloo:{kind}",
                    "ts": at + rng.choice([0, 1, 100]),
                    "dur": rng.randrange(0, 400),
                    "args": {"Input Dims": [[size]], "Input type": ["float"]}})


def recording(rng, rank, kinds, steps, named, on_cpu):
    out, grain = [], rng.choice([1, 1, 5])
    end = rng.randrange(500, 5000)
    for step in range(steps):
        out.append({"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 10,
                    "name": f"ProfilerStep#{step}", "ts": step * end // steps,
                    "dur": end // steps, "args": {}})
    host_events(rng, out, 10, end, grain, "cpu_op")
    if rng.random() < 0.7:
        host_events(rng, out, 11, end, grain, "cpu_op")
    if rng.random() < 0.4:
        host_events(rng, out, 10, end, grain, "python_function")
    correlation = 0 if on_cpu else calls_and_work(rng, out, end, grain)
    mine = kinds if rng.random() < 0.8 else kinds[:-1]
    if on_cpu:
        gloo(rng, out, ["allreduce" if k != "Broadcast" else "broadcast"
                        for k in mine], end)
    else:
        collectives(rng, out, mine, end, grain, correlation, named, rank)
    shift = rng.choice([0, 0, 3, 10 ** 6])
    for event in out:
        event["ts"] += shift
    rng.shuffle(out)
    return {"distributedInfo": {"rank": rank, "world_size": 4},
            "traceEvents": out}


def check(report, seed):
    for row, step in zip(report["breakdown"], report["steps"]):
        total = sum(row["ms"].values())
        assert abs(total - step["measured_ms"]) < 1e-5, \
            f"seed {seed}: {total} is not {step['measured_ms']}"
        assert min(row["ms"].values()) >= 0, f"seed {seed}: negative time"
    assert report["replay"]["error_pct_max"] < 1e-9, \
        f"seed {seed}: the replay does not give the recording back"


def one(seed, folder):
    rng = random.Random(seed)
    ranks, steps = rng.randrange(1, 5), rng.randrange(0, 4)
    kinds = [rng.choice(COLLECTIVES) for _ in range(rng.randrange(1, 9))]
    named, on_cpu = rng.random() < 0.5, rng.random() < 0.25
    paths = []
    for rank in range(ranks):
        paths.append(os.path.join(folder, f"rank{rank}.json"))
        with open(paths[-1], "w", encoding="utf-8") as out:
            json.dump(recording(rng, rank, kinds, steps, named, on_cpu), out)
    done = subprocess.run([TAUT, "report", *paths, "--json"],
                          capture_output=True, text=True)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    check(json.loads(done.stdout), seed)


def main():
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 150
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            one(seed, folder)
    print(f"{count} recordings from seed {first}")


if __name__ == "__main__":
    main()
