# SPDX-License-Identifier: Apache-2.0
"""A chain of torchvision's transforms as options of taut.load.Image, where both mean the
same: what is fixed gives the same numbers up to their rounding, what is random the same
distribution. Transforms are told by the module that has them; nothing is imported."""

import sys


class Unlike(Exception):
    """Why it is none that Taut has."""


_BILINEAR = "bilinear", 2  # v2 keeps what it was given, a word or Pillow's number
_TYPES = {"torch." + name: name for name in ("uint8", "float32", "float16", "bfloat16")}


def options_of(transform, first_size):
    """Of Image. first_size(): height and width of an image, for a chain that leaves sizes
    as they are."""
    chain = _Chain()
    chain.add(transform)
    return chain.options(first_size)


def _class_name(transform):
    """Of a class of torchvision's, and not of one that calls itself so."""
    cls = type(transform)
    module = cls.__module__
    known = module.startswith("torchvision.transforms.") and module in sys.modules
    if not known or getattr(sys.modules[module], cls.__name__, None) is not cls:
        raise Unlike("transform %s is not torchvision's own" % cls.__qualname__)
    return cls.__name__


def _sides(size):
    """(height, width), or one side."""
    sides = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if len(sides) not in (1, 2) or not all(isinstance(side, int) for side in sides):
        raise Unlike("size %r is not one that Taut has" % (size,))
    return sides


def _square(size):
    sides = _sides(size)
    return sides * 2 if len(sides) == 1 else sides


def _spread(what, pair, centre=1.0):
    """x, of a factor between max(0, centre - x) and centre + x."""
    if pair is None:
        return 0.0
    low, high = pair
    x = high - centre
    least = max(0.0, centre - x) if centre else -x
    if x < 0 or abs(low - least) > 1e-9:
        raise Unlike("ColorJitter's %s between %g and %g: Taut's is even around %g"
                     % (what, low, high, centre))  # fmt: skip
    return x


class _Chain:
    def __init__(self):
        self.found = {}  # options
        self.short_side = None  # of a resize that waits for its crop
        self.type = None  # as soon as it is a tensor
        self.is_normal = False

    def add(self, transform):
        name = _class_name(transform)
        step = getattr(self, "_" + name, None)
        if step is None:
            raise Unlike("transform %s is not one that Taut has" % name)
        step(transform)

    def options(self, first_size):
        if self.type is None:
            raise Unlike("the transform ends without a tensor")
        if self.short_side is not None:
            raise Unlike("Resize(%d) without CenterCrop leaves sizes unlike" % self.short_side)
        if "crop" not in self.found:
            self.found.update(crop="none", size=first_size())
        return dict(self.found, type=self.type, layout="CHW")

    # --- which part of the image, and its size ------------------------------------------

    def _shape(self, name, transform=None):
        """A step that changes the shape: before all that sees values."""
        if "crop" in self.found or (self.short_side is not None and name != "CenterCrop"):
            raise Unlike("%s after another crop or resize" % name)
        if "brightness" in self.found:
            raise Unlike("%s after ColorJitter" % name)
        if self.type not in (None, "uint8"):
            raise Unlike("%s of numbers that are no bytes any more" % name)
        if transform is None:
            return
        way = transform.interpolation
        if getattr(way, "value", way) not in _BILINEAR:
            raise Unlike("%s with interpolation %s: Taut's is bilinear" % (name, way))
        if self.type and transform.antialias is not True:
            raise Unlike("%s of tensors without antialias" % name)

    def _RandomResizedCrop(self, t):
        self._shape("RandomResizedCrop", t)
        self.found.update(
            crop="random", size=_square(t.size), scale=tuple(t.scale), ratio=tuple(t.ratio)
        )

    def _Resize(self, t):
        self._shape("Resize", t)
        if getattr(t, "max_size", None) is not None:
            raise Unlike("Resize with max_size")
        sides = _sides(t.size)
        if len(sides) == 2:
            self.found.update(crop="stretch", size=sides)
        else:
            self.short_side = sides[0]

    def _CenterCrop(self, t):
        self._shape("CenterCrop")
        if self.short_side is None:
            raise Unlike("CenterCrop without Resize to a shorter side")
        if "flip" in self.found:
            raise Unlike("RandomHorizontalFlip before CenterCrop")
        sides = _square(t.size)
        if self.short_side < max(sides):
            raise Unlike("CenterCrop(%s) pads what Resize(%d) leaves" % (sides, self.short_side))
        self.found.update(crop="centre", size=sides, short_side=self.short_side)
        self.short_side = None

    def _RandomHorizontalFlip(self, t):
        if "flip" in self.found:
            raise Unlike("RandomHorizontalFlip twice")
        self.found["flip"] = float(t.p)

    # --- values -------------------------------------------------------------------------

    def _ColorJitter(self, t):
        if "brightness" in self.found:
            raise Unlike("ColorJitter twice")
        if "crop" not in self.found:
            raise Unlike("ColorJitter before the crop or resize")
        if self.type not in (None, "uint8"):
            raise Unlike("ColorJitter of numbers that are no bytes any more")
        for what in "brightness", "contrast", "saturation":
            self.found[what] = _spread(what, getattr(t, what))
        self.found["hue"] = _spread("hue", t.hue, 0.0)

    def _tensor(self, name, type):
        if self.type is not None:
            raise Unlike("%s of a tensor" % name)
        self.type = type

    def _ToTensor(self, t):
        dtype = str(sys.modules["torch"].get_default_dtype())
        if dtype not in _TYPES:
            raise Unlike("ToTensor gives %s" % dtype)
        self._tensor("ToTensor", _TYPES[dtype])

    def _PILToTensor(self, t):
        self._tensor("PILToTensor", "uint8")

    def _ToImage(self, t):
        self._tensor("ToImage", "uint8")

    def _ToPureTensor(self, t):
        pass

    def _ConvertImageDtype(self, t):
        self._to("ConvertImageDtype", t.dtype)

    def _ToDtype(self, t):
        wanted = _TYPES.get(str(t.dtype))
        if wanted != self.type and not t.scale:
            raise Unlike("ToDtype without scale")
        self._to("ToDtype", t.dtype)

    def _to(self, name, dtype):
        wanted = _TYPES.get(str(dtype))
        if self.type is None or wanted is None:
            raise Unlike("%s(%s)" % (name, dtype))
        if wanted != self.type and (self.type != "uint8" or self.is_normal):
            raise Unlike("%s(%s) of %s" % (name, dtype, self.type))
        self.type = wanted

    def _Normalize(self, t):
        if self.type in (None, "uint8") or self.is_normal:
            raise Unlike("Normalize of bytes, or twice")
        for name, values in ("mean", t.mean), ("std", t.std):
            values = tuple(float(value) for value in values)
            if len(values) not in (1, 3) or (name == "std" and 0.0 in values):
                raise Unlike("Normalize with %s %s" % (name, values))
            self.found[name] = values * (3 // len(values))
        self.is_normal = True

    # --- several ------------------------------------------------------------------------

    def _Compose(self, t):
        for one in t.transforms:
            self.add(one)

    def _ImageClassification(self, t):
        """What torchvision's weights come with."""
        self._Resize(_Of(size=t.resize_size, interpolation=t.interpolation, antialias=t.antialias))
        self._CenterCrop(_Of(size=t.crop_size))
        if self.type is None:
            self.type = "uint8"
        self._to("ImageClassification", "torch.float32")
        self._Normalize(t)


class _Of:
    def __init__(self, **values):
        self.__dict__.update(values)
