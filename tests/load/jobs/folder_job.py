# SPDX-License-Identifier: Apache-2.0
"""A job with DataLoaders over an ImageFolder, run by `taut run --load auto`. What it gets is
compared with what PyTorch's own iterator gives; says `ok NAME` for what held.
usage: folder_job.py PROGRAM..."""

import ctypes
import gc
import os
import pathlib
import pickle
import sys
import tempfile
import weakref

import numpy
import pictures
import torch
from PIL import Image
from torch.utils import data

try:
    import torchvision
except Exception:  # none, or none that this PyTorch can import
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stand_in"))
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]
    import torchvision

from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

N = 36
NORMAL = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
theirs = getattr(data.DataLoader.__iter__, "__wrapped__", None)
root = pictures.make(tempfile.mkdtemp(), N)


def plain():
    return v1.Compose([v1.Resize(48), v1.CenterCrop(40), v1.ToTensor(), v1.Normalize(*NORMAL)])


def loader(transform=None, folder=None, **options):
    options.setdefault("batch_size", 7)
    images = datasets.ImageFolder(folder or root, transform or plain())
    return data.DataLoader(images, **options)


def is_ours(batches):
    return type(batches).__module__.endswith("_load_torch")


def ours(batches):
    own = iter(batches)
    assert is_ours(own)
    return own


def epochs(batches, begin, n=2):
    """Of so many epochs, after the same seed, and the number that is drawn next."""
    torch.manual_seed(3)
    return [[(d.clone(), t) for d, t in begin(batches)] for _ in range(n)], torch.rand(1).item()


def expect_same(made, most_apart=1e-6):
    """The same batches of the same items in the same order, and of the same kind."""
    expected, then = epochs(made, theirs)
    got, ours_then = epochs(made, ours)
    assert then == ours_then
    for one, other in zip(expected, got):
        assert len(one) == len(other), (len(one), len(other))
        for (x, s), (y, t) in zip(one, other):
            assert type(x) is type(y) and (x.shape, x.dtype) == (y.shape, y.dtype)
            assert x.is_contiguous() == y.is_contiguous() and x.device == y.device
            assert s.dtype == t.dtype and s.equal(t)
            assert (x.float() - y.float()).abs().max() <= most_apart
    return got


def outcomes(made, begin):
    """Its batches and errors, each to the end of the epoch."""
    torch.manual_seed(3)
    batches, told = begin(made), []
    while True:
        try:
            told.append([part.clone() for part in next(batches)])
        except StopIteration:
            return told
        except Exception as why:
            told.append((type(why), str(why).splitlines()[0]))


def expect_outcomes(made, n_faults):
    expected, got = outcomes(made, theirs), outcomes(made, ours)
    assert len(expected) == len(got), (expected, got)
    for one, other in zip(expected, got):
        if isinstance(one, tuple):
            assert one == other, (one, other)
            continue
        assert one[1].equal(other[1]), (one, other)
        assert (one[0] - other[0]).abs().max() <= 1e-6
    assert sum(isinstance(one, tuple) for one in got) == n_faults


# --- what is as it was ------------------------------------------------------------------


def fixed():
    """Without a random transform the tensors are those of torchvision, up to rounding."""
    expect_same(loader(), 1e-6)
    expect_same(loader(v1.Compose([v1.Resize([30, 50]), v1.PILToTensor()])), 0)
    expect_same(loader(v1.Compose([v1.Resize(48), v1.CenterCrop((40, 32)), v1.PILToTensor(),
                                   v1.ConvertImageDtype(torch.float16)])), 1e-3)  # fmt: skip
    expect_same(loader(v2.Compose([v2.Resize(48), v2.CenterCrop(40), v2.ToImage(),
                                   v2.ToDtype(torch.float32, scale=True),
                                   v2.Normalize(*NORMAL)])), 1e-6)  # fmt: skip
    same_size = pictures.make(tempfile.mkdtemp(), 6, size=(31, 20))
    expect_same(loader(v1.ToTensor(), same_size), 1e-6)


def types():
    """ToTensor gives PyTorch's default type."""
    chain = v1.Compose([v1.Resize(48), v1.CenterCrop(40), v1.ToTensor()])
    made = loader(chain)
    try:
        for dtype, apart in (torch.float16, 1e-3), (torch.bfloat16, 4e-3):
            torch.set_default_dtype(dtype)
            got = expect_same(made, apart)
            assert got[0][0][0].dtype == dtype
        torch.set_default_dtype(torch.float64)
        assert next(iter(made))[0].dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    expect_same(made)


