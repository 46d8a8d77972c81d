# SPDX-License-Identifier: Apache-2.0
"""Programs over a process group of any backend. Each says what it saw, in lines that
must be the same with Gloo and with Taut.

    backend.py BACKEND [NAME...]    prints a line of JSON for each, on each rank

What a backend refuses is seen too, as "refused: " and its words."""

import gc
import hashlib
import json
import os
import sys
import time
import weakref

import torch
import torch.distributed as dist
from base import leave

programs = {}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)
OPS = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG")


def program(function):
    programs[function.__name__] = function
    return function


def n_ranks():
    return dist.get_world_size()


def me():
    return dist.get_rank()


def value(rank, shape, dtype, seed=0):
    """Small whole numbers, of which sums and products are exact in any type."""
    g = torch.Generator().manual_seed(1000 * seed + rank)
    many = torch.randint(0, 7, shape, generator=g)
    if dtype is torch.bool:
        return many > 3
    if dtype.is_complex:
        return torch.complex(many.float(), (many % 3).float()).to(dtype)
    if dtype.is_signed:
        many = many - 3
    return many.to(dtype)


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        t = t.detach().resolve_conj().contiguous()
        h.update(t.reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:12]


def tried(call):
    """What it gave, or its words of refusal."""
    try:
        found = call()
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as why:
        return "refused: " + str(why).splitlines()[0]
    tensors = found if isinstance(found, (list, tuple)) else [found]
    return digest(*tensors)


def fold(op, tensors):
    """One after the other, in the order of the ranks, by PyTorch."""
    dtype = tensors[0].dtype
    wide = dtype if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    total = tensors[0].to(wide)
    for t in tensors[1:]:
        t = t.to(wide)
        if op in ("SUM", "AVG"):
            total = total + t
        elif op == "PRODUCT":
            total = total * t
        elif op in ("MIN", "MAX"):
            total = (torch.minimum if op == "MIN" else torch.maximum)(total, t)
        elif op == "BAND":
            total = total & t
        elif op == "BOR":
            total = total | t
        else:
            total = total ^ t
    if dtype is torch.bool:
        total = total != 0
    total = total.to(dtype)
    if op == "AVG" and dtype.is_complex:
        return torch.view_as_complex(torch.view_as_real(total) / len(tensors))
    return total / len(tensors) if op == "AVG" else total


def agrees(found, expected):
    """Bit by bit; what is not is an error on every backend."""
    if found.dtype != expected.dtype or digest(found) != digest(expected):
        raise AssertionError("%s where %s is right" % (found, expected))
    return found


def same_of_all(shape, dtype, seed=0):
    return [value(r, shape, dtype, seed) for r in range(n_ranks())]


# --- reductions ------------------------------------------------------------------------


@program
def all_reduce():
    """Every type and reduction."""
    seen = {}
    for dtype in (*FLOATS, *INTEGERS, torch.bool, torch.complex64, torch.int16):
        for op in OPS:
            t = value(me(), (37,), dtype)

            def call():
                dist.all_reduce(t, getattr(dist.ReduceOp, op))
                if dist.get_backend() == "taut" or dtype is not torch.bool:
                    agrees(t, fold(op, same_of_all((37,), dtype)))
                return t

            seen["%s %s" % (str(dtype)[6:], op)] = tried(call)
    t = value(me(), (37,), torch.int64).view(torch.uint64)
    seen["uint64 SUM"] = tried(lambda: dist.all_reduce(t) or t)
    return seen


@program
def shapes():
    seen = {}
    base = value(me(), (6, 10), torch.float32)
    for name, t in (
        ("scalar", value(me(), (), torch.float32)),
        ("empty", torch.empty(0)),
        ("transposed", base.clone().t()),
        ("long", value(me(), (300_001,), torch.float32)),
        ("requires a gradient", value(me(), (5,), torch.float32).requires_grad_()),
        ("unaligned", value(me(), (9,), torch.float32)[1:]),
    ):
        seen[name] = tried(lambda: dist.all_reduce(t) or t)
    return seen


@program
def with_gaps():
    """Gloo sums what lies between the elements as well, and so not all of them."""
    everything = same_of_all((6, 10), torch.float32)
    t = everything[me()].clone()
    dist.all_reduce(t[::2, ::3])
    expected = everything[me()].clone()
    expected[::2, ::3] = fold("SUM", everything)[::2, ::3]
    return {"seen": digest(agrees(t, expected))}


