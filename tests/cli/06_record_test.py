# SPDX-License-Identifier: Apache-2.0
"""taut record: what the job sees of it (nothing), and what it says of jobs
that recorded, did not, or ended badly."""

import json
import os
import pathlib
import pty
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

import command
from command import ROOT

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = [sys.executable, "-c"]
# A recorder with a sanitizer cannot be loaded into a program without.
SANITIZED = "TAUT_RECORD_LIB" not in os.environ
OPTIONS = ["--no-mpi", "--no-nccl"] if SANITIZED else []
NOTHING = "nothing was recorded: no process imported"


def job(code):
    """The command of a job: Python, with the names of job.py."""
    begin = f"import sys; sys.path.insert(0, {str(HERE)!r})\nfrom job import *\n"
    return [*PYTHON, begin + code]


class Record(command.Case):
    def start(self, *words, options=(), **more):
        self.run_folder = self.folder / "RUN"
        words = [*OPTIONS, "--out", self.run_folder, *options, "--", *words]
        return [os.environ["TAUT"], "record", *map(str, words)], {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **more,
        }

    def record(self, *words, options=(), **more):
        """Runs a job; the bytes of .stdout and .stderr."""
        words, more = self.start(*words, options=options, **more)
        return subprocess.run(words, timeout=60, **more)

    def recording(self):
        return json.loads((self.run_folder / "recording.json").read_text())

    def gathered(self, code, status=0, **more):
        """recording.json of a job; what the command said is in self.said."""
        result = self.record(*job(code), **more)
        self.said = result.stderr.decode().splitlines()
        self.assertEqual(result.returncode, status, self.said)
        self.assertEqual(result.stdout, b"")
        for line in self.said:
            self.assertTrue(line.startswith("taut: "), self.said)
        return self.recording()


class Unchanged(Record):
    """The job is what it would be without."""

    def test_exit_status(self):
        for status in [0, 1, 3, 77, 255]:
            with self.subTest(status=status):
                result = self.record("sh", "-c", f"exit {status}")
                self.assertEqual(result.returncode, status)
                self.assertEqual(self.recording()["exit_status"], status)
                self.assertIsNone(self.recording()["signal"])
                shutil.rmtree(self.run_folder)

    def test_a_caller_that_waits_for_nobody(self):
        ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        show = "sed -n 's/^SigIgn/&/p' /proc/self/status; exit 3"
        with_us = self.record("sh", "-c", show, preexec_fn=ignore)
        without = subprocess.run(
            ["sh", "-c", show], stdout=subprocess.PIPE, preexec_fn=ignore
        )
        self.assertEqual(with_us.returncode, 3)
        self.assertEqual(with_us.stdout, without.stdout)

    def test_death_by_a_signal(self):
        for number in [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]:
            with self.subTest(number=number):
                result = self.record("sh", "-c", f"kill -{int(number)} $$")
                self.assertEqual(result.returncode, -number)
                self.assertEqual(self.recording()["signal"], number)
                self.assertIsNone(self.recording()["exit_status"])
                shutil.rmtree(self.run_folder)

    def test_output_and_input(self):
        data = bytes(range(256)) * 4000
        code = (
            "import os, sys; data = sys.stdin.buffer.read();"
            "sys.stdout.buffer.write(data[::-1]);"
            "os.write(2, data[:1000])"
        )
        with_us = self.record(*PYTHON, code, input=data)
        without = subprocess.run([*PYTHON, code], input=data, capture_output=True)
        self.assertEqual(with_us.stdout, without.stdout)
        self.assertEqual(len(with_us.stdout), len(data))
        own = with_us.stderr[len(without.stderr) :]
        self.assertEqual(with_us.stderr[: len(without.stderr)], without.stderr)
        for line in own.decode().splitlines():
            self.assertTrue(line.startswith("taut: "), line)

    def test_signals_and_files(self):
        """Masks, dispositions, open files, limits."""
        code = (
            "sed -n 's/^Sig[BIC]/&/p' /proc/self/status;"
            "ls /proc/self/fd | wc -l; ulimit -a; umask; nice;"
            "test -e /proc/self/fd/0 && echo has stdin; true"
        )
        script = 'trap "" USR1 PIPE; "$@" <&-'
        words, _ = self.start("sh", "-c", code)
        shell = ["sh", "-c", script, "sh"]
        with_us = subprocess.run([*shell, *words], capture_output=True)
        without = subprocess.run([*shell, "sh", "-c", code], capture_output=True)
        self.assertIn(b"SigIgn", without.stdout)
        self.assertEqual(with_us.stdout, without.stdout)
        self.assertEqual(with_us.returncode, without.returncode)

    def test_process_group(self):
        code = "import os; print(os.getpgrp(), os.getsid(0))"
        result = self.record(*PYTHON, code)
        self.assertEqual(result.stdout.split(), [b"%d" % os.getpgrp(), b"%d" % os.getsid(0)])

    def test_words_of_the_command_are_its_own(self):
        for dashes in [["--"], []]:
            words = [os.environ["TAUT"], "record", *OPTIONS]
            words += ["-o", self.folder / "RUN", *dashes]
            words += ["printf", "%s|", "--out", "-h", "--", "--steps", "", "a b"]
            result = subprocess.run(words, capture_output=True, text=True)
            self.assertEqual(result.stdout, "--out|-h|--|--steps||a b|")
            shutil.rmtree(self.folder / "RUN")

    def test_a_command_that_is_not_there(self):
        result = self.record("no-such-command-at-all")
        self.assertEqual(result.returncode, 127)
        self.assertRegex(result.stderr, rb"\Ataut: no-such-.*: cannot be run: No such")
        self.assertFalse(self.run_folder.exists())
        self.run_folder.mkdir()
        self.assertEqual(self.record("/").returncode, 126)
        self.assertEqual(list(self.run_folder.iterdir()), [])


