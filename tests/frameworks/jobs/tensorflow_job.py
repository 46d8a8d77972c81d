# SPDX-License-Identifier: Apache-2.0
"""One rank of a TensorFlow job: the programs that are named, one after another. What
they train is compared with a plain loop in this process, which computes the gradients
of all ranks and adds them in the order of the ranks."""

import os
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

import taut.tensorflow as hvd

STEPS = 4
BATCH = 8


def model(seed=0, dtype="float32"):
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dense(8, "tanh"), keras.layers.Dense(2)]
    made = keras.Sequential([keras.layers.Input((6,), dtype=dtype), *layers])
    rng = np.random.default_rng(seed)
    for v in made.trainable_variables:
        v.assign(rng.standard_normal(v.shape).astype(dtype) * 0.3)
    return made


def batches(rank, steps=STEPS, dtype="float32"):
    rng = np.random.default_rng(100 + rank)
    shape = (steps, BATCH)
    x = rng.standard_normal(shape + (6,)).astype(dtype)
    return x, rng.standard_normal(shape + (2,)).astype(dtype)


def loss_of(net, x, y):
    return tf.reduce_mean(tf.square(net(x, training=True) - y))


def gradients_function(net):
    @tf.function
    def gradients(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(net, x, y)
        return tape.gradient(loss, net.trainable_variables)

    return gradients


def added(parts, factor=None, kind=np.float32, after=None):
    """In the order of the ranks, each multiplied by the factor before."""
    factor = 1.0 / len(parts) if factor is None else factor
    scaled = [(np.asarray(p).astype(kind) * np.float32(factor)).astype(kind) for p in parts]
    total = scaled[0]
    for part in scaled[1:]:
        total = (total + part).astype(kind)
    return total if after is None else total * kind(after)


def plain(net, optimizer, compute, data, combine=added):
    """Trains net as all ranks together do."""
    for step in range(len(data[0][0])):
        parts = [compute(x[step], y[step]) for x, y in data]
        summed = [combine([p[i] for p in parts]) for i in range(len(parts[0]))]
        optimizer.apply_gradients(zip([tf.constant(g) for g in summed], net.trainable_variables))


def all_batches(**options):
    return [batches(rank, **options) for rank in range(hvd.size())]


def same(ours, theirs):
    for a, b in zip(ours.trainable_variables, theirs.trainable_variables, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert np.array_equal(a, b), "%r\n%r" % (a, b)
    on_all_ranks([np.asarray(v) for v in ours.trainable_variables])


def on_all_ranks(arrays):
    own = b"".join(a.tobytes() for a in arrays)
    assert all(other == own for other in hvd.allgather_object(own)), "ranks differ"


def raises(kind, text, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as why:
        assert text in str(why), "%r is not in: %s" % (text, why)
        return
    raise AssertionError("nothing was raised")


# --- programs -------------------------------------------------------------------------


def collectives():
    n, rank = hvd.size(), hvd.rank()
    assert (hvd.local_rank(), hvd.local_size()) == (rank, n)
    ranks = np.arange(n)
    for kind in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"):
        mine = tf.cast(tf.fill([5], rank + 1), kind)
        total = tf.cast(hvd.allreduce(mine, op=hvd.Sum), "float64").numpy()
        assert np.array_equal(total, np.full(5, n * (n + 1) / 2)), kind
        assert tf.cast(hvd.allreduce(mine, op=hvd.Max), "float64").numpy()[0] == n
        assert hvd.broadcast(mine, n - 1).dtype == kind
    mean = hvd.allreduce(tf.constant(float(rank)))
    assert mean.shape == () and mean.numpy() == np.float32(ranks.sum()) / np.float32(n)
    assert hvd.allreduce(tf.constant([1.0, 2.0]), average=False).numpy()[1] == 2.0 * n
    raises(TypeError, "int32", hvd.allreduce, tf.constant([1, 2]))
    raises(ValueError, "no rank 9", hvd.broadcast, tf.constant(1.0), 9)
    for texts in (tf.constant("text"), tf.constant(["a", "long text"])):
        raises(TypeError, "broadcast_object", hvd.broadcast, texts, 0)
    raises(TypeError, "allgather_object", hvd.allgather, texts)
    raises(TypeError, "broadcast_object", hvd.broadcast_variables, [tf.Variable(texts)], 0)

    def gathered(tensor):
        return hvd.allgather(tensor), hvd.broadcast(tensor[:1], n - 1), hvd.allreduce(tensor[0])

    mine = tf.fill([rank + 1, 2], float(rank))
    signature = [tf.TensorSpec([None, 2], tf.float32)]
    for call in (gathered, tf.function(gathered, input_signature=signature)):
        everything, last, mean = call(mine)
        expected = np.repeat(ranks, ranks + 1).astype(np.float32)
        assert np.array_equal(everything.numpy(), np.stack([expected, expected], 1))
        assert np.array_equal(last.numpy(), [[n - 1, n - 1]])
        assert np.array_equal(mean.numpy(), np.full(2, (n - 1) / 2))
    raises(ValueError, "another type or shape", hvd.allgather, tf.zeros([2, 1 + (rank == n - 1)]))
    assert hvd.broadcast_object({"rank": rank}, n - 1) == {"rank": n - 1}
    assert hvd.allgather_object("x" * rank) == ["x" * r for r in range(n)]
    hvd.barrier()
    with tf.GradientTape() as tape:
        v = tf.constant([1.0 + rank])
        tape.watch(v)
        y = hvd.allreduce(v * v, op=hvd.Sum)
    # each rank's y, of every v: dy/dv, summed over the ranks
    assert tape.gradient(y, v).numpy()[0] == 2.0 * (1 + rank) * n


def begin():
    net = model(seed=hvd.rank())
    hvd.broadcast_variables(net.variables, root_rank=hvd.size() - 1)
    same(net, model(seed=hvd.size() - 1))
    net = model(seed=hvd.rank())
    tf.function(lambda: hvd.broadcast_variables(net.variables, root_rank=0))()
    same(net, model(seed=0))


def eager():
    net, ours = model(), batches(hvd.rank())
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    kept = []
    for x, y in zip(*ours):
        with tf.GradientTape() as tape:
            loss = loss_of(net, x, y)
        tape = hvd.DistributedGradientTape(tape)
        found = tape.gradient(loss, net.trainable_variables)
        kept.append((found[0], found[0].numpy().copy()))
        optimizer.apply_gradients(zip(found, net.trainable_variables))
    assert all(np.array_equal(t.numpy(), a) for t, a in kept), "memory of a tensor changed"

    def compute(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(theirs, x, y)
        return tape.gradient(loss, theirs.trainable_variables)

    theirs = model()
    plain(theirs, keras.optimizers.SGD(0.1, momentum=0.9), compute, all_batches())
    same(net, theirs)


def step_function(net, optimizer):
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(net, x, y)
        found = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(found, net.trainable_variables))
        return loss

    return step


def function():
    for make in (lambda: keras.optimizers.SGD(0.1), lambda: keras.optimizers.Adam(0.01)):
        net, theirs = model(), model()
        step = step_function(net, hvd.DistributedOptimizer(make()))
        for x, y in zip(*batches(hvd.rank())):
            step(x, y)
        plain(theirs, make(), gradients_function(theirs), all_batches())
        same(net, theirs)


def tape_in_function():
    net, theirs, optimizer = model(), model(), keras.optimizers.SGD(0.1)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(net, x, y)
        tape = hvd.DistributedGradientTape(tape, gradient_predivide_factor=4.0)
        found = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(found, net.trainable_variables))
        return found[0]

    kept = []
    for x, y in zip(*batches(hvd.rank())):
        found = step(x, y)
        kept.append((found, found.numpy().copy()))
    assert all(np.array_equal(t.numpy(), a) for t, a in kept), "memory of a tensor changed"

    def combine(parts):
        return added(parts, 1 / 4, after=4 / hvd.size())

    plain(theirs, keras.optimizers.SGD(0.1), gradients_function(theirs), all_batches(), combine)
    same(net, theirs)


def fit():
    """Keras' own loop: a model of each rank's own until the callback, and two steps in
    one execution."""
    for unrolled in (1, 2):
        net = model(seed=hvd.rank())
        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01))
        net.compile(optimizer=optimizer, loss="mse", steps_per_execution=unrolled)
        x, y = (a.reshape(-1, a.shape[-1]) for a in batches(hvd.rank()))
        seen = net.fit(
            x,
            y,
            batch_size=BATCH,
            epochs=2,
            shuffle=False,
            verbose=0,
            callbacks=[
                hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                hvd.callbacks.MetricAverageCallback(),
            ],
        )
        on_all_ranks([np.array(seen.history["loss"])])
        theirs = model()
        loss = keras.losses.MeanSquaredError()

        @tf.function
        def compute(x, y):
            with tf.GradientTape() as tape:
                value = loss(y, theirs(x, training=True))
            return tape.gradient(value, theirs.trainable_variables)

        data = [tuple(np.concatenate([a, a]) for a in pair) for pair in all_batches()]
        plain(theirs, keras.optimizers.Adam(0.01), compute, data)
        same(net, theirs)


