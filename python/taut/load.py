# SPDX-License-Identifier: Apache-2.0
"""Batches of prepared samples, made by threads of C while the job computes.

    from taut.load import Image, Loader

    loader = Loader("/data/train", batch_size=64, shuffle=True,
                    transform=Image(224, flip=0.5))
    for epoch in range(90):
        for data, labels in loader:        # torch tensors; numpy's without torch
            ...
    torch.save({"loader": loader.state_dict(), ...})

data is a folder with a folder a class, shards of tar (WebDataset's), a list of files, or
an index of any of these (Set.write). In a job of torch.distributed, or of torchrun, ranks
share it out by themselves. A thin skin of libtaut (taut/load.h has every rule): what comes
depends on data, transform, seed, epoch, batch and ranks alone; an item is in one batch of
an epoch, also when the job stops and goes on with other ranks.

A batch is memory of the loader, lent without a copy: it is used again when the last
tensor over it is gone. Who keeps many gets copies. With pin_memory it is the job's own.
"""

import array
import ctypes
import math
import os
import sys
import time

from . import _lib, _load, _load_arrays, _load_peers, _load_pinned, _load_stage
from ._load_kinds import Audio, Custom, Tensor, Text

__all__ = ["Audio", "Custom", "Image", "Loader", "Set", "Tensor", "Text"]

_WAIT_NS = 500_000_000  # then Python may handle a signal
_NOTHING = 1e-300  # of an area: what 0 means, for C takes a 0 for what is not said


class Set:
    """The items of a data set. paths: one, or several archives; extensions: "jpg png",
    or None for the usual ones."""

    def __init__(self, paths, extensions=None, empty_classes=False, threads=0):
        self._arena, self._set = _load.open_set(paths, extensions, empty_classes, threads)

    def __del__(self):
        arena, self._arena = getattr(self, "_arena", None), None
        if arena:
            _load.library().taut_arena_destroy(arena)

    def __len__(self):
        return _load.library().taut_set_count(self._set)

    @property
    def source(self):
        """"tree", "tar", "lines" or "index"."""
        return _load.library().taut_set_source(self._set).decode()

    @property
    def bytes(self):
        """Of all items together."""
        return _load.library().taut_set_bytes(self._set)

    @property
    def classes(self):
        """Names of the labels; empty where there are none."""
        lib = _load.library()
        n = lib.taut_set_classes(self._set)
        return [os.fsdecode(lib.taut_set_class(self._set, i)) for i in range(n)]

    def key(self, item):
        """What the item is called."""
        self._check_item(item)
        return _load.key_of(self._set, item)

    def label(self, item):
        """-1: none."""
        self._check_item(item)
        return _load.library().taut_set_at(self._set, item).label

    def find(self, key):
        """The item of that name; None: there is none."""
        item = _load.library().taut_set_find(self._set, os.fsencode(key))
        return None if item == _load.NONE else item

    def check(self, threads=0):
        """OSError or ValueError: a file is gone, or has another size."""
        _load.call("taut_set_check", self._set, threads)

    def write(self, path):
        """An index, which opens without looking at the files."""
        _load.call("taut_set_write", self._set, os.fsencode(path))

    def _check_item(self, item):
        if not 0 <= item < len(self):
            raise IndexError(item)


def _pair(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


class Image:
    """What is done to an image (taut/prepare.h). size: a side, or (height, width).

    crop: "random" (torchvision's RandomResizedCrop, of scale and ratio), "centre" (of the
    image resized to short_side), "stretch" or "none". flip: probability. type: "uint8",
    "float32", "float16", "bfloat16"; all but the first are (x / 255 - mean) / std."""

    extensions = None  # the usual ones

    def __init__(
        self,
        size=224,
        crop="random",
        flip=0.0,
        scale=(0.08, 1.0),
        ratio=(3 / 4, 4 / 3),
        short_side=0,
        filter="bilinear",
        brightness=0.0,
        contrast=0.0,
        saturation=0.0,
        hue=0.0,
        type="uint8",
        layout="CHW",
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        format=None,
        raw_size=(0, 0),
        scale_in_decoder=False,
        orient=False,
        strict=False,
        most_pixels=0,
    ):
        height, width = _pair(size)
        self._options = _load.PrepareOptions(
            format=format.encode() if format else None,
            raw_height=_pair(raw_size)[0],
            raw_width=_pair(raw_size)[1],
            height=height,
            width=width,
            crop=_load.index_of(crop, _load.CROPS, "crop"),
            filter=_load.index_of(filter, _load.FILTERS, "filter"),
            least_area=scale[0] or _NOTHING,
            most_area=scale[1] or _NOTHING,
            least_ratio=ratio[0],
            most_ratio=ratio[1],
            short_side=short_side,
            flip=flip,
            brightness=brightness,
            contrast=contrast,
            saturation=saturation,
            hue=hue,
            type=_load.index_of(type, _load.TYPES, "type"),
            layout=_load.index_of(layout, _load.LAYOUTS, "layout"),
            mean=tuple(mean),
            deviation=tuple(std),
            scale_in_decoder=scale_in_decoder,
            orient=orient,
            strict=strict,
            most_pixels=most_pixels,
        )


def _job():
    """(ranks, rank) of the job that this process is of."""
    own = sys.modules.get(__package__ + "._job")  # of taut.tensorflow or taut.mxnet
    if own and own.has_started():
        return own.size(), own.rank()
    distributed = sys.modules.get("torch.distributed")
    if distributed and distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    return int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))