class Signals(Record):
    WAITS = (
        "import signal, sys\n"
        "numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, numbers)\n"
        "print('ready', flush=True)\n"
        "print(signal.Signals(signal.sigtimedwait(numbers, 20)[0]).name)\n"
        "sys.exit(5)\n"
    )
    # Out of the terminal's reach: what comes is from us.
    APART = (
        "import os, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        "os.setpgid(0, 0)\n"
        "print('ready', flush=True)\n"
        "print(signal.sigtimedwait([signal.SIGINT], 0.5), flush=True)\n"
        "sys.exit(5)\n"
    )

    def test_a_signal_to_us_is_one_to_the_job(self):
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            with self.subTest(number=number):
                words, options = self.start(*PYTHON, self.WAITS)
                with subprocess.Popen(words, text=True, **options) as process:
                    self.assertEqual(process.stdout.readline(), "ready\n")
                    process.send_signal(number)
                    rest = process.stdout.read()
                self.assertEqual(rest, f"{number.name}\n")
                self.assertEqual(process.returncode, 5)
                self.assertEqual(self.recording()["exit_status"], 5)
                shutil.rmtree(self.run_folder)

    def test_a_job_that_an_interrupt_kills(self):
        words, options = self.start("sh", "-c", "echo ready; exec sleep 20")
        with subprocess.Popen(words, **options) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(self.recording()["signal"], signal.SIGINT)

    def on_a_terminal(self, code):
        """What a job says that is interrupted from the keyboard."""
        words, _ = self.start(*PYTHON, code)
        pid, terminal = pty.fork()
        if not pid:
            os.execv(words[0], words)
        output = b""
        while b"ready" not in output:
            output += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        try:
            while part := os.read(terminal, 1000):
                output += part
        except OSError:
            pass  # the terminal's way to say that nobody is left
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5)
        return output

    def test_the_terminal_hangs_up(self):
        """The kernel tells the leader of the session alone, which the job would
        be without us."""
        proof = self.folder / "proof"
        words, _ = self.start(*PYTHON, HANGS_UP, proof)
        pid, terminal = pty.fork()
        if not pid:
            os.execv(words[0], words)
        output = b""
        while b"ready\r\n" not in output:
            output += os.read(terminal, 1000)
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5)
        self.assertEqual(proof.read_text(), "SIGHUP")

    def test_the_terminal_interrupts_once(self):
        self.assertIn(b"SIGINT\r\n", self.on_a_terminal(self.WAITS))
        shutil.rmtree(self.run_folder)
        self.assertIn(b"None\r\n", self.on_a_terminal(self.APART))


