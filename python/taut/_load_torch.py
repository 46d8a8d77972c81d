# SPDX-License-Identifier: Apache-2.0
"""DataLoaders of PyTorch whose batches Taut's loader makes, in a job that knows nothing of it.

What a DataLoader gives is seen when it is iterated. Where its data set is torchvision's
ImageFolder, and all that is done to an image is something that Taut has, the batches come
from taut.load; any other stays as it is. Which items come when is PyTorch's business still:
its own sampler is asked, after the same draw of a seed, so that batches hold the same items
in the same order, and the job's random numbers go on as they would with workers."""

import functools
import os
import sys
import tempfile
import weakref

from . import _options, load
from ._load_chain import Unlike, options_of

_SUFFIXES = ".jpg", ".jpeg", ".png"
_SAMPLERS = (
    "SequentialSampler",
    "RandomSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "DistributedSampler",
)


swaps = None  # once installed


def install(data, cache_bytes):
    """data: torch.utils.data."""
    global swaps
    swaps, original = _Swaps(data, cache_bytes), data.DataLoader.__iter__

    @functools.wraps(original)
    def __iter__(self):
        found = swaps.find(self)
        return original(self) if found is None else found()

    data.DataLoader.__iter__ = __iter__


class _Swaps:
    def __init__(self, data, cache_bytes):
        self.data, self.cache_bytes = data, cache_bytes
        self.known = weakref.WeakKeyDictionary()  # DataLoader -> _Swap
        self.said = set()
        self.is_on = True
        self.see = lambda why: None  # is told of each iteration: why not, None: it is ours

    def find(self, loader):
        """What begins an epoch of it; None: it stays as it is."""
        if not self.is_on:
            return None
        try:
            plan = plan_of(self.data, loader)
            swap = self.known.get(loader)
            if swap is None or not swap.fits(plan):
                swap = self.known[loader] = _Swap(plan, self.cache_bytes)
                self.say("DataLoader over %d images of %s is Taut's" % (len(plan.folder), plan.root))
            self.see(None)
            return functools.partial(swap.begin, loader, plan)
        except Exception as why:  # the job must not fail for us
            self.known.pop(loader, None)
            self.see(str(why))
            self.say("DataLoader stays as it is: %s" % why)
            return None

    def say(self, text):
        if text not in self.said and int(os.environ.get("RANK") or 0) == 0:
            _options.say(text)
        self.said.add(text)


# --- what a DataLoader is ---------------------------------------------------------------


def _expect(holds, why):
    if not holds:
        raise Unlike(why)


def plan_of(data, loader):
    """All that the batches of a DataLoader follow from. Unlike: Taut has no such ones."""
    return _Plan(data, loader)


class _Plan:
    """folder, its samples and root; indices of the items that are looked at, None: all;
    options of load.Image; and how batches are made."""

    def __init__(self, data, loader):
        _expect(type(loader) is data.DataLoader, "it is a %s" % type(loader).__qualname__)
        self.folder, self.indices = _folder_of(data, loader.dataset)
        self._take_batches(data, loader)
        self.samples, self.root = self.folder.samples, self.folder.root
        _expect(self.samples, "its data set is empty")
        self.options = options_of(self.folder.transform, self._first_size)

    def _take_batches(self, data, loader):
        batches = loader.batch_sampler
        _expect(batches is not None, "it makes no batches")
        _expect(type(batches) is data.BatchSampler, "its batch_sampler is not PyTorch's own")
        sampler = type(batches.sampler)
        _expect(
            any(sampler is getattr(data, name, None) for name in _SAMPLERS),
            "its sampler %s is not PyTorch's own" % sampler.__qualname__,
        )
        _expect(loader.collate_fn is data.default_collate, "it has a collate_fn")
        _expect(loader.worker_init_fn is None, "it has a worker_init_fn")
        self.batch_size = batches.batch_size
        self.how = {
            "num_workers": loader.num_workers,
            "prefetch_factor": max(2, loader.prefetch_factor or 2),
            "timeout": loader.timeout,
            "pin_memory": loader.pin_memory,
        }
        self.is_persistent = loader.persistent_workers and loader.num_workers > 0

    def _first_size(self):
        with self.folder.loader(self.samples[0][0]) as image:
            return image.height, image.width

    def key(self):
        return self.options, self.batch_size, self.how


