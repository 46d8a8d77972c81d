# SPDX-License-Identifier: Apache-2.0
"""How a process group of Taut's ends, well and not.

    backend_ends.py NAME...    prints a line of JSON for each; rank 1 is the one that goes"""

import gc
import json
import os
import pathlib
import resource
import signal
import sys
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import taut.torch
from taut import _channel

programs = {}
inits = []  # of this process


def program(function):
    programs[function.__name__] = function
    return function


def me():
    return dist.get_rank()


def init(**options):
    """By a port the first time. The next by a file of their own: who is early would still
    find the store of before at the port."""
    if inits:
        port, number = os.environ["MASTER_PORT"], len(inits)
        path = os.path.join(tempfile.gettempdir(), "taut-%s-%d" % (port, number))
        options.update(init_method="file://" + path, rank=int(os.environ["RANK"]))
        options.update(world_size=int(os.environ["WORLD_SIZE"]))
    inits.append(options)
    dist.init_process_group("taut", **options)


def error_of(call):
    """Its words, and whether they came soon."""
    began = time.monotonic()
    try:
        call()
    except RuntimeError as why:
        return {"error": str(why), "soon": time.monotonic() - began < 15}
    return {"error": None}


def go(how):
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise ValueError("the job's own error")
    if how == "destroy":
        dist.destroy_process_group()
    sys.exit(0)


def lost(how):
    """Rank 0 waits: in a call, for a work, for a future."""
    init()
    t = torch.ones(100_000)
    dist.all_reduce(t)
    if me() == 1:
        go(how)
    work = dist.all_reduce(t, async_op=True)
    future = work.get_future()
    found = {
        "work": error_of(work.wait),
        "again": error_of(work.wait),
        "future": error_of(future.wait),
        "then": error_of(future.then(lambda f: f.value()).wait),
        "call": error_of(lambda: dist.all_reduce(t)),
        "barrier": error_of(dist.barrier),
        "is over": work.is_completed() and not work.is_success(),
        "sum": t[0].item(),
    }
    dist.destroy_process_group()
    return found


@program
def killed():
    return lost("kill")


@program
def raised():
    return lost("raise")


@program
def left():
    return lost("destroy")


@program
def ddp_killed():
    """DDP waits for a future in C++."""
    init()
    model = DDP(nn.Linear(100, 100))
    for step in range(3):
        loss = model(torch.ones(4, 100)).sum()
        if me() == 1 and step == 1:
            go("kill")
        if step == 1:
            return error_of(loss.backward)
        loss.backward()


@program
def late():
    """A rank that does not come: an error in its own time, and the work goes on."""
    init(timeout=timedelta(seconds=30))
    group = dist.new_group(timeout=timedelta(seconds=0.3))
    t = torch.ones(4)
    if me() == 1:
        dist.barrier()
        dist.all_reduce(t, group=group)
        dist.destroy_process_group()
        return {"sum": t[0].item()}
    work = dist.all_reduce(t, group=group, async_op=True)
    short = error_of(lambda: work.wait(timedelta(seconds=0.1)))
    own = error_of(work.wait)
    future = error_of(work.get_future().wait)
    dist.barrier()
    work.wait(timedelta(seconds=30))
    dist.destroy_process_group()
    errors = [found["error"] for found in (short, own, future)]
    return dict(zip(("short", "own", "future"), errors), sum=t[0].item())


@program
def not_destroyed():
    """The interpreter ends with all there is under way or asked for."""
    init()
    group = dist.new_group()
    t = torch.ones(1 << 16)
    works = [dist.all_reduce(t, group=g, async_op=True) for g in (None, group) for _ in range(3)]
    works[0].get_future().then(lambda f: None)
    return {"works": len(works)}


@program
def ends_in_a_call():
    """A thread of the job's that is no daemon's concern waits while all ends."""
    init()
    if me() == 1:
        time.sleep(0.5)
        return {}
    thread = threading.Thread(target=lambda: error_of(lambda: dist.all_reduce(torch.ones(3))), daemon=True)
    thread.start()
    time.sleep(0.1)
    return {}


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.full((2,), float(i))


def hold_lock(is_held, is_over):
    with _channel._open[0].lock:
        is_held.set()
        is_over.wait()


@program
def forks():
    """Workers of a DataLoader, and a child that tries."""
    init()
    t = torch.ones(3)
    dist.all_reduce(t)
    work = dist.all_reduce(t, async_op=True)
    work.get_future()
    total = sum(x.sum().item() for x in torch.utils.data.DataLoader(Data(), num_workers=2))
    reading, writing = os.pipe()
    is_held, is_over = threading.Event(), threading.Event()
    holder = threading.Thread(target=hold_lock, args=(is_held, is_over))
    holder.start()  # the child has its lock without it
    is_held.wait()
    child = os.fork()
    if child != 0:
        is_over.set()
        holder.join()
    if child == 0:
        found = error_of(lambda: dist.all_reduce(torch.ones(3)))["error"] or "nothing"
        os.write(writing, found.encode())
        os.close(writing)
        sys.exit(0)  # with all that happens at an exit
    os.close(writing)
    with os.fdopen(reading) as f:
        words = f.read()
    status = os.waitpid(child, 0)[1]
    work.wait()
    dist.all_reduce(t)
    dist.destroy_process_group()
    return {"total": total, "child": words, "status": status, "sum": t[0].item()}


def usage():
    gc.collect()
    fds = len(os.listdir("/proc/self/fd"))
    tasks = len(os.listdir("/proc/self/task"))
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    maps = len(pathlib.Path("/proc/self/maps").read_text().splitlines())
    return fds, tasks, pages * resource.getpagesize(), maps


@program
def many_groups():
    """Made and destroyed, with a future each, whose thread ends too."""
    init()
    before = None
    n = int(os.environ.get("TAUT_TEST_GROUPS", "60"))
    for i in range(n + 20):
        if i == 20:
            before = usage()
        group = dist.new_group()
        t = torch.ones(1000)
        dist.all_reduce(t, group=group, async_op=True).get_future().wait()
        assert t[0] == dist.get_world_size()
        dist.destroy_process_group(group)
    after = usage()
    dist.destroy_process_group()
    found = [b - a for a, b in zip(before, after)]
    return {"n": n, "fds": found[0], "threads": found[1], "bytes": found[2], "maps": found[3]}


@program
def again():
    """destroy_process_group() and another init_process_group()."""
    seen = []
    for _ in range(3):
        init()
        t = torch.ones(3)
        dist.all_reduce(t)
        seen.append(t[0].item())
        dist.barrier()
        dist.destroy_process_group()
    return {"seen": seen}


@program
def lacks():
    """One rank has no library: none has a group."""
    if os.environ["RANK"] == "1":
        os.environ["TAUT_LIB"] = "/nowhere/libtaut.so"
    return error_of(init)


def set_here(name, value):
    if os.environ["RANK"] == "1":
        os.environ[name] = value
    return error_of(init)


@program
def wrong_option():
    """On one rank: none has a group."""
    return set_here("TAUT_RUN_PIECE", "many")


@program
def other_order():
    return set_here("TAUT_RUN_ORDERED", "on")


@program
def other_secret():
    """The store is a file that others can read."""
    inits.append(None)
    return set_here("TAUT_SECRET", "another user's, as long as it is" * 2)


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        print(json.dumps(dict(programs[name]() or {}, name=name)), flush=True)


if __name__ == "__main__":
    main()
