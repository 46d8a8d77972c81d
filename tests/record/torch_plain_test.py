# SPDX-License-Identifier: Apache-2.0
"""Jobs in one process: how steps are found, what injection leaves as it was,
and recordings that the script itself asks for."""

import json
import os
import shutil
import statistics
import textwrap
import unittest

from torch_case import (
    PYTHON,
    ROOT,
    Case,
    clean_environment,
    fork,
    main,
    recording_environment,
    run,
)
from undisturbed import undisturbed

KIND_LOAD, KIND_LOAD_WAIT = 14, 15

# A loop of 14 steps around what a test puts into it.
LOOP = """
import sys, torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
{before}
for step in range(14):
    model(torch.ones(2, 4)).sum().backward()
{body}
print([p.sum().item() for p in model.parameters()])
"""


class PlainTest(Case):
    def script(self, text, steps="3:5", whole=False, **more):
        """What it prints when it is recorded; no warning is among it. whole: its process
        is no fork of one that has PyTorch."""
        path = self.folder / "script.py"
        path.write_text(textwrap.dedent(text))
        environment = recording_environment(self.run_folder, steps, **more)
        if whole:
            recorded = run([PYTHON, str(path)], environment)
        else:
            recorded = fork([], environment, program=path)
        self.assertEqual((recorded.returncode, recorded.stderr), (0, ""))
        return recorded.stdout

    def loop(self, before, body, **more):
        return self.script(LOOP.format(before=before, body=textwrap.indent(body, "    ")), **more)

    # --- steps ------------------------------------------------------------

    def test_two_optimisers(self):
        """The first to step counts; a step within a step does not."""
        self.loop(
            "class Own(torch.optim.SGD):\n"
            "    def step(self, closure=None):\n"
            "        return super().step(closure)\n"
            "torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "a = Own(model.parameters(), lr=0.1)\n"
            "b = torch.optim.Adam(model.parameters())",
            "b.step() if step else None\na.step()\nb.step()",
        )
        self.assertEqual(self.process()["steps_seen"], 14)
        names = [e["name"] for e in self.events()]
        self.assertEqual(self.steps_of(), [3, 4])
        self.assertEqual(names.count("Optimizer.step#Adam.step"), 4)

    def test_memory(self):
        """Two blocks of 64 MiB at once, in each step: that is the peak, in the
        recording and in its replay."""
        self.loop(
            "a = torch.optim.SGD(model.parameters(), lr=0.1)",
            "x = torch.empty(1 << 24)\ny = torch.empty(1 << 24)\ndel x\ndel y\na.step()",
            steps="5:8",
            TAUT_RECORD_MEMORY="1",
        )
        command = [os.environ["TAUT"], "report", "--json", str(self.run_folder)]
        report = run(command, clean_environment())
        (memory,) = json.loads(report.stdout)["memory"]
        self.assertEqual(memory["measured_peak_bytes"], memory["replayed_peak_bytes"])
        self.assertIsNone(memory["device"])
        self.assertEqual(memory["at_op"], "aten::empty")
        self.assertGreaterEqual(memory["measured_peak_bytes"], 2 << 26)
        self.assertLess(memory["measured_peak_bytes"], (2 << 26) + (1 << 20))

    def test_optimiser_is_replaced(self):
        self.loop(
            "a = torch.optim.SGD(model.parameters(), lr=0.1)",
            "if step == 7:\n    del a\n    a = torch.optim.Adam(model.parameters())\na.step()",
            steps="9:11",
        )
        self.assertEqual(self.process()["steps_seen"], 14)
        self.assertEqual(self.steps_of(), [9, 10])

    def test_closure_and_scheduler(self):
        self.loop(
            "a = torch.optim.LBFGS(model.parameters(), lr=0.01)\n"
            "s = torch.optim.lr_scheduler.StepLR(a, 3)\n"
            "def again():\n"
            "    a.zero_grad()\n"
            "    loss = model(torch.ones(2, 4)).square().sum()\n"
            "    loss.backward()\n"
            "    return loss",
            "a.step(again)\ns.step()",
        )
        self.assertEqual((self.process()["steps_seen"], self.steps_of()), (14, [3, 4]))

    # What DeepSpeed's ZeRO does with the job's optimizer: its own is none of PyTorch's,
    # and has that one step for each group of parameters.
    ENGINE = """
import torch

class ZeroOptimizer:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        groups = self.optimizer.param_groups
        for group in groups:
            self.optimizer.param_groups = [group]
            self.optimizer.step()
        self.optimizer.param_groups = groups

class DeepSpeedEngine(torch.nn.Module):
    def __init__(self, optimizer):
        super().__init__()
        self.optimizer, self.micro_steps = ZeroOptimizer(optimizer), 0

    def step(self, lr_kwargs=None):
        self.micro_steps += 1
        if self.micro_steps % 2 == 0:
            self._take_model_step(lr_kwargs)

    def _take_model_step(self, lr_kwargs, block_eigenvalue={}):
        if self.micro_steps != 8:  # an overflow
            self.optimizer.step()
"""

    def test_optimiser_that_steps_once_a_group(self):
        package = self.folder / "deepspeed" / "runtime"
        package.mkdir(parents=True)
        (package / "engine.py").write_text(self.ENGINE)
        path = os.pathsep.join([recording_environment(".")["PYTHONPATH"], str(self.folder)])
        self.loop(
            "from deepspeed.runtime.engine import DeepSpeedEngine\n"
            "groups = [{'params': [p]} for p in model.parameters()]\n"
            "a = DeepSpeedEngine(torch.optim.SGD(groups, lr=0.1))",
            "a.step()",
            PYTHONPATH=path,
        )
        self.assertEqual((self.process()["steps_seen"], self.steps_of()), (7, [3, 4]))

    def test_optimisers_in_the_backward_pass(self):
        """One for each of many parameters, or one for all; the first pass finds them."""
        for name, before in (
            (
                "many",
                "model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(40)])\n"
                "of = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}",
            ),
            (
                "one",
                "a = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                "of = {p: a for p in model.parameters()}",
            ),
        ):
            with self.subTest(name):
                self.run_folder = self.folder / name
                (self.run_folder / "processes").mkdir(parents=True)
                self.loop(
                    before + "\nfor p in of:\n"
                    "    p.register_post_accumulate_grad_hook(lambda p: of[p].step())",
                    "",
                )
                self.assertEqual((self.process()["steps_seen"], self.steps_of()), (13, [3, 4]))

    def test_scaler_leaves_steps_out(self):
        self.loop(
            "a = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "scaler = torch.amp.GradScaler('cpu', init_scale=4.0)",
            "scaler.scale(torch.zeros(1))\n"
            "if step % 3 == 0:\n    model.weight.grad.fill_(float('inf'))\n"
            "scaler.step(a)\nscaler.update()\na.zero_grad()",
        )
        self.assertEqual((self.process()["steps_seen"], self.steps_of()), (14, [3, 4]))

    # --- what compiling would give ------------------------------------------

    def test_compile(self):
        """Of modules in a row, of another, and why not of what is wrong when it is compiled, what gives no numbers, talks to
        others or is given an object; the job goes on as if nothing had been compiled, and
        'taut whatif' knows them."""
        before = """
import pickle, random, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
random.seed(1)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.drop = torch.nn.Linear(4, 8), torch.nn.Dropout(0.5)
        self.norm, self.down = torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)

    def forward(self, x, *, by):
        return x + by[0] * self.down(self.drop(self.norm(self.up(x)).tanh()))

class Best(torch.nn.Module):
    def forward(self, x):
        return x.argmax(1)

class Sums(torch.nn.Module):
    def forward(self, x):
        x = x * random.random()
        dist.all_reduce(x.detach())
        return x

class Wrong(torch.nn.Module):
    def forward(self, x):
        return x * (2 if torch.compiler.is_compiling() else 3)

class Given(torch.nn.Module):
    def forward(self, x, of):
        return x

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.best = torch.nn.ModuleList([Block(), Block()]), Best()
        self.rows = torch.nn.Linear(4, 4)
        self.given, self.wrong = Given(), Wrong()

    def forward(self, x):
        for block in self.blocks:
            x = block(x, by=[2, torch.ones(1).expand(2)])
        x = self.rows(x)
        self.best(x)
        return self.given(self.wrong(x), self)

sums = Sums()

model = Net()
a = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        body = "sums(model.blocks[0].up.weight).sum().backward()\na.step()\na.zero_grad()\n"
        body += "pickle.dumps(model)\n"
        body += "print([float(t.sum()) for t in (*model.buffers(), torch.rand(1))], random.random())"
        patterns = "nn.module: BLOCKS.*,nn.Module: Net,nn.Module: best,nn.Module: rows"
        patterns += ",nn.Module: Sums,nn.Module: given,nn.Module: wrong"
        plain = self.loop(before, body)
        shutil.rmtree(self.run_folder)
        self.assertEqual(self.loop(before, body, TAUT_RECORD_COMPILE=patterns), plain)
        (log,) = self.logs(0, "torch")
        facts = {key: value for key, value in log.facts if key.startswith("compile")}
        for name, why in (
            ("best", "nothing that it gives needs gradients"),
            ("Sums", "it talks to other ranks"),
            ("given", "an input is a Net"),
        ):
            self.assertEqual(facts.pop("compile_not." + name), why)
        wrong = [facts.pop("compile_not." + name) for name in ("wrong", "Net")]
        for line in wrong:
            self.assertIn("compiled, it gives other results: 0.3", line)
        self.assertEqual(set(facts), {"compile.blocks.*", "compile.rows"})
        for text in facts.values():
            forward, low, high, *backward = map(float, text.split())
            self.assertTrue(0 < low <= forward <= high < 100, text)
            self.assertEqual(backward[0], sorted(backward)[1])
        for key, factors in facts.items():
            said = self.whatif("compile=nn.Module: " + key[len("compile.") :])
            self.assertEqual(said.returncode, 0, said.stderr)
            left = "%.2f of the forward" % float(factors.split()[0])
            self.assertTrue([n for n in json.loads(said.stdout)["notes"] if left in n])
        said = self.whatif("compile=nn.Module: best")
        self.assertIn("best cannot be compiled: nothing that it gives", said.stderr)

    def whatif(self, change):
        command = [os.environ["TAUT"], "whatif", "--json", str(self.run_folder), change]
        return run(command, clean_environment())

    def test_nothing_to_compile(self):
        self.loop(
            "a = torch.optim.SGD(model.parameters(), lr=0.1)",
            "a.step()",
            TAUT_RECORD_COMPILE="nn.Module: blocks.*",
        )
        said = self.whatif("compile=nn.Module: Linear")
        self.assertIn("no module of this name was called in training", said.stderr)

    def test_nothing_was_watched(self):
        self.loop(
            "a = torch.optim.SGD(model.parameters(), lr=0.1)",
            "a.step()",
            steps="1:3",
            TAUT_RECORD_COMPILE="nn.Module: Linear",
        )
        said = self.whatif("compile=nn.Module: Linear")
        self.assertIn("no step before the window was watched", said.stderr)

    # --- loaders ----------------------------------------------------------

    def test_spawned_workers(self):
        ended = self.job("--workers", "1", "--spawn")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        (log,) = self.logs(0, "torch")
        (loader,) = self.logs(0, "loader")
        waits = [s.correlation for s in log.spans if s.kind == KIND_LOAD_WAIT]
        made = [s.correlation for s in loader.spans if s.kind == KIND_LOAD]
        self.assertEqual(waits, [9, 10, 11, 12])
        self.assertTrue(set(waits) <= set(made), made)
        # The worker is a Python of its own, and no rank.
        self.assertEqual(self.process()["recorded"], [8, 12])

    # What the host takes from a batch to the end of the step is between two spans
    # by the job's own clock. Who makes a batch takes 4 ms, and so does the job
    # behind each step.
    ISSUE = """
        import concurrent.futures, time, torch
        from torch.utils.data import DataLoader, Dataset
        torch.set_num_threads(1)
        class Data(Dataset):
            made = 0
            def __len__(self):
                return 20
            def __getitem__(self, i):
                time.sleep(0.004)
                Data.made = time.perf_counter()
                return torch.ones(4)
        class Slow(torch.optim.SGD):
            def step(self):
                time.sleep(0.004)
                super().step()
        model = torch.nn.Linear(4, 4)
        a = Slow(model.parameters(), lr=0.1)
        loader = iter(DataLoader(Data(), num_workers={workers}))
        other = concurrent.futures.ThreadPoolExecutor(1)
        for step in range(20):
            before = time.perf_counter()
            x = {get}
            {zero}
            begin = time.perf_counter()
            time.sleep(0.004)
            model(x).sum().backward()
            end = time.perf_counter()
            a.step()
            print(end - begin, time.perf_counter() - max(Data.made, before))
            time.sleep(0.004)
        """

    def issue(self, workers, get, zero=""):
        """Below it, above it, and what the recording tells; in ms."""
        out = self.script(self.ISSUE.format(workers=workers, get=get, zero=zero), "9:11")
        spans = [[float(word) * 1e3 for word in line.split()] for line in out.splitlines()]
        # The first step has no begin; 7 is thrown away, in 8 lookups are watched, 9 and 10
        # are recorded. Medians of the same steps as the recorder's are bounds of its own.
        spans = [spans[i] for i in range(1, 20) if i not in (7, 8, 9, 10)]
        low, high = (statistics.median(side) for side in zip(*spans))
        return low, high, self.process()["step_ms"]

    def test_issue(self):
        for workers in (0, 1):
            with self.subTest(workers=workers):
                undisturbed(lambda workers=workers: self.check_issue(workers))

    def check_issue(self, workers, get="next(loader)", zero=""):
        shutil.rmtree(self.run_folder)
        (self.run_folder / "processes").mkdir(parents=True)
        low, high, told = self.issue(workers, get, zero)
        self.assertGreaterEqual(told["unrecorded_issue"], low)
        self.assertLessEqual(told["unrecorded_issue"], high)
        self.assertGreaterEqual(told["unrecorded_passes"], low)
        self.assertLess(told["unrecorded_passes"], told["unrecorded_issue"] - 4)
        self.assertGreater(told["unrecorded"], low + (4 if workers else 8))

    def test_issue_without_a_batch(self):
        """One that another thread took is none of the step's."""
        get = "other.submit(next, loader).result()"
        *_, told = self.issue(0, get)
        self.assertIsNone(told["unrecorded_issue"])
        self.assertIsNone(told["unrecorded_passes"])
        self.assertGreater(told["unrecorded"], 8)

    def test_issue_from_zero_grad(self):
        get = "other.submit(next, loader).result()"
        zero = "before = time.perf_counter(); a.zero_grad()"
        undisturbed(lambda: self.check_issue(0, get, zero))

    def test_a_device_has_nothing_left_when_recording_begins(self):
        """Work of the steps before would be waited for in the first one, unseen."""
        before = """
        torch.cuda.is_initialized = lambda: True
        torch.cuda.synchronize = lambda: print("waited before step", step + 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """
        told = self.loop(textwrap.dedent(before), "optimizer.step()")
        self.assertIn("waited before step 3\n", told)

    def test_steps_of_a_graph_that_is_captured(self):
        """They are none, and nobody waits for the device in them."""
        before = """
        torch.cuda.is_initialized = lambda: True
        torch.cuda.is_current_stream_capturing = lambda: step in (2, 8)
        torch.cuda.synchronize = lambda: print("waited before step", step + 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """
        told = self.loop(textwrap.dedent(before), "optimizer.step()")
        self.assertEqual(told.splitlines()[:-1], ["waited before step %d" % s for s in (1, 4)])
        self.assertEqual((self.process()["steps_seen"], self.steps_of()), (12, [3, 4]))

    def test_window_that_goes_on_and_on(self):
        """A step of it, in which other modules are called, takes too long, or too much
        memory; so does one before it. What was recorded whole counts."""
        before = """
        import sys, time
        recorder = sys.modules["_taut._recorder"]
        recorder.LOOK_EVERY_S, {limit}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kept = []
        def validate():
            for _ in range(5):
                {rest}
                with torch.no_grad():
                    model(torch.ones(2, 4))
        """
        body = "validate() if step == {at} else None\noptimizer.step()\n"
        body += "print(step, torch.autograd._profiler_enabled())"
        time_is = "recorder.LONGEST_S = 0, 1", "time.sleep(0.3)", "took more than 1 s"
        memory_is = (
            "sys.modules['_taut._heap'].available_bytes = 0, lambda: 32 << 20",
            "kept.append(torch.ones(1 << 21))",
            "took more than half of the memory that was free",
        )
        for at, (limit, rest, why), on, state in (
            (6, time_is, (4, 5), "ended in step 6: the window "),
            (6, memory_is, (4, 5), "ended in step 6: the window "),
            (5, time_is, (4,), "not recorded: step 5 "),
            (3, time_is, (2,), "not recorded: step 3, before those to record, "),
        ):
            with self.subTest(at=at, why=why):
                self.run_folder = self.folder / ("%d%s" % (at, why))
                (self.run_folder / "processes").mkdir(parents=True)
                told = self.loop(
                    textwrap.dedent(before).format(limit=limit, rest=rest),
                    body.format(at=at),
                    steps="5:8",
                )
                want = ["%d %s" % (step, step in (2, *on)) for step in range(14)]
                self.assertEqual(told.splitlines()[:-1], want)
                self.assertEqual(self.process()["state"], state + why)
                self.assertEqual(self.process()["recorded"], [5, 6] if at == 6 else None)

    def test_profiler_that_does_not_end(self):
        """Nor what is watched beside it: it is off all the same, and the job goes on."""
        before = """
        import sys
        adapter = sys.modules["_taut._torch"]
        def fails(self, *args):
            raise RuntimeError("no more")
        adapter.%s = fails
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """
        body = "optimizer.step()\nprint(step, torch.autograd._profiler_enabled())"
        for name, steps, on in (
            ("_KinetoProfile.stop", "1:3", (0, 1)),
            ("_KinetoProfile.stop", "3:5", (0,)),
            ("_torch_loader.Loader.end", "1:3", (0, 1)),
        ):
            with self.subTest(name, steps=steps):
                self.run_folder = self.folder / (name + steps[0])
                (self.run_folder / "processes").mkdir(parents=True)
                told = self.loop(textwrap.dedent(before) % name, body, steps=steps)
                want = ["%d %s" % (step, step in on) for step in range(14)]
                self.assertEqual(told.splitlines()[:-1], want)
                self.assertEqual(self.process()["state"], "not recorded: RuntimeError: no more")

    def test_devices_that_are_not_used(self):
        """No profiler makes a context on them, unless somebody asks for one by hand."""
        before = """
        import sys
        adapter = sys.modules["_taut._torch"]
        class Profile(adapter._KinetoProfile):
            def __init__(self, activities, **more):
                print(len(activities))
                super().__init__(activities=activities[:1], **more)
        adapter._KinetoProfile = Profile
        torch.cuda.is_available = lambda: True
        torch.cuda.is_initialized = lambda: %s
        torch.cuda.is_current_stream_capturing = lambda: False
        torch.cuda.synchronize = lambda: None
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """
        for is_used, want in ((False, "1"), (True, "2")):
            with self.subTest(is_used=is_used):
                self.run_folder = self.folder / want
                (self.run_folder / "processes").mkdir(parents=True)
                told = self.loop(textwrap.dedent(before) % is_used, "optimizer.step()")
                self.assertEqual(told.splitlines()[:-1], [want, want])

    def test_workers_that_begin_in_the_window(self):
        """Each epoch has a worker of its own, forked while we record."""
        out = self.script(
            """
            import torch
            from torch.utils.data import DataLoader, TensorDataset
            torch.set_num_threads(1)
            torch.manual_seed(0)
            class Data(TensorDataset):
                def __getitem__(self, i):
                    return tuple(t + 0 for t in super().__getitem__(i))
            loader = DataLoader(Data(torch.ones(8, 4)), 2, num_workers=1)
            model = torch.nn.Linear(4, 4)
            a = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                for x, in loader:
                    model(x).sum().backward()
                    a.step()
            print(model.weight.sum().item())
            """,
            steps="6:10",
        )
        self.assertEqual(self.steps_of(), [6, 7, 8, 9])
        self.assertTrue(out)
        logs = self.logs(0, "loader")
        self.assertEqual(len(logs), 2)
        of_second = [[s.correlation for s in log.spans] for log in logs]
        self.assertIn([1, 2, 3, 4], of_second)
        (log,) = self.logs(0, "torch")
        waits = [s.correlation for s in log.spans if s.kind == KIND_LOAD_WAIT]
        self.assertEqual(waits, [3, 4, 1, 2])

    def test_forks_that_exit(self):
        """A copy of the process in or behind the window ends as it would."""
        said = self.loop(
            "import ctypes, os\nstop = torch.optim.SGD(model.parameters(), lr=0.1)",
            "stop.step()\n"
            "if step in (3, 8):\n"
            "    child = os.fork()\n"
            "    if not child:\n"
            "        print('child')\n"
            "        ctypes.CDLL(None).printf(b'of C\\n')\n"
            "        sys.exit(5)\n"
            "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
            "    here = os.listdir(os.environ['TAUT_RECORD'] + '/processes')\n"
            "    print(sum(name.endswith('.window') for name in here), flush=True)",
        )
        # The parent's window stays.
        self.assertEqual(said.splitlines()[:-1], ["child", "of C", "5", "1"] * 2)
        self.assertEqual(self.steps_of(), [3, 4])

    def test_no_workers(self):
        self.assertEqual(self.job().returncode, 0)
        (log,) = self.logs(0, "torch")
        waits = [s for s in log.spans if s.kind == KIND_LOAD_WAIT]
        self.assertEqual([s.correlation for s in waits], [0] * 4)
        self.assertEqual(self.logs(0, "loader"), [])

    # --- without the library ----------------------------------------------

    def test_no_library(self):
        more = {"TAUT_RECORD_LIB": "/nowhere/libtaut-record.so"}
        self.assertEqual(self.job(**more).returncode, 0)
        state = self.process()["state"]
        self.assertTrue(state.startswith("recorded steps 8:12; no event log: "), state)
        self.assertEqual(self.steps_of(), [8, 9, 10, 11])

    def test_bad_steps(self):
        self.assertEqual(self.job(steps="4:4").returncode, 0)
        self.assertIn("steps are A:B with A < B", self.process()["state"])

    def test_first_steps(self):
        self.assertEqual(self.job(steps="0:2").returncode, 0)
        self.assertEqual((self.process()["recorded"], self.steps_of()), ([1, 2], [1]))

    # --- injection --------------------------------------------------------

    def test_own_sitecustomize(self):
        """It runs, under its name, and its import errors are its own."""
        mine = self.folder / "mine"
        mine.mkdir()
        (mine / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = __file__\n")
        environment = recording_environment(self.run_folder)
        environment["PYTHONPATH"] += os.pathsep + str(mine)
        code = (
            "import sys, sitecustomize, torch; print(mine == sitecustomize.__file__); "
            "print([p for p in sys.path if 'inject' in p], 'taut' in sys.modules)"
        )
        result = run([PYTHON, "-c", code], environment)
        self.assertEqual((result.stdout, result.stderr), ("True\n[] False\n", ""))

        (mine / "sitecustomize.py").write_text("import no_such_module\n")
        bare = run([PYTHON, "-c", "1"], clean_environment(PYTHONPATH=str(mine)))
        result = run([PYTHON, "-c", "1"], environment)
        self.assertIn("no_such_module", bare.stderr)
        self.assertEqual((result.returncode, result.stderr), (bare.returncode, bare.stderr))

    def test_no_sitecustomize(self):
        code = "import sys\ntry:\n    import sitecustomize\nexcept ImportError as e:\n    print(e)"
        bare = run([PYTHON, "-c", code], clean_environment())
        for more in ({}, {"PYTHONSAFEPATH": "1"}):
            environment = recording_environment(self.run_folder, **more)
            result = run([PYTHON, "-c", code], environment)
            self.assertEqual((result.stdout, result.stderr), (bare.stdout, bare.stderr))

    def test_framework_that_fails(self):
        """A torch of the user's that cannot be imported, then another that can."""
        bad = self.folder / "bad"
        bad.mkdir()
        (bad / "torch.py").write_text("raise ImportError('not today')\n")
        code = """
            import sys
            sys.path.insert(0, %r)
            try:
                import torch
            except ImportError as error:
                print(error, 'torch' in sys.modules)
            sys.path.pop(0)
            import importlib
            importlib.invalidate_caches()
            import torch
            print(torch.__spec__.loader is torch.__loader__, sorted(vars(torch.__loader__)))
        """
        out = self.script(code % str(bad), whole=True)
        self.assertEqual(out, "not today False\nTrue ['name', 'path']\n")

    def test_framework_that_is_looked_for(self):
        """Before it is imported, as many a library does."""
        code = """
            import importlib.util
            for name in ("torch", "tensorflow", "torch"):
                importlib.util.find_spec(name)
            import torch
            print(sorted(vars(torch.__loader__)))
        """
        code = textwrap.dedent(code) + LOOP.format(
            before="a = torch.optim.SGD(model.parameters(), lr=0.1)", body="    a.step()"
        )
        out = self.script(code, whole=True)
        self.assertEqual(out.splitlines()[0], "['name', 'path']")
        self.assertEqual((self.process()["recorded"], self.steps_of()), ([3, 5], [3, 4]))

    def test_module_called_taut(self):
        """The job's own module of that name is the one that it gets."""
        (self.folder / "taut.py").write_text("mine = True\n")
        out = self.script("import torch, taut\nprint(taut.mine)", whole=True)
        self.assertEqual(out, "True\n")

    def test_does_nothing_elsewhere(self):
        """A Python without a framework writes nothing and loads nothing."""
        code = "import sys, json; print(sorted(n for n in sys.modules if 'taut' in n))"
        result = run([PYTHON, "-c", code], recording_environment(self.run_folder))
        self.assertEqual((result.stdout, result.stderr), ("[]\n", ""))
        self.assertEqual(self.processes(), [])

    # --- what a script asks for itself ------------------------------------

    def by_itself(self, text):
        path = self.folder / "script.py"
        path.write_text(textwrap.dedent(text))
        library = os.environ["TAUT_RECORD_LIB"]
        python_path = str(ROOT / "python")
        environment = clean_environment(PYTHONPATH=python_path, TAUT_RECORD_LIB=library)
        result = fork([str(self.run_folder)], environment, program=path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_block(self):
        self.by_itself(
            LOOP.format(
                before="import taut\na = torch.optim.SGD(model.parameters(), lr=0.1)",
                body="    if step == 5:\n        block = taut.record(sys.argv[1]).__enter__()\n"
                "    a.step()\n"
                "    if step == 8:\n        block.__exit__(None, None, None)",
            )
        )
        self.assertEqual(self.steps_of()[:4], [0, 1, 2, 3])
        told = self.process()
        self.assertEqual((told["recorded"], told["state"]), ([0, 4], "recorded steps 0:4"))

    def test_block_of_steps_by_hand(self):
        self.by_itself(
            """
            import sys, torch, taut
            with taut.record(sys.argv[1], steps="4:6"):
                for step in range(9):
                    torch.ones(3) + step
                    taut.step()
            """
        )
        self.assertEqual((self.process()["recorded"], self.steps_of()), ([4, 6], [4, 5]))

    def test_step_by_hand_under_record(self):
        """`import taut` finds the recording that is going on."""
        path = os.pathsep.join([recording_environment(".")["PYTHONPATH"], str(ROOT / "python")])
        self.loop(
            "import taut\na = torch.optim.SGD(model.parameters(), lr=0.1)",
            "a.step()\na.step()\ntaut.step()",
            PYTHONPATH=path,
        )
        self.assertEqual(self.steps_of(), [3, 4])


if __name__ == "__main__":
    main()