@program
def ordered():
    """Sums of any floats, with TAUT_RUN_ORDERED=on."""
    seen = {}
    for dtype in FLOATS:
        for count in (1, 1000, 70_001):
            def part(rank):
                g = torch.Generator().manual_seed(rank + count)
                return torch.randn(count, generator=g).mul(10).to(dtype)

            t, total = part(me()), part(0)
            for rank in range(1, n_ranks()):
                total = total + part(rank)
            dist.all_reduce(t)
            seen["%s %d" % (dtype, count)] = digest(agrees(t, total))
    return seen


# --- the other verbs ---------------------------------------------------------------------


@program
def broadcast():
    seen = {}
    for dtype in (*FLOATS, *INTEGERS, torch.bool, torch.complex64, torch.int16, torch.float8_e4m3fn):
        for root in range(n_ranks()):
            if dtype is torch.float8_e4m3fn:
                t = value(me(), (11,), torch.uint8, root).view(dtype)
            else:
                t = value(me(), (11,), dtype, root)
            seen["%s from %d" % (dtype, root)] = tried(lambda: dist.broadcast(t, root) or t)
    return seen


@program
def all_gather():
    seen, n = {}, n_ranks()
    for dtype in (*FLOATS, torch.int64, torch.bool, torch.complex64):
        mine, parts = value(me(), (3, 4), dtype), same_of_all((3, 4), dtype)
        lists = [torch.empty_like(mine) for _ in range(n)]
        dist.all_gather(lists, mine)
        whole = torch.empty(3 * n, 4, dtype=dtype)
        rows = list(whole.chunk(n))
        dist.all_gather(rows, mine)
        flat = torch.empty(3 * n, 4, dtype=dtype)
        dist.all_gather_into_tensor(flat, mine)
        here = torch.empty(3 * n, 4, dtype=dtype)
        here[3 * me() : 3 * me() + 3] = mine
        dist.all_gather_into_tensor(here, here[3 * me() : 3 * me() + 3])
        turned = [torch.empty(4, 3, dtype=dtype).t() for _ in range(n)]
        dist.all_gather(turned, mine)
        for found in (lists, rows, flat.chunk(n), here.chunk(n), turned):
            for t, part in zip(found, parts):
                agrees(t.contiguous(), part)
        seen[str(dtype)] = digest(*lists, flat)
    return seen


@program
def reduce_scatter():
    seen, n = {}, n_ranks()
    for dtype in (*FLOATS, torch.int64):
        for op in ("SUM", "MAX", "AVG"):
            parts = same_of_all((n, 5), dtype)
            mine = value(me(), (n, 5), dtype)

            def call():
                out = torch.empty(5, dtype=dtype)
                dist.reduce_scatter_tensor(out, mine, getattr(dist.ReduceOp, op))
                agrees(mine, value(me(), (n, 5), dtype))
                listed = torch.empty(5, dtype=dtype)
                dist.reduce_scatter(listed, list(mine), getattr(dist.ReduceOp, op))
                return agrees(out, fold(op, parts)[me()]), agrees(listed, out)

            seen["%s %s" % (dtype, op)] = tried(call)
    return seen


@program
def rooted():
    seen, n = {}, n_ranks()
    for root in range(n):
        t = value(me(), (6,), torch.float32, root)
        dist.reduce(t, root)
        if me() == root:
            seen["reduce %d" % root] = digest(agrees(t, fold("SUM", same_of_all((6,), t.dtype, root))))
        t = value(me(), (2, 3), torch.int32, root)
        rows = [torch.empty_like(t) for _ in range(n)] if me() == root else None
        dist.gather(t, rows, root)
        if rows:
            seen["gather %d" % root] = digest(*rows)
        give = same_of_all((4,), torch.float64, root) if me() == root else None
        t = torch.empty(4, dtype=torch.float64)
        dist.scatter(t, give, root)
        seen["scatter %d" % root] = digest(agrees(t, value(me(), (4,), t.dtype, root)))
    return seen


def piece(source, target, many):
    return value(source, (many,), torch.float32, target)


@program
def all_to_all():
    """Even, uneven, with nothing for some."""
    seen, n = {}, n_ranks()
    for name, many in (("even", lambda a, b: 4), ("uneven", lambda a, b: (a + 2 * b) % 4)):
        expected = [piece(r, me(), many(r, me())) for r in range(n)]
        give = [piece(me(), r, many(me(), r)) for r in range(n)]
        sizes = [[many(r, me()) for r in range(n)], [many(me(), r) for r in range(n)]]

        def single():
            out = torch.empty(sum(sizes[0]))
            dist.all_to_all_single(out, torch.cat(give), *sizes)
            return agrees(out, torch.cat(expected))

        def lists():
            out = [torch.empty_like(t) for t in expected]
            dist.all_to_all(out, give)
            return agrees(torch.cat(out), torch.cat(expected))

        seen[name + " single"], seen[name] = tried(single), tried(lists)
    return seen


