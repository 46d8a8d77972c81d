# SPDX-License-Identifier: Apache-2.0
"""A cluster in a box: hosts are network namespaces with a core each, which meet
at a switch (or at two, with a trunk between them) over shaped links. Needs root.

    host0 eth0 --- port0 [switch0] trunk === trunk [switch1] port2 --- eth0 host2
    host1 eth0 --- port1                                     port3 --- eth0 host3

What leaves a device leaves it at the device's rate: a host's eth0 has the rate
up, its port the rate down, both ends of the trunk that of the trunk. Without a
trunk all hosts stand at one switch. Whoever makes a cluster must close it;
what a killed one has left is cleaned by the next."""

import os
import shutil
import signal
import subprocess
import time

import offload

PREFIX = "tautlab"
CGROUPS = "/sys/fs/cgroup/cpu"
FILTER = "/proc/sys/net/bridge/bridge-nf-call-iptables"
# A tbf lets a burst of this many milliseconds of its rate pass at once. Less,
# and its timer cannot keep up with the rate; more, and short transfers see no
# link at all. What TCP hands over at once (offload.py) must fit, with its headers:
# else tbf cuts it into frames, at the cost of the host's core.
BURST_MS = 0.5
HEADERS_BYTES = 8192
LEAST_BURST_BYTES = 80_000
# Longer queues than TCP fills (its own limit is the socket's 4 MB), so that
# nothing is ever dropped: a loss costs a retransmission timeout, 200 ms.
QUEUE_BYTES = 16_000_000


class Unavailable(Exception):
    """This machine cannot have such a cluster; says why."""


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def burst_bytes(mbit):
    return max(LEAST_BURST_BYTES, int(mbit * 1e3 / 8 * BURST_MS))


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def remove(name):
    """The namespace, all that runs in it, and its control group."""
    for pid in run("ip", "netns", "pids", name).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    run("ip", "netns", "del", name)
    group = os.path.join(CGROUPS, name)
    for _ in range(50):
        try:
            os.rmdir(group)
        except FileNotFoundError:
            return
        except OSError:  # its last process is still going
            time.sleep(0.02)
            continue
        return


def clean():
    """Removes what labs have left whose process is gone. Returns the names."""
    names = [line.split()[0] for line in run("ip", "netns", "list").splitlines()]
    stale = []
    for name in names:
        parts = name.split("-")
        if parts[0] == PREFIX and len(parts) == 3 and not alive(int(parts[1])):
            stale.append(name)
    for name in stale:
        remove(name)
    return stale


