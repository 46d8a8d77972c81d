# SPDX-License-Identifier: Apache-2.0
"""All-reduces between hosts that are network namespaces: right sums over shaped
links, and a rank that is killed, stands still or loses its link is named by all
others in time. Needs root."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/lab"))
import cluster  # noqa: E402

SKIP = 77
RANKS = 3
LOST_AFTER_S = 1.5
# What a loaded machine takes to run who has to say it.
SLACK_S = 3
# Beside threads of UCX that end, the tracer of LeakSanitizer itself crashes now and then;
# the unit tests look for leaks.
ENVIRONMENT = {
    **os.environ,
    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0",
}


class Job:
    """places: the host of each rank. far: what is to carry messages between hosts."""

    far = "auto"

    def __init__(self, hosts, seconds, port, secrets=None, places=range(RANKS), more=None):
        self.hosts = hosts
        more = more or {}  # variables of some ranks
        self.ranks = [
            hosts.start(
                place,
                [os.environ["TAUT_COLL_RANKS"], str(rank), str(len(places))]
                + [f"{hosts.address(places[0])}:{port}", str(seconds), str(int(LOST_AFTER_S * 1000))],
                env={
                    **ENVIRONMENT,
                    "TAUT_ENGINE": self.far,
                    "TAUT_SECRET": (secrets or {}).get(rank, "sesame"),
                    **more.get(rank, {}),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for rank, place in enumerate(places)
        ]

    def begin(self, engine="{far}"):
        """When all of them reduce."""
        # What is measured decides; all ranks have the same.
        fars = ("tcp", "tcp+ucx", "ucx") if self.far == "auto" else (self.far,)
        lines = {rank.stdout.readline() for rank in self.ranks}
        assert len(lines) == 1 and lines <= {f"ready {engine.format(far=far)}\n" for far in fars}, lines
        time.sleep(0.2)

    def end(self, ranks, within_s):
        """What these say last, and their status."""
        until = time.monotonic() + within_s
        said = []
        for rank in ranks:
            left = max(0.01, until - time.monotonic())
            try:
                text = self.ranks[rank].communicate(timeout=left)[0]
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {rank} has not ended in {within_s} s") from None
            said.append((text.strip(), self.ranks[rank].returncode))
        return said

    def close(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()


def pid_of(hosts, rank):
    """Of the rank itself: what started it has gone through exec."""
    pids = subprocess.run(
        ["ip", "netns", "pids", hosts.space(rank)], capture_output=True, text=True, check=True
    )
    return int(pids.stdout.split()[-1])


def check_named(said, line, told=True):
    """told: by rank 0, so in the same words. Without it, each says how long it has heard
    nothing itself."""
    for text, status in said:
        assert status == 1, (text, status)
        assert text.startswith(line), text
    words = {text if told else re.sub(r"[\d.]+ s$", "", text) for text, _ in said}
    assert len(words) == 1, said


def test_sums(hosts, port, places, engine, more=None):
    job = Job(hosts, 0.7, port, places=places, more=more)
    job.begin(engine)
    said = job.end(range(len(places)), 20)
    assert all(status == 0 for _, status in said), said
    assert len({text for text, _ in said}) == 1, said
    assert int(said[0][0].split()[1]) > 5, said
    job.close()


def test_killed(hosts, port, victim):
    job = Job(hosts, 60, port)
    job.begin()
    os.kill(pid_of(hosts, victim), signal.SIGKILL)
    others = [rank for rank in range(RANKS) if rank != victim]
    said = job.end(others, 1 + SLACK_S)
    check_named(said, f"rank {victim} ({hosts.address(victim)}")
    job.close()


def test_stopped(hosts, port):
    job = Job(hosts, 60, port)
    job.begin()
    os.kill(pid_of(hosts, 2), signal.SIGSTOP)
    said = job.end([0, 1], LOST_AFTER_S + SLACK_S)
    check_named(said, f"rank 2 ({hosts.address(2)}) is lost: it says nothing for")
    job.close()


def test_cut(hosts, port, victim):
    """Its link goes down. The others name it; it, who hears nobody, names rank 0
    where it is not rank 0 itself."""
    job = Job(hosts, 60, port)
    job.begin()
    device = ["ip", "-n", hosts.space("net"), "link", "set", f"port{victim}"]
    subprocess.run([*device, "down"], check=True)
    others = [rank for rank in range(RANKS) if rank != victim]
    try:
        said = job.end(others, LOST_AFTER_S + SLACK_S)
        check_named(said, f"rank {victim} ({hosts.address(victim)}", told=victim != 0)
        own = job.end([victim], SLACK_S)
        assert own[0][1] == 1 and "is lost: it says nothing" in own[0][0], own
    finally:
        subprocess.run([*device, "up"], check=True)
        job.close()


def test_without_ucx(hosts, port):
    """One rank cannot load it: all use what needs no library."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "libucp.so.0").write_bytes(b"no library")
        path = [folder, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        more = {1: {"LD_LIBRARY_PATH": ":".join(path)}}
        test_sums(hosts, port, [0, 1, 2], "tcp", more)


def test_secret(hosts, port):
    """Who has another secret is refused at once."""
    job = Job(hosts, 60, port, {1: "semolina"})
    said = job.end([1], SLACK_S)
    assert said[0][1] == 1 and "secret" in said[0][0], said
    job.close()


def test_all(hosts, port):
    test_sums(hosts, port, [0, 1, 2], "{far}")
    test_sums(hosts, port + 7, [0, 1, 0, 1], "shm+{far}")
    test_sums(hosts, port + 8, [2, 1, 2], "shm+{far}")
    test_sums(hosts, port + 9, [0, 0, 0], Job.far)
    test_killed(hosts, port + 1, 2)
    test_killed(hosts, port + 2, 0)
    test_stopped(hosts, port + 3)
    test_cut(hosts, port + 4, 1)
    test_cut(hosts, port + 5, 0)
    test_secret(hosts, port + 6)


def main():
    try:
        with cluster.Cluster([i % os.cpu_count() for i in range(RANKS)], mbit=400) as hosts:
            test_sums(hosts, 29540, [0, 1, 2], "{far}")
            test_sums(hosts, 29541, [0, 1, 0, 1], "shm+{far}")
            test_sums(hosts, 29542, [0, 0, 0], "shm")
            test_without_ucx(hosts, 29543)
            test_killed(hosts, 29544, 2)
            test_killed(hosts, 29545, 0)
            test_stopped(hosts, 29546)
            test_cut(hosts, 29547, 1)
            for Job.far, port in (("tcp", 29500), ("ucx", 29520)):
                test_all(hosts, port)
    except cluster.Unavailable as why:
        print(why)
        sys.exit(SKIP)


if __name__ == "__main__":
    main()
