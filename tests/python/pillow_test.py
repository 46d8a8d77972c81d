#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What taut.load makes of PNG and JPEG files is what Pillow makes of them, bit for bit, in
u8: Image.resize() with BILINEAR of all of it (STRETCH), and that followed by the crop in the
middle (CENTRE). TAUT_LIB names the library.

Pillow resizes rows first, and then columns. From version 13 on it takes columns first where
it expects less work of that, and rounds to 8 bits after them; so here its two passes are
asked for one by one, which all versions round alike."""

import os
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

if "TAUT_LIB" not in os.environ:
    print("no libtaut.so that a plain interpreter can load: skipped")
    sys.exit(77)
ROOT = pathlib.Path(__file__).resolve().parents[2]
try:
    import numpy
    from PIL import Image as Pillow
except ImportError:
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from frameworks import find_python

    other = find_python("torch")  # tools/ensure-python puts Pillow beside it
    if other and "TAUT_PILLOW_TEST" not in os.environ:
        os.environ["TAUT_PILLOW_TEST"] = "elsewhere"
        os.execv(other, [other, __file__, *sys.argv[1:]])
    print("no Pillow or no numpy: skipped")
    sys.exit(77)

sys.path.insert(0, str(ROOT / "python"))

from taut.load import Image, Loader  # noqa: E402

# Width and height: larger and smaller than the output, odd, long, a single pixel.
SIZES = (
    (500, 375),
    (375, 500),
    (224, 224),
    (64, 48),
    (33, 401),
    (700, 9),
    (1, 1),
    (3, 2),
    (255, 257),
    (1200, 900),
)
OUTPUTS = (224, 64, 17, 3)


def picture(size, seed):
    """Slopes, an edge and noise."""
    width, height = size
    noise = numpy.random.default_rng(seed).integers(0, 60, (height, width, 3))
    y, x = numpy.mgrid[:height, :width]
    slopes = numpy.stack([x * 190 // width, y * 190 // height, (x + y) % 190], axis=2)
    slopes[(x + y) % 97 < 11] = 190
    return Pillow.fromarray((slopes + noise).astype("u1"))


def stretched(picture, width, height):
    for size in (width, picture.height), (width, height):
        picture = picture.resize(
            size,
            Pillow.Resampling.BILINEAR,
            box=(0, 0, picture.width, picture.height),
            reducing_gap=None,
        )
    return picture


def centred(picture, side, short):
    least = min(picture.size)
    width, height = (short * n // least for n in picture.size)
    left, top = (round((n - side) / 2) for n in (width, height))
    picture = stretched(picture, width, height)
    return picture.crop((left, top, left + side, top + side))


class Pixels(unittest.TestCase):
    def folder(self, suffix, **options):
        """The same pictures in a folder for each test, as they are read from there."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "all").mkdir()
        paths = [folder / "all" / ("%02d.%s" % (i, suffix)) for i in range(len(SIZES))]
        for i, path in enumerate(paths):
            picture(SIZES[i], i).save(path, **options)
        return folder, [Pillow.open(path).convert("RGB") for path in paths]

    def check(self, folder, expected, **how):
        for layout in "HWC", "CHW":
            loader = Loader(
                str(folder),
                transform=Image(layout=layout, **how),
                batch_size=4,
                num_workers=2,
                num_replicas=1,
                arrays="numpy",
                items=True,
            )
            seen = []
            for data, _labels, items in loader:
                for got, item in zip(data, items):
                    wanted = numpy.asarray(expected[item])
                    if layout == "CHW":
                        wanted = wanted.transpose(2, 0, 1)
                    self.assertEqual(got.dtype, numpy.uint8)
                    numpy.testing.assert_array_equal(got, wanted, str((SIZES[item], how)))
                    seen.append(item)
            self.assertEqual(sorted(seen), list(range(len(SIZES))))
            loader.close()

    def stretch(self, folder, pictures, size):
        height, width = size
        wanted = [stretched(one, width, height) for one in pictures]
        self.check(folder, wanted, crop="stretch", size=size)

    def test_stretch(self):
        folder, pictures = self.folder("png")
        for side in OUTPUTS:
            self.stretch(folder, pictures, (side, side))
        dice = random.Random(1)
        for _ in range(8):
            self.stretch(folder, pictures, (dice.randint(1, 300), dice.randint(1, 300)))

    def test_centre(self):
        folder, pictures = self.folder("png")
        for side in OUTPUTS:
            short = side * 8 // 7
            wanted = [centred(one, side, short) for one in pictures]
            self.check(folder, wanted, crop="centre", size=side)

    def test_jpeg(self):
        """Where Pillow has a libjpeg that decodes as ours does; else only the decoders
        differ, of which test_stretch says nothing."""
        folder, pictures = self.folder("jpg", quality=90)
        for item, one in enumerate(pictures):
            loader = Loader(
                str(folder),
                transform=Image(layout="HWC", crop="stretch", size=one.size[::-1]),
                batch_size=len(SIZES),
                num_replicas=1,
                arrays="numpy",
            )
            data = next(iter(loader))[0][item]
            self.assertEqual(data.shape, numpy.asarray(one).shape)
            off = numpy.abs(data.astype(int) - numpy.asarray(one)).max()
            if off:
                self.skipTest("Pillow's libjpeg decodes %s otherwise, by %d" % (SIZES[item], off))
            loader.close()
        self.stretch(folder, pictures, (224, 224))


if __name__ == "__main__":
    unittest.main()