def batches():
    """Their number, the last one, and what a batch is."""
    for options in (
        {"batch_size": 7, "drop_last": True},
        {"batch_size": 50},
        {"batch_size": 12, "num_workers": 2, "persistent_workers": True},
    ):
        expect_same(loader(shuffle=True, **options))
        made = loader(**options)
        own = iter(made)
        assert len(own) == len(made)
        first = next(own)
        assert isinstance(first, list) and len(first) == 2
        assert not first[0].is_pinned() and first[1].dtype == torch.int64
        assert len(list(own)) == len(made) - 1
    empty = loader(batch_size=50, drop_last=True)
    assert is_ours(iter(empty)) and list(empty) == []
    assert empty.dataset.classes == list(pictures.CLASSES)


def samplers():
    """PyTorch's own say which items come when."""
    expect_same(loader(shuffle=True, num_workers=2))
    own = torch.Generator().manual_seed(5)
    with_generator = loader(shuffle=True, num_workers=2, generator=own)
    own.manual_seed(5)
    expected, _ = epochs(with_generator, theirs)
    own.manual_seed(5)
    got, _ = epochs(with_generator, iter)
    assert [t.tolist() for _, t in sum(expected, [])] == [t.tolist() for _, t in sum(got, [])]
    expect_same(loader(sampler=data.SubsetRandomSampler([5, 3, 30]), batch_size=2))
    expect_same(loader(sampler=data.WeightedRandomSampler(torch.ones(N), 50)))
    part = data.Subset(data.Subset(loader().dataset, range(20)), [0, 19, 3, 3])
    expect_same(data.DataLoader(part, batch_size=3, shuffle=True))


def ranks():
    """DistributedSampler: its padding and its set_epoch."""
    images, seen = loader().dataset, []
    for rank in range(5):
        sampler = data.DistributedSampler(images, num_replicas=5, rank=rank, shuffle=True)
        made = data.DataLoader(images, batch_size=3, sampler=sampler)
        orders = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            expect_same(made)
            orders.append(list(sampler))
        assert orders[0] != orders[1]
        seen += orders[1]
    assert sorted(set(seen)) == list(range(N)) and len(seen) == 40


def ways():
    """Early ends, several iterators at once, one loader within another, kept batches."""
    made, other = loader(shuffle=True), loader(batch_size=5)
    whole = [t.tolist() for _, t in epochs(other, theirs, 1)[0][0]]
    for n in range(4):
        for _ in made:
            assert is_ours(iter(other)) and [t.tolist() for _, t in other] == whole
            break
    assert [(a[1].tolist(), b[1].tolist()) for a, b in zip(other, other)] == [
        (labels, labels) for labels in whole
    ]
    kept = list(other)
    assert len(list(other)) == len(kept)
    for (x, _), (y, _) in zip(kept, theirs(other)):
        assert (x - y).abs().max() <= 1e-6
    kept[0][0].zero_()  # it is the job's
    again = iter(other)
    again = iter(other)
    assert [t.tolist() for _, t in again] == whole


def changes():
    """The data set changes between epochs, and so do the batches."""
    made = loader()
    expect_same(made)
    made.dataset.transform = v1.Compose([v1.Resize((20, 20)), v1.PILToTensor()])
    expect_same(made, 0)
    del made.dataset.samples[10:]
    expect_same(made, 0)
    made.dataset.transform = v1.Lambda(lambda image: torch.zeros(1))
    assert not is_ours(iter(made))
    made.dataset.transform = plain()
    again = pickle.loads(pickle.dumps(made))
    expect_same(again)
    del made, again
    gc.collect()


def random_crops():
    """Of the same distribution: means and spreads of 400 draws of one image each."""
    images = pictures.make(tempfile.mkdtemp(), 3, size=(60, 40))
    for scale in (0.08, 1.0), (0.0, 0.1):
        crops_of(images, scale)


