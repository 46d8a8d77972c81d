# SPDX-License-Identifier: Apache-2.0
"""DataLoaders of PyTorch whose batches Taut's loader makes, in a job that knows nothing of it.

What a DataLoader gives is seen when it is iterated. Where its data set is torchvision's
ImageFolder, and all that is done to an image is something that Taut has, the batches come
from taut.load; any other stays as it is. Which items come when is PyTorch's business still:
its own sampler is asked, after the same draw of a seed, so that batches hold the same items
in the same order, and the job's random numbers go on as they would with workers.

An item that Taut cannot make, or that a decoder warns of, is made by the job's own data set
and put in its place: it is PyTorch's tensor then, or PyTorch's error."""

import array
import collections
import contextlib
import functools
import itertools
import os
import sys
import tempfile
import weakref

from . import _load_pinned, _options, load
from ._load_chain import Unlike, options_of

_SUFFIXES = ".jpg", ".jpeg", ".png"
_SAMPLERS = (
    "SequentialSampler",
    "RandomSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "DistributedSampler",
)
_KEPT = 4  # ways to make batches of the same files
_FEW, _PART = 16, 8  # items that PyTorch makes: more, and more than one of 8, are too many

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
        self.files = weakref.WeakKeyDictionary()  # ImageFolder -> _Files
        self.seeds = weakref.WeakKeyDictionary()  # DataLoader whose workers stay -> its last
        self.said = set()
        self.is_on = True
        self.see = lambda why: None  # is told of each iteration: why not, None: it is ours

    def find(self, loader):
        """What begins an epoch of it; None: it stays as it is."""
        if not self.is_on:
            return None
        try:
            plan = plan_of(self.data, loader)
            swap = self._swap(plan)
            _expect(not swap.is_in_vain(), "Taut does not make enough of its images")
            self.see(None)
            return functools.partial(self._begin, swap, loader, plan)
        except Exception as why:  # the job must not fail for us
            self.see(str(why))
            self.say("DataLoader stays as it is: %s" % why)
            return None

    def _swap(self, plan):
        files = self.files.get(plan.folder)
        if files is None or not files.fits(plan):
            files = self.files[plan.folder] = _Files(plan)
        found = [swap for swap in files.swaps if swap.key == plan.key()]
        if not found:
            found = [_Swap(plan, files.set, self.cache_bytes, self.say)]
            self.say("DataLoader over %d images of %s is Taut's" % (len(plan.folder), plan.root))
        others = [swap for swap in files.swaps if swap is not found[0]]
        files.swaps = found + others[: _KEPT - 1]
        return found[0]

    def _begin(self, swap, loader, plan):
        return _Batches(swap, loader, plan, self._draw(loader))

    def _draw(self, loader):
        """As PyTorch does it: for each epoch, but once where workers stay."""
        import torch

        seed = self.seeds.get(loader)
        if seed is not None:
            seed += 1
        else:
            seed = torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item()
        if loader.persistent_workers and loader.num_workers > 0:
            self.seeds[loader] = seed
        return seed

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
        self.range = range(len(self.samples))
        _expect(len(loader.dataset), "its data set is empty")
        self.options = options_of(self.folder.transform, self._size)

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

    def _size(self):
        """Height and width of an image, as far as a look at three tells."""
        looked = self.range if self.indices is None else self.indices
        sizes = set()
        for index in looked[0], looked[len(looked) // 2], looked[-1]:
            with self.folder.loader(self.samples[index][0]) as image:
                sizes.add((image.height, image.width))
        _expect(len(sizes) == 1, "its transform leaves images of unlike sizes")
        return sizes.pop()

    def item(self, index):
        """The sample of an index of the sampler's; None: PyTorch says what is wrong with it."""
        try:
            return self.range[index if self.indices is None else self.indices[index]]
        except (IndexError, TypeError):
            return None

    def items(self, indices):
        """The same of many; in the place of None some other."""
        if self.indices is None:
            with contextlib.suppress(OverflowError, TypeError):  # negative ones, others
                items = array.array("Q", indices)
                if not items or max(items) < len(self.range):
                    return items
        return [self.item(index) or 0 for index in indices]

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
    _expect(type(label) is int, "label %r is no integer" % (label,))
    line = os.fsencode(path)
    _expect(min(line) >= 0x20, "control characters in the path %r" % path)
    return b"%s\t%d\n" % (line, label)


def set_of(samples):
    """(path, label) of each item."""
    with tempfile.NamedTemporaryFile(prefix="taut-", suffix=".lines") as file:
        file.writelines(_line(path, label) for path, label in samples)
        file.flush()
        return load.Set(file.name)


class _Files:
    """Samples of an ImageFolder as a set, and what makes batches of it."""

    def __init__(self, plan):
        self.pid, self.samples, self.set = os.getpid(), list(plan.samples), set_of(plan.samples)
        self.swaps = []  # the last used first

    def fits(self, plan):
        """After a fork there is nothing left of it; who changes the data set gets another."""
        return self.pid == os.getpid() and self.samples == plan.samples


class _Swap:
    """Loaders of Taut's that make the same of the same files."""

    def __init__(self, plan, files, cache_bytes, say):
        self.key, self.say = plan.key(), say
        self.make = functools.partial(
            load.Loader,
            files,
            batch_size=plan.batch_size,
            transform=load.Image(strict=True, **plan.options),
            cache_bytes=cache_bytes,
            arrays="torch",
            items=True,
            max_skipped=None,
            **plan.how,
        )
        self.n_made = self.n_theirs = 0  # items, of which PyTorch made so many
        self.free = [self._loader()]  # that nobody iterates; here, so that its faults are told

    def _loader(self):
        items = []
        return self.make(sampler=items), items

    def take(self):
        return self.free.pop() if self.free else self._loader()

    def give_back(self, own):
        self.free.append(own)
        if self.is_in_vain():
            self.free.clear()

    def is_in_vain(self):
        return self.n_theirs > max(_FEW, self.n_made // _PART)


@contextlib.contextmanager
def _unseen(*others):
    """What is drawn meanwhile, the job's generators do not know of: PyTorch's own, which it
    gives, and others."""
    import torch

    own = torch.default_generator
    kept = [(one, one.get_state()) for one in (own, *others)]
    try:
        yield own
    finally:
        for one, state in kept:
            one.set_state(state)


class _Batches:
    """What iter(DataLoader) gives. Several may be under way: each has a loader.

    Taut's loader is told in the beginning what the job's sampler is going to draw, which
    nobody sees. The sampler itself draws when it does for PyTorch: some batches ahead of the
    one that is taken where there are workers, else with it."""

    def __init__(self, swap, loader, plan, seed):
        self._swap, self._plan, self._seed, self._number = swap, plan, seed, 0
        self._dataset, self._collate = loader.dataset, loader.collate_fn
        self._timeout, self._pins = loader.timeout, _load_pinned.find(loader.pin_memory)
        self._sampler, self._drawing = loader.batch_sampler, iter(loader.batch_sampler)
        self._n_workers, self._drawn = loader.num_workers, collections.deque()
        self._own = self._batches = None
        self._is_begun = False
        if self._n_workers:
            self._begin()
            for _ in range(self._n_workers * loader.prefetch_factor):
                self._draw()

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._sampler)

    def __next__(self):
        if hasattr(load.Loader.__iter__, "_taut_stalls"):
            return self._measured()
        if not self._n_workers:
            self._begin()
            self._draw()
        if not self._drawn:
            self._end()
            raise StopIteration
        made = self._made()
        indices = self._drawn.popleft()
        if self._n_workers:
            self._draw()
        self._number += 1
        return self._whole(indices, *made)

    def _begin(self):
        if self._is_begun:
            return
        self._is_begun = True
        generator = getattr(self._sampler.sampler, "generator", None)
        with _unseen(*([generator] if generator else [])):
            indices = list(itertools.chain.from_iterable(self._sampler))
        try:
            self._own = own, items = self._swap.take()
            items[:] = self._plan.items(indices)
            own.set_epoch(self._seed)
            self._batches = iter(own)
        except Exception as why:
            self._give_up(why)

    def _measured(self):
        """`taut stalls` gives batches of its own choice, as many as it needs."""
        self._begin()
        try:
            return list(next(self._batches or iter(()))[:2])
        except StopIteration:
            self._end()
            raise

    def _draw(self):
        self._drawn.extend(itertools.islice(self._drawing, 1))

    def _made(self):
        """(data, labels, items) of Taut's next batch, perhaps of none."""
        try:
            if self._batches:
                return next(self._batches)
        except TimeoutError:
            raise RuntimeError("DataLoader timed out after %s seconds" % self._timeout) from None
        except Exception as why:
            self._give_up(why)
        return None, None, []

    def _give_up(self, why):
        self._swap.say("DataLoader goes on without Taut: %s" % why)
        self._own = self._batches = None

    def _end(self):
        own, self._own, self._batches = self._own, None, None
        if own is not None:
            self._swap.give_back(own)

    def __del__(self):
        if sys and not sys.is_finalizing():
            self._end()

    # --- what Taut did not make ---------------------------------------------------------

    def _whole(self, indices, data, labels, items):
        wanted = [self._plan.item(index) for index in indices]
        self._swap.n_made += len(wanted)
        if items == wanted:
            return [data, labels]
        there = dict(zip(items, zip(data, labels.tolist()))) if items else {}
        try:
            with _unseen() as generator:
                generator.manual_seed((self._seed + self._number) % 2**63)
                batch = self._collate([
                    there[item] if item in there else self._dataset[index]
                    for index, item in zip(indices, wanted)
                ])  # fmt: skip
        except Exception:
            if not self._n_workers:
                raise
            fault = self._fault()
        else:
            self._tell([item for item in wanted if item not in there])
            return [part.pin_memory() for part in batch] if self._pins else batch
        fault.reraise()

    def _fault(self):
        """The exception that is handled, as the one of a worker process."""
        from torch._utils import ExceptionWrapper

        worker = (self._number - 1) % self._n_workers
        return ExceptionWrapper(where="in DataLoader worker process %d" % worker)

    def _tell(self, items):
        if items and self._own and not self._swap.n_theirs:
            why = dict(self._own[0].skipped()).get(items[0], "others were drawn than before")
            self._swap.say("DataLoader: PyTorch makes what Taut does not: %s" % why)
        self._swap.n_theirs += len(items)
