# SPDX-License-Identifier: Apache-2.0
"""PyTorch, imported once: a rank of a test's jobs is a fork of this process, for an
import takes a process more time than a whole small job. Run by forks.py.

A rank comes upon everything as one that was just started: its words, environment
and sys.path are its own, Taut's sitecustomize runs, and the job's own `import torch` is
seen by whoever waits for it. Threads and atexit's functions end with it."""

import atexit
import ctypes
import gc
import importlib
import importlib.machinery
import json
import os
import select
import signal
import socket
import sys
import threading
import types


class Again:
    """Finds and loads the framework that is here already."""

    def __init__(self, module):
        self.name, self.module = module.__name__, module

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=self.module.__file__)
        spec.submodule_search_locations = self.module.__path__
        return spec

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        pass


def serve(requests, door):
    """Returns in ranks only: what such a rank was told."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that mind
    while True:
        told, files = take(requests, door)
        if os.fork() == 0:
            requests.close()
            door.close()
            mind(*files)
            return json.loads(told)
        for file in files:
            os.close(file)


def take(requests, door):
    """What is to be done next, and its output, its errors and where to say how it ended."""
    while True:
        if door not in select.select([requests, door], [], [])[0]:
            told, files, _, _ = socket.recv_fds(requests, 1 << 20, 3)
            if not told:
                os._exit(0)
            return told, files
        who, _ = door.accept()
        told, files, _, _ = socket.recv_fds(who, 1 << 20, 2)
        if told:
            return told, [*files, who.detach()]
        who.close()


def mind(out, err, said):
    """Says the rank's process, and how it ended; returns in the rank."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.dup2(out, 1)
        os.dup2(err, 2)
    os.close(out)
    os.close(err)
    if pid:
        os.write(said, b"%d\n" % pid)
        watch(pid, said)
        _, status = os.waitpid(pid, 0)
        try:
            os.write(said, b"%d\n" % os.waitstatus_to_exitcode(status))
        except BrokenPipeError:
            pass  # who asked for it was killed
        os._exit(0)
    os.close(said)


def watch(pid, said):
    """Until it has ended; who is a stand-in for it takes it along when it is killed."""
    ended, gone = os.pidfd_open(pid), select.poll()
    gone.register(ended, select.POLLIN)
    gone.register(said, select.POLLHUP)
    while ended not in [file for file, _ in gone.poll()]:
        gone.unregister(said)
        os.kill(pid, signal.SIGKILL)


def become(told, framework):
    """The job's program, in a __main__ of its own, which stays until the end."""
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    sys.argv[:] = told["words"]
    program = sys.argv[0]
    of_environment = filter(None, os.environ.get("PYTHONPATH", "").split(":"))
    sys.path[:1] = [os.path.dirname(program), *of_environment]
    del sys.modules[framework.__name__]
    sys.meta_path.insert(0, Again(framework))
    sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError:
        pass  # there is none, or none after Taut's
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    main.__file__ = program
    with open(program) as file:
        code = compile(file.read(), program, "exec")
    if told["own_end"]:
        exec(code, main.__dict__)
    else:
        end(status_of(lambda: exec(code, main.__dict__)))


def status_of(program):
    """What an interpreter would end with."""
    try:
        program()
    except SystemExit as wanted:
        if wanted.code is None or isinstance(wanted.code, int):
            return wanted.code or 0
        print(wanted.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def end(status):
    """As an interpreter does, but for its own end: a thread of PyTorch's that asks for it
    then takes the process with it, now and then ("terminate called without an active
    exception", with Taut and without). Whole processes are tested for that."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.PyDLL(None).exit(status)


def main(requests, door, *modules):
    framework, *_ = map(importlib.import_module, modules)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork has one thread only"
    gc.freeze()  # what is shared by all is nobody's to look through, and so to copy
    become(serve(*(socket.socket(fileno=int(file)) for file in (requests, door))), framework)


main(*sys.argv[1:])
