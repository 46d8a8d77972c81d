# SPDX-License-Identifier: Apache-2.0
"""A folder of raw pictures, whose bytes a formula gives: two classes, the second darker."""

import pathlib
import tempfile

from taut.load import Image, Loader

N, SIDE = 50, 4


def pixels(item):
    base = 0 if item < N // 2 else 128
    return bytes(base + (item * 7 + k) % 128 for k in range(SIDE * SIDE * 3))


def label(item):
    return 0 if item < N // 2 else 1


def folder():
    made = tempfile.mkdtemp()
    for item in range(N):
        path = pathlib.Path(made, "c%d" % label(item), "%03d.png" % item)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pixels(item))
    return made


def loader(path, **options):
    image = {"size": SIDE, "crop": "none", "format": "raw", "layout": "HWC"}
    image.update(options.pop("image", {}))
    options.setdefault("num_workers", 2)
    options.setdefault("prefetch_factor", 4)
    return Loader(path, transform=Image(**image), items=True, **options)


def check(data, labels, items):
    """NumPy's arrays of a batch in u8; the items, as a list."""
    items = [int(item) for item in items]
    assert data.shape == (len(items), SIDE, SIDE, 3), data.shape
    for row, item in zip(data, items):
        assert row.tobytes() == pixels(item)
    assert [int(one) for one in labels] == [label(item) for item in items]
    return items
