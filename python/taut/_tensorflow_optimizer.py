# SPDX-License-Identifier: Apache-2.0
"""What gives gradients to the sums: optimizers of Keras 3, and tapes."""

import keras
import tensorflow as tf

from . import _reductions, _tensorflow_sums


class NoneCompressor:
    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, context):
        return tensor


class FP16Compressor:
    @staticmethod
    def compress(tensor):
        """The tensor to be summed, and what decompress() needs."""
        if tensor.dtype in (tf.float32, tf.float64):
            return tf.cast(tensor, tf.float16), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor, context):
        return tensor if context is None else tf.cast(tensor, context)


class Compression:
    none = NoneCompressor
    fp16 = FP16Compressor


class How:
    """How gradients are summed: the options of optimizers and tapes."""

    def __init__(self, find, op, compression, predivide, sparse_as_dense):
        self.find = find  # gives the Sums of the job
        self.op = _reductions.of(op)
        self.compression, self.predivide = compression, predivide
        self.sparse_as_dense = sparse_as_dense
        _reductions.factors(self.op, predivide, 1)  # ValueError now, not in a step

    def sum(self, gradients, sources):
        """The same structure; None stays None, on all ranks alike."""
        sums = self.find()
        if sums.job.size == 1:
            return list(gradients)
        factor, after = _reductions.factors(self.op, self.predivide, sums.job.size)
        summed = [self.dense(*both) for both in zip(gradients, sources, strict=True)]
        parts, contexts, places = [], [], []
        for i, (gradient, source) in enumerate(zip(summed, sources)):
            if gradient is None:
                continue
            tensor, context = self.compression.compress(gradient)
            shape = _shape(tensor, source)
            _tensorflow_sums.check_kind(tensor.dtype.name)
            if shape.num_elements():
                parts.append(_tensorflow_sums.Part(_key(source, i), tensor, shape))
                contexts.append(context)
                places.append(i)
        if parts:
            for i, context, tensor in zip(places, contexts, sums.sum(parts, factor, after)):
                summed[i] = self.compression.decompress(tensor, context)
        return summed

    def dense(self, gradient, source):
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self.sparse_as_dense:
            raise ValueError(
                "the gradient of %s is sparse (IndexedSlices): sparse_as_dense=True sums it "
                "as a dense one" % getattr(source, "name", "a tensor")
            )
        return tf.convert_to_tensor(gradient)


def _shape(tensor, source):
    shape = tensor.shape
    if not shape.is_fully_defined():
        shape = tf.TensorShape(source.shape)
    if not shape.is_fully_defined():
        raise ValueError(
            "the gradient of %s has no shape that is known before it is computed"
            % getattr(source, "name", "a tensor")
        )
    return shape


def _key(source, place):
    """The same for all gradients of a variable."""
    if isinstance(source, keras.Variable):
        source = source.value
    return getattr(source, "_unique_id", None) if isinstance(source, tf.Variable) else place


# --- optimizers ---------------------------------------------------------------------------


def _apply(base, how):
    def apply(self, grads, trainable_variables=None):
        if tf.distribute.has_strategy():
            raise RuntimeError("a job of Taut's has no tf.distribute strategy")
        grads = list(grads)
        if trainable_variables is None:
            variables = self._trainable_variables
        else:
            variables = trainable_variables = list(trainable_variables)
        return base.apply(self, how.sum(grads, variables), trainable_variables)

    return apply


def _set(base):
    def __setattr__(self, name, value):
        """A LossScaleOptimizer sets this of the one that is put into it. Each rank
        would then look for overflows in its own gradients, and leave out steps alone."""
        if name == "loss_scale_factor":
            raise ValueError(
                "%s is distributed already: expected DistributedOptimizer(LossScaleOptimizer(...))"
                ", found the other way round; compile() does so for mixed_float16" % base.__name__
            )
        base.__setattr__(self, name, value)

    return __setattr__


def distribute(optimizer, how):
    """The optimizer itself, whose apply() sums first. Its class is a new one of the
    same name, so that it is saved and loaded as what it was."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError("expected Keras over TensorFlow, found %s" % keras.backend.backend())
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError("expected an optimizer of Keras 3, found %s" % type(optimizer).__name__)
    base = type(optimizer)
    if getattr(base, "_taut_distributed", False):
        raise ValueError("this optimizer is distributed already")
    body = {
        "apply": _apply(base, how),
        "__setattr__": _set(base),
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "_taut_distributed": True,
    }
    optimizer.__class__ = type(base.__name__, (base,), body)
    return optimizer


# --- tapes --------------------------------------------------------------------------------


class Tape:
    """A tf.GradientTape whose gradient() is that of all ranks."""

    def __init__(self, tape, how):
        self._tape, self._how = tape, how

    def __enter__(self):
        self._tape.__enter__()
        return self

    def __exit__(self, *exception):
        return self._tape.__exit__(*exception)

    def __getattr__(self, name):
        return getattr(self._tape, name)

    def gradient(self, target, sources, *arguments, **options):
        gradients = self._tape.gradient(target, sources, *arguments, **options)
        flat = tf.nest.flatten(gradients)
        summed = self._how.sum(flat, tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(gradients, summed)