# What DataLoader takes and this one cannot, and what to do.
_REFUSED = {
    "batch_sampler": "give sampler, batch_size and drop_last",
    "collate_fn": "samples are made in the batch; give stage and stage_per='batch'",
    "worker_init_fn": "no worker runs Python; what is drawn follows from seed",
    "multiprocessing_context": "workers are threads of this process",
    "generator": "give seed, as generator.initial_seed()",
    "in_order": "batches come in order",
    "pin_memory_device": "what is pinned is for all devices",
}


def _refuse(others):
    for name, value in others.items():
        if name not in _REFUSED:
            raise TypeError("Loader has no option %r" % name)
        if value not in (None, "", name == "in_order"):
            raise ValueError("Loader has no %s: %s" % (name, _REFUSED[name]))


class _Epoch:
    """The batches of an epoch, while it is the one that its loader goes through."""

    def __init__(self, loader, running):
        self._loader, self._running = loader, running

    def __iter__(self):
        return self

    def __next__(self):
        if self._loader is None:
            raise StopIteration
        if self._loader._running is not self._running:
            raise RuntimeError("the loader was sent to another epoch: this one has no more batches")
        parts = self._loader._take()
        if parts is None:
            self.close()
            raise StopIteration
        return parts

    def close(self):
        """There is no more of it."""
        self._loader = None