def unbuilt():
    """A model that has no variables before its first batch."""
    keras.utils.set_random_seed(hvd.rank())
    net = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
    net.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), loss="mse")
    x, y = (a.reshape(-1, a.shape[-1]) for a in batches(hvd.rank()))
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    net.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=callbacks)
    on_all_ranks([np.asarray(v) for v in net.variables + net.optimizer.variables])


def restored():
    """Rank 0 alone has read what an optimizer knew after some steps: all ranks have it
    before their first step."""
    x, y = (a.reshape(-1, a.shape[-1]) for a in batches(hvd.rank()))
    scaled = keras.optimizers.LossScaleOptimizer
    for wrap in (lambda optimizer: optimizer, scaled):
        net = model(seed=hvd.rank())
        optimizer = wrap(keras.optimizers.Adam(0.01))
        net.compile(hvd.DistributedOptimizer(optimizer), loss="mse")
        if hvd.rank() == 0:
            optimizer.build(net.trainable_variables)
            for i, v in enumerate(optimizer.variables):
                if v.path.endswith(("momentum", "velocity", "iteration")):
                    v.assign(np.full(v.shape, 1 + i))
        seen = []
        after = keras.callbacks.LambdaCallback(
            on_train_begin=lambda logs: seen.extend(np.asarray(v) for v in optimizer.variables)
        )
        callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), after]
        net.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=callbacks)
        assert any(a.size > 1 and a.min() > 1 for a in seen), seen
        on_all_ranks(seen)
        on_all_ranks([np.asarray(v) for v in net.variables + optimizer.variables])


