# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 2 jobs whose gradients Taut sums, in the form that Horovod's users know:

    import taut.tensorflow as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size()))

docs/frameworks.md has what is there, and what is not."""

import numpy as np
import tensorflow as tf

from . import _job, _reductions, _tensorflow_optimizer, _tensorflow_sums
from . import _tensorflow_callbacks as callbacks  # noqa: F401
from ._job import counts, local_rank, local_size, rank, size  # noqa: F401
from ._reductions import Average, Max, Min, Product, Sum  # noqa: F401
from ._tensorflow_load import dataset  # noqa: F401
from ._tensorflow_optimizer import Compression

_sums = []  # of the job of this process


def init(lost_after=10.0):
    """Meets the other ranks, as the launcher's environment says; docs/frameworks.md
    has how. lost_after: seconds after which a rank that says nothing is lost."""
    job = _job.start(lost_after, "tensorflow")
    if not _sums or _sums[0].job is not job:
        _sums[:] = [_tensorflow_sums.Sums(job)]


def shutdown():
    """Ends this rank's part. At exit it is done anyhow."""
    _sums.clear()
    _job.stop()


def is_initialized():
    return bool(_sums) and _job.has_started()


def _find():
    job = _job.get()
    if not _sums or _sums[0].job is not job:
        init()  # the job is another framework's
    return _sums[0]


# --- optimizers and tapes ---------------------------------------------------------------


def _how(compression, sparse_as_dense, op, predivide, passes):
    if passes != 1:
        raise ValueError(
            "backward_passes_per_step=%r: expected 1; gradient_accumulation_steps of a Keras "
            "optimizer accumulates" % (passes,)
        )
    return _tensorflow_optimizer.How(_find, op, compression, predivide, sparse_as_dense)


def DistributedOptimizer(
    optimizer,
    name=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    backward_passes_per_step=1,
    op=Average,
    gradient_predivide_factor=1.0,
):
    """The optimizer of Keras, changed: apply() and apply_gradients() sum the gradients
    over all ranks first. name and the devices are there for Horovod's callers."""
    how = _how(
        compression, sparse_as_dense, op, gradient_predivide_factor, backward_passes_per_step
    )
    return _tensorflow_optimizer.distribute(optimizer, how)


def DistributedGradientTape(
    gradtape,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    op=Average,
    gradient_predivide_factor=1.0,
    backward_passes_per_step=1,
):
    """A tape like gradtape, whose gradient() gives sums over all ranks. For one
    variable use a distributed tape or a distributed optimizer, not both."""
    how = _how(
        compression, sparse_as_dense, op, gradient_predivide_factor, backward_passes_per_step
    )
    return _tensorflow_optimizer.Tape(gradtape, how)


# --- collectives ------------------------------------------------------------------------


def _reduce(array, op, before, after):
    job = _job.get()
    scales = op is Average or before != 1.0 or after != 1.0
    if scales and not np.issubdtype(array.dtype, np.inexact):
        if array.dtype.name != "bfloat16":
            raise TypeError("there is no %r and no factor of %s" % (op, array.dtype.name))
    scale = array.dtype.type
    if before != 1.0:
        np.multiply(array, scale(before), out=array)
    job.allreduce(array, op.reduction)
    if op is Average:
        np.divide(array, scale(job.size), out=array)
    if after != 1.0:
        np.multiply(array, scale(after), out=array)
    return array


def allreduce(
    tensor,
    average=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    name=None,
):
    """On every rank the same: the mean of all ranks' tensors, or what op says. In a
    function too, and with a gradient: the allreduce of what comes back."""
    op = _reductions.of(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        raise TypeError("allreduce() has no sums of IndexedSlices")

    @tf.custom_gradient
    def reduced(value):
        sent, context = compression.compress(value)
        (result,) = _find().collective(
            lambda array: [_reduce(array, op, prescale_factor, postscale_factor)],
            [sent],
            [sent.dtype],
        )
        result.set_shape(sent.shape)

        def gradient(upstream):
            if op not in (Average, Sum):
                raise LookupError("allreduce() has no gradient of %r" % op)
            return allreduce(
                upstream,
                op=op,
                prescale_factor=prescale_factor,
                postscale_factor=postscale_factor,
            )

        return compression.decompress(result, context), gradient

    return reduced(tf.convert_to_tensor(tensor))


def grouped_allreduce(tensors, average=None, op=None, compression=Compression.none):
    return [allreduce(t, average, op=op, compression=compression) for t in tensors]


def _one(tensor, function, shape):
    """function of the tensor's array; it has no gradient, and says so."""

    @tf.custom_gradient
    def given(value):
        (result,) = _find().collective(lambda a: [function(a)], [value], [value.dtype])
        result.set_shape(shape(value.shape))

        def gradient(upstream):
            raise LookupError("there is no gradient of this collective")

        return result, gradient

    return given(tf.convert_to_tensor(tensor))


def allgather(tensor, name=None):
    """All ranks' tensors, one after another; they may differ in their first size."""
    return _one(
        tensor, lambda a: _job.get().allgather(a), lambda s: tf.TensorShape([None]) + s[1:]
    )


def broadcast(tensor, root_rank, name=None):
    return _one(tensor, lambda a: _job.get().broadcast(a, root_rank), lambda s: s)


def broadcast_variables(variables, root_rank, inplace=False):
    """Each gets the value that it has on root_rank. inplace is there for Horovod's
    callers."""
    variables = list(variables)
    tensors = [tf.convert_to_tensor(v) for v in variables]

    def all_of_them(*arrays):
        return [_job.get().broadcast(array, root_rank) for array in arrays]

    if variables:
        results = _find().collective(all_of_them, tensors, [t.dtype for t in tensors])
        for variable, tensor, result in zip(variables, tensors, results):
            result.set_shape(tensor.shape)
            variable.assign(result)


def broadcast_object(obj, root_rank=0, name=None):
    """What root_rank gives, on every rank. It is pickled."""
    return _job.get().broadcast_object(obj, root_rank)


def allgather_object(obj, name=None):
    return _job.get().allgather_object(obj)


def barrier():
    """Until all ranks are here. Eagerly."""
    _job.get().barrier()