class Loader:
    """An iterable over the batches of an epoch; the next `for` gives the next epoch, also
    after one that was left in its middle, which is over then: who wants two at once makes
    two loaders.

    data: a path, paths, or a Set. transform: Image, Tensor, Text, Audio or Custom; of Text
    and Audio, and of Tensor and Custom that vary, batches are data, labels, lengths.
    num_workers: threads that prepare; 0: one for each core this process may use.
    prefetch_factor: batches that are made ahead, beside the one that the job has and the one
    that it is about to have. cache_bytes: raw items kept in memory that all processes of the host share, the same number in each.
    share_bytes: memory for prepared samples that loaders of the host with the same data,
    transform, seed and shuffle share, the same number in each: one prepares an item, the
    others copy; share_patience: seconds that one waits for another that stands still.
    tail: "keep" (as drop_last=False: every item once), "drop" (drop_last=True) or "pad" (to
    equal batches for all ranks, as DistributedSampler). max_skipped: broken items that are
    left out before one is an error; None: all. timeout: seconds for a batch; 0: none. items:
    batches have one more part, the numbers of their items. arrays: "torch", "numpy",
    "tensorflow" or "mxnet". pin_memory: PyTorch's tensors are pinned, where it has a device.
    sampler: an iterable of items' numbers, gone through anew in each epoch; all
    of them are this rank's. persistent_workers: they always are.

    stage: a function that finishes what transform has made, on the workers' threads:
    stage(sample, item) changes an array in place, or returns one that is put there; with
    stage_per="batch" stage(batch) changes batch.data, .labels and .lengths. The arrays are
    NumPy's, over the batch's memory, and are gone after the call. Python's functions run one
    at a time, under the interpreter's lock, which the training loop wants too: per batch is
    cheaper. A C function's address (a number, ctypes' or Numba's) runs without it. An
    exception makes the item a broken one, and names it; of a batch it is an error.
    stage_name: what it does, for share_bytes: samples of stages of one name are shared.

    peers: one cache over hosts, each of which keeps its part of the items (taut/peers.h):
    True (the ranks and where they meet as the launcher says), "host:port" where rank 0
    listens, or such an address for each rank.

    Other options of DataLoader are refused with what to do."""

    def __init__(
        self,
        data,
        batch_size=32,
        shuffle=False,
        seed=0,
        num_replicas=None,
        rank=None,
        transform=None,
        num_workers=0,
        prefetch_factor=1,
        cache_bytes=0,
        cache_name=0,
        share_bytes=0,
        share_patience=1.0,
        drop_last=False,
        tail=None,
        max_skipped=0,
        timeout=0,
        store=None,
        slow_bytes_s=0,
        slow_ns=0,
        direct=False,
        cold=False,
        num_reads=0,
        read_bytes=0,
        items=False,
        arrays=None,
        pin_memory=False,
        sampler=None,
        persistent_workers=True,
        stage=None,
        stage_per="item",
        stage_name=None,
        peers=None,
        **others,
    ):
        self._load = self._peers = self._running = None
        _refuse(others)
        if sampler is not None and (shuffle or num_replicas is not None or rank is not None):
            raise ValueError("sampler: it says the order and the ranks' parts alone")
        self._transform = transform or Image()
        self.set = data if isinstance(data, Set) else Set(data, self._transform.extensions)
        self.batch_size, self._items, self._timeout = batch_size, items, timeout
        self._arrays = _load_arrays.find(arrays)
        self._empty, self._pinned = _load_pinned.find(pin_memory), None
        if self._empty and not isinstance(self._arrays, _load_arrays.Torch):
            raise ValueError("pin_memory: of PyTorch's arrays alone")
        self._sampler, self._sampler_epoch, self._drop_last = sampler, 0, drop_last
        ranks, this = _job() if num_replicas is None else (num_replicas, rank or 0)
        place = (this if rank is None else rank), ranks
        if sampler is not None:
            ranks, this = 1, 0
        tail = tail or ("drop" if drop_last else "keep")
        self._prepare = _load.PrepareOptions.from_buffer_copy(self._transform._options)
        self._options = _load.LoadOptions(
            size=ctypes.sizeof(_load.LoadOptions),
            prepare=ctypes.pointer(self._prepare),
            batch=batch_size,
            n_ranks=ranks,
            rank=this if rank is None else rank,
            seed=seed,
            shuffle=shuffle,
            tail=_load.index_of(tail, _load.TAILS, "tail"),
            max_skipped=_load.NONE if max_skipped is None else max_skipped,
            n_workers=num_workers,
            # One that the job has, and one to come.
            depth=(1 if prefetch_factor is None else prefetch_factor) + 2,
            n_reads=num_reads,
            read_bytes=read_bytes,
            cache_bytes=cache_bytes,
            cache_name=cache_name,
            store=store.encode() if store else None,
            slow_bytes_s=slow_bytes_s,
            slow_ns=slow_ns,
            direct=direct,
            cold=cold,
            share_bytes=share_bytes,
            share_patience_ns=max(1, int(1e9 * share_patience)),
            wait=sampler is not None,
        )
        # As a loop holds them: the last one and the new one. Who keeps more leaves the
        # loader two slots to work with.
        depth = self._options.depth
        self._lend = min(max(2, depth - 2), depth - 1)
        self._is_resumed = False
        self._stage = None
        if stage is not None:
            self._take_stage(_load_stage.of(stage, stage_per), stage_per, stage_name)
        self._peers = _load_peers.find(peers, *place, self.set._set, cache_bytes)
        if self._peers:
            self._options.remote = self._peers.remote
        self._open()

    def _take_stage(self, stage, per, name):
        self._stage = stage
        _load_stage.close_at_exit(self)
        if per == "item":
            self._prepare.stage = stage.address
            self._prepare.stage_name = name.encode() if name else None
        else:
            self._options.batch_stage = stage.address

    def _open(self):
        self._end()
        load = ctypes.c_void_p()
        _load.call(
            "taut_load_create", self.set._set, ctypes.byref(self._options), ctypes.byref(load)
        )
        self._load = load
        self._shape = _load.Shape()
        _load.library().taut_load_shape(load, ctypes.byref(self._shape))
        if self._stage:
            self._stage.know(self._shape)
        if self._empty:
            self._pinned = _load_pinned.Pinned(self._empty, self._options.batch or 32)

    @property
    def dataset(self):
        """The Set, as DataLoader calls it."""
        return self.set

    def close(self):
        """Ends its threads, and leaves its peers. Batches that are held stay."""
        self._end()
        peers, self._peers = getattr(self, "_peers", None), None
        if peers:
            peers.close()

    def _end(self):
        load, self._load = getattr(self, "_load", None), None
        if load:
            _load.library().taut_load_destroy(load)
        self._pinned = None  # nothing is filled any more

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __len__(self):
        """Batches of this rank in a whole epoch."""
        if self._sampler is not None:
            n, more = divmod(len(self._sampler), self.batch_size)
            return n + bool(more and not self._drop_last)
        return _load.library().taut_load_batches(self._opened())

    def _opened(self):
        if not self._load:
            raise ValueError("the loader is closed")
        return self._load

    # --- batches --------------------------------------------------------------------

    def __iter__(self):
        has_batches, self._running = self._begin(), object()
        return _Epoch(self if has_batches else None, self._running)

    def _take(self):
        """The parts of the next batch; None: the epoch is over."""
        batch = self._next()
        if not batch:
            return None
        try:
            return self._parts(batch)
        finally:
            _load.library().taut_batch_release(batch)

    def _begin(self):
        """False: the epoch has no batch."""
        if self._sampler is not None:
            return self._begin_sampler()
        if self._is_resumed:
            self._is_resumed = False
            return True
        at = self._state()
        epoch = at.epoch + 1 if at.position else at.epoch
        _load.call("taut_load_seek", self._opened(), epoch)
        return True

    def _begin_sampler(self):
        items = array.array("Q", map(int, self._sampler))
        n = len(items)
        if self._drop_last:
            n -= n % self.batch_size
        epoch, self._sampler_epoch = self._sampler_epoch, self._sampler_epoch + 1
        if n:
            where = (ctypes.c_uint64 * len(items)).from_buffer(items)
            _load.call("taut_load_follow", self._opened(), epoch % 2**64, where, n)
        return n > 0

    def _next(self):
        batch = _load._batch()
        where, passes = ctypes.byref(batch), (_lib.EAGAIN,)
        until = time.monotonic() + self._timeout if self._timeout else math.inf
        wait_ns = _WAIT_NS
        while True:
            left_s = until - time.monotonic()
            if left_s < 1e-9 * wait_ns:
                wait_ns = max(0, int(left_s * 1e9))
            if not _load.call("taut_load_next", self._opened(), wait_ns, where, passes=passes):
                return batch
            if left_s <= 0:
                raise TimeoutError("no batch within %g s" % self._timeout)

    def _parts(self, batch):
        parts = [self._array(batch, part) for part in (_load.DATA, _load.LABELS)]
        if self._shape.varies:
            parts.append(self._array(batch, _load.LENGTHS))
        if self._pinned:
            parts = self._pinned.own(batch, parts)
        if self._items:
            is_ = batch.contents
            parts.append(is_.items[: is_.count])
        return tuple(parts)

    def _array(self, batch, part):
        lent = self._arrays.lend(batch, part, self._shape)
        return self._arrays.copy(lent) if batch.contents.n_held > self._lend else lent

    # --- where it is ----------------------------------------------------------------

    def set_epoch(self, epoch):
        """The beginning of that epoch is next. A sampler's set_epoch() is called too."""
        if self._sampler is not None:
            self._sampler_epoch = epoch
            getattr(self._sampler, "set_epoch", lambda _: None)(epoch)
            return
        self._is_resumed, self._running = False, None
        _load.call("taut_load_seek", self._opened(), epoch)

    def _state(self):
        if self._sampler is not None:
            raise ValueError("a sampler knows where it goes on; the loader does not")
        state = _load.State()
        _load.call("taut_load_state", self._opened(), ctypes.byref(state))
        return state

    def state_dict(self):
        """Integers: of all ranks together, as if each had taken as many batches as this
        one. What was made ahead does not count."""
        state = self._state()
        return {name: getattr(state, name) for name, _ in state._fields_}

    def load_state_dict(self, state):
        """Goes on from there, also with other ranks or batches. ValueError: it is of
        another set."""
        if self._sampler is not None:
            raise ValueError("a sampler knows where it goes on; the loader does not")
        if state["seed"] != self._options.seed:
            self._options.seed = state["seed"]
            self._open()
        _load.call(
            "taut_load_resume", self._opened(), ctypes.byref(_load.State(**state))
        )
        self._is_resumed, self._running = True, None

    # --- how it goes ----------------------------------------------------------------

    def counts(self):
        """taut_load_counts: what was taken and read, and where time went. With peers, of
        taut_peers_counts too: peers_served, peers_lost, ..."""
        counts = _load.Counts()
        _load.library().taut_load_counts(self._opened(), ctypes.byref(counts))
        all_ = {name: getattr(counts, name) for name, _ in counts._fields_}
        return {**all_, **self._peers.counts()} if self._peers else all_

    def skipped(self):
        """(item, why) of the last that were left out, of 1,024 at most."""
        n = self.counts()["skipped"]
        found = []
        for i in range(max(0, n - 1024), n):
            item, why = ctypes.c_uint64(), _lib.Error()
            if _load.library().taut_load_skipped(
                self._opened(), i, ctypes.byref(item), ctypes.byref(why)
            ):
                found.append((item.value, why.message.decode("utf-8", "replace")))
        return found

    @property
    def store(self):
        """(name, why it is not the one that was asked for)"""
        note = ctypes.c_char_p()
        name = _load.library().taut_load_store(self._opened(), ctypes.byref(note))
        return name.decode(), note.value.decode("utf-8", "replace")

    def memory(self):
        """(address, bytes) of all batches, for who registers them with a device."""
        n = ctypes.c_size_t()
        address = _load.library().taut_load_memory(self._opened(), ctypes.byref(n))
        return address, n.value