def seeds():
    """What is dropped is each rank's own, whoever's weights they begin with."""
    keras.utils.set_random_seed(1 + hvd.rank())
    net = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dropout(0.5)])
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    callback.set_model(net)
    callback.on_train_begin()
    masks = hvd.allgather_object(np.asarray(net(np.ones((1, 64)), training=True)).tobytes())
    assert len(set(masks)) == hvd.size()


def exact():
    """Small whole numbers in 64 bits: no rounding anywhere, so the ranks' training is that
    of one process with all batches in one, to the last bit."""
    if hvd.size() != 2:
        return
    rng = np.random.default_rng(7)
    x = rng.integers(-2, 3, (2, BATCH, 4)).astype(np.float64)
    y = rng.integers(-4, 5, (2, BATCH, 1)).astype(np.float64)

    def trained(x, y, wrap):
        w = tf.Variable(np.ones((4, 1)))
        optimizer = wrap(keras.optimizers.SGD(1 / 16))

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(x @ w - y))
            optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w]))

        for _ in range(3):
            step()
        return w.numpy()

    ours = trained(x[hvd.rank()], y[hvd.rank()], hvd.DistributedOptimizer)
    big = trained(x.reshape(-1, 4), y.reshape(-1, 1), lambda optimizer: optimizer)
    assert np.array_equal(ours, big), "%r %r" % (ours, big)


def two_optimizers():
    """Two models, two optimizers, one function; and the same in a function of its own
    each, called by one. A pool of one thread would deadlock where order was left open."""
    for nested in (False, True):
        nets, pairs = [model(1), model(2)], [model(1), model(2)]
        steps = []
        for net in nets:
            steps.append(step_function(net, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))))
        if not nested:
            steps = [step.python_function for step in steps]

        @tf.function
        def both(x, y):
            return [step(x, y) for step in steps]

        for x, y in zip(*batches(hvd.rank())):
            both(x, y)
        for net, theirs in zip(nets, pairs):
            plain(theirs, keras.optimizers.SGD(0.1), gradients_function(theirs), all_batches())
            same(net, theirs)


def rates():
    """A critic that steps five times for one step of what it judges."""
    steps, variables = [], [tf.Variable([1.0, 2.0]), tf.Variable([3.0])]
    for v in variables:
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.5))
        optimizer.build([v])

        @tf.function
        def step(v=v, optimizer=optimizer):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(v)
            optimizer.apply_gradients([(tape.gradient(loss, v), v)])

        steps.append(step)
    for _ in range(3):
        for step in [steps[0]] * 5 + [steps[1]]:
            step()
    assert [v.numpy().tolist() for v in variables] == [[-6.5, -5.5], [1.5]]


