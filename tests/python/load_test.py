#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""taut.load over a set of raw pictures whose bytes are known: each epoch has every item
once, whatever the ranks; state, faults, lent memory. TAUT_LIB names the library."""

import gc
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
import unittest
import unittest.mock

if "TAUT_LIB" not in os.environ:
    print("no libtaut.so that a plain interpreter can load: skipped")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from taut import _load, _load_pinned  # noqa: E402
from taut.load import Image, Loader, Set  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

N, SIDE, CLASSES = 50, 4, ("cat", "dog")
RAW = dict(size=SIDE, crop="none", format="raw")


def pixels(item):
    return bytes((item * 7 + k) % 256 for k in range(SIDE * SIDE * 3))


def label(item):
    return 0 if item < N // 2 else 1


class Loads(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for item in range(N):
            path = pathlib.Path(self.folder, CLASSES[label(item)], "%03d.png" % item)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(pixels(item))
        self.arrays = "torch" if torch else "numpy"

    def loader(self, **options):
        options.setdefault("transform", Image(layout="HWC", **RAW))
        options.setdefault("arrays", self.arrays)
        options.setdefault("num_workers", 2)
        options.setdefault("num_replicas", 1)
        return Loader(options.pop("data", self.folder), items=True, **options)

    def check(self, batch):
        data, labels, items = batch
        self.assertEqual(tuple(data.shape), (len(items), SIDE, SIDE, 3))
        for row, item in zip(data, items):
            row = row.numpy() if hasattr(row, "numpy") else row
            self.assertEqual(row.tobytes(), pixels(item))
        self.assertEqual([int(n) for n in labels], [label(i) for i in items])
        return items

    def items(self, loader):
        return [self.check(batch) for batch in loader]

    def test_set(self):
        found = Set(self.folder)
        self.assertEqual(len(found), N)
        self.assertEqual(found.source, "tree")
        self.assertEqual(found.classes, list(CLASSES))
        self.assertEqual(found.bytes, N * SIDE * SIDE * 3)
        self.assertEqual(found.key(30), "dog/030.png")
        self.assertEqual(found.label(30), 1)
        self.assertEqual(found.find("dog/030.png"), 30)
        self.assertIsNone(found.find("dog/31.png"))
        found.check()
        index = os.path.join(self.folder, "set.index")
        found.write(index)
        again = Set(index)
        self.assertEqual((len(again), again.source), (N, "index"))
        with self.assertRaises(IndexError):
            found.key(N)
        with self.assertRaises(OSError):
            Set(self.folder + "/nothing")

    def test_epochs(self):
        loader = self.loader(batch_size=8, shuffle=True, seed=3)
        self.assertEqual(len(loader), 7)
        epochs = [self.items(loader) for _ in range(3)]
        for batches in epochs:
            self.assertEqual(len(batches), 7)
            self.assertEqual(sorted(sum(batches, [])), list(range(N)))
        self.assertNotEqual(epochs[0], epochs[1])
        loader.set_epoch(0)
        self.assertEqual(self.items(loader), epochs[0])
        loader.set_epoch(2)
        next(iter(loader))  # left in its middle: the next one begins
        self.assertEqual(sorted(sum(self.items(loader), [])), list(range(N)))

    def test_left_at_its_last_batch(self):
        """What follows is the next epoch, and not the end of this one."""
        loader = self.loader(batch_size=25)
        for _ in range(2):
            for n, _batch in enumerate(loader):
                if n == 1:
                    break
            self.assertEqual(len(self.items(loader)), 2)

    def test_two_at_once(self):
        """An iterator gets no batch of another's epoch."""
        loader = self.loader(batch_size=8)
        for send, left in (
            (lambda: iter(loader), 7),
            (lambda: loader.set_epoch(5), 7),
            (lambda: loader.load_state_dict(loader.state_dict()), 6),
        ):
            first = iter(loader)
            self.check(next(first))
            sent = send()
            for _ in range(2):
                with self.assertRaisesRegex(RuntimeError, "another epoch"):
                    next(first)
            del first
            self.assertEqual(len(list(sent or loader)), left)
        short = self.loader(sampler=[1, 2, 3], num_replicas=None, batch_size=2)
        with self.assertRaisesRegex(RuntimeError, "another epoch"):
            list(zip(short, short))
        again = iter(short)
        self.assertEqual([self.check(batch) for batch in again], [[1, 2], [3]])
        self.assertEqual(list(again), [])

    def test_ranks(self):
        for tail, sizes in ("keep", (25, 25)), ("drop", (24, 24)), ("pad", (25, 25)):
            taken = [
                sum(self.items(self.loader(batch_size=8, num_replicas=2, rank=r, tail=tail)), [])
                for r in range(2)
            ]
            self.assertEqual(tuple(map(len, taken)), sizes)
            self.assertEqual(len(set(taken[0] + taken[1])), sum(sizes))

    def test_ranks_of_the_job(self):
        os.environ.update(WORLD_SIZE="2", RANK="1")
        try:
            loader = self.loader(num_replicas=None, batch_size=8)
        finally:
            del os.environ["WORLD_SIZE"], os.environ["RANK"]
        self.assertEqual(len(sum(self.items(loader), [])), N // 2)

    def test_state(self):
        options = dict(batch_size=6, shuffle=True, seed=11)
        whole = self.items(self.loader(**options))
        loader = self.loader(**options)
        batches = iter(loader)
        taken = [self.check(next(batches)) for _ in range(3)]
        state = json.loads(json.dumps(loader.state_dict()))
        self.assertEqual((state["position"], state["epoch"], state["seed"]), (18, 0, 11))
        # Another batch and seed: the seed is the state's, items are those that are left.
        other = self.loader(batch_size=4, shuffle=True, seed=99)
        other.load_state_dict(state)
        rest = self.items(other)
        self.assertEqual(sorted(sum(taken + rest, [])), list(range(N)))
        self.assertEqual(taken, whole[:3])
        self.assertEqual(other.state_dict()["epoch"], 1)
        state["fingerprint"] += 1
        with self.assertRaisesRegex(ValueError, "another set"):
            other.load_state_dict(state)

    def test_sampler(self):
        """It says which items come, also twice; its own set_epoch() is called."""

        class Turning(list):
            def set_epoch(self, epoch):
                self[:] = self[epoch:] + self[:epoch]

        order = Turning([7, 3, 3, 49, 0, 12, 8])
        os.environ.update(WORLD_SIZE="2", RANK="1")  # it is this rank's already
        try:
            loader = self.loader(sampler=order, num_replicas=None, batch_size=3)
            short = self.loader(sampler=order, num_replicas=None, batch_size=3, drop_last=True)
        finally:
            del os.environ["WORLD_SIZE"], os.environ["RANK"]
        self.assertEqual((len(loader), len(short)), (3, 2))
        self.assertEqual(self.items(loader), [[7, 3, 3], [49, 0, 12], [8]])
        next(iter(loader))
        self.assertEqual(self.items(loader), [[7, 3, 3], [49, 0, 12], [8]])
        self.assertEqual(self.items(short), [[7, 3, 3], [49, 0, 12]])
        loader.set_epoch(2)
        self.assertEqual(self.items(loader), [[3, 49, 0], [12, 8, 7], [3]])
        for call in loader.state_dict, lambda: loader.load_state_dict({}):
            with self.assertRaisesRegex(ValueError, "sampler"):
                call()
        order[:] = [50]
        with self.assertRaisesRegex(ValueError, "item 50"):
            self.items(loader)
        order[:] = []
        self.assertEqual(self.items(loader), [])

    def test_pinned(self):
        """tests/load/jobs/folder_job.py has PyTorch's."""
        if numpy is None:
            self.skipTest("no numpy")
        with unittest.mock.patch.object(_load_pinned, "find", lambda asked: asked):
            self.loader(pin_memory=False, arrays="numpy").close()
            with self.assertRaisesRegex(ValueError, "PyTorch's arrays alone"):
                self.loader(pin_memory=True, arrays="numpy")

    def test_kept(self):
        """Who keeps all batches has all of them; the loader's end does not end them."""
        loader = self.loader(batch_size=5, prefetch_factor=1)
        batches = list(loader)
        loader.close()
        del loader
        gc.collect()
        self.assertEqual(sum(map(self.check, batches), []), list(range(N)))

    def test_lent_memory(self):
        """Without a copy: a batch that is dropped has its memory used again."""
        loader = self.loader(batch_size=5)
        address, size = loader.memory()
        seen = set()
        for data, _labels, _items in loader:
            at = data.data_ptr() if torch else data.__array_interface__["data"][0]
            self.assertTrue(address <= at < address + size)
            self.assertEqual(at % 64, 0)
            seen.add(at)
        self.assertLessEqual(len(seen), 4)

    def test_numpy(self):
        if numpy is None:
            self.skipTest("no numpy")
        loader = self.loader(batch_size=5, arrays="numpy")
        batches = list(loader)
        self.assertIsInstance(batches[0][0], numpy.ndarray)
        loader.close()
        self.assertEqual(sum(map(self.check, batches), []), list(range(N)))
        batches[0][0][0, 0, 0, 0] = 7  # it is the job's
        with self.assertRaisesRegex(ValueError, "bfloat16"):
            next(iter(self.loader(arrays="numpy", transform=Image(type="bfloat16", **RAW))))

    def test_types(self):
        wanted = numpy.frombuffer(pixels(0), "u1").reshape(SIDE, SIDE, 3) if numpy else None
        if wanted is None:
            self.skipTest("no numpy")
        mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
        for name in _load.TYPES:
            for layout in _load.LAYOUTS:
                norm = {} if name == "uint8" else dict(mean=mean, std=std)
                how = Image(type=name, layout=layout, **norm, **RAW)
                if name == "bfloat16" and not torch:
                    continue
                data = next(iter(self.loader(batch_size=1, transform=how)))[0][0]
                data = data.float().numpy() if torch else data.astype("f4")
                expected = wanted.astype("f4")
                if name != "uint8":
                    expected = (expected / 255 - mean) / std
                if layout == "CHW":
                    expected = expected.transpose(2, 0, 1)
                bound = {"uint8": 0, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[name]
                self.assertLessEqual(abs(data - expected).max(), bound * 2, (name, layout))

    def test_faults(self):
        pathlib.Path(self.folder, "dog", "040.png").write_bytes(b"short")
        with self.assertRaisesRegex(OSError, "dog/040.png"):
            self.items(self.loader())
        loader = self.loader(batch_size=8, max_skipped=None)
        self.assertEqual(len(sum(self.items(loader), [])), N - 1)
        (item, why), *rest = loader.skipped()
        self.assertEqual(item, 40)
        self.assertIn("dog/040.png", why)
        self.assertGreaterEqual(loader.counts()["skipped"], 1 + len(rest))

    def test_options(self):
        for options, line in (
            (dict(batch_size=2**24), "batch is"),
            (dict(tail="some"), "none of keep, drop, pad"),
            (dict(store="flie"), 'did you mean "file"'),
            (dict(arrays="jax"), "torch, numpy, tensorflow or mxnet"),
            (dict(collate_fn=list), "no collate_fn: samples are made"),
            (dict(batch_sampler=[[1]]), "give sampler, batch_size and drop_last"),
            (dict(generator=1), "give seed"),
            (dict(in_order=False), "batches come in order"),
            (dict(sampler=[1], shuffle=True, num_replicas=None), "order and the ranks"),
        ):
            with self.assertRaisesRegex(ValueError, line):
                self.loader(**options)
        self.loader(collate_fn=None, in_order=True, prefetch_factor=None).close()
        with self.assertRaisesRegex(TypeError, "no option 'shufle'"):
            self.loader(shufle=True)
        with self.assertRaisesRegex(ValueError, "crop 'round'"):
            Image(crop="round")
        loader = self.loader()
        loader.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            len(loader)

    def test_timeout(self):
        loader = self.loader(store="slow", slow_ns=60 * 10**9, timeout=0.1)
        batches = iter(loader)
        for _ in range(2):  # it may come yet
            with self.assertRaisesRegex(TimeoutError, "0.1 s"):
                next(batches)
        loader.close()  # at once

    def test_cache(self):
        options = dict(batch_size=8, shuffle=True, cache_bytes=1 << 20, cache_name=os.getpid())
        one, two = self.loader(**options), self.loader(**options)
        for _ in range(2):
            for loader in one, two:
                self.items(loader)
        self.assertEqual(one.counts()["reads"] + two.counts()["reads"], N)

    def share(self, batch_size, told, others):
        """A process of its own: two epochs, then its counts on the pipe `told`."""
        child = os.fork()
        if child:
            return child
        status = 1
        try:
            loader = self.loader(
                batch_size=batch_size,
                shuffle=True,
                seed=5,
                share_bytes=1 << 16,
                share_patience=60,
                prefetch_factor=2,  # four batches ahead, below
                transform=Image(layout="HWC", flip=1.0, **RAW),
                arrays="numpy" if numpy else "torch",
            )
            os.write(told, b"!")
            os.read(others, 1)  # all are there
            items = [sorted(sum((batch[2] for batch in loader), [])) for _ in range(2)]
            whole = items == [list(range(N))] * 2
            made_ahead = 2 * N + 4 * batch_size
            counts = loader.counts()
            while counts["share_made"] + counts["share_copied"] < made_ahead:
                time.sleep(0.001)
                counts = loader.counts()
            os.write(told, json.dumps(counts).encode() + b"\n")
            os.read(others, 1)  # all have counted
            status = 0 if whole else 2
        finally:
            os._exit(status)

    def test_share(self):
        """Two processes prepare and read each item once, together."""
        told, others = os.pipe(), os.pipe()
        children = [self.share(size, told[1], others[0]) for size in (4, 10)]
        os.close(told[1])  # a child that fails is the end of it
        with open(told[0], "rb", buffering=0) as lines:
            self.assertEqual(lines.read(1) + lines.read(1), b"!!")
            os.write(others[1], b"..")
            text = b""
            while text.count(b"\n") < 2:
                more = lines.read(4096)
                self.assertTrue(more)
                text += more
        os.write(others[1], b"..")
        for child in children:
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        counts = [json.loads(line) for line in text.splitlines()]
        made = sum(count["share_made"] for count in counts)
        self.assertEqual(made, 2 * N + 4 * 10)  # with what is made ahead
        self.assertEqual(sum(count["reads"] for count in counts), made)
        self.assertEqual(
            sum(count["share_copied"] for count in counts), 2 * N + 4 * 4
        )
        self.assertEqual([count["share_alone"] for count in counts], [0, 0])
        with self.assertRaisesRegex(ValueError, "room for"):
            self.loader(share_bytes=2000)

    def test_fork(self):
        loader = self.loader(batch_size=5)
        batches = iter(loader)
        next(batches)
        child = os.fork()
        if child == 0:
            try:
                next(batches)
            except OSError as error:
                os._exit(0 if "fork()" in str(error) else 2)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(list(batches)), 9)

    def test_structs(self):
        """Options that this side has are those that the library reads."""
        loader = self.loader(batch_size=3)
        loader._options.size = 4  # nothing but the size: all else is the default
        loader._open()
        self.assertEqual(loader.counts()["n_workers"], len(os.sched_getaffinity(0)))


if __name__ == "__main__":
    unittest.main()