def crops_of(images, scale):
    transform = v1.Compose([v1.RandomResizedCrop((16, 24), scale), v1.RandomHorizontalFlip(),
                            v1.ToTensor()])  # fmt: skip
    made = loader(transform, images, sampler=data.WeightedRandomSampler([1.0, 0, 0], 400),
                  batch_size=100)  # fmt: skip
    torch.manual_seed(1)
    of_theirs = torch.cat([x for x, _ in theirs(made)]).double()
    # Items of one epoch are drawn alike where they are the same: so 400 epochs of one.
    once = loader(transform, images, sampler=data.SubsetRandomSampler([0]), batch_size=1)
    of_ours = torch.cat([next(iter(once))[0].clone() for _ in range(400)]).double()
    assert len(of_theirs) == len(of_ours) == 400
    for statistic in (
        lambda x: x.mean((1, 2, 3)),  # which part
        lambda x: x[:, 0, :, -8:].mean((1, 2)) - x[:, 0, :, :8].mean((1, 2)),  # width, flip
        lambda x: x[:, 1, -5:].mean((1, 2)) - x[:, 1, :5].mean((1, 2)),  # height
    ):
        a, b = statistic(of_theirs), statistic(of_ours)
        error = ((a.var() + b.var()) / 400).sqrt()
        assert abs(a.mean() - b.mean()) < 4 * error, (a.mean(), b.mean(), error)
        assert 0.75 < a.std() / b.std() < 1.33, (a.std(), b.std())
    torch.manual_seed(1)
    first = next(iter(once))[0].clone()
    torch.manual_seed(1)
    assert first.equal(next(iter(once))[0])  # the job's seed is theirs too


def jitter():
    """Colours: the mean brightness of 200 draws, against what it is drawn from."""
    transform = v1.Compose([v1.Resize((20, 20)), v1.ColorJitter(brightness=0.5),
                            v1.ToTensor()])  # fmt: skip
    one = loader(transform, sampler=data.SubsetRandomSampler([0]), batch_size=1)
    assert is_ours(iter(one))
    still = v1.Compose([v1.Resize((20, 20)), v1.ToTensor()])
    mean = next(iter(loader(still)))[0][0].mean()
    drawn = torch.stack([next(iter(one))[0].mean() for _ in range(200)]) / mean
    assert drawn.min() > 0.48 and drawn.max() < 1.52
    assert abs(drawn.mean() - 1) < 0.08 and 0.22 < drawn.std() < 0.36


def broken():
    """A file that is no image is an error that names it, as it was."""
    folder = pictures.make(tempfile.mkdtemp(), 6)
    path = os.path.join(folder, "bee", "002.png")
    pathlib.Path(path).write_bytes(b"no image")
    made = iter(loader(folder=folder, batch_size=2))
    assert is_ours(made)
    next(made)
    try:
        next(made)
    except OSError as why:
        assert "002.png" in str(why), why
    else:
        raise AssertionError("there was a batch")


def strangers():
    """Images that Taut does not decode, or decodes with a warning, are Pillow's."""
    folder = pictures.make(tempfile.mkdtemp(), 30, "jpg")
    for n, format in enumerate(("GIF", "BMP", "TIFF", "PPM")):
        path = os.path.join(folder, "bee", "%03d.jpg" % (12 + n))
        pictures.picture((70, 50 + n), n).save(path, format)
    for n, mode in enumerate(("CMYK", "L")):
        path = os.path.join(folder, "ant", "%03d.jpg" % n)
        pictures.picture((70, 50), n).convert(mode).save(path, progressive=True)
    deep = Image.fromarray(numpy.arange(60 * 50, dtype="u2").reshape(60, 50))
    deep.save(os.path.join(folder, "cat", "deep.png"))
    for workers in 0, 2:
        expect_same(loader(folder=folder, shuffle=True, batch_size=4, num_workers=workers))
    crops = v1.Compose([v1.RandomResizedCrop(30), v1.ToTensor()])
    made = loader(crops, folder, batch_size=40)
    torch.manual_seed(1)
    first, state = next(iter(made))[0].clone(), torch.get_rng_state()
    torch.manual_seed(1)
    assert first.equal(next(iter(made))[0]) and state.equal(torch.get_rng_state())
    most = pictures.make(tempfile.mkdtemp(), 20, "jpg")
    for path, _ in datasets.ImageFolder(most).samples:
        pictures.picture((40, 40), 1).save(path, "BMP")
    made = loader(folder=most)
    assert len(list(ours(made))) == len(made)
    assert not is_ours(iter(made)) and len(list(made)) == len(made)


def faults():
    """An error comes in the place of its batch, and the others come as they would."""
    folder = pictures.make(tempfile.mkdtemp(), 12, "jpg")
    whole = pathlib.Path(folder, "bee", "005.jpg").read_bytes()
    pathlib.Path(folder, "ant", "002.jpg").write_bytes(b"no image")
    pathlib.Path(folder, "bee", "005.jpg").write_bytes(whole[:-300])
    images = datasets.ImageFolder(folder, plain())
    ours(data.DataLoader(images))  # they are listed
    pathlib.Path(folder, "cat", "010.jpg").unlink()
    for workers in 0, 2:
        expect_outcomes(data.DataLoader(images, batch_size=2, num_workers=workers), 3)


