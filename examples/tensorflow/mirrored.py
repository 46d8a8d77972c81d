#!/usr/bin/env python3
"""Trains a small network with Keras on every worker of TF_CONFIG
(MultiWorkerMirroredStrategy); knows nothing of Taut.

    taut record --steps 6:10 -- ./cluster.py --workers 2 mirrored.py

Needs tensorflow and tf_keras: Keras 3 refuses this strategy."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "14"))
WIDTH = int(os.environ.get("WIDTH", "512"))

tf.keras.utils.set_random_seed(1)
options = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CommunicationImplementation.RING)
strategy = tf.distribute.MultiWorkerMirroredStrategy(
    communication_options=options)


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1024, 256)).astype("float32")
    y = rng.integers(0, 10, size=1024)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(128)
    shard = tf.data.Options()
    shard.experimental_distribute.auto_shard_policy = \
        tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(shard)


with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(WIDTH, activation="relu"),
        tf.keras.layers.Dense(WIDTH, activation="relu"),
        tf.keras.layers.Dense(10),
    ])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss)

history = model.fit(data(), epochs=1, steps_per_epoch=STEPS, verbose=0)
print("loss %.4f" % history.history["loss"][0])
