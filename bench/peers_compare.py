#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""What one cache over two hosts gives (include/taut/peers.h): epochs of a job whose storage is
slow, with no cache, with a cache a host, and with caches that the hosts share.

Two hosts of the lab (bench/lab) with a link between them; each reads from a storage of its
own that is slowed down to a rate, and has memory for a part of the set. The job takes batches
and does nothing with them. Seconds are those of the slower host, an epoch; reads are items of
both hosts. Needs root, iproute2 and numpy; TAUT_LIB or an installed libtaut.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lab"))
sys.path.insert(0, os.path.join(common.ROOT, "python"))

PORT = 29700
WAYS = ("no cache", "a cache a host", "one over both")


def make_set(folder, n, side):
    """Raw pictures, each with its number in front."""
    for i in range(n):
        noise = os.urandom(1024) * (side * side * 3 // 1024 + 1)
        with open(os.path.join(folder, "%06d.png" % i), "wb") as file:
            file.write((i.to_bytes(8, "little") + noise)[: side * side * 3])


# --- on a host --------------------------------------------------------------------------


def meet(line):
    """Both hosts come to this point before either goes on."""
    print(line, flush=True)
    sys.stdin.readline()


def turn(options):
    """One rank. The end of an epoch is that of both: what one reads for the other counts."""
    from taut.load import Image, Loader, Set

    images, side = Set(options.root), options.side
    share = options.part * (1 + 64 / (side * side * 3))  # rooms are multiples of 64 bytes
    cache_bytes = 0 if options.way == 0 else int(images.bytes * share) + side * side * 3
    loader = Loader(
        images, options.batch, shuffle=True, seed=1, num_replicas=2, rank=options.rank,
        num_workers=1,
        transform=Image(side, crop="none", format="raw", raw_size=side, layout="HWC"),
        store="slow", slow_bytes_s=int(options.rate * 1e6), cache_bytes=cache_bytes,
        cache_name=options.way, arrays="numpy", items=True,
        peers=options.meet if options.way == 2 else None,
    )  # fmt: skip
    meet("ready")
    rows, before = [], dict.fromkeys(loader.counts(), 0)
    for _ in range(options.epochs):
        begun = time.perf_counter()
        for data, _, items in loader:
            told = [int.from_bytes(bytes(one.reshape(-1)[:8]), "little") for one in data]
            if told != list(items):
                sys.exit("a sample is not that of its item")
        rows.append({"seconds": time.perf_counter() - begun})
        meet("an epoch")
        counts = loader.counts()
        for name in ("reads", "remote_hits", "hits"):
            rows[-1][name] = counts[name] - before[name]
        before = counts
    meet(json.dumps(rows))
    loader.close()


# --- both hosts -------------------------------------------------------------------------


def job(net, way, root, options):
    """[[a row an epoch] of each host]"""
    words = [
        sys.executable, os.path.abspath(__file__), "--root", root, "--way", str(way),
        "--meet", "%s:%d" % (net.address(0), PORT + way),
    ]  # fmt: skip
    for name in ("side", "part", "batch", "rate", "epochs"):
        words += ["--" + name, str(getattr(options, name))]
    hosts = [
        net.start(
            rank, [*words, "--rank", str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "TAUT_SECRET": "of the lab"},
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        for _ in range(options.epochs + 2):  # ready; epochs; rows
            told = [host.stdout.readline() for host in hosts]
            for host in hosts:
                host.stdin.write("\n")
                host.stdin.flush()
        return [json.loads(line) for line in told]
    finally:
        for host in hosts:
            host.stdin.close()
            if host.wait(timeout=60):
                sys.exit("a rank failed")


def show(rows, options):
    """rows: way -> [epochs of each host]"""
    print("| | first epoch, s | later, s | reads of both: first | later | from the other host |")
    print("|---|---|---|---|---|---|")
    for way, hosts in rows.items():
        seconds = [max(epoch["seconds"] for epoch in each) for each in zip(*hosts)]
        reads = [sum(epoch["reads"] for epoch in each) for each in zip(*hosts)]
        remote = [sum(epoch["remote_hits"] for epoch in each) for each in zip(*hosts)]
        print(
            "| %s | %.2f | %.2f | %d | %g | %g |"
            % (
                WAYS[way], seconds[0], statistics.median(seconds[1:]), reads[0],
                statistics.mean(reads[1:]), statistics.mean(remote[1:]),
            )
        )  # fmt: skip
    later = {
        way: statistics.median(max(e["seconds"] for e in each) for each in list(zip(*hosts))[1:])
        for way, hosts in rows.items()
    }
    print("\n%s: %.1f times as fast as %s, %.1f times as %s" % (
        WAYS[2], later[1] / later[2], WAYS[1], later[0] / later[2], WAYS[0]))  # fmt: skip


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--items", type=int, default=1000)
    p.add_argument("--side", type=int, default=200, help="of a picture (120 KB)")
    p.add_argument("--part", type=float, default=0.5, help="of the set, that a host has memory for")
    p.add_argument("--rate", type=float, default=20, help="of a host's storage, MB/s")
    p.add_argument("--mbit", type=int, default=4000, help="of the link")
    p.add_argument("--batch", type=int, default=20)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    p.add_argument("--way", type=int, help=argparse.SUPPRESS)
    p.add_argument("--root", help=argparse.SUPPRESS)
    p.add_argument("--meet", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.rank is not None:
        return turn(options)
    import cluster

    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as root:
        make_set(root, options.items, options.side)
        with cluster.Cluster([cores[0], cores[1 % len(cores)]], options.mbit) as net:
            rows = {way: job(net, way, root, options) for way in range(len(WAYS))}
    show(rows, options)


if __name__ == "__main__":
    main()