def indices():
    """Those that Python allows; others are PyTorch's error, in their place."""
    images = loader().dataset
    expect_same(loader(sampler=data.SubsetRandomSampler([-1, 3, -N]), batch_size=2))
    expect_same(data.DataLoader(data.Subset(images, [-1, 0, -5]), batch_size=2))
    numbers = torch.tensor([1, 5])
    expect_same(data.DataLoader(data.Subset(images, numbers), batch_size=2))
    for workers in 0, 2:
        strange = data.SubsetRandomSampler([0, N, 1, 2, 3, -N - 1])
        expect_outcomes(loader(sampler=strange, batch_size=1, num_workers=workers), 2)


def sizes():
    """Of images whose sizes nothing changes."""
    folder = pictures.make(tempfile.mkdtemp(), 12, size=(31, 20))
    images = datasets.ImageFolder(folder, v1.ToTensor())
    pictures.picture((25, 30), 0).save(images.samples[3][0])
    for workers in 0, 2:
        expect_same(data.DataLoader(images, batch_size=1, num_workers=workers))
        expect_outcomes(data.DataLoader(images, batch_size=2, num_workers=workers), 1)
    pictures.picture((25, 30), 0).save(images.samples[0][0])
    expect_same(data.DataLoader(data.Subset(images, [1, 2, 4]), batch_size=2))
    made = data.DataLoader(images, batch_size=1)
    assert not is_ours(iter(made)) and len(list(made)) == 12


def drawn():
    """The job's generators are where they would be after each batch, and when it leaves."""
    images = loader().dataset

    def states(begin, make, workers, n):
        torch.manual_seed(7)
        own = torch.Generator().manual_seed(8)
        made = data.DataLoader(images, batch_size=5, num_workers=workers, **make(own))
        seen = []
        for _ in range(2):
            batches = begin(made)
            seen += torch.get_rng_state(), own.get_state()
            for _ in range(n):
                torch.rand(1)
                seen.append(next(batches)[1].clone())
                seen += torch.get_rng_state(), own.get_state()
            if n == 8:
                assert next(batches, None) is None
            del batches
            seen += torch.get_rng_state(), own.get_state()
        return seen

    for make in (
        lambda own: dict(shuffle=True),
        lambda own: dict(shuffle=True, generator=own),
        lambda own: dict(sampler=data.RandomSampler(images, True, 40, own)),
        lambda own: dict(sampler=data.RandomSampler(images, False, 40, own), generator=own),
        lambda own: dict(sampler=data.WeightedRandomSampler([1.0] * N, 40, generator=own)),
        lambda own: dict(sampler=data.SubsetRandomSampler([*range(N), 0, 1, 2, 3], own)),
    ):
        for workers, n in (0, 0), (0, 3), (2, 3), (0, 8), (2, 8):
            if n == 8 and len(make(None)) == 1 and "shuffle" in make(None):
                n = 7
            one, other = (states(begin, make, workers, n) for begin in (theirs, ours))
            assert len(one) == len(other)
            for a, b in zip(one, other):
                assert a.equal(b), (workers, n)


def used():
    """Who draws from a sampler's generator meanwhile gets other items then, as he would."""
    images = loader().dataset

    def labels(begin):
        own = torch.Generator().manual_seed(8)
        sampler = data.RandomSampler(images, True, 40, own)
        told = []
        for x, t in begin(data.DataLoader(images, batch_size=5, sampler=sampler)):
            told.append((x.clone(), t.clone()))
            torch.rand(3, generator=own)
        return told

    for (x, s), (y, t) in zip(labels(theirs), labels(ours)):
        assert s.equal(t) and (x - y).abs().max() <= 1e-6