def _folder_of(data, dataset):
    """The ImageFolder, and which of its items; None: all."""
    if type(dataset) is data.Subset:
        folder, indices = _folder_of(data, dataset.dataset)
        if indices is None:
            return folder, dataset.indices
        return folder, [indices[i] for i in dataset.indices]
    module = sys.modules.get("torchvision.datasets.folder")
    name = type(dataset).__qualname__
    _expect(
        module is not None and isinstance(dataset, module.DatasetFolder),
        "its data set %s is no ImageFolder" % name,
    )
    for own in "__getitem__", "__len__":
        same = getattr(type(dataset), own) is getattr(module.DatasetFolder, own)
        _expect(same, "%s has a %s of its own" % (name, own))
    _expect(not hasattr(dataset, "__getitems__"), "%s has __getitems__" % name)
    _expect(dataset.loader is module.default_loader, "%s has a loader of its own" % name)
    vision = sys.modules["torchvision"]
    _expect(vision.get_image_backend() == "PIL", "torchvision reads images by another backend")
    _expect(dataset.target_transform is None, "%s has a target_transform" % name)
    _expect(dataset.transform is not None, "%s has no transform" % name)
    return dataset, None


# --- and what takes its place -------------------------------------------------------------


def _line(path, label):
    path = os.path.abspath(os.fspath(path))
    suffix = os.path.splitext(path)[1].lower()
    _expect(suffix in _SUFFIXES, "Taut decodes no %s" % (suffix or "file without a suffix"))
    _expect(isinstance(label, int), "label %r is no integer" % (label,))
    line = os.fsencode(path)
    _expect(min(line) >= 0x20, "control characters in the path %r" % path)
    return b"%s\t%d\n" % (line, label)


def set_of(samples):
    """(path, label) of each item."""
    with tempfile.NamedTemporaryFile(prefix="taut-", suffix=".lines") as file:
        file.writelines(_line(path, label) for path, label in samples)
        file.flush()
        return load.Set(file.name)


class _Swap:
    def __init__(self, plan, cache_bytes):
        self.key, self.pid = plan.key(), os.getpid()
        self.samples = list(plan.samples)
        self.set = set_of(plan.samples)
        self.make = functools.partial(
            load.Loader,
            self.set,
            batch_size=plan.batch_size,
            transform=load.Image(**plan.options),
            cache_bytes=cache_bytes,
            arrays="torch",
            **plan.how,
        )
        self.seed = None
        self.free = [self._loader()]  # that nobody iterates; here, so that its faults are told

    def _loader(self):
        items = []
        return self.make(sampler=items), items

    def fits(self, plan):
        """After a fork there is nothing left of it; who changes the data set gets another."""
        return (
            self.pid == os.getpid() and self.key == plan.key() and self.samples == plan.samples
        )

    def _draw(self, loader, is_persistent):
        """As PyTorch does it: for each epoch, but once where workers stay."""
        import torch

        if is_persistent and self.seed is not None:
            self.seed += 1
        else:
            seed = torch.empty((), dtype=torch.int64)
            self.seed = seed.random_(generator=loader.generator).item()
        return self.seed

    def begin(self, loader, plan):
        seed = self._draw(loader, plan.is_persistent)
        indices = list(loader.batch_sampler.sampler)
        if loader.batch_sampler.drop_last:
            del indices[len(indices) - len(indices) % loader.batch_sampler.batch_size :]
        if plan.indices is not None:
            indices = [plan.indices[i] for i in indices]
        own, items = self.free.pop() if self.free else self._loader()
        items[:] = indices
        own.set_epoch(seed)
        return _Batches(self, own, items)


class _Batches:
    """What iter(DataLoader) gives. Several may be under way: each has a loader."""

    def __init__(self, swap, own, items):
        self._swap, self._own = swap, (own, items)
        self._batches = iter(own)

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._own[0])

    def __next__(self):
        if self._batches is None:
            raise StopIteration
        try:
            return list(next(self._batches))
        except TimeoutError as why:
            raise RuntimeError("DataLoader: %s" % why) from None
        except StopIteration:
            self._end()
            raise

    def _end(self):
        batches, self._batches = self._batches, None
        if batches is not None:
            self._swap.free.append(self._own)

    def __del__(self):
        if sys and not sys.is_finalizing():
            self._end()
