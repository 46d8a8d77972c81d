# SPDX-License-Identifier: Apache-2.0
"""Callbacks of Keras' fit(), by the names that Horovod's users know."""

import keras
import numpy as np

from . import _job


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """All ranks begin with the model and the optimizer of root_rank: before the first
    step, or after it where the model is not built before."""

    def __init__(self, root_rank=0, device=""):
        super().__init__()
        self.root_rank, self.is_done = root_rank, False

    def broadcast(self):
        from . import tensorflow

        variables = list(self.model.weights)  # seeds of dropout stay each rank's own
        optimizer = getattr(self.model, "optimizer", None)
        known = {id(v) for v in variables}
        if optimizer is not None:
            if not optimizer.built:  # that of a rank which read a checkpoint is
                optimizer.build(self.model.trainable_variables)
            variables += [v for v in optimizer.variables if id(v) not in known]
        tensorflow.broadcast_variables(variables, root_rank=self.root_rank)
        self.is_done = True

    def on_train_begin(self, logs=None):
        if not self.is_done and self.model.built:
            self.broadcast()

    def on_train_batch_end(self, batch, logs=None):
        if not self.is_done:
            self.broadcast()


class MetricAverageCallback(keras.callbacks.Callback):
    """At the end of an epoch, metrics are the means over all ranks, for the callbacks
    that come after this one."""

    def __init__(self, device=""):
        super().__init__()

    def on_epoch_end(self, epoch, logs=None):
        if not logs:
            return
        job = _job.get()
        names = sorted(name for name in logs if np.ndim(logs[name]) == 0)
        values = np.array([float(logs[name]) for name in names], np.float64)
        job.allreduce(values)
        for name, value in zip(names, values / job.size):
            logs[name] = float(value)
