#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""taut.load over items that are no images, and with a stage in Python or in C: samples and
lengths beside what NumPy makes of the same files. TAUT_LIB names the library."""

import ctypes
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

if "TAUT_LIB" not in os.environ:
    print("no libtaut.so that a plain interpreter can load: skipped")
    sys.exit(77)
try:
    import numpy
except ImportError:
    print("no NumPy: skipped")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from taut import _load_stage  # noqa: E402
from taut.load import Audio, Custom, Image, Loader, Tensor, Text  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

N, MOST = 30, 12


def text(item):
    return ("item %d " % item * (item % 4)).encode()


def sound(item):
    numbers = numpy.arange(50 + item, dtype="<i2") * (item + 1)
    head = struct.pack(
        "<4sI8sIHHIIHH4sI", b"RIFF", 36 + 2 * len(numbers), b"WAVEfmt ", 16, 1, 1, 8000,
        16000, 2, 16, b"data", 2 * len(numbers),
    )  # fmt: skip
    return head + numbers.tobytes(), numbers / numpy.float32(32768)


class Kinds(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, extension, bytes_of):
        for item in range(N):
            path = self.folder / ("%d" % (item // 20)) / ("%03d.%s" % (item, extension))
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes_of(item))

    def loader(self, transform, **options):
        options.setdefault("arrays", "numpy")
        options.setdefault("num_workers", 3)
        options.setdefault("batch_size", 7)
        return Loader(
            self.folder, transform=transform, items=True, num_replicas=1, shuffle=True, **options
        )

    def rows(self, loader):
        """(item, label, sample, length or None) of an epoch."""
        rows = []
        for data, labels, *more in loader:
            lengths = more[0] if len(more) == 2 else [None] * len(labels)
            rows += [
                (item, int(label), sample.copy(), length)
                for item, label, sample, length in zip(more[-1], labels, data, lengths)
            ]
        self.assertEqual(sorted(row[0] for row in rows), list(range(N)))
        return rows

    # --- kinds ----------------------------------------------------------------------

    def test_text(self):
        self.write("txt", text)
        for item, label, sample, length in self.rows(self.loader(Text(MOST))):
            kept = text(item)[:MOST]
            self.assertEqual(label, item // 20)
            self.assertEqual(length, len(kept))
            self.assertEqual(sample.dtype, numpy.uint8)
            self.assertEqual(sample.tobytes(), kept.ljust(MOST, b"\0"))

    def test_tokens(self):
        self.write("bin", lambda item: numpy.arange(item, dtype="<i4").tobytes())
        for item, _, sample, length in self.rows(self.loader(Text(MOST, "int32", cut="end"))):
            wanted = numpy.zeros(MOST, "i4")
            kept = numpy.arange(item, dtype="i4")[-MOST:] if item else wanted[:0]
            wanted[: len(kept)] = kept
            self.assertEqual(length, len(kept))
            self.assertEqual(sample.tolist(), wanted.tolist())

    def test_npy(self):
        for name in "uint8", "int64", "float16", "float32", "float64", "uint16":
            arrays = [numpy.arange(6).reshape(2, 3).astype(name) + i for i in range(N)]
            for item, array in enumerate(arrays):
                path = self.folder / ("%d" % (item // 20)) / ("%03d.npy" % item)
                path.parent.mkdir(exist_ok=True)
                numpy.save(path, array)
            for transform in Tensor(), Tensor((2, 3), name):
                for item, _, sample, length in self.rows(self.loader(transform)):
                    self.assertIsNone(length)
                    self.assertEqual(sample.dtype, numpy.dtype(name))
                    self.assertTrue((sample == arrays[item]).all())
        with self.assertRaisesRegex(OSError, r"\.npy: npy: numbers of type u16, expected i16"):
            self.rows(self.loader(Tensor((2, 3), "int16")))

    def test_rows_of_npy(self):
        for item in range(N):
            path = self.folder / ("%d" % (item // 20)) / ("%03d.npy" % item)
            path.parent.mkdir(exist_ok=True)
            numpy.save(path, numpy.full((item, 2), item, "f4"))
        for transform in Tensor((2,), "float32", most=MOST), Tensor(most=MOST):
            for item, _, sample, length in self.rows(self.loader(transform)):
                n = min(item, MOST)
                self.assertEqual((length, sample.shape), (n, (MOST, 2)))
                self.assertTrue((sample[:n] == item).all() and not sample[n:].any())

    def test_audio(self):
        self.write("wav", lambda item: sound(item)[0])
        try:
            loader = self.loader(Audio(60, cut="centre"))
        except OSError as error:
            self.skipTest(str(error))
        for item, _, sample, length in self.rows(loader):
            whole = sound(item)[1]
            first = max(0, (len(whole) - 60) // 2)
            self.assertEqual(length, min(len(whole), 60))
            self.assertTrue((sample[:length] == whole[first : first + 60]).all())
        data, _, lengths, _ = next(iter(self.loader(Audio(60, rate=4000, channels=2))))
        self.assertEqual(data.shape, (7, 2, 60))
        self.assertTrue((data[:, 0] == data[:, 1]).all())

    def test_torch(self):
        if torch is None:
            self.skipTest("no torch")
        self.write("txt", text)
        data, labels, lengths, items = next(iter(self.loader(Text(MOST), arrays="torch")))
        self.assertEqual((data.dtype, lengths.dtype), (torch.uint8, torch.int64))
        self.assertEqual(lengths.tolist(), [min(len(text(i)), MOST) for i in items])

    def test_refused(self):
        for make, line in (
            (lambda: Tensor((2, 3)), "both, or neither"),
            (lambda: Tensor(raw=True), "expected shape and type"),
            (lambda: Tensor((2, 0), "uint8"), "at least 1"),
            (lambda: Tensor((1 << 20, 1 << 20), "uint8"), "2\\^32 bytes"),
            (lambda: Text(8, "text"), "none of uint8"),
            (lambda: Text(8, cut="middle"), "none of beginning"),
            (lambda: Audio(0), "samples 0: expected at least 1"),
            (lambda: Audio(10, rate=10), "rate: expected 1000 to 768000"),
            (lambda: Custom((3,), "float"), "none of uint8"),
        ):
            with self.assertRaisesRegex(ValueError, line):
                make()
        self.write("txt", text)
        with self.assertRaisesRegex(ValueError, "stage: expected one"):
            self.loader(Custom(3, extensions="txt"))
        with self.assertRaisesRegex(ValueError, "stage_per 'epoch'"):
            self.loader(Text(3), stage=print, stage_per="epoch")
        with self.assertRaisesRegex(TypeError, "expected a function"):
            self.loader(Text(3), stage="print")

    # --- stages ---------------------------------------------------------------------

    def test_stage(self):
        self.write("txt", text)
        seen = {}

        def stage(sample, item):
            self.assertEqual(item.bytes, text(item.number))
            self.assertTrue(item.name.endswith("%03d.txt" % item.number))
            seen.setdefault((item.epoch, item.number), item.draw)
            sample[: item.length] ^= 0xFF
            sample[-1] = item.label

        loader = self.loader(Text(MOST + 20), stage=stage)
        for _ in range(2):
            for item, label, sample, length in self.rows(loader):
                self.assertEqual(bytes(255 - sample[:length]), text(item))
                self.assertEqual(sample[-1], label)
        self.assertEqual(len(set(seen.values())), len(seen))
        self.assertGreaterEqual(len(seen), 2 * N)

    def test_custom(self):
        self.write("txt", text)

        def stage(sample, item):
            self.assertFalse(sample.any())
            item.length = item.number % 3
            return numpy.full(2, item.number, "f8")

        kind = Custom(2, "float64", varies=True, extensions="txt")
        for item, _, sample, length in self.rows(self.loader(kind, stage=stage)):
            self.assertEqual((sample.tolist(), length), ([item, item], item % 3))

    def test_exceptions(self):
        self.write("txt", text)

        def stage(sample, item):
            if item.number % 9 == 4:
                raise KeyError("no %d" % item.number)

        with self.assertRaisesRegex(OSError, r"\.txt: stage: KeyError: 'no \d+' \(.*test.py, line"):
            self.rows(self.loader(Text(MOST), stage=stage))
        loader = self.loader(Text(MOST), stage=stage, max_skipped=None)
        taken = [i for _, _, _, items in loader for i in items]
        self.assertEqual(sorted(taken), [i for i in range(N) if i % 9 != 4])
        lines = [why for item, why in loader.skipped() if item == 13]
        self.assertIn("013.txt: stage: KeyError: 'no 13'", lines[0])

    def test_batch_stage(self):
        self.write("txt", text)
        calls = []

        def stage(batch):
            calls.append((batch.epoch, batch.number))
            batch.data[:] = batch.items[:, None] % 251
            batch.labels += 100
            batch.lengths[:] = batch.number
            if batch.epoch == 2 and batch.number == 2:
                raise RuntimeError("enough")

        loader = self.loader(Text(MOST), stage=stage, stage_per="batch")
        for epoch in range(2):
            rows = self.rows(loader)
            for n, (item, label, sample, length) in enumerate(rows):
                self.assertEqual(set(sample), {item})
                self.assertEqual((label, length), (100 + item // 20, n // 7))
        self.assertEqual(len(calls), len(set(calls)))  # once each
        taken = []
        with self.assertRaisesRegex(OSError, "batch 2 of epoch 2: RuntimeError: enough"):
            for batch in loader:
                taken.append(batch)
        self.assertEqual(len(taken), 2)

    def test_native(self):
        """A C function: ctypes' own memset, on an image."""
        for item in range(N):
            path = self.folder / "0" / ("%03d.png" % item)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes([7] * 12))

        @ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
        )
        def stage(context, told, sample, error):
            number = ctypes.cast(told, ctypes.POINTER(ctypes.c_uint64))[3]
            ctypes.memset(sample, number, 12)
            return 0

        address = ctypes.cast(stage, ctypes.c_void_p).value
        holder = type("Compiled", (), {"address": address})()
        image = Image(2, crop="none", format="raw", layout="HWC")
        for given in stage, address, holder:
            for item, _, sample, _ in self.rows(self.loader(image, stage=given)):
                self.assertEqual(set(sample.ravel()), {item})
        self.assertIsInstance(_load_stage.of(holder, "batch"), _load_stage._Native)

    def test_end(self):
        """An interpreter that ends while a loader works, ends."""
        self.write("txt", text)
        script = (
            "import sys\nfrom taut.load import *\n"
            "def stage(sample, item):\n    sum(range(20000))\n"
            "loader = Loader(%r, 3, transform=Text(8), stage=stage, arrays='numpy',\n"
            "                num_replicas=1, num_workers=3)\n"
            "batches = iter(loader)\nnext(batches)\nsys.kept = loader, batches\n"
        ) % str(self.folder)
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
        for _ in range(3):
            subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env=environment)

    def test_close(self):
        """Closed in the middle of stages."""
        self.write("txt", text)

        def busy(sample, item):
            sum(range(5000))

        loader = self.loader(Text(MOST), stage=busy)
        next(iter(loader))
        loader.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            len(loader)


if __name__ == "__main__":
    unittest.main()
