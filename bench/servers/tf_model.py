# SPDX-License-Identifier: Apache-2.0
"""The VGG-like model of bench/lab/models.py in TensorFlow's own operations, so that its
variables may lie anywhere, and in pieces: the same layers, the same bytes."""

import tensorflow as tf

BATCH, IMAGE, CLASSES = 24, 32, 100
CONVOLUTIONS = (32, "pool", 64, 64, "pool", 128, 128, "pool", 256, 256, "pool")
DENSE = (2560, 1280, CLASSES)
RATE, MOMENTUM = 0.01, 0.9


def shapes():
    """Of each layer: its weights, and its biases."""
    found, before = [], 3
    for width in CONVOLUTIONS:
        if width != "pool":
            found += [(3, 3, before, width), (width,)]
            before = width
    before *= (IMAGE // 2 ** CONVOLUTIONS.count("pool")) ** 2
    for width in DENSE:
        found += [(before, width), (width,)]
        before = width
    return found


def variables():
    """Of the model, each in the pieces that the strategy makes of its rows: a list of
    lists."""
    made = []
    for shape in shapes():
        spread = 0.1 if len(shape) == 1 else 0.05
        variable = tf.Variable(tf.random.stateless_normal(shape, (1, len(made)), stddev=spread))
        made.append(list(getattr(variable, "variables", [variable])))
    return made


def speeds(pieces):
    """Of each piece, what the optimizer keeps; beside it."""
    found = []
    for some in pieces:
        for piece in some:
            with tf.device(piece.device):
                found.append(tf.Variable(tf.zeros(piece.shape), trainable=False))
    return found


def batch():
    """Made where it is used: it goes over no link."""
    x = tf.fill((BATCH, IMAGE, IMAGE, 3), 0.5)
    return x, tf.range(BATCH) % CLASSES


def loss_of(pieces, x, y):
    whole = [some[0] if len(some) == 1 else tf.concat([tf.convert_to_tensor(p) for p in some], 0) for some in pieces]
    rows = iter(whole)
    for width in CONVOLUTIONS:
        if width == "pool":
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        else:
            x = tf.nn.relu(tf.nn.conv2d(x, next(rows), 1, "SAME") + next(rows))
    x = tf.reshape(x, (BATCH, -1))
    for width in DENSE:
        x = tf.matmul(x, next(rows)) + next(rows)
        if width != CLASSES:
            x = tf.nn.relu(x)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x))


def gradients(tape_of, pieces):
    """tape_of(tape): the tape that is asked for gradients."""
    x, y = batch()
    flat = [piece for some in pieces for piece in some]
    with tf.GradientTape() as tape:
        loss = loss_of(pieces, x, y)
    return loss, tape_of(tape).gradient(loss, flat), flat


def apply(flat, found, kept):
    """SGD with momentum, in one operation for each piece, where the piece lies."""
    for piece, gradient, speed in zip(flat, found, kept):
        with tf.device(piece.device):
            tf.raw_ops.ResourceApplyMomentum(
                var=piece.handle, accum=speed.handle, lr=RATE, grad=gradient,
                momentum=MOMENTUM, use_locking=False,
            )
