#!/usr/bin/env python3
"""Trains a small network on workers that keep it on parameter servers
(ParameterServerStrategy); knows nothing of Taut. Every task of TF_CONFIG runs
it; the chief leads.

    taut record --steps 8:14 -- ./cluster.py --workers 2 --servers 2 server.py
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "24"))
WIDTH = int(os.environ.get("WIDTH", "512"))
FEATURES, CLASSES, BATCH = 256, 10, 64


def serve(resolver):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type,
        task_index=resolver.task_id, protocol=resolver.rpc_layer or "grpc",
        start=True)
    server.join()


def batches(context=None):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1024, FEATURES)).astype("float32")
    y = rng.integers(0, CLASSES, size=1024)
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(BATCH)


def variables():
    """Each is cut in two, one part on every server."""
    shapes = [(FEATURES, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES)]
    return [tf.Variable(tf.random.stateless_normal(shape, [i, 1]) * 0.05)
            for i, shape in enumerate(shapes)]


def main():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
        return
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=tf.distribute.experimental.partitioners
        .FixedShardsPartitioner(2))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = variables()

    def replica(x, y):
        with tf.GradientTape() as tape:
            for w in weights[:-1]:
                x = tf.nn.relu(tf.matmul(x, tf.convert_to_tensor(w)))
            logits = tf.matmul(x, tf.convert_to_tensor(weights[-1]))
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        parts = [part for w in weights for part in w.variables]
        for part, grad in zip(parts, tape.gradient(loss, parts)):
            part.assign_sub(0.1 * grad)
        return loss

    @tf.function
    def step(iterator):
        x, y = next(iterator)
        return strategy.run(replica, args=(x, y))

    per_worker = coordinator.create_per_worker_dataset(
        lambda: strategy.distribute_datasets_from_function(batches))
    iterator = iter(per_worker)
    losses = [coordinator.schedule(step, args=(iterator,))
              for _ in range(STEPS)]
    coordinator.join()
    print("loss %.4f" % losses[-1].fetch())


main()
