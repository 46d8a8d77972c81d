# SPDX-License-Identifier: Apache-2.0
"""What is done to items that are no images: taut.load has these by name, taut/prepare.h the
rules. What is not allowed is told when they are made."""

import ctypes

from . import _load


def _check(options):
    """The stage that Custom needs is the loader's."""
    alone = _load.PrepareOptions.from_buffer_copy(options)
    if alone.kind == _load.KINDS.index("own"):
        alone.kind = _load.KINDS.index("tensor")
        alone.format = b"raw"
    _load.call("taut_prepare_check", ctypes.byref(alone))


class _Kind:
    def __init__(self, kind, extensions, **options):
        self.extensions = extensions
        self._options = _load.PrepareOptions(kind=_load.KINDS.index(kind), **options)
        _check(self._options)


def _dims(shape):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(shape) > _load.MOST_DIMS or any(n < 1 for n in shape):
        raise ValueError("shape %r: expected at most 8 dimensions, each at least 1" % (shape,))
    return {"n_dims": len(shape), "dims": shape}


def _type(name):
    return _load.index_of(name, _load.NUMBERS, "type")


class Tensor(_Kind):
    """Numbers as they are. Items are files of .npy (little-endian, in the order of C), or,
    with raw, nothing but the numbers.

    shape, type: of all items; None: those of the first one, of .npy alone. most: the first
    dimension varies: shape is that of a row, and a sample has so many rows; of more, `cut`
    says which ("beginning", "random", "centre", "end"), behind fewer are zeros. Batches are
    then data, labels, lengths. extensions: of the files; None: "npy", or "bin raw"."""

    def __init__(
        self, shape=None, type=None, raw=False, most=None, cut="beginning", extensions=None
    ):
        if (shape is None) != (type is None):
            raise ValueError("shape and type: expected both, or neither")
        if shape is None and raw:
            raise ValueError("raw: expected shape and type: such items do not tell them")
        rows = () if most is None else (most,)
        given = {}
        if shape is not None:
            shape = (shape,) if isinstance(shape, int) else tuple(shape)
            given = dict(_dims(rows + shape), type=_type(type))
        elif rows:
            given = _dims(rows)
        super().__init__(
            "tensor",
            extensions or ("bin raw" if raw else "npy"),
            format=b"raw" if raw else b"npy",
            varies=most is not None,
            as_first=shape is None,
            cut=_load.index_of(cut, _load.CUTS, "cut"),
            **given,
        )


class Text(_Kind):
    """Bytes of a text, or numbers of its tokens (type="int32", little-endian, as
    array.tofile() writes them): a sample is the first `most` of them, or those that `cut`
    says; behind fewer are zeros. Batches are data, labels, lengths. A cut may fall within a
    character. extensions: of the files; None: "txt text", of tokens "bin"."""

    def __init__(self, most, type="uint8", cut="beginning", extensions=None):
        super().__init__(
            "tensor",
            extensions or ("txt text" if type == "uint8" else "bin"),
            format=b"raw",
            varies=True,
            type=_type(type),
            cut=_load.index_of(cut, _load.CUTS, "cut"),
            **_dims(most),
        )


class Audio(_Kind):
    """Sound, as float32 with full scale 1: WAV, FLAC, OGG and what else libsndfile reads.
    Batches are data, labels, lengths: so many samples were there, behind them are zeros.

    samples: of each channel. rate: a second; items of another are resampled by libsoxr; None:
    none is. channels: None: their mean, and no dimension for them; else so many, of items
    that have as many, or one, which is repeated. cut: "random", "centre", "beginning" or
    "end": only that piece is decoded. channels_last: [samples, channels]."""

    def __init__(
        self,
        samples,
        rate=None,
        channels=None,
        cut="random",
        channels_last=False,
        extensions="wav flac ogg oga opus mp3 aif aiff aifc au caf w64",
    ):
        for name, value in ("samples", samples), ("rate", rate), ("channels", channels):
            if value is not None and not 1 <= value < 2**32:
                raise ValueError("%s %r: expected at least 1" % (name, value))
        super().__init__(
            "audio",
            extensions,
            samples=samples,
            rate=rate or 0,
            channels=channels or 0,
            cut=_load.index_of(cut, _load.CUTS, "cut"),
            layout=_load.LAYOUTS.index("HWC" if channels_last else "CHW"),
        )


class Custom(_Kind):
    """What the Loader's stage makes of an item's bytes: shape and type of a sample, which it
    finds zeroed. varies: shape[0] is the most, the stage sets item.length, and batches are
    data, labels, lengths."""

    def __init__(self, shape, type="float32", varies=False, extensions=None):
        super().__init__("own", extensions, type=_type(type), varies=varies, **_dims(shape))
