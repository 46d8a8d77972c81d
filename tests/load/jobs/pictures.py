# SPDX-License-Identifier: Apache-2.0
"""Folders of pictures, a folder a class."""

import os

import numpy
from PIL import Image

CLASSES = "ant", "bee", "cat"


def picture(size, seed):
    """Slopes, an edge and noise."""
    width, height = size
    noise = numpy.random.default_rng(seed).integers(0, 60, (height, width, 3))
    y, x = numpy.mgrid[:height, :width]
    slopes = numpy.stack([x * 190 // width, y * 190 // height, (x + y) % 190], axis=2)
    return Image.fromarray((slopes + noise).astype("u1"))


def make(root, n, suffix="png", size=None):
    """n of them, of sizes of their own where none is given."""
    sizes = numpy.random.default_rng(n).integers(40, 130, (n, 2))
    for i in range(n):
        folder = os.path.join(root, CLASSES[i * len(CLASSES) // n])
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "%03d.%s" % (i, suffix))
        picture(size or tuple(map(int, sizes[i])), i).save(path)
    return str(root)