def other_order():
    """Gradients of two optimizers that arrive in another order on each rank: what is
    waited for first must not keep the thread that the others need."""
    nets, pairs = [model(1), model(2)], [model(1), model(2)]
    optimizers = [hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)) for _ in nets]

    @tf.function
    def both(x, y):
        found = []
        for net in nets:
            with tf.GradientTape() as tape:
                loss = loss_of(net, x, y)
            found.append(tape.gradient(loss, net.trainable_variables))
        late = hvd.rank() % 2
        with tf.control_dependencies(found[1 - late]):
            found[late] = [tf.identity(gradient) for gradient in found[late]]
        for net, optimizer, gradients in zip(nets, optimizers, found):
            optimizer.apply_gradients(zip(gradients, net.trainable_variables))

    for x, y in zip(*batches(hvd.rank())):
        both(x, y)
    for net, theirs in zip(nets, pairs):
        plain(theirs, keras.optimizers.SGD(0.1), gradients_function(theirs), all_batches())
        same(net, theirs)


def overlap():
    """The backward pass of the first layer goes on only when the last layer's gradient
    is summed."""
    seen = []

    def summed_meanwhile(upstream):
        end = time.monotonic() + 60
        while hvd.counts()["bytes"] < 4 and time.monotonic() < end:
            time.sleep(0.001)
        seen.append(hvd.counts()["bytes"])
        return upstream

    @tf.custom_gradient
    def slow(value):
        return value, lambda upstream: tf.numpy_function(summed_meanwhile, [upstream], tf.float32)

    first, last = tf.Variable(2.0), tf.Variable(3.0)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = slow(first * 5.0) * last
        optimizer.apply_gradients(zip(tape.gradient(loss, [first, last]), [first, last]))

    step()
    assert seen == [4], seen
    on_all_ranks([first.numpy(), last.numpy()])


def none_and_constant():
    """A variable without a gradient, and one whose gradient is a constant that the
    graph's optimizer could compute beforehand."""
    used, unused = tf.Variable([1.0, 2.0]), tf.Variable([3.0])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build([used, unused])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(used)
        optimizer.apply_gradients(zip(tape.gradient(loss, [used, unused]), [used, unused]))

    for _ in range(3):
        step()
    n = hvd.size()
    change = added([np.ones(2, np.float32)] * n)
    expected = np.array([1, 2], np.float32)
    for _ in range(3):
        expected = expected - change
    assert np.array_equal(used.numpy(), expected) and unused.numpy()[0] == 3.0
    assert hvd.counts()["bytes"] == 3 * 8, hvd.counts()


def sparse():
    rows = tf.Variable(np.ones((5, 2), np.float32))

    def found(**options):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(rows, [hvd.rank(), 3]))
        return hvd.DistributedGradientTape(tape, op=hvd.Sum, **options).gradient(loss, rows)

    raises(ValueError, "sparse_as_dense", found)
    expected = np.zeros((5, 2), np.float32)
    for rank in range(hvd.size()):
        expected[rank] += 1
    expected[3] += hvd.size()
    assert np.array_equal(found(sparse_as_dense=True).numpy(), expected)


def half():
    net, theirs = model(), model()
    wrapped = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=hvd.Compression.fp16)
    step = step_function(net, wrapped)
    for x, y in zip(*batches(hvd.rank())):
        step(x, y)

    def combine(parts):
        # 16-bit floats: each product and each sum is computed in 32, and rounded
        factor = np.float32(1 / hvd.size())
        scaled = [(np.float16(p).astype(np.float32) * factor).astype(np.float16) for p in parts]
        total = scaled[0]
        for part in scaled[1:]:
            total = (total.astype(np.float32) + part.astype(np.float32)).astype(np.float16)
        return total.astype(np.float32)

    plain(theirs, keras.optimizers.SGD(0.1), gradients_function(theirs), all_batches(), combine)
    same(net, theirs)


def loss_scale():
    """An overflow on one rank alone: no rank makes the step."""
    net = model()
    inner = keras.optimizers.SGD(0.1)
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0)
    )

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(loss_of(net, x, y))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables)
        )

    x, y = batches(hvd.rank())
    if hvd.rank() == hvd.size() - 1:
        x = x.copy()
        x[1, 0, 0] = np.inf
    for i in range(STEPS):
        before = net.trainable_variables[0].numpy()
        step(x[i], y[i])
        assert np.array_equal(before, net.trainable_variables[0].numpy()) == (i == 1), i
    assert float(optimizer.dynamic_scale) == 4.0
    on_all_ranks([v.numpy() for v in net.trainable_variables])
    distributed = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    raises(ValueError, "LossScaleOptimizer", keras.optimizers.LossScaleOptimizer, distributed)


