# SPDX-License-Identifier: Apache-2.0
"""One worker of the tests' jobs, by python/taut/_server.py and nothing else.

    ps_worker.py RANK N_WORKERS SERVERS ROUNDS [stop ROUND]| exchange 0]

Key k of COUNTS has, in round t, the elements (rank + 1) * t + i % 5. Prints "round T
VALUE CONTRIBUTORS" for each round, VALUE being element 1 of the first key, "counts
PUSHED PULLED" and "left"; or the line of the fault, and status 1. stop: after that
round it waits for a signal."""

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


def main():
    rank, n_workers, servers, last = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    stop = int(sys.argv[6]) if len(sys.argv) > 5 else 0
    server = load()
    try:
        worker = server.Worker(
            rank, n_workers, servers, part_bytes=int(os.environ.get("PART_BYTES", 65536)),
            credit_bytes=1 << 18, meet_within_ns=int(20e9),
            lost_after_ns=int(float(os.environ["LOST_AFTER"]) * 1e9),
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
