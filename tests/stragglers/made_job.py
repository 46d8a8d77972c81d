# SPDX-License-Identifier: Apache-2.0
"""A made-up job with data and pipeline parallelism: its operations, when each
ran, and what it would be with other durations. What waits for what is written
here a second time, from the words of docs/stragglers.md, so that the command is
not compared with itself."""
import random
import statistics

PAIRS = ("forward-send", "forward-recv", "backward-send", "backward-recv")
COMPUTE = ("forward-compute", "backward-compute", "gc", "optimizer")


def order_of(stage, pp, vpp, micro):
    """What a stage computes, in order: (type, chunk, micro-batch)."""
    total = micro * vpp
    if vpp == 1:
        warm = min(pp - 1 - stage, micro)
    else:
        warm = min((pp - stage - 1) * 2 + (vpp - 1) * pp, total)

    def forward(k):
        chunk = k % (pp * vpp) // pp
        return "forward", chunk, k // (pp * vpp) * pp + k % pp

    def backward(k):
        chunk = vpp - 1 - k % (pp * vpp) // pp
        return "backward", chunk, k // (pp * vpp) * pp + k % pp

    def plain(name, k):
        return name, 0, k

    order = []
    for k in range(total + warm):
        if k < total:
            order.append(plain("forward", k) if vpp == 1 else forward(k))
        if k >= warm:
            k -= warm
            order.append(plain("backward", k) if vpp == 1 else backward(k))
    return order


class Op:
    __slots__ = ("dp", "stage", "step", "type", "seq", "chunk", "batch",
                 "group", "waits", "dur", "delay", "start", "end", "transfer",
                 "number", "track")

    def key(self):
        return self.dp, self.stage, self.step, self.type, self.seq


