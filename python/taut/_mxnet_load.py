# SPDX-License-Identifier: Apache-2.0
"""Batches of taut.load as an iterator of MXNet's."""

import mxnet as mx
import numpy as np

from . import _load, _load_arrays

_LAYOUTS = {"CHW": "NCHW", "HWC": "NHWC"}


class DataIter(mx.io.DataIter):
    """Of a loader, for Module.fit() and all that takes a DataIter. Data is the loader's own
    memory, without a copy; labels become label_type. All batches are full: the last one of an
    epoch has samples of its beginning behind its own, as many as pad says. reset() goes to
    the next epoch. The loader is the iterator's from then on."""

    def __init__(
        self, loader, data_name="data", label_name="softmax_label", label_type="float32"
    ):
        super().__init__(loader.batch_size)
        loader._arrays = _load_arrays.find("mxnet")
        self._loader, self._batches, self._batch = loader, None, None
        shape = loader._shape
        self._label_type = np.dtype(label_type)
        layout = loader._options.prepare.contents.layout
        self.provide_data = [
            mx.io.DataDesc(
                data_name,
                (loader.batch_size, *shape.dims),
                np.dtype(_load.NUMBERS[shape.type]),
                _LAYOUTS[_load.LAYOUTS[layout]] if len(tuple(shape.dims)) == 3 else "N",
            )
        ]
        self.provide_label = [
            mx.io.DataDesc(label_name, (loader.batch_size,), self._label_type, "N")
        ]

    def reset(self):
        if self._batches is not None:
            self._batches.close()
        self._batches = self._batch = None

    def iter_next(self):
        if self._batches is None:
            self._batches = iter(self._loader)
        self._batch = None  # given back before the next one is waited for
        parts = next(self._batches, None)
        if parts is None:
            return False
        data, labels, *more = parts
        pad = self.batch_size - data.shape[0]
        index = np.array(more[-1], "int64") if self._loader._items else None
        self._batch = (
            self._full(data, pad),
            self._full(labels, pad).astype(self._label_type),
            pad,
            index,
        )
        return True

    def _full(self, array, pad):
        if not pad:
            return array
        n = array.shape[0]
        if not n:  # this rank has no item in the last batch
            return mx.nd.zeros((pad, *array.shape[1:]), dtype=array.dtype)
        full = mx.nd.empty((n + pad, *array.shape[1:]), dtype=array.dtype)
        for begin in range(0, n + pad, n):
            end = min(begin + n, n + pad)
            full[begin:end] = array[: end - begin]
        return full

    def next(self):
        if not self.iter_next():
            raise StopIteration
        return mx.io.DataBatch(
            data=self.getdata(),
            label=self.getlabel(),
            pad=self.getpad(),
            index=self.getindex(),
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )

    def getdata(self):
        return [self._batch[0]]

    def getlabel(self):
        return [self._batch[1]]

    def getpad(self):
        return self._batch[2]

    def getindex(self):
        return self._batch[3]
