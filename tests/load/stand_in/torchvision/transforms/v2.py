# SPDX-License-Identifier: Apache-2.0
"""On Pillow's images; ToImage() gives a tensor, which only ToDtype and Normalize take."""

from . import transforms as v1


class Compose(v1.Compose):
    pass


class Resize(v1.Resize):
    def __init__(self, size, interpolation="bilinear", max_size=None, antialias=True):
        size = [size] if isinstance(size, int) else size
        super().__init__(size, interpolation, max_size, antialias)


class CenterCrop(v1.CenterCrop):
    pass


class RandomResizedCrop(v1.RandomResizedCrop):
    pass


class RandomHorizontalFlip(v1.RandomHorizontalFlip):
    pass


class ColorJitter(v1.ColorJitter):
    pass


class ToImage(v1.PILToTensor):
    pass


class ToDtype(v1.ConvertImageDtype):
    def __init__(self, dtype, scale=False):
        super().__init__(dtype)
        self.scale = scale


class Normalize(v1.Normalize):
    pass