@program
def objects():
    n = n_ranks()
    found = [None] * n
    dist.all_gather_object(found, {"rank": me(), "text": "x" * (me() * 100)})
    first = ["from 0", 7] if me() == 0 else [None, None]
    dist.broadcast_object_list(first, 0)
    rows = [None] * n if me() == 0 else None
    dist.gather_object(("rank", me()), rows, 0)
    mine = [None]
    dist.scatter_object_list(mine, ["for %d" % r for r in range(n)] if me() == 0 else None, 0)
    dist.barrier()
    return {"seen": [found, first, rows, mine]}


# --- several at a time ----------------------------------------------------------------------


@program
def at_once():
    """Many under way; waited for in another order, by wait, by futures, by nobody."""
    n = 20
    tensors = [torch.full((1 << (i % 14),), float(i + me())) for i in range(n)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    called = []
    futures = [w.get_future().then(lambda f, i=i: called.append(i) or f.value()) for i, w in enumerate(works)]
    for i in reversed(range(0, n, 2)):
        works[i].wait()
    for f in futures:
        f.wait()
    if dist.get_backend() != "gloo":  # Gloo's future may be over before its work is
        assert all(w.is_completed() for w in works)
    assert all(w.wait() and w.is_completed() and w.exception() is None for w in works)
    assert sorted(called) == list(range(n)), called
    del works, futures
    for i in range(50):  # memory that its owner drops is not given to others
        dist.all_reduce(torch.full((1000,), 1e30), async_op=True)
        dist.broadcast(torch.full((1000,), 1e30).t(), 0, async_op=True)
    gc.collect()
    others = [torch.zeros(1000) for _ in range(100)]
    dist.barrier()
    assert all(bool((t == 0).all()) for t in others)
    return {"seen": [t[0].item() for t in tensors]}


@program
def freed():
    """Nothing of a tensor stays behind when its collective is over."""
    refs = []
    for call in (
        lambda t: dist.all_reduce(t),
        lambda t: dist.all_reduce(t.t()),
        lambda t: dist.broadcast(t, 0, async_op=True).wait(),
        lambda t: dist.all_reduce(t, async_op=True).get_future().wait(),
    ):
        t = torch.ones(100, 100)
        refs.append(weakref.ref(t))
        call(t)
        del t
    deadline = time.monotonic() + 10  # the thread of futures lets go in its own time
    while any(r() is not None for r in refs) and time.monotonic() < deadline:
        time.sleep(0.001)
    return {"alive": [r() is not None for r in refs]}


@program
def coalesced():
    from torch.distributed.distributed_c10d import _coalescing_manager

    tensors = [value(me(), (i + 1,), torch.float32, i) for i in range(5)]
    with _coalescing_manager(async_ops=True) as manager:
        for t in tensors:
            dist.all_reduce(t)
    manager.wait()
    outs = [torch.empty(n_ranks() * 3) for _ in range(2)]
    with _coalescing_manager():
        for i, out in enumerate(outs):
            dist.all_gather_into_tensor(out, value(me(), (3,), torch.float32, i))
    return {"seen": digest(*tensors, *outs)}


@program
def chained():
    """A then() that waits for a future of its own, and in whose then() is another."""
    parts = [value(rank, (5,), torch.float32) for rank in range(n_ranks())]

    def summed(future):
        again = dist.all_reduce(future.value()[0].clone(), async_op=True).get_future()
        return again.wait()[0]

    def twice(future):
        again = dist.all_reduce(summed(future), async_op=True).get_future()
        return again.then(summed).wait()

    future = dist.all_reduce(parts[me()].clone(), async_op=True).get_future()
    seen = future.then(twice).wait()
    return {"right": torch.equal(seen, sum(parts) * n_ranks() ** 3)}


@program
def groups():
    """Of some ranks, each with an order of its own."""
    seen, n = {}, n_ranks()
    evens = dist.new_group(list(range(0, n, 2)))
    each = [dist.new_group([r]) for r in range(n)]
    backward = dist.new_group(list(reversed(range(n))))
    t = value(me(), (9,), torch.float32)
    first = dist.all_reduce(t, async_op=True)
    if me() % 2 == 0:
        u = value(me(), (9,), torch.float32)
        dist.all_reduce(u, group=evens)
        seen["evens"] = digest(u)
        got = [torch.empty(2) for _ in range(evens.size())]
        dist.all_gather(got, torch.full((2,), float(me())), group=evens)
        seen["in evens"] = [x[0].item() for x in got]
        u = torch.full((2,), float(me()))
        dist.broadcast(u, 0, group=evens)
        assert u[0] == 0
        dist.destroy_process_group(evens)
    alone = value(me(), (9,), torch.float32)
    dist.all_reduce(alone, group=each[me()])
    agrees(alone, value(me(), (9,), torch.float32))
    u = torch.full((1,), float(me()))
    dist.broadcast(u, n - 1, group=backward)
    seen["backward"] = u.item()
    first.wait()
    seen["all"] = digest(t)
    return seen


@program
def functional():
    """torch.distributed._functional_collectives, and what torch.compile makes of
    all_reduce()."""
    import torch.distributed._functional_collectives as f
    from torch.distributed.device_mesh import init_device_mesh

    mesh, n = init_device_mesh("cpu", (n_ranks(),)), n_ranks()
    t = value(me(), (4 * n, 2), torch.float32)
    seen = [f.all_reduce(t, "sum", mesh), f.all_gather_single(t, 0, mesh)]
    seen.append(f.reduce_scatter_single(t, "sum", 0, mesh))
    seen.append(f.all_to_all_single(t, None, None, mesh))
    seen.append(f.broadcast(t, 0, mesh))
    seen += f.all_reduce_coalesced([t, t + 1], "sum", mesh)

    def step(x):
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    seen.append(torch.compile(step, backend="aot_eager")(t))
    return {"seen": [digest(x + 0) for x in seen]}


def scattered(to, of):
    dist.reduce_scatter_tensor(torch.empty(2, dtype=to), torch.ones(2 * n_ranks(), dtype=of))


def gathered(to, of):
    dist.all_gather_into_tensor(torch.empty(2 * n_ranks(), dtype=to), torch.ones(2, dtype=of))


@program
def refused():
    """Taut's own words; the group goes on."""
    seen = {
        "meta": tried(lambda: dist.all_reduce(torch.empty(3, device="meta"))),
        "sparse": tried(lambda: dist.all_reduce(torch.eye(3).to_sparse())),
        "int16": tried(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int16))),
        "bits": tried(lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BOR)),
        "average": tried(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int32), dist.ReduceOp.AVG)),
        "sizes": tried(lambda: dist.all_gather_into_tensor(torch.empty(5), torch.empty(4))),
        "halves": tried(lambda: scattered(torch.float16, torch.bfloat16)),
        "scattered": tried(lambda: scattered(torch.float32, torch.int32)),
        "gathered": tried(lambda: gathered(torch.float32, torch.int32)),
        "send": tried(lambda: dist.send(torch.ones(3), 1 - me())),
        "recv": tried(lambda: dist.recv(torch.ones(3), 1 - me())),
    }
    t = torch.ones(3)
    dist.all_reduce(t)
    seen["after"] = t[0].item()
    return seen


@program
def dropped():
    """What is refused when it has begun leaves no memory behind, nor anything that
    what comes after waits for."""
    from taut import _channel

    channel, t = _channel._open[0], torch.ones(1000)
    first = weakref.ref(t)
    short = [torch.empty(1000)]
    seen = {"short": tried(lambda: dist.all_gather(short, t))}
    del t
    nothing = torch.empty(0)
    dist.reduce_scatter_tensor(nothing, torch.empty(0))
    dist.reduce_scatter(nothing, [torch.empty(0)] * n_ranks())
    t = torch.ones(10)
    dist.all_reduce(t)
    gc.collect()
    seen.update(sum=t[0].item(), under_way=len(channel.alive))
    seen["alive"] = first() is not None
    return seen


def main():
    torch.set_num_threads(1)
    backend = sys.argv[1]
    if backend.endswith("taut") and "_taut" not in sys.modules:
        import taut.torch
    if backend == "mesh":  # which makes a group where there is none
        from torch.distributed.device_mesh import init_device_mesh

        init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    else:
        dist.init_process_group(backend)
    for name in sys.argv[2:] or programs:
        row = programs[name]()
        row["name"] = name
        print(json.dumps(row), flush=True)
    leave()


if __name__ == "__main__":
    main()
