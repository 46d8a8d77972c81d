# SPDX-License-Identifier: Apache-2.0
"""Batches of taut.load as a tf.data.Dataset."""

import tensorflow as tf

from . import _load, _load_arrays


class _Arrays(_load_arrays.Numpy):
    """NumPy's, of all types that TensorFlow has."""

    def lend(self, batch, part, shape):
        if part or _load.NUMBERS[shape.type] != "bfloat16":
            return super().lend(batch, part, shape)
        is_ = batch.contents
        words = _load._Owner(batch, is_.data, (is_.count, *shape.dims), "<u2")
        return self._numpy.asarray(words).view(tf.bfloat16.as_numpy_dtype)


def dataset(loader):
    """A tf.data.Dataset of loader's batches; each pass over it is the loader's next epoch, and
    one pass is under way at a time. The loader is the data set's from then on.

    Tensors are the loader's own memory, without a copy, as long as the job and tf.data hold
    fewer batches than there are slots (tf.data holds two or three: prefetch_factor=4). What
    tf.data has taken counts as taken in state_dict(): put no prefetch() behind it where it is
    to be resumed in the middle of an epoch. Call load_state_dict() before dataset(), which
    says how many batches an epoch has but for one that is resumed."""
    loader._arrays = _Arrays()
    shape = loader._shape
    # Batches are of one size where nothing is left over and nothing left out.
    is_full = loader._options.tail == _load.TAILS.index("drop") and not loader._options.max_skipped
    n = loader.batch_size if is_full and loader._sampler is None else None
    kind = getattr(tf, _load.NUMBERS[shape.type])
    columns = tf.TensorSpec((n,), tf.int64)
    data = tf.TensorSpec((n, *shape.dims), kind)
    n_columns = 1 + bool(shape.varies) + bool(loader._items)
    made = tf.data.Dataset.from_generator(
        lambda: loader, output_signature=(data, *[columns] * n_columns)
    )
    if not loader._is_resumed:
        made = made.apply(tf.data.experimental.assert_cardinality(len(loader)))
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return made.with_options(options)
