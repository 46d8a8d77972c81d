# SPDX-License-Identifier: Apache-2.0
"""taut server and workers as processes: totals, sums, workers and servers that are
killed or stand still, strangers at the port, and what is refused."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "cli"))
sys.path.insert(0, str(HERE.parent / "support"))
import command  # noqa: E402
from ports import free_ports  # noqa: E402
from ps_worker import COUNTS  # noqa: E402

BYTES = 4 * sum(COUNTS.values())
LOST_AFTER_S = 2
SLACK_S = 8  # what a loaded machine takes to run who has to say it


class Job:
    def __init__(self, n_servers, n_workers, *options):
        self.n_workers = n_workers
        self.servers = ",".join("127.0.0.1:%d" % port for port in free_ports(n_servers))
        self.env = {**os.environ, "TAUT_SECRET": "sesame", "LOST_AFTER": str(LOST_AFTER_S)}
        self.processes = []
        self.its = []
        for i in range(n_servers):
            args = ["--workers", n_workers, "--servers", self.servers, "--index", i]
            args += ["--lost-after", LOST_AFTER_S, "--within", 20, *options]
            self.its.append(self.start([os.environ["TAUT"], "server", *map(str, args)]))
        for i, server in enumerate(self.its):
            line = server.stdout.readline()
            assert line.startswith(f"taut server {i} of {n_servers}: ready at 127.0.0.1:"), line
        self.workers = []

    def start(self, args):
        process = subprocess.Popen(
            args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.env
        )
        self.processes.append(process)
        return process

    def work(self, rank, rounds, *more):
        args = [rank, self.n_workers, self.servers, rounds, *more]
        process = self.start([sys.executable, str(HERE / "ps_worker.py"), *map(str, args)])
        self.workers.append(process)
        return process

    def end(self, process, within_s=30):
        try:
            text = process.communicate(timeout=within_s)[0]
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{process.args} has not ended in {within_s} s") from None
        return process.returncode, text.splitlines()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


@unittest.skipUnless(os.environ.get("TAUT_LIB"), "a library with a sanitizer")
class Server(command.Case):
    def test_sums(self):
        for n_servers, n_workers in ((1, 3), (3, 2)):
            with Job(n_servers, n_workers) as job:
                for rank in range(n_workers):
                    job.work(rank, 3)
                total = n_workers * (n_workers + 1) // 2
                for worker in job.workers:
                    status, lines = job.end(worker)
                    self.assertEqual(lines, [
                        *(f"round {t} {total * t} {n_workers}" for t in (1, 2, 3)),
                        f"counts {3 * BYTES} {3 * BYTES}", "left",
                    ])
                    self.assertEqual(status, 0)
                pushed = 0
                for server in job.its:
                    status, lines = job.end(server)
                    self.assertEqual(status, 0, lines)
                    self.assertIn(f"{n_workers} workers came, 0 were lost", lines[0])
                    pushed += int(lines[0].split(" bytes pushed")[0].split()[-1])
                # The closed form of docs/server.md: each byte of each worker once.
                self.assertEqual(pushed, 3 * n_workers * BYTES)

    def lose(self, victim_signal, *options):
        """Two workers go on when one of three is gone after round 2."""
        job = Job(2, 3, *options)
        victim = job.work(2, 5, "stop", 2)
        for rank in (0, 1):
            job.work(rank, 5)
        for t in (1, 2):
            self.assertTrue(victim.stdout.readline().startswith(f"round {t} "))
        since = time.monotonic()
        victim.send_signal(victim_signal)
        said = [job.end(worker, LOST_AFTER_S + SLACK_S) for worker in job.workers[1:]]
        self.assertLess(time.monotonic() - since, LOST_AFTER_S + SLACK_S)
        return job, said

    def test_worker_is_killed(self):
        job, said = self.lose(signal.SIGKILL)
        with job:
            for status, lines in said:
                self.assertEqual(status, 1)
                self.assertIn("worker 2 (127.0.0.1) is gone", lines[-1])
            for server in job.its:
                status, lines = job.end(server)
                self.assertEqual(status, 1)
                self.assertIn("is gone", lines[-1])

    def test_worker_stands_still(self):
        job, said = self.lose(signal.SIGSTOP)
        with job:
            for status, lines in said:
                self.assertEqual(status, 1)
                self.assertIn("worker 2 (127.0.0.1) is gone: it says nothing for", lines[-1])

    def test_job_continues(self):
        for what, value in (("continue", 3), ("rescale", 4.5)):
            job, said = self.lose(signal.SIGKILL, "--on-loss", what)
            with job:
                for status, lines in said:
                    self.assertEqual(status, 0, lines)
                    self.assertEqual(lines[2], f"round 3 {int(3 * value)} 2")
                    self.assertEqual(lines[-1], "left")
                for server in job.its:
                    status, lines = job.end(server)
                    self.assertEqual(status, 0, lines)
                    self.assertIn("3 workers came, 1 were lost", lines[0])

    def test_lost_worker_may_not_come_back(self):
        with Job(1, 2, "--on-loss", "continue") as job:
            victim = job.work(1, 3, "stop", 1)
            other = job.work(0, 3, "stop", 3)
            self.assertTrue(victim.stdout.readline().startswith("round 1 "))
            victim.kill()
            for t in (1, 2, 3):
                self.assertTrue(other.stdout.readline().startswith(f"round {t} "))
            status, lines = job.end(job.work(1, 3))
            self.assertEqual(status, 1)
            self.assertIn("worker 1 was lost, and may not come back", lines[0])

    def test_server_is_gone(self):
        with Job(2, 2) as job:
            for rank in (0, 1):
                job.work(rank, 9, "stop", 1) if rank else job.work(rank, 9)
            self.assertTrue(job.workers[1].stdout.readline().startswith("round 1 "))
            job.its[1].kill()
            name = job.servers.split(",")[1]
            status, lines = job.end(job.workers[0], SLACK_S)
            self.assertEqual(status, 1)
            self.assertIn(f"server 1 ({name}) is gone", lines[-1])
            status, lines = job.end(job.its[0], SLACK_S)
            self.assertEqual(status, 1)
            self.assertIn(f"server 1 ({name}) is gone", lines[-1])

    def test_strangers(self):
        """Silence, garbage and half a hello hold up nobody."""
        with Job(1, 1) as job:
            host, port = job.servers.split(":")
            strangers = [socket.create_connection((host, int(port))) for _ in range(200)]
            for i, s in enumerate(strangers):
                s.sendall([b"", b"GET / HTTP/1.1\r\n\r\n", b"Tm\1\1\x28\0\0\0abc"][i % 3])
            status, lines = job.end(job.work(0, 2), SLACK_S)
            self.assertEqual((status, lines[-1]), (0, "left"))
            status, lines = job.end(job.its[0], SLACK_S)
            self.assertEqual(status, 0)
            refused = int(lines[0].split(" connections refused")[0].split()[-1])
            self.assertGreaterEqual(refused, 60)
            for s in strangers:
                s.close()

    def test_secret(self):
        with Job(1, 1) as job, tempfile.TemporaryDirectory() as folder:
            job.env["TAUT_SECRET"] = "semolina"
            status, lines = job.end(job.work(0, 1), SLACK_S)
            self.assertEqual(status, 1)
            self.assertIn("secret", lines[0])
            job.its[0].terminate()
            status, lines = job.end(job.its[0], SLACK_S)
            self.assertEqual(status, 1)
            self.assertIn("the server was stopped", lines[-1])

    def test_record(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "server.log"
            with Job(1, 2, "--record", log) as job:
                for rank in (0, 1):
                    job.work(rank, 2)
                for process in (*job.workers, *job.its):
                    self.assertEqual(job.end(process)[0], 0)
            out = pathlib.Path(folder) / "out.json"
            self.done("convert", log, "--to", "perfetto", "-o", out)
            events = json.loads(out.read_text())["traceEvents"]
            kept = ("communication", "operator")
            names = [e["name"] for e in events if e.get("cat") in kept]
            parts = sum(-(-4 * n // 65536) for n in COUNTS.values())
            for name in ("push", "sum", "pull"):
                self.assertEqual(names.count(name), 2 * 2 * parts, name)

    def test_record_is_full(self):
        """One line says how many are missing, and nothing before that does."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "server.log"
            with Job(1, 1, "--record", log) as job:
                job.env["PART_BYTES"] = "64"
                worker, server = job.work(0, 15), job.its[0]
                self.assertEqual(job.end(worker)[0], 0)
                status, lines = job.end(server)
            self.assertEqual(status, 0)
            parts = sum(-(-4 * n // 64) for n in COUNTS.values())
            names = 4 * 2 + 2 * 3  # a text takes two, and a lane one
            lost = 15 * 3 * parts + names - 131072
            said = f"taut: {log}: was full: {lost} of its records are lost"
            self.assertEqual(lines[0], said)
            self.assertRegex(lines[1], "^1 workers came, ")

    def test_record_of_no_server(self):
        """A server that does not start leaves no log, and none that was there is lost."""
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as own:
            log = pathlib.Path(folder) / "server.log"
            taken = "127.0.0.1:%d" % own.getsockname()[1]
            words = ["--workers", 1, "--record", log, "--listen"]
            env = {**os.environ, "TAUT_SECRET": "s"}
            done = command.taut("server", *words, taken, env=env)
            self.assertEqual(done.returncode, 1)
            self.assertFalse(log.exists(), done.stderr)
            log.write_text("mine")
            free = "127.0.0.1:%d" % free_ports(1)[0]
            done = command.taut("server", *words, free, env=env)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("File exists", done.stderr)
            self.assertEqual(log.read_text(), "mine")

    def test_stopped(self):
        """SIGUSR2 of somebody else changes nothing: SIGTERM ends it after that."""
        with Job(1, 2) as job:
            server = job.its[0]
            for _ in range(3):
                server.send_signal(signal.SIGUSR2)
                time.sleep(0.05)
            server.terminate()
            status, lines = job.end(server, 15)
            self.assertIn("the server was stopped", "\n".join(lines))
            self.assertGreater(status, 0)

    def test_too_many(self):
        """More workers than descriptors: it says so before it listens."""
        room = "ulimit -n 64; exec \"$0\" \"$@\""
        done = subprocess.run(
            ["sh", "-c", room, os.environ["TAUT"], "server", "--workers", "100",
             "--listen", "127.0.0.1:0"],
            capture_output=True, text=True, env={**os.environ, "TAUT_SECRET": "s"},
        )
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("open files", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_usage(self):
        for args in (
            [], ["--workers", "2"], ["--workers", "0", "--listen", "h:1"],
            ["--workers", "2", "--listen", "h:1", "--sync", "--async"],
            ["--workers", "2", "--listen", "h:1", "--staleness", "1"],
            ["--workers", "2", "--listen", "h:1", "--async", "--staleness", "x"],
            ["--workers", "2", "--listen", "h:1", "--update", "sgdx"],
            ["--workers", "2", "--listen", "h:1", "--on-loss", "cry"],
            ["--workers", "2", "--listen", "h:1", "--async", "--on-loss", "rescale"],
            ["--workers", "2", "--listen", "h:1", "--memory", "much"],
            ["--workers", "2", "--servers", "h:1,h:2", "--index", "2"],
        ):
            done = command.taut("server", *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertTrue(done.stderr.startswith("taut: server: "), done.stderr)
        env = {k: v for k, v in os.environ.items() if k != "TAUT_SECRET"}
        done = command.taut("server", "--workers", 1, "--listen", "127.0.0.1:0", env=env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("TAUT_SECRET", done.stderr)


if __name__ == "__main__":
    command.main()