HANGS_UP = (
    "import pathlib, signal, sys\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])\n"
    "print('ready', flush=True)\n"
    "info = signal.sigtimedwait([signal.SIGHUP], 10)\n"
    "said = signal.Signals(info.si_signo).name if info else 'nothing'\n"
    "pathlib.Path(sys.argv[1]).write_text(said)\n"
    "sys.exit(5)\n"
)


class Environment(Record):
    def environment(self, *options, words=("env", "-0"), **more):
        result = self.record(*words, options=options, env={**os.environ, **more})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.stderr = result.stderr.decode()
        pairs = [entry.split("=", 1) for entry in result.stdout.decode().split("\0")]
        shutil.rmtree(self.run_folder)
        return dict(pair for pair in pairs if len(pair) == 2)

    def test_what_a_recorder_needs(self):
        env = self.environment("--steps", "3:5")
        self.assertEqual(env["TAUT_RECORD"], str(self.run_folder))
        self.assertEqual(env["TAUT_RECORD_STEPS"], "3:5")
        self.assertTrue(pathlib.Path(env["TAUT_RECORD_LIB"]).is_file())
        self.assertEqual(self.environment()["TAUT_RECORD_STEPS"], "10:14")

    def test_a_relative_folder_is_made_absolute(self):
        result = subprocess.run(
            [os.environ["TAUT"], "record", *OPTIONS, "sh", "-c", "echo $TAUT_RECORD"],
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        run = pathlib.Path(result.stdout.strip())
        self.assertRegex(run.name, r"\Ataut-run-\d{8}-\d{6}\Z")
        self.assertEqual(run.parent, self.folder.resolve())
        self.assertTrue((run / "recording.json").is_file())

    def test_the_users_own_stays(self):
        env = self.environment(PYTHONPATH="/a:/b", LD_PRELOAD="")
        self.assertRegex(env["PYTHONPATH"], r"(\A|/python/taut/inject:)/a:/b\Z")
        inject = ROOT / "python/taut/inject"
        if inject.is_dir():
            self.assertEqual(env["PYTHONPATH"], f"{inject}:/a:/b")
            self.assertEqual(self.environment(PYTHONPATH="")["PYTHONPATH"], str(inject))

    def test_a_nccl_plugin_of_the_users_stays(self):
        env = self.environment(NCCL_PROFILER_PLUGIN="/their.so")
        self.assertEqual(env["NCCL_PROFILER_PLUGIN"], "/their.so")

    def test_parts_can_be_left_out(self):
        env = self.environment("--no-mpi", "--no-nccl", LD_PRELOAD="")
        self.assertNotIn("taut", env.get("LD_PRELOAD", ""))
        self.assertNotIn("NCCL_PROFILER_PLUGIN", env)

    def beside(self, name):
        """The command in a folder of its own, with recorders beside it."""
        if SANITIZED:
            self.skipTest("a recorder with a sanitizer")
        folder = self.folder / name
        folder.mkdir()
        shutil.copy(os.environ["TAUT"], folder / "taut")
        for library in ["record", "mpi", "nccl"]:
            copy = folder / f"libtaut-{library}.so"
            shutil.copy(os.environ["TAUT_RECORD_LIB"], copy)
        return folder

    def environment_of(self, folder, **more):
        result = subprocess.run(
            [folder / "taut", "record", "-o", self.folder / "RUN", "env", "-0"],
            capture_output=True,
            text=True,
            env={**os.environ, **more},
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.run_folder = self.folder / "RUN"
        return dict(line.split("=", 1) for line in result.stdout.split("\0") if line)

    def test_recorders_come_before_the_users_own(self):
        folder = self.beside("bin")
        theirs = folder / "libtaut-record.so"
        env = self.environment_of(folder, LD_PRELOAD=str(theirs))
        self.assertEqual(env["LD_PRELOAD"], f"{folder}/libtaut-mpi.so:{theirs}")
        self.assertEqual(env["NCCL_PROFILER_PLUGIN"], f"{folder}/libtaut-nccl.so")
        self.assertEqual(env["TAUT_RECORD_LIB"], str(theirs))
        shutil.rmtree(self.run_folder)
        env = self.environment_of(folder, NCCL_PROFILER_PLUGIN="/their.so")
        self.assertEqual(env["NCCL_PROFILER_PLUGIN"], "/their.so")
        problems = self.recording()["problems"]
        self.assertRegex(problems[0], r"NCCL_PROFILER_PLUGIN is /their.so: what NCCL")

    def test_a_path_that_cannot_be_preloaded(self):
        folder = self.beside("a folder")
        env = self.environment_of(folder, LD_PRELOAD="")
        self.assertEqual(env["LD_PRELOAD"], "")
        self.assertEqual(env["NCCL_PROFILER_PLUGIN"], f"{folder}/libtaut-nccl.so")
        self.assertRegex(
            self.recording()["problems"][0], "LD_PRELOAD cannot name this path"
        )

    def test_open_mpi_takes_it_to_other_hosts(self):
        name = "OMPI_MCA_mca_base_env_list"
        self.assertNotIn(name, self.environment())
        mpirun = self.folder / "mpirun"
        mpirun.write_text("#!/bin/sh\nexec env -0\n")
        mpirun.chmod(0o755)
        env = self.environment(words=[mpirun, "-n", "2", "x"])
        names = env[name].split(";")
        self.assertIn("TAUT_RECORD", names)
        for sent in names:
            self.assertIn(sent, env)
        env = self.environment(words=[mpirun, "-n", "2", "x"], **{name: "A;B=1"})
        self.assertTrue(env[name].startswith("A;B=1;TAUT_RECORD;"), env[name])
        # With both, mpirun refuses to start.
        self.assertNotIn(name, self.environment(words=[mpirun, "-x", "A", "x"]))


class Folder(Record):
    def refused_out(self, out, says, *options):
        """Nothing may have run."""
        mark = self.folder / "it-ran"
        lines = self.refused(
            1, "record", *options, "--out", out, "--", "touch", mark, says=says
        )
        self.assertFalse(mark.exists())
        return lines

    def test_wrong_options(self):
        for steps in ["", "5", "5:", ":5", "5:5", "6:5", "-1:5", "1:2:3", "a:b", "1:2 "]:
            with self.subTest(steps=steps):
                self.refused(2, "record", f"--steps={steps}", "true", says="--steps")
        self.refused(2, "record", says="record: expected COMMAND...: what to run")
        self.refused(2, "record", "--join", "true", says="expected --out as well")
        self.refused(2, "record", "--step", "1:2", "x", says="did you mean --steps")

    def test_a_folder_that_is_not_empty(self):
        (self.folder / "full").mkdir()
        (self.folder / "full/x").touch()
        self.refused_out(self.folder / "full", "expected a new or an empty folder")
        self.refused_out(self.folder / "full/x", "expected a new or an empty folder")
        self.refused_out(self.folder / "full/x/y", "cannot be made: Not a directory")
        self.refused_out(self.folder / "a/b", "cannot be made: No such file")

    def test_a_folder_that_is_empty(self):
        (self.folder / "RUN").mkdir()
        self.assertEqual(self.record("true").returncode, 0)

    def test_several_parents(self):
        (self.folder / "RUN").mkdir()
        (self.folder / "RUN/processes").mkdir()
        self.refused_out(self.folder / "RUN", "--join, for a job of several hosts")
        code = "say(rank=1, world_size=2); trace(1)"
        self.record(*job("say(rank=0, world_size=2); trace(0)"), options=["--join"])
        self.assertEqual([one["rank"] for one in self.recording()["missing"]], [1])
        os.utime(self.folder / "RUN/recording.json", (1, time.time() - 90))
        self.refused_out(self.folder / "RUN", "recording that has ended", "--join")
        os.utime(self.folder / "RUN/recording.json")
        self.record(*job(code), options=["--join"])
        self.assertTrue(self.recording()["complete"])

    def mount(self, options):
        at = self.folder / "mount"
        at.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", at]
        if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode:
            self.skipTest("needs the right to mount")
        self.addCleanup(subprocess.run, ["umount", at], check=True)
        return at

    def test_a_read_only_folder(self):
        at = self.mount("ro")
        self.refused_out(at / "RUN", "cannot be made: Read-only file system")
        self.refused_out(at, "cannot be made: Read-only file system")

    def test_a_full_disk(self):
        at = self.mount("size=64k")
        (at / "RUN").mkdir()
        code = (
            "import os, sys\n"
            "fill = open(os.environ['TAUT_RECORD'] + '/processes/fill', 'wb', 0)\n"
            "try:\n"
            "    while fill.write(b'x' * 4096): pass\n"
            "except OSError: pass\n"
            "print('result'); sys.exit(4)\n"
        )
        words = [os.environ["TAUT"], "record", *OPTIONS, "-o", at / "RUN", "--"]
        result = subprocess.run([*words, *PYTHON, code], capture_output=True, text=True)
        self.assertEqual(result.returncode, 4)
        self.assertEqual(result.stdout, "result\n")
        last = result.stderr.splitlines()[-1]
        self.assertRegex(last, "recording.json: cannot be written: No space left")
        self.assertEqual(result.stderr.count("No space left"), 1)
        names = [path.name for path in (at / "RUN").iterdir()]
        self.assertEqual(names, ["processes"])

    def test_a_limit_on_files(self):
        """recording.json would be larger than the process may write."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        result = self.record("sh", "-c", "exit 6", preexec_fn=limit)
        self.assertEqual(result.returncode, 6)
        self.assertRegex(result.stderr, b"recording.json: cannot be written: File too")


class Gather(Record):
    def test_all_is_well(self):
        found = self.gathered("ranks(4)\nfor r in range(4): trace(r)")
        self.assertEqual(found["ranks"], [0, 1, 2, 3])
        self.assertEqual(found["missing"], [])
        self.assertEqual(found["problems"], [])
        self.assertEqual(found["world_size"], 4)
        self.assertEqual(found["steps"], [10, 14])
        self.assertEqual(found["exit_status"], 0)
        self.assertLess(found["started_ns"], found["ended_ns"])
        self.assertTrue(found["complete"])
        self.assertEqual(found["command"][: len(PYTHON)], PYTHON)
        says = f"taut: recorded ranks 0-3, steps 10 to 13: {self.run_folder}"
        self.assertEqual(self.said, [says])

    def test_one_process_without_a_rank(self):
        found = self.gathered("say(); trace(0)", options=["--steps", "10:14"])
        self.assertEqual(found["ranks"], [0])
        self.assertTrue(found["complete"])
        self.assertIsNone(found["world_size"])
        self.assertIn("recorded rank 0, steps", self.said[0])

    def test_nobody_said_anything(self):
        found = self.gathered("pass")
        self.assertEqual(len(found["problems"]), 1)
        self.assertIn(NOTHING, found["problems"][0])
        self.assertFalse(found["complete"])
        self.assertEqual(len(self.said), 1)

    def test_the_job_was_too_short(self):
        found = self.gathered("ranks(2, steps_seen=3, recorded=None)")
        why = "the job ended after 3 steps; recording begins at step 10 (--steps)"
        self.assertEqual(
            found["missing"], [{"rank": 0, "why": why}, {"rank": 1, "why": why}]
        )
        self.assertEqual(found["problems"], [f"ranks 0-1: not recorded: {why}"])
        self.assertFalse(found["complete"])

    def test_a_command_that_was_copied_without_its_files_says_so(self):
        alone = shutil.copy(os.environ["TAUT"], self.folder / "taut")
        words = [alone, "record", "--out", self.folder / "RUN", "--", "true"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        self.assertIn("taut: Taut's Python files do not lie where", done.stderr)
        self.assertIn(NOTHING, done.stderr)

    def test_no_step_was_made(self):
        found = self.gathered("say(steps_seen=0, recorded=None)")
        self.assertEqual(
            found["problems"], ["nothing was recorded: no optimiser step was made"]
        )

    def test_a_recorder_has_its_reason(self):
        found = self.gathered("say(rank=0, recorded=None, state='a profiler is on')")
        self.assertEqual(found["missing"], [{"rank": 0, "why": "a profiler is on"}])

    def test_ranks_that_are_missing_are_named(self):
        found = self.gathered(
            "for r in (0, 2, 5): say(pid=DEAD - r, rank=r, world_size=8); trace(r)"
        )
        self.assertEqual(found["ranks"], [0, 2, 5])
        self.assertEqual([one["rank"] for one in found["missing"]], [1, 3, 4, 6, 7])
        self.assertEqual(
            found["problems"],
            ["ranks 1,3-4,6-7: not recorded: no process of it said anything"],
        )

    def test_a_launcher_is_no_rank(self):
        found = self.gathered(
            "say(steps_seen=0, recorded=None)\nranks(2)\ntrace(0); trace(1)"
        )
        self.assertEqual(found["ranks"], [0, 1])
        self.assertTrue(found["complete"], found)

    def test_a_rank_that_was_started_again(self):
        found = self.gathered(
            "say(pid=DEAD, rank=0, recorded=None, steps_seen=2, ended_ns=None)\n"
            "say(pid=DEAD - 1, rank=0, started_ns=5); trace(0)"
        )
        self.assertTrue(found["complete"], found)

    def test_fewer_steps_than_asked(self):
        found = self.gathered(
            "ranks(1, recorded=[10, 12], state='the job ended'); trace(0)"
        )
        self.assertEqual(
            found["problems"], ["rank 0: recorded steps 10 to 11: the job ended"]
        )
        self.assertIn("recorded rank 0, steps 10 to 11: ", self.said[0])
        self.assertFalse(found["complete"])

    def test_killed_inside_the_window(self):
        found = self.gathered(
            "ranks(2); trace(0)\n"
            "say(pid=DEAD, rank=1, world_size=2, ended_ns=None, recorded=None,"
            " steps_seen=12, started_ns=9)\n"
            "(RUN / 'processes' / f'{HOST}-{DEAD - 101}.json').unlink()\n"
            "log('rank1', state='records step 12')"
        )
        self.assertEqual(found["ranks"], [0, 1])
        self.assertEqual(len(found["problems"]), 1)
        self.assertRegex(
            found["problems"][0],
            r"\Arank 1: process \d+ on \S+ was killed or crashed in step 12 or later: records step 12",
        )
        self.assertFalse(found["complete"])
        size = (self.run_folder / "rank1" / "torch-4194297.tautlog").stat().st_size
        self.assertEqual(size, 4096 + 3 * 128)

    def test_killed_before_the_window(self):
        found = self.gathered(
            "say(pid=DEAD, rank=0, world_size=1, ended_ns=None, recorded=None,"
            " steps_seen=4, state='waits for step 10')\n"
            "log('rank0')"
        )
        self.assertEqual(found["ranks"], [])
        self.assertRegex(found["missing"][0]["why"], "was killed or crashed in step 4")

    def test_the_job_itself_was_killed(self):
        found = self.gathered(
            "say(rank=0, world_size=1, ended_ns=None, recorded=None, steps_seen=4)\n"
            "die()",
            status=-signal.SIGKILL,
        )
        self.assertEqual(found["problems"][0], "the job was killed by signal 9 (Killed)")
        self.assertRegex(found["problems"][1], r"process \d+ on \S+ was killed in step 4")

    def test_logs_alone(self):
        """As programs in C leave them."""
        found = self.gathered(
            "log('rank0', 'mpi', closed=5, world=2)\n"
            "log('rank1', 'mpi', pid=DEAD - 1, world=2)"
        )
        self.assertEqual(found["ranks"], [0, 1])
        self.assertEqual(found["world_size"], 2)
        self.assertEqual(len(found["problems"]), 1)
        self.assertRegex(
            found["problems"][0],
            r"\Arank1/mpi-\d+.tautlog: was not closed: process .* was killed or crashed",
        )
        self.assertNotIn("steps", self.said[0])
        self.assertFalse(found["complete"])

    def test_a_log_of_a_process_that_lives_is_not_cut(self):
        self.gathered(
            "import subprocess\n"
            "child = subprocess.Popen(['sleep', '30'], stdout=-3, stderr=-3)\n"
            "log('rank0', 'mpi', pid=child.pid)\n"
            "(RUN / 'pid').write_text(str(child.pid))"
        )
        pid = int((self.run_folder / "pid").read_text())
        log = self.run_folder / "rank0" / f"mpi-{pid}.tautlog"
        self.assertEqual(log.stat().st_size, 4096 + 8 * 128)
        self.assertIn("is still running", self.said[1])
        os.kill(pid, signal.SIGKILL)

    def test_lost_records(self):
        found = self.gathered("log('rank0', 'nccl', used=20, closed=5)")
        self.assertEqual(
            found["problems"],
            ["rank0/nccl-4194297.tautlog: was full: 12 of its records are lost"],
        )

    def test_logs_without_a_rank(self):
        found = self.gathered("log('processes', 'mpi', closed=5)")
        self.assertIn(
            "processes/: 1 event log of processes whose rank nobody knows",
            found["problems"],
        )

    def test_what_cannot_be_understood(self):
        texts = ["", "{", "[]", "nonsense", '{"rank": }', '{"rank": 1', "\\x00" * 9]
        texts += ['{"rank": 99999999999999999999, "state": 7, "recorded": [1, {}]}']
        texts += ['{"rank": -5, "recorded": [5], "world_size": 1e300, "pid": "x"}']
        code = f"for i, text in enumerate({texts!r}):\n"
        code += "    (RUN / 'processes' / f'{i}.json').write_text(text)\n"
        code += "(RUN / 'rank0').mkdir(); (RUN / 'rank0/a.tautlog').touch()\n"
        code += "(RUN / 'rank0/b.tautlog').write_bytes(b'TAUTLOG1' + b'\\xff' * 600)\n"
        code += "ranks(2); trace(0); trace(1)"
        found = self.gathered(code)
        self.assertEqual(found["ranks"], [0, 1])
        passed = [line for line in found["problems"] if "it was passed over" in line]
        self.assertEqual(len(passed), 9, found["problems"])
        self.assertEqual(len(self.said), 10)
        self.assertIn("more such lines are in", self.said[-1])

    def test_a_child_that_was_killed_while_it_recorded(self):
        if SANITIZED:
            self.skipTest("a recorder with a sanitizer")
        code = (
            "import ctypes, os, subprocess, sys\n"
            "child = '''\n"
            "import ctypes, os, signal\n"
            "lib = ctypes.CDLL(os.environ['TAUT_RECORD_LIB'])\n"
            "class Options(ctypes.Structure):\n"
            "    _fields_ = [('source', ctypes.c_char_p), ('rank', ctypes.c_int32),\n"
            "        ('world', ctypes.c_int32), ('local', ctypes.c_int32),\n"
            "        ('capacity', ctypes.c_uint32)]\n"
            "log = ctypes.c_void_p()\n"
            "run = os.environ['TAUT_RECORD'] + '/rank0'\n"
            "os.mkdir(run)\n"
            "options = Options(b'mpi', 0, 1, 0, 0)\n"
            "assert not lib.taut_log_open((run + '/mpi.tautlog').encode(),\n"
            "    ctypes.byref(options), ctypes.byref(log), None)\n"
            "lib.taut_log_state(log, b'records')\n"
            "for i in range(5):\n"
            "    lib.taut_log_span(log, 0, 1, ctypes.c_int64(1),\n"
            "        ctypes.c_int64(i), ctypes.c_int64(i + 1), 0)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
            "'''\n"
            "sys.exit(subprocess.run([sys.executable, '-c', child]).returncode + 9)"
        )
        found = self.gathered(code)
        self.assertEqual(found["ranks"], [0])
        self.assertRegex(found["problems"][0], "was killed or crashed: records")
        log = self.run_folder / "rank0/mpi.tautlog"
        self.assertEqual(log.stat().st_size, 4096 + 5 * 128)


if __name__ == "__main__":
    command.main()
