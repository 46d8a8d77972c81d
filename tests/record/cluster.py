# SPDX-License-Identifier: Apache-2.0
"""A small cluster inside this machine: each host a network namespace with a
name and a wall clock of its own, all of them at one switch. Needs root."""

import os
import shutil
import subprocess
import sys
import time

SKIP = 77


def run(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


class Cluster:
    """hosts: of each, (offset in ns, drift in parts per 1e9) of its clock.
    Leaves the test with status 77 where it cannot be built."""

    def __init__(self, hosts, rate_mbit=400):
        self.hosts = hosts
        self.origin_ns = time.time_ns()
        self.name = f"taut-{os.getpid()}"
        self.made = []
        if "TAUT_RECORD_LIB" not in os.environ:
            print("a build with a sanitizer")
            sys.exit(SKIP)
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
            print("needs root, ip and tc")
            sys.exit(SKIP)
        try:
            self.build(rate_mbit)
        except subprocess.CalledProcessError as fault:
            self.close()
            print(f"no network namespaces here: {fault.stderr}")
            sys.exit(SKIP)

    def add(self, host):
        name = f"{self.name}-{host}"
        run("ip", "netns", "add", name)
        self.made.append(name)
        return name

    def build(self, rate_mbit):
        switch = self.add("switch")
        run("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        run("ip", "-n", switch, "link", "set", "switch", "up")
        for host in range(len(self.hosts)):
            name, port = self.add(host), f"port{host}"
            run(
                *f"ip link add eth0 netns {name} type veth".split(),
                *f"peer name {port} netns {switch}".split(),
            )
            run(*f"ip -n {name} addr add {self.address(host)}/24 dev eth0".split())
            run(*f"ip -n {name} link set lo up".split())
            run(*f"ip -n {name} link set eth0 up".split())
            run(*f"ip -n {switch} link set {port} master switch up".split())
            for space, device in ((name, "eth0"), (switch, port)):
                run(
                    *f"tc -n {space} qdisc add dev {device} root tbf".split(),
                    *f"rate {rate_mbit}mbit burst 128kb latency 50ms".split(),
                )

    def address(self, host):
        return f"10.78.0.{int(host) + 1}"

    def start(self, host, *words, env=None, **options):
        """A process on a host, by its clock."""
        offset_ns, drift_ppb = self.hosts[host]
        env = {
            **(env or os.environ),
            "TAUT_SKEW_OFFSET_NS": str(offset_ns),
            "TAUT_SKEW_DRIFT_PPB": str(drift_ppb),
            "TAUT_SKEW_ORIGIN_NS": str(self.origin_ns),
            "LD_PRELOAD": os.environ["TAUT_SKEW_CLOCK"],
        }
        begin = ["ip", "netns", "exec", f"{self.name}-{host}"]
        begin += ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"']
        return subprocess.Popen(
            [*begin, f"host{host}", *words], env=env, text=True, **options
        )

    def clock_ns(self, host, true_ns):
        """What the host's clock shows at a time."""
        offset_ns, drift_ppb = self.hosts[host]
        return true_ns + offset_ns + (true_ns - self.origin_ns) * drift_ppb / 1e9

    def true_ns(self, host, clock_ns):
        offset_ns, drift_ppb = self.hosts[host]
        passed = (clock_ns - offset_ns - self.origin_ns) / (1 + drift_ppb / 1e9)
        return self.origin_ns + passed

    def close(self):
        for name in self.made:
            pids = subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True
            ).stdout.split()
            for pid in pids:
                os.kill(int(pid), 9)
            subprocess.run(["ip", "netns", "del", name], check=False)
        self.made = []