class Job:
    """durations: callable(type, dp, stage, step, batch, chunk) in ns."""

    def __init__(self, dp=2, pp=4, vpp=1, micro=4, steps=3, overlap=False,
                 durations=None, delays=None, stray=False):
        self.dp, self.pp, self.vpp, self.micro = dp, pp, vpp, micro
        self.steps, self.overlap, self.stray = steps, overlap, stray
        self.durations, self.delays = durations, delays or (lambda *a: 0)
        self.ops = []
        for step in range(steps):
            for d in range(dp):
                for stage in range(pp):
                    self.add_stage(step, d, stage)
        self.by_key = {op.key(): op for op in self.ops}
        self.pair_up()
        for number, op in enumerate(self.ops):
            op.number = number
        self.topological = None
        self.run()

    # --- what there is -----------------------------------------------------

    def add(self, step, d, stage, type_, waits, chunk=-1, batch=-1, group=None,
            track=0):
        op = Op()
        op.dp, op.stage, op.step, op.type = d, stage, step, type_
        op.seq = self.count.get(type_, 0)
        self.count[type_] = op.seq + 1
        op.chunk, op.batch, op.group, op.track = chunk, batch, group, track
        op.waits = [w for w in waits if w is not None]
        if self.last.get(track):
            op.waits.append(self.last[track])
        self.last[track] = op
        op.dur = self.durations(type_, d, stage, step, batch, chunk)
        op.delay = self.delays(type_, d, stage, step, batch, op.seq)
        self.ops.append(op)
        return op

    def place(self, chunk, stage):
        return chunk * self.pp + stage

    def sends(self, kind, chunk, stage):
        """Whether the result goes anywhere."""
        place = self.place(chunk, stage)
        return place + 1 < self.pp * self.vpp if kind == "forward" else place

    def receives(self, kind, chunk, stage):
        place = self.place(chunk, stage)
        return place if kind == "forward" else place + 1 < self.pp * self.vpp

    def add_stage(self, step, d, stage):
        self.count, self.last = {}, {}
        order = order_of(stage, self.pp, self.vpp, self.micro)
        gathers = {c: self.add(step, d, stage, "params-all-gather", [], c,
                               group=("ag", step, stage, c), track=5)
                   for c in range(self.vpp)}
        before, done, first = {}, [], {}
        first_backward = next(i for i, o in enumerate(order)
                              if o[0] == "backward")
        for i, (kind, chunk, batch) in enumerate(order):
            waits = []
            tracks = (2, 1) if kind == "forward" else (4, 3)
            if self.vpp > 1 or self.receives(kind, chunk, stage):
                recv_waits = [before.get(kind)]
                if kind == "backward" and i == first_backward and i >= 2:
                    recv_waits.append(done[i - 2])
                waits.append(self.add(
                    step, d, stage, kind + "-recv", recv_waits,
                    group=self.pair(kind, chunk, stage, d, step, batch, -1),
                    track=tracks[0]))
            if kind == "forward" and chunk not in first:
                waits.append(gathers[chunk])
            op = self.add(step, d, stage, kind + "-compute", waits, chunk,
                          batch)
            first.setdefault(chunk, op)
            before[kind] = op
            done.append(op)
            if self.vpp > 1 or self.sends(kind, chunk, stage):
                send_waits = [op]
                if kind == "backward" and i == first_backward and i >= 2:
                    send_waits.append(done[i - 2])
                self.add(step, d, stage, kind + "-send", send_waits,
                         group=self.pair(kind, chunk, stage, d, step, batch,
                                         1), track=tracks[1])
        if self.stray and self.vpp == 1 and stage == self.pp - 1:
            # a receive at the end of the step that nobody answers
            self.add(step, d, stage, "forward-recv", [done[-1]], track=2)
        self.add_end(step, d, stage, order, done)

    def pair(self, kind, chunk, stage, d, step, batch, end):
        """The name of the boundary between two chunks that it crosses."""
        place = self.place(chunk, stage)
        to = 1 if kind == "forward" else -1
        low = min(place, place + to) if end > 0 else min(place, place - to)
        if low < 0 or low + 1 >= self.pp * self.vpp:
            return None
        return "p2p", kind, d, step, batch, low

    def add_end(self, step, d, stage, order, done):
        scatter = []
        if self.overlap:
            last = {}
            for (kind, chunk, _), op in zip(order, done):
                if kind == "backward":
                    last[chunk] = op
            for chunk in reversed(range(self.vpp)):
                scatter.append(self.add(
                    step, d, stage, "grads-reduce-scatter", [last[chunk]],
                    chunk, group=("rs", step, stage, chunk), track=5))
        self.add(step, d, stage, "gc", [])
        self.add(step, d, stage, "layernorm-grads-all-reduce", scatter[-1:])
        if stage in (0, self.pp - 1):
            self.add(step, d, stage, "embedding-grads-all-reduce", [],
                     group=("emb", step, d))
        if self.overlap:
            self.add(step, d, stage, "separate-grads-all-reduce", [],
                     group=("sep", step, stage))
        else:
            for chunk in range(self.vpp):
                self.add(step, d, stage, "grads-reduce-scatter", [], chunk,
                         group=("rs", step, stage, chunk))
        self.add(step, d, stage, "optimizer-clip-main-grad", [],
                 group=("clip", step))
        self.add(step, d, stage, "optimizer", [])

    def pair_up(self):
        self.groups = {}
        for op in self.ops:
            group = op.group or ("alone", op.key())
            self.groups.setdefault(group, []).append(op)
            op.group = group

    # --- when it runs ------------------------------------------------------

    def sort(self):
        """Groups so that everything a group's members wait for is before."""
        waiting, after = {}, {}
        for name, members in self.groups.items():
            need = {w.group for m in members for w in m.waits}
            waiting[name] = len(need)
            for n in need:
                after.setdefault(n, []).append(name)
        ready = [n for n, w in waiting.items() if not w]
        self.topological = []
        while ready:
            name = ready.pop()
            self.topological.append(self.groups[name])
            for n in after.get(name, ()):
                waiting[n] -= 1
                if not waiting[n]:
                    ready.append(n)
        assert len(self.topological) == len(self.groups)

    def simulate(self, dur, delay):
        """(starts, ends) by number; durations are after the last start."""
        if not self.topological:
            self.sort()
        start, end = [0] * len(self.ops), [0] * len(self.ops)
        for members in self.topological:
            for m in members:
                start[m.number] = delay(m) + max(
                    (end[w.number] for w in m.waits), default=0)
            last = max(start[m.number] for m in members)
            for m in members:
                end[m.number] = last + dur(m)
        return start, end

    def run(self):
        start, end = self.simulate(lambda m: m.dur, lambda m: m.delay)
        for op in self.ops:
            op.start, op.end = start[op.number], end[op.number]

    def step_times(self, dur, delay=lambda m: 0):
        _, end = self.simulate(dur, delay)
        times = [0] * self.steps
        for op in self.ops:
            if op.type == "optimizer":
                times[op.step] = max(times[op.step], end[op.number])
        return times

    # --- answers -----------------------------------------------------------

    def ideal(self):
        by_type = {}
        for op in self.ops:
            by_type.setdefault(op.type, []).append(op.dur)
        return {t: statistics.fmean(v) if t in COMPUTE else
                statistics.median(v) for t, v in by_type.items()}

    def answers(self):
        usual = self.ideal()
        base = self.step_times(lambda m: m.dur, lambda m: m.delay)
        nodelay = self.step_times(lambda m: m.dur)
        ideal = self.step_times(lambda m: usual[m.type])

        def only(member):
            return sum(self.step_times(
                lambda m: m.dur if member(m) else usual[m.type])) / sum(ideal)

        def row(type_):
            return type_[:-5] + "-send/recv" if type_ in PAIRS else type_

        return {
            "measured": base, "nodelay": nodelay, "ideal": ideal,
            "slowdown": sum(nodelay) / sum(ideal),
            "launch_slowdown": sum(base) / sum(nodelay),
            "stage": {s: only(lambda m, s=s: m.stage == s)
                      for s in range(self.pp)},
            "replica": {d: only(lambda m, d=d: m.dp == d)
                        for d in range(self.dp)},
            "rank": {r: only(lambda m, r=r: self.rank(m) == r)
                     for r in range(self.dp * self.pp)},
            "type": {t: only(lambda m, t=t: row(m.type) == t)
                     for t in {row(op.type) for op in self.ops}},
        }

    # --- as a file ---------------------------------------------------------

    def rank(self, op):
        return op.stage * self.dp + op.dp

    def study(self):
        """The published study's form: seconds from each step's beginning."""
        yield ("dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,"
               "mb_id,gmc")
        for op in self.ops:
            mc = op.chunk
            gmc = self.place(mc, op.stage) if op.batch >= 0 else -1
            yield (f"{op.dp},{op.stage},{self.rank(op)},{op.step},{op.type},"
                   f"{op.start / 1e9:.9f},{(op.end - op.start) / 1e9:.9f},"
                   f"{op.seq},{mc},{op.batch},{gmc}")

    def offsets(self):
        at, offsets = 0, []
        for step in range(self.steps):
            offsets.append(at)
            at += max(op.end for op in self.ops if op.step == step)
        return offsets

    def table(self, waits=False):
        """A table of operations; with waits it tells what waits for what,
        and calls everything by names that no rule knows."""
        offsets = self.offsets()
        head = "rank,step,name,start_us,duration_us,stage,dp_rank"
        yield head + (",id,waits,kind,group,lane" if waits else
                      ",micro_batch,chunk")
        last = {(op.step, self.rank(op)): op for op in self.ops
                if op.type == "optimizer"}
        for op in self.ops:
            start = op.start + offsets[op.step]
            row = (f"{self.rank(op)},{op.step},{op.type},"
                   f"{start / 1e3:.3f},{(op.end - op.start) / 1e3:.3f},"
                   f"{op.stage},{op.dp}")
            if not waits:
                yield f"{row},{op.batch},{op.chunk}"
                continue
            needs = list(op.waits)
            if not needs and op.step:
                needs = [last[op.step - 1, r]
                         for r in range(self.dp * self.pp)]
            ids = ";".join(f"op{w.number}" for w in needs)
            kind = ("compute" if op.type in COMPUTE else
                    op.type.rsplit("-", 1)[1] if op.type in PAIRS else
                    "all-reduce")
            group = " ".join(map(str, op.group)) if kind != "compute" else ""
            yield (f'{row},op{op.number},{ids},{kind},"{group}",'
                   f"lane {op.track}")


def even(f=10_000_000, b=20_000_000, wire=100_000):
    """Durations of a job whose workers are alike, in whole us."""
    def durations(type_, dp, stage, step, batch, chunk):
        return {"forward-compute": f, "backward-compute": b,
                "gc": 0}.get(type_, wire)
    return durations


def uneven(seed, wire=100_000):
    """Durations without any rule, in whole us."""
    draw = random.Random(seed)

    def durations(type_, dp, stage, step, batch, chunk):
        if type_ == "gc":
            return 0
        if type_ in COMPUTE:
            return draw.randrange(5_000, 30_000) * 1000
        return wire + draw.randrange(1000) * 1000
    return durations
