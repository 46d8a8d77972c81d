# SPDX-License-Identifier: Apache-2.0
"""A task of a job of tf.distribute's ParameterServerStrategy, as TF_CONFIG says; the
chief does steps as blocks.py tells, each a closure that one of the workers runs,
and answers with the seconds in which each worker has done one.

    tf_strategy.py none|fixed|min    how variables are cut over the servers: whole, in
                                     as many pieces as there are servers, in pieces of
                                     at least 256 KiB"""

import os
import sys
import time

import blocks
import tensorflow as tf
import tf_model


THREADS = 8  # on a host of one core TensorFlow has one, which waits for itself


def partitioner(name, n_servers):
    of = tf.distribute.experimental.partitioners
    return {
        "none": lambda: None,
        "fixed": lambda: of.FixedShardsPartitioner(n_servers),
        "min": lambda: of.MinSizePartitioner(256 << 10, n_servers),
    }[name]()


def serve(resolver):
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=THREADS)
    server = tf.distribute.Server(
        resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc",
        config=config,
    )  # fmt: skip
    server.join()


def lead(resolver, how):
    tasks = resolver.cluster_spec()
    n_workers, n_servers = tasks.num_tasks("worker"), tasks.num_tasks("ps")
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=partitioner(how, n_servers)
    )
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        pieces = tf_model.variables()
    kept = tf_model.speeds(pieces)

    @tf.function
    def step():
        loss, found, flat = tf_model.gradients(lambda tape: tape, pieces)
        tf_model.apply(flat, found, kept)
        return loss

    def run(rounds):
        begin = time.perf_counter()
        for _ in range(rounds * n_workers):
            coordinator.schedule(step)
        coordinator.join()
        return (time.perf_counter() - begin) / rounds

    run(2)
    blocks.tell(gradient_bytes=0, engine="tf.distribute")
    for block in blocks.told():
        rounds = block["steps"]
        run(1)  # what is under way at the begin and the end is a part of a few steps
        blocks.tell(seconds=[run(rounds)])
    os._exit(0)


def main():
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        lead(resolver, sys.argv[1])
    else:
        serve(resolver)


if __name__ == "__main__":
    main()