class Cluster:
    """cores: of each host the core that it is pinned to, or a tuple of cores.
    first_side: how many hosts stand at the first of two switches; 0: there is one switch. weight: of
    all that a host does beside other work on its core; 1024 is like one process."""

    def __init__(self, cores, mbit=1000, trunk_mbit=None, first_side=0, weight=1024):
        if os.geteuid() != 0:
            raise Unavailable("needs root, for network namespaces")
        for tool in ("ip", "tc", "unshare", "taskset"):
            if not shutil.which(tool):
                raise Unavailable(f"needs {tool} (packages iproute2 and util-linux)")
        self.cores = [core if isinstance(core, tuple) else (core,) for core in cores]
        most = max(core for host in self.cores for core in host)
        if most >= os.cpu_count():
            raise Unavailable(f"needs core {most}; this machine has 0 to {os.cpu_count() - 1}")
        clean()
        self.name = f"{PREFIX}-{os.getpid()}"
        self.made, self.spaces, self.bursts = [], [], {}
        self.groups = os.path.isfile(os.path.join(CGROUPS, "cpu.cfs_quota_us"))
        self.weight = weight
        self.first_side = first_side or len(self.cores)
        self.trunk = bool(first_side)
        try:
            self.build()
            self.spaces = [offload.Namespace(name) for name in self.made]
            self.shape(mbit)
            if self.trunk:
                self.shape_trunk(trunk_mbit or mbit)
        except OSError as fault:
            self.close()
            raise Unavailable(f"the lab's network: {fault}") from fault
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- building ---------------------------------------------------------------

    def space(self, host):
        return f"{self.name}-{host}"

    def add(self, name):
        run("ip", "netns", "add", name)
        self.made.append(name)
        return name

    def side(self, host):
        return 0 if host < self.first_side else 1

    def build(self):
        net = self.add(self.space("net"))
        for side in range(1 + self.trunk):
            run(*f"ip -n {net} link add switch{side} type bridge".split())
            run(*f"ip -n {net} link set switch{side} up".split())
        if self.trunk:
            run(*f"ip -n {net} link add trunk0 type veth peer name trunk1".split())
            for side in range(2):
                run(*f"ip -n {net} link set trunk{side} master switch{side} up".split())
        for host in range(len(self.cores)):
            self.build_host(host, net)
        # Nobody filters what passes the switch.
        run("ip", "netns", "exec", net, "sh", "-c", f"[ ! -e {FILTER} ] || echo 0 >{FILTER}")

    def build_host(self, host, net):
        name, port = self.add(self.space(host)), f"port{host}"
        run(*f"ip link add eth0 netns {name} type veth peer name {port} netns {net}".split())
        run(*f"ip -n {name} addr add {self.address(host)}/24 dev eth0".split())
        run(*f"ip -n {name} link set lo up".split())
        run(*f"ip -n {name} link set eth0 up".split())
        run(*f"ip -n {net} link set {port} master switch{self.side(host)} up".split())
        # BBR measures the shaper and paces itself; with reno and no losses the
        # shaper alone says how fast a transfer is. (A namespace may not have
        # cubic where the machine's own is another.)
        inside = ["ip", "netns", "exec", name, "sh", "-c"]
        run(*inside, "echo reno >/proc/sys/net/ipv4/tcp_congestion_control")
        # What a host receives is worked on by a core of its own, as in a real one.
        mask = f"{1 << self.cores[host][-1]:x}"
        for queue in range(4):
            path = f"/sys/class/net/eth0/queues/rx-{queue}/rps_cpus"
            run(*inside, f"[ ! -e {path} ] || echo {mask} >{path}")
        if self.groups:
            os.makedirs(os.path.join(CGROUPS, name), exist_ok=True)
            self.set_group(host, "cpu.shares", self.weight)

    # --- what can be changed while jobs run -----------------------------------------

    def shape_device(self, name, device, mbit):
        words = f"tc -n {name} qdisc replace dev {device} root handle 1: tbf rate {mbit}mbit"
        self.bursts[name, device] = burst_bytes(mbit)
        run(*words.split(), "burst", str(burst_bytes(mbit)), "limit", str(QUEUE_BYTES))

    def shape_host(self, host, up_mbit, down_mbit=None):
        self.shape_device(self.space(host), "eth0", up_mbit)
        self.shape_device(self.space("net"), f"port{host}", down_mbit or up_mbit)
        self.fit()

    def shape(self, mbit):
        for host in range(len(self.cores)):
            self.shape_host(host, mbit)

    def shape_trunk(self, mbit):
        for side in range(2):
            self.shape_device(self.space("net"), f"trunk{side}", mbit)
        self.fit()

    def fit(self):
        """What TCP hands over at once to the smallest burst of a link."""
        least = min(self.bursts.values()) - HEADERS_BYTES
        for space in self.spaces:
            space.set(max(offload.LEAST, min(offload.MOST, least)))

    def slow(self, host, share):
        """All of a host's processes together get this share of their core."""
        if not self.groups:
            raise Unavailable(f"needs the cpu controller of cgroups at {CGROUPS}")
        period_us = 10_000
        self.set_group(host, "cpu.cfs_period_us", period_us)
        self.set_group(host, "cpu.cfs_quota_us", -1 if share >= 1 else int(period_us * share))

    def set_group(self, host, key, value):
        path = os.path.join(CGROUPS, self.space(host), key)
        with open(path, "w", encoding="ascii") as file:
            file.write(str(value))

    # --- use -----------------------------------------------------------------------

    def address(self, host):
        return f"10.78.0.{int(host) + 1}"

    def start(self, host, words, **options):
        """A process on a host, which has a name of its own too."""
        words_of_host = 'hostname "$0" && exec "$@"'
        begin = ["ip", "netns", "exec", self.space(host), "unshare", "--uts"]
        begin += ["sh", "-c", words_of_host, f"host{host}"]
        if self.groups:  # from outside: ip mounts a /sys without groups
            join = f'echo $$ >{CGROUPS}/{self.space(host)}/cgroup.procs && exec "$@"'
            begin = ["sh", "-c", join, "sh", *begin]
        begin += ["taskset", "-c", ",".join(map(str, self.cores[host]))]
        return subprocess.Popen([*begin, *words], text=True, **options)

    def close(self):
        while self.spaces:
            self.spaces.pop().close()
        while self.made:
            try:
                remove(self.made.pop())
            except Unavailable:
                pass