def shapes():
    """A last batch that is shorter, on one rank alone: only there the function is
    traced again."""
    net = model()
    step = step_function(net, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    x, y = batches(hvd.rank())
    for i in range(STEPS):
        short = BATCH // 2 if hvd.rank() == 0 and i > 1 else BATCH
        step(x[i, :short], y[i, :short])
    on_all_ranks([v.numpy() for v in net.trainable_variables])
    assert len(step._list_all_concrete_functions()) == 1 + (hvd.rank() == 0)


def saved():
    net = model()
    net.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.5)), loss="mse")
    net.fit(*[a[0] for a in batches(hvd.rank())], batch_size=BATCH, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        net.save(folder + "/model.keras")
        loaded = keras.models.load_model(folder + "/model.keras")
    assert type(loaded.optimizer) is keras.optimizers.Adam, type(loaded.optimizer)
    assert float(loaded.optimizer.learning_rate) == 0.5
    # Nothing of it is summed: this rank alone trains.
    if hvd.rank() == 0:
        loaded.fit(*[a[0] for a in batches(0)], batch_size=BATCH, verbose=0)


def kinds():
    """Gradients of each type, eagerly and in a function: n (n + 1) / 2, exactly."""
    n = hvd.size()
    for kind in ("float16", "bfloat16", "float32", "float64"):
        v = tf.Variable(tf.ones([3], kind))
        mine = tf.constant(hvd.rank() + 1, kind)

        def summed():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(v * v * mine)
            return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, [v])[0]

        for call in (summed, tf.function(summed)):
            found = call()
            assert found.dtype == v.dtype
            assert tf.cast(found, "float64").numpy().tolist() == [n * (n + 1.0)] * 3, kind


def twice():
    """A variable that is asked for twice at once."""
    v = tf.Variable([1.0, 2.0])

    def found():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v) * (1 + hvd.rank())
        return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, [v, v])

    n = hvd.size()
    for call in (found, found, tf.function(found)):
        assert [g.numpy().tolist() for g in call()] == 2 * [[n * (n + 1), 2 * n * (n + 1)]]


def again():
    """Another job after the end of one."""
    hvd.shutdown()
    assert not hvd.is_initialized()
    raises(RuntimeError, "init()", hvd.rank)
    hvd.init()
    function()


def broken_off():
    """A step that ended in the middle: its gradient must not be taken for the next one's.
    Last of all programs, for it ends the job on all ranks."""
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v)
        return hvd.DistributedGradientTape(tape).gradient(loss, v)

    if hvd.rank() == 0:
        step()
        sums, (part,) = hvd._sums[0], [np.ones(2, np.float32)]
        task = max(sums.tasks.values())
        sums.job.ready(task, part.ctypes.data, part)  # and nobody waits
        raises(tf.errors.OpError, "was not taken", step)
    else:
        # In the first one, too: rank 0 may have its sum, and fail, before this rank has it.
        step_until_error = lambda: [step() for _ in range(3)]  # noqa: E731
        raises(tf.errors.OpError, "rank 0", step_until_error)


def refused():
    sgd = keras.optimizers.SGD
    raises(ValueError, "backward_passes", hvd.DistributedOptimizer, sgd(), backward_passes_per_step=2)
    raises(ValueError, "Min", hvd.DistributedOptimizer, sgd(), op=hvd.Min)
    raises(ValueError, "already", hvd.DistributedOptimizer, hvd.DistributedOptimizer(sgd()))
    raises(TypeError, "Keras 3", hvd.DistributedOptimizer, object())
    raises(ValueError, "predivide", hvd.DistributedOptimizer, sgd(), gradient_predivide_factor=0)


def main():
    hvd.init()  # settings can be made behind it
    if os.environ.get("TAUT_TEST_THREADS"):
        tf.config.threading.set_inter_op_parallelism_threads(int(os.environ["TAUT_TEST_THREADS"]))
    tf.config.threading.set_intra_op_parallelism_threads(1)
    for name in sys.argv[1:]:
        globals()[name]()
        print("ok", name, flush=True)


if __name__ == "__main__":
    main()