def anew():
    """A DataLoader for each epoch: the files are listed once, and read once with a cache."""
    module = sys.modules[type(ours(loader())).__module__]
    listed, set_of = [], module.set_of
    module.set_of = lambda samples: listed.append(1) or set_of(samples)
    images = loader().dataset
    reads = []
    for n in range(3):
        made = data.DataLoader(images, batch_size=7, shuffle=True)
        batches = ours(made)
        assert len(list(batches)) == len(made)
        del made, batches
        gc.collect()
        (swap,) = module.swaps.files[images].swaps
        reads.append(sum(own.counts()["reads"] for own, _ in swap.free))
    other = data.DataLoader(images, batch_size=5)
    expect_same(other)
    assert len(listed) == 1 and len(module.swaps.files[images].swaps) == 2
    if "TAUT_RUN_LOAD_CACHE" in os.environ:
        assert reads == [N, N, N], reads
    gone = weakref.ref(images)
    del images, other
    gc.collect()
    assert gone() is None
    module.set_of = set_of


def pinned():
    """A made-up allocator of PyTorch's, under which each tensor is still being copied to a
    device when the job drops it, to the end of the epoch."""
    taut = sys.modules[type(ours(loader())).__module__]._load_pinned
    find, given = taut.find, []

    def empty(shape, dtype):
        given.append(torch.empty(shape, dtype=dtype))
        return given[-1]

    taut.find = lambda asked: asked and empty
    try:
        taken = []  # (where the device reads, shape)
        for x, t in ours(loader(pin_memory=True)):
            assert {x.data_ptr(), t.data_ptr()} <= {one.data_ptr() for one in given}
            taken.append((x.data_ptr(), x.shape))
            del x, t
    finally:
        taut.find = find
    expected = list(theirs(loader()))
    assert len(expected) == len(taken)
    for (at, shape), (x, _) in zip(taken, expected):
        assert shape == x.shape
        read = torch.frombuffer(bytearray(ctypes.string_at(at, 4 * x.numel())), dtype=torch.float32)
        assert (read.reshape(shape) - x).abs().max() <= 1e-6


# --- what stays -------------------------------------------------------------------------


class Counted(datasets.ImageFolder):
    def __getitem__(self, index):
        return super().__getitem__(index)


class Own(data.DataLoader):
    pass


class Always(data.Sampler):
    def __iter__(self):
        return iter([0, 1, 2])

    def __len__(self):
        return 3


def stays():
    """Each is PyTorch's own still, with all its batches."""
    crop = v1.Resize((20, 20))
    images = datasets.ImageFolder
    for name, make in (
        ("Lambda", lambda: loader(v1.Compose([v1.Lambda(lambda image: image), crop, v1.ToTensor()]))),
        ("RandomCrop", lambda: loader(v1.Compose([v1.RandomCrop(20), v1.ToTensor()]))),
        ("bicubic", lambda: loader(v1.Compose([
            v1.Resize((9, 9), v1.InterpolationMode.BICUBIC), v1.ToTensor()]))),
        ("jitter first", lambda: loader(v1.Compose([v1.ColorJitter(0.5), crop, v1.ToTensor()]))),
        ("uneven jitter", lambda: loader(v1.Compose([
            crop, v1.ColorJitter(brightness=(0.2, 1.1)), v1.ToTensor()]))),
        ("flip, centre", lambda: loader(v1.Compose([
            v1.RandomHorizontalFlip(), v1.Resize(30), v1.CenterCrop(20), v1.ToTensor()]))),
        ("target", lambda: data.DataLoader(images(root, plain(), lambda label: -label))),
        ("subclass", lambda: data.DataLoader(Counted(root, plain()))),
        ("loader", lambda: data.DataLoader(images(
            root, plain(), loader=lambda path: torchvision.datasets.folder.default_loader(path)))),
        ("DataLoader's subclass", lambda: Own(images(root, plain()))),
        ("collate", lambda: loader(collate_fn=lambda rows: torch.stack([x for x, _ in rows]))),
        ("sampler", lambda: loader(sampler=Always())),
        ("batch sampler", lambda: loader(batch_size=1, batch_sampler=[[0, 1], [2]])),
        ("no batches", lambda: loader(batch_size=None)),
        ("worker_init_fn", lambda: loader(num_workers=1, worker_init_fn=lambda _: None)),
        ("tensors", lambda: data.DataLoader(data.TensorDataset(torch.arange(5)))),
        ("function", lambda: loader(lambda image: torch.zeros(1))),
        ("suffix", lambda: loader(folder=pictures.make(tempfile.mkdtemp(), 3, "bmp"))),
    ):  # fmt: skip
        made = make()
        own = iter(made)
        assert not is_ours(own), name
        assert len(list(own)) == len(made) > 0, name


def off():
    assert theirs is None and len(list(loader())) == 6


for program in sys.argv[1:]:
    globals()[program]()
    print("ok", program, flush=True)
