# SPDX-License-Identifier: Apache-2.0
"""Two published ways of predicting, made fairly, from the same recording.

Daydream (ATC'20), as far as a data-parallel step on CPUs goes: the operations
of rank 0 alone; each gradient bucket is an all-reduce that takes what a ring
must move, 2 (p - 1) / p of its bytes, at the nominal rate of the link, one
after another. No rank waits for another, nothing slows anything.

dPRO (MLSys'22): the operations of all ranks, each as long as in the mean of the
recorded steps. A bucket is reduced when the last rank has it, on one device
with a FIFO queue, in k * bytes + b, fitted to the recorded all-reduces. Nothing
shares a link or a core.

Neither models a loader, a batch or a bucket size by itself; where their papers
say how they would be changed (scale the operations, merge the tensors), that is
done. None of this is their code."""

import bisect
import gzip
import json
import os
import statistics

MIB = 1 << 20
ELEMENT = {"float": 4, "double": 8, "half": 2, "c10::Half": 2, "c10::BFloat16": 2}


def events_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = json.load(file)["traceEvents"]
    rows = [r for r in rows if r.get("ph") == "X" and isinstance(r.get("tid"), int)]
    return sorted(rows, key=lambda r: r["ts"])


def covered(spans):
    """Time that lies in at least one span."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


class Step:
    """One rank, one step; all in ms from its begin."""

    def __init__(self, begin, end, main, runs):
        inside = [e for e in main if begin <= e["ts"] < end]
        names = [e["name"] for e in inside]
        backward = [e for e in inside if e["name"].startswith("autograd::engine::evaluate")]
        first = min(e["ts"] for e in backward)
        last = max(e["ts"] + e["dur"] for e in backward)
        update = min(e["ts"] for e, n in zip(inside, names) if n.startswith("Optimizer.step"))
        data = [e["dur"] for e, n in zip(inside, names) if n.startswith("enumerate(DataLoader)")]
        after = [(e["ts"], min(e["ts"] + e["dur"], update)) for e in inside if last <= e["ts"] < update]
        self.data = sum(data) / 1e3
        self.forward_end = (first - begin) / 1e3
        self.backward_end = (last - begin) / 1e3
        self.tail = (end - update + covered(after)) / 1e3
        self.length = (end - begin) / 1e3
        calls = [e for e, n in zip(inside, names) if n == "c10d::allreduce_"]
        self.calls = [(e["ts"] - begin) / 1e3 for e in calls]
        self.elements = [e["args"]["Input Dims"][0][0][0] for e in calls]
        self.runs = self.match(begin, runs)

    def match(self, begin, runs):
        """(bytes, begin, end) of each call's all-reduce, on the trace's clock."""
        free, found = list(runs), []
        for at, elements in zip(self.calls, self.elements):
            for run in free:
                if run["ts"] >= begin + at * 1e3 and run["args"]["Input Dims"][0] == [elements]:
                    size = elements * ELEMENT[run["args"]["Input type"][0]]
                    found.append((size, run["ts"] / 1e3, (run["ts"] + run["dur"]) / 1e3))
                    free.remove(run)
                    break
        return found


def steps_of(path):
    events = events_of(path)
    marks = [e for e in events if e["name"].startswith("ProfilerStep#")]
    lend_shapes(events, marks, path)
    main = [e for e in events if e["tid"] == marks[0]["tid"] and e not in marks]
    runs = [e for e in events if e["name"] == "gloo:all_reduce"]
    return [Step(m["ts"], m["ts"] + m["dur"], main, runs) for m in marks]


def lend_shapes(events, marks, path):
    """Sizes of all-reduces by their order in the step, from the one step that was
    recorded with shapes, where there is one."""
    path = path.replace("torch.pt.trace", "torch.shapes")
    if not os.path.exists(path):
        return
    shapes = events_of(path)
    for name in ("c10d::allreduce_", "gloo:all_reduce"):
        told = [e["args"] for e in shapes if e["name"] == name]
        for m in marks:
            inside = [e for e in events if m["ts"] <= e["ts"] < m["ts"] + m["dur"]]
            for e, args in zip([e for e in inside if e["name"] == name], told):
                for key in ("Input Dims", "Input type"):
                    e["args"].setdefault(key, args[key])


def mean(values):
    return statistics.mean(values)


class Rank:
    """The mean of a rank's steps but the first."""

    def __init__(self, steps):
        self.steps = steps[1:] or steps
        for name in ("data", "forward_end", "backward_end", "tail", "length"):
            setattr(self, name, mean([getattr(s, name) for s in self.steps]))
        count = min(len(s.calls) for s in self.steps)
        self.calls = [mean([s.calls[i] for s in self.steps]) for i in range(count)]
        self.bytes = [self.steps[0].runs[i][0] for i in range(count)]


