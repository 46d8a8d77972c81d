# SPDX-License-Identifier: Apache-2.0
"""One worker of the tests' jobs, by python/taut/_server.py and nothing else.

    ps_worker.py RANK N_WORKERS SERVERS ROUNDS [stop ROUND | exchange 0]

Key k of COUNTS has, in round t, the elements (rank + 1) * t + i % 5. Prints "round T
VALUE CONTRIBUTORS" for each round, VALUE being element 1 of the first key, "counts
PUSHED PULLED" and "left"; or the line of the fault, and status 1. stop: after that
round it waits for a signal. exchange: by the classes for frameworks."""

import array
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

COUNTS = {"embedding": 40000, "bias": 3, "layer.weight": 9001}


def load():
    """taut._server without taut/__init__.py, which wants a framework."""
    import importlib.util
    import types

    folder = pathlib.Path(sys.path[0]) / "taut"
    package = types.ModuleType("taut")
    package.__path__ = [str(folder)]
    sys.modules["taut"] = package
    spec = importlib.util.find_spec("taut._server")
    module = importlib.util.module_from_spec(spec)
    sys.modules["taut._server"] = module
    spec.loader.exec_module(module)
    return module


def rounds(server, worker, rank, n_workers, last, stop):
    keys = {name: worker.declare(name, server.FLOAT32, n) for name, n in COUNTS.items()}
    data = {name: array.array("f", bytes(4 * n)) for name, n in COUNTS.items()}
    for t in range(1, last + 1):
        for name, n in COUNTS.items():
            data[name][:] = array.array("f", [(rank + 1) * t + i % 5 for i in range(n)])
            worker.start(keys[name], data[name].buffer_info()[0])
        worker.wait()
        for name, n in COUNTS.items():
            base, step = data[name][0], data[name][1] - data[name][0]
            assert step in (worker.contributors(keys[name]), n_workers), (name, step)
            assert all(data[name][i] == base + step * (i % 5) for i in range(n)), name
        first = keys["embedding"]
        print("round", t, int(data["embedding"][0]), worker.contributors(first), flush=True)
        if t == stop:
            signal.pause()


class Tensor:
    """As much of a tensor as an Exchange asks for."""

    def __init__(self, values):
        self.values = array.array("f", values)
        self.dtype = "float32"

    def numel(self):
        return len(self.values)

    def data_ptr(self):
        return self.values.buffer_info()[0]


def exchange(server, rank, n_workers, servers, rounds):
    limits = type("Limits", (), {"piece": 4096, "credit": 8192})
    engine = server.Engine(rank, n_workers, servers, {"float32": server.FLOAT32})
    its = engine.exchange(limits)
    tensors = [Tensor([0.0] * n) for n in COUNTS.values()]
    tasks = [its.declare(t, i, 1 / n_workers) for i, t in enumerate(tensors)]
    assert its.next(0) is None
    for t in range(1, rounds + 1):
        for tensor, task in zip(tensors, tasks):
            tensor.values[:] = array.array("f", [rank * n_workers * t] * tensor.numel())
            its.ready(task, tensor)
        done = sorted(its.next(20) for _ in tasks)
        assert done == sorted(tasks), done
        mean = t * n_workers * (n_workers - 1) / 2
        assert all(set(tensor.values) == {mean} for tensor in tensors), mean
    assert its.busy_ns() > 0 and its.counts()["pieces"] > 0
    its.close()
    engine.close()
    try:
        engine.exchange(limits)
        raise AssertionError("a second exchange")
    except RuntimeError as why:
        print(why)


def main():
    rank, n_workers, servers, last = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    stop = int(sys.argv[6]) if len(sys.argv) > 5 else 0
    server = load()
    if "exchange" in sys.argv:
        exchange(server, rank, n_workers, servers, int(last))
        return
    try:
        worker = server.Worker(
            rank, n_workers, servers, part_bytes=65536, credit_bytes=1 << 18,
            meet_within_ns=int(20e9), lost_after_ns=int(float(os.environ["LOST_AFTER"]) * 1e9),
        )
        rounds(server, worker, rank, n_workers, int(last), stop)
        counts = worker.counts()
        print("counts", counts["pushed_bytes"], counts["pulled_bytes"], flush=True)
        worker.leave()
        print("left", flush=True)
    except RuntimeError as why:
        print(why, flush=True)
        os._exit(1)


if __name__ == "__main__":
    main()
