# SPDX-License-Identifier: Apache-2.0
"""taut.load with TensorFlow: eagerly, as a tf.data.Dataset, in Keras' fit, with two ranks.
usage: tensorflow_job.py PROGRAM..."""

import json
import sys

import keras
import raw
import tensorflow as tf

import taut.tensorflow as hvd

path = raw.folder()


def epoch(batches):
    return [raw.check(*(one if isinstance(one, list) else one.numpy() for one in batch))
            for batch in batches]  # fmt: skip


def is_lent(tensor, loader):
    address, size = loader.memory()
    at = tensor._numpy().__array_interface__["data"][0]  # numpy() copies
    return address <= at < address + size


def eager():
    loader = raw.loader(path, batch_size=8, shuffle=True, arrays="tensorflow")
    for data, labels, _ in loader:
        assert data.dtype == tf.uint8 and labels.dtype == tf.int64
        assert is_lent(data, loader) and is_lent(labels, loader)
        del data, labels
    assert sorted(sum(epoch(loader), [])) == list(range(raw.N))
    kept = list(loader)  # more than there are slots
    assert sorted(sum(epoch(kept), [])) == list(range(raw.N))


def data_set():
    loader = raw.loader(path, batch_size=8, shuffle=True, seed=4)
    plain = raw.loader(path, batch_size=8, shuffle=True, seed=4, arrays="numpy")
    made = hvd.dataset(loader)
    assert made.element_spec[0].shape.as_list() == [None, raw.SIDE, raw.SIDE, 3]
    lent = 0
    for _ in range(3):
        expected = [items for _, _, items in plain]
        assert epoch(made) == expected
        lent += sum(is_lent(batch[0], loader) for batch in made)
        plain.set_epoch(plain.state_dict()["epoch"] + 1)  # that was another one
    assert lent >= 15, lent  # of 21; tf.data's threads give back when they please
    for batch in made:
        break  # left in its middle
    assert sorted(sum(epoch(made), [])) == list(range(raw.N))


def types():
    for name in "uint8", "float32", "float16", "bfloat16":
        loader = raw.loader(path, batch_size=10, tail="drop", image={"type": name})
        made = hvd.dataset(loader)
        assert made.element_spec[0].shape.as_list() == [10, raw.SIDE, raw.SIDE, 3]
        scale = 1 if name == "uint8" else 255
        for data, _, items in made.map(lambda x, y, z: (tf.cast(x, tf.float32) * scale, y, z)):
            expected = [list(raw.pixels(int(item))) for item in items]
            apart = tf.reshape(data, (len(items), -1)) - tf.constant(expected, tf.float32)
            assert tf.reduce_max(tf.abs(apart)) <= {"bfloat16": 1, "float16": 0.1}.get(name, 1e-4)


def state():
    loader = raw.loader(path, batch_size=6, shuffle=True, seed=9)
    taken = []
    for n, batch in enumerate(hvd.dataset(loader)):
        taken += epoch([batch])[0]
        if n == 2:
            saved = json.loads(json.dumps(loader.state_dict()))
            break
    assert saved["position"] == 18, saved
    other = raw.loader(path, batch_size=4, shuffle=True)
    other.load_state_dict(saved)
    rest = sum(epoch(hvd.dataset(other)), [])
    assert sorted(taken + rest) == list(range(raw.N))


def fit():
    """Dark and bright are told apart, in four epochs of all batches."""
    keras.utils.set_random_seed(1)
    loader = raw.loader(path, batch_size=5, shuffle=True, image={"type": "float32"})
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
    model.compile(
        keras.optimizers.SGD(0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    pairs = hvd.dataset(loader).map(lambda x, y, _: (x, y))
    told = model.fit(pairs, epochs=4, verbose=0)
    assert told.history["accuracy"][-1] > 0.9, told.history
    assert loader.state_dict()["epoch"] == 4
    assert model.evaluate(pairs, verbose=0)[1] > 0.9


def ranks():
    """Those of the job of taut.tensorflow share the set out."""
    hvd.init()
    loader = raw.loader(path, batch_size=4, shuffle=True, seed=2)
    items = sum(epoch(hvd.dataset(loader)), [])
    assert len(items) == raw.N // hvd.size()
    everybody = hvd.allgather_object(items)
    assert sorted(sum(everybody, [])) == list(range(raw.N))
    hvd.shutdown()


for program in sys.argv[1:]:
    globals()[program]()
    print("ok", program, flush=True)