class Recording:
    def __init__(self, run):
        self.ranks = []
        rank = 0
        while os.path.isdir(folder := os.path.join(run, f"rank{rank}")):
            self.ranks.append(Rank(steps_of(os.path.join(folder, "torch.pt.trace.json.gz"))))
            rank += 1
        self.slope, self.offset = self.fit()

    def fit(self):
        """k and b of ms = k bytes + b, by least squares over the buckets, each
        the mean of its steps. An all-reduce begins when the last rank has come
        and the one before it has left the queue."""
        times = {}
        for step in zip(*(r.steps for r in self.ranks)):
            free = 0.0
            for runs in zip(*(s.runs for s in step)):
                begin = max(free, max(run[1] for run in runs))
                end = mean([run[2] for run in runs])
                times.setdefault(runs[0][0], []).append(max(0.0, end - begin))
                free = max(free, end)
        points = [(size, mean(ms)) for size, ms in sorted(times.items())]
        if len(points) < 2:
            return points[0][1] / points[0][0], 0.0
        mx, my = mean([p[0] for p in points]), mean([p[1] for p in points])
        slope = sum((x - mx) * (y - my) for x, y in points)
        slope /= sum((x - mx) ** 2 for x, _ in points)
        offset = my - slope * mx
        if slope <= 0 or offset < 0:
            return sum(y for _, y in points) / sum(x for x, _ in points), 0.0
        return slope, offset


class Changed:
    """A rank's step with a configuration's changes of computation and buckets."""

    def __init__(self, rank, config, batch_factor, late_ms, core):
        job = config.job
        factor = batch_factor * core
        self.compute = rank.backward_end - rank.data
        self.forward = (rank.forward_end - rank.data) * factor
        self.lead = rank.data + late_ms
        self.lead += (job.get("accumulate", 1) - 1) * self.compute * factor
        self.end = self.lead + self.compute * factor
        self.tail = rank.tail * core
        scale = 0.5 if job.get("compress", "none") != "none" else 1.0
        if "bucket_mb" in job:
            calls, sizes = self.bucketed(rank, job["bucket_mb"] * MIB)
        else:
            calls, sizes = rank.calls, rank.bytes
        self.calls = [self.lead + (at - rank.data) * factor for at in calls]
        self.bytes = [size * scale for size in sizes]

    @staticmethod
    def bucketed(rank, cap):
        """Gradients come evenly between the recorded calls."""
        ready, at = [0.0], [rank.forward_end]
        for size, call in zip(rank.bytes, rank.calls):
            ready.append(ready[-1] + size)
            at.append(call)
        total, edges = ready[-1], []
        while not edges or edges[-1] < total:
            edges.append(min(total, (edges[-1] if edges else 0) + cap))
        calls = []
        for edge in edges:
            i = min(bisect.bisect_left(ready, edge), len(ready) - 1)
            part = (edge - ready[i - 1]) / (ready[i] - ready[i - 1])
            calls.append(at[i - 1] + part * (at[i] - at[i - 1]))
        return calls, [b - a for a, b in zip([0.0] + edges, edges)]


def ring(ranks):
    return 2 * (ranks - 1) / ranks


def changed(rank, index, config, batch_of):
    job = config.job
    batch = job.get("batch", 0) / batch_of[config.model] if job.get("batch") else 1.0
    late = job.get("slow_ms", 0.0) if job.get("slow_rank", -1) == index else 0.0
    core = 1 / config.slow[1] if config.slow and config.slow[0] == index else 1.0
    return Changed(rank, config, batch, late, core)


def queued(ranks, time_of):
    """When the last bucket is reduced: one after another, each when the last
    rank has it."""
    free = 0.0
    for i in range(len(ranks[0].bytes)):
        free = max(free, max(r.calls[i] for r in ranks)) + time_of(ranks[0].bytes[i])
    return free


def daydream(recording, config, batch_of):
    """Milliseconds of a step."""
    rank = changed(recording.ranks[0], 0, config, batch_of)
    per_byte = ring(config.ranks) * 8 / (config.mbit * 1e3)
    return max(rank.end, queued([rank], lambda size: size * per_byte)) + rank.tail


def dpro(recording, config, batch_of, recorded_mbit):
    known = recording.ranks
    ranks = [
        changed(known[i % len(known)], i, config, batch_of) for i in range(config.ranks)
    ]
    slope = recording.slope * recorded_mbit / config.mbit
    slope *= ring(config.ranks) / ring(len(known))
    done = queued(ranks, lambda size: slope * size + recording.offset)
    return max(max(r.end, done) + r.tail for r in ranks)
