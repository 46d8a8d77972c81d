#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One turn of one loader, in the Python that it is installed in; bench/load_compare.py runs
these, and says what is measured.

A way is a function that opens a loader and gives a generator of epochs without end, each an
iterator over the numbers of images in batches of uint8. What it imports, it imports before
the clock runs: prepare() is called first, and gives that function.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time

import common
import measure

SIDE = 224
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


# --- what they share ------------------------------------------------------------------


def crop_of(width, height, chance=random):
    """torchvision's RandomResizedCrop: a box."""
    for _ in range(10):
        area = width * height * chance.uniform(*AREA)
        ratio = math.exp(chance.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = chance.randint(0, width - w), chance.randint(0, height - h)
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def samples_of(root):
    """As ImageFolder: (path, label)."""
    found = []
    for label, name in enumerate(sorted(os.listdir(root))):
        folder = os.path.join(root, name)
        found += [(os.path.join(folder, f), label) for f in sorted(os.listdir(folder))]
    return found


def with_pillow(image):
    """Of an opened image, as torchvision's classes do it: they call the same functions."""
    import numpy
    from PIL import Image

    image = image.convert("RGB")
    image = image.crop(crop_of(*image.size)).resize((SIDE, SIDE), Image.BILINEAR)
    if random.random() < 0.5:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    return numpy.array(image)


def checked(data, is_chw):
    shape = tuple(data.shape[1:])
    assert shape == ((3, SIDE, SIDE) if is_chw else (SIDE, SIDE, 3)), shape
    assert "uint8" in str(data.dtype), data.dtype
    return data.shape[0]


def forever(epoch):
    while True:
        yield epoch()


# --- Taut -----------------------------------------------------------------------------


def taut(options, root=None, **more):
    sys.path.insert(0, os.path.join(common.ROOT, "python"))
    import torch
    from taut.load import Image, Loader

    torch.set_num_threads(1)

    def open_it():
        loader = Loader(
            root or options.root, options.batch, shuffle=True, transform=Image(SIDE, flip=0.5),
            num_workers=options.workers, store=options.store, tail="drop", **more,
        )  # fmt: skip
        return forever(lambda: (checked(data, True) for data, _ in loader))

    return open_it


def taut_cache(options):
    return taut(options, cache_bytes=2 << 30)


def taut_index(options):
    """From an index of the tree, which another process makes before the clock runs."""
    index = os.path.join(options.scratch, "index")
    make = "import sys; from taut.load import Set; Set(sys.argv[1]).write(sys.argv[2])"
    path = {"PYTHONPATH": os.path.join(common.ROOT, "python")}
    command = [sys.executable, "-c", make, options.root, index]
    subprocess.run(command, env={**os.environ, **path}, check=True)
    return taut(options, index)


# --- PyTorch --------------------------------------------------------------------------


class Tree:
    """ImageFolder's part."""

    def __init__(self, root, way):
        self.way, self.samples = way, samples_of(root)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        import torch
        from PIL import Image

        path, label = self.samples[i]
        with open(path, "rb") as file:
            if self.way == "simplejpeg":
                import simplejpeg

                image = Image.fromarray(simplejpeg.decode_jpeg(file.read()))
            else:
                image = Image.open(file)
            return torch.from_numpy(with_pillow(image)).permute(2, 0, 1), label


def go_through_list(worker):
    """Does to this worker's copy of the list what its part of an epoch does: takes as many
    samples, at random. (Files are not read.)"""
    import torch

    info = torch.utils.data.get_worker_info()
    samples = info.dataset.samples
    for _ in range(len(samples) // info.num_workers):
        _path, _label = samples[random.randrange(len(samples))]


def pillow(options, way="pillow", **more):
    import PIL.Image  # noqa: F401
    import torch
    from torch.utils.data import DataLoader

    if way == "simplejpeg":
        import simplejpeg  # noqa: F401
    torch.set_num_threads(1)

    def open_it():
        loader = DataLoader(
            Tree(options.root, way), options.batch, shuffle=True, drop_last=True,
            num_workers=options.workers, persistent_workers=True, **more,
        )  # fmt: skip
        return forever(lambda: (checked(data, True) for data, _ in loader))

    return open_it


def pillow_epoch(options):
    """As its workers are at the end of their first epoch."""
    return pillow(options, worker_init_fn=go_through_list)


def simplejpeg(options):
    return pillow(options, "simplejpeg")


def webdataset(options):
    """Shards made of the tree before the clock runs; decoded by Pillow."""
    import io
    import tarfile

    import torch
    import webdataset as wds
    from PIL import Image

    torch.set_num_threads(1)
    samples, shards = samples_of(options.root), 12
    random.Random(1).shuffle(samples)
    for shard in range(shards):
        with tarfile.open(os.path.join(options.scratch, "%02d.tar" % shard), "w") as tar:
            for i, (path, label) in enumerate(samples[shard::shards]):
                key = "%02d%06d" % (shard, i)
                tar.add(path, key + ".jpg")
                info = tarfile.TarInfo(key + ".cls")
                info.size = len(str(label))
                tar.addfile(info, io.BytesIO(str(label).encode()))

    def sample(parts):
        image = Image.open(io.BytesIO(parts[0]))
        return torch.from_numpy(with_pillow(image)).permute(2, 0, 1), int(parts[1])

    def open_it():
        urls = os.path.join(options.scratch, "{00..%02d}.tar" % (shards - 1))
        data = wds.WebDataset(urls, shardshuffle=shards, empty_check=False).shuffle(300)
        data = data.to_tuple("jpg", "cls").map(sample).batched(options.batch, partial=False)
        loader = wds.WebLoader(
            data, batch_size=None, num_workers=options.workers, persistent_workers=True
        )
        return forever(lambda: (checked(batch[0], True) for batch in loader))

    return open_it


# --- others ---------------------------------------------------------------------------


def dali(options):
    """Its decoder decodes the crop alone, with prefetching as it comes."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=options.batch, num_threads=options.workers, device_id=None)
    def pipeline():
        files, labels = fn.readers.file(
            file_root=options.root, random_shuffle=True, initial_fill=300, name="files"
        )
        images = fn.decoders.image_random_crop(
            files, device="cpu", random_area=list(AREA), random_aspect_ratio=list(RATIO)
        )
        images = fn.resize(
            images, size=[SIDE, SIDE], interp_type=types.INTERP_TRIANGULAR, antialias=True
        )
        return fn.flip(images, horizontal=fn.random.coin_flip()), labels

    def open_it():
        made = pipeline()
        made.build()
        n = made.epoch_size("files") // options.batch

        def epoch():
            for _ in range(n):
                yield checked(made.run()[0].as_array(), False)

        return forever(epoch)

    return open_it


def spdl(options):
    """FFmpeg decodes; crop, scale and flip are one chain of its filters."""
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    paths = [path for path, _ in samples_of(options.root)]
    spdl.io.demux_image(paths[0])  # loads what it needs

    def decode(path):
        packets = spdl.io.demux_image(path)
        left, top, right, bottom = crop_of(packets.width, packets.height)
        chain = f"crop={right - left}:{bottom - top}:{left}:{top},"
        chain += f"scale={SIDE}:{SIDE}:flags=bilinear,"
        chain += "hflip," if random.random() < 0.5 else ""
        return spdl.io.decode_packets(packets, filter_desc=chain + "format=pix_fmts=rgb24")

    def batch(frames):
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def epoch():
        random.shuffle(paths)
        builder = PipelineBuilder().add_source(paths)
        builder = builder.pipe(decode, concurrency=options.workers)
        builder = builder.aggregate(options.batch, drop_last=True).pipe(batch)
        made = builder.add_sink(3).build(num_threads=options.workers)
        with made.auto_stop():
            for data in made:
                yield checked(data, False)

    return lambda: forever(epoch)


def tf(options):
    """tf.data as its guide has it, with the decoder that decodes the crop alone."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow

    paths = [path for path, _ in samples_of(options.root)]
    everything = tensorflow.constant([[[0.0, 0.0, 1.0, 1.0]]])

    def sample(path):
        data = tensorflow.io.read_file(path)
        begin, size, _ = tensorflow.image.sample_distorted_bounding_box(
            tensorflow.image.extract_jpeg_shape(data), everything,
            area_range=AREA, aspect_ratio_range=RATIO, max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )  # fmt: skip
        window = tensorflow.concat([begin[:2], size[:2]], 0)
        image = tensorflow.image.decode_and_crop_jpeg(data, window, channels=3)
        image = tensorflow.image.resize(image, [SIDE, SIDE], antialias=True)
        image = tensorflow.image.random_flip_left_right(image)
        return tensorflow.cast(tensorflow.round(image), tensorflow.uint8)

    def open_it():
        data = tensorflow.data.Dataset.from_tensor_slices(paths)
        data = data.shuffle(len(paths), reshuffle_each_iteration=True)
        data = data.map(sample, num_parallel_calls=options.workers, deterministic=False)
        data = data.batch(options.batch, drop_remainder=True).prefetch(2)
        how = tensorflow.data.Options()
        how.threading.private_threadpool_size = options.workers
        data = data.with_options(how)
        return forever(lambda: (checked(batch, False) for batch in data))

    return open_it


def ffcv(options):
    """Its own file, of JPEGs at their size, made before the clock runs. What it compiles,
    each loader compiles anew: that is in its first batch."""
    import numpy
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip
    from ffcv.writer import DatasetWriter
    from PIL import Image

    class Pixels(list):
        def __getitem__(self, i):
            path, label = super().__getitem__(i)
            return numpy.array(Image.open(path).convert("RGB")), label

    path = os.path.join(options.scratch, "images.beton")
    fields = {
        "image": RGBImageField(write_mode="jpg", jpeg_quality=90),
        "label": IntField(),
    }
    DatasetWriter(path, fields, num_workers=1).from_indexed_dataset(
        Pixels(samples_of(options.root))
    )

    def open_it():
        crop = RandomResizedCropRGBImageDecoder((SIDE, SIDE), scale=AREA, ratio=RATIO)
        loader = Loader(
            path, batch_size=options.batch, num_workers=options.workers,
            order=OrderOption.RANDOM, os_cache=True, drop_last=True,
            pipelines={"image": [crop, RandomHorizontalFlip()], "label": None},
        )  # fmt: skip
        return forever(lambda: (checked(parts[0], False) for parts in loader))

    return open_it


WAYS = {
    "taut": taut,
    "taut-cache": taut_cache,
    "taut-index": taut_index,
    "pillow": pillow,
    "pillow-epoch": pillow_epoch,
    "simplejpeg": simplejpeg,
    "webdataset": webdataset,
    "dali": dali,
    "spdl": spdl,
    "tf": tf,
    "ffcv": ffcv,
}


# --- a turn ---------------------------------------------------------------------------


def cpu_s(pids):
    """User and system time of processes that live."""
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as source:
                fields = source.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def held_mb():
    return sum(measure.held_kb(pid) for pid in measure.tree_of(os.getpid())) / 1024


def turn_of_speed(open_it, options):
    begun = time.perf_counter()
    epochs = open_it()
    batches = next(epochs)
    next(batches)
    first_s = time.perf_counter() - begun
    if options.way == "taut-cache":  # which the first epoch fills
        sum(batches)
        batches = next(epochs)
        next(batches)
    pids = measure.tree_of(os.getpid())
    started, spent = time.perf_counter(), cpu_s(pids)
    images = sum(batches)
    for _ in range(options.epochs - 1):
        images += sum(next(epochs))
    wall, spent = time.perf_counter() - started, cpu_s(pids) - spent
    return {"images_s": images / wall, "images_core_s": images / spent, "first_s": first_s}


def turn_of_memory(open_it, options):
    """The most at any batch of the second half of two epochs: all is grown by then."""
    before, most = held_mb(), 0
    epochs = open_it()
    sum(next(epochs))
    for _ in next(epochs):
        most = max(most, held_mb())
    return {"held_mb": most, "rise_mb": most - before}


def resident_mb(name):
    """VmRSS or VmHWM of this process."""
    with open("/proc/self/status", encoding="ascii") as source:
        return next(int(line.split()[1]) for line in source if line.startswith(name)) / 1024


def turn_of_list(open_it, options):
    """A list of items that is long. The most at any of the later half of so many batches,
    the rise after 1, 2, 4 .. of them, and by how much this process alone rose at most until
    the first: while it made the list."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # VmHWM begins anew
    before, resident, after = held_mb(), resident_mb("VmRSS"), {}
    begun = time.perf_counter()
    batches = next(open_it())
    next(batches)
    first_s = time.perf_counter() - begun
    peak = resident_mb("VmHWM") - resident
    after[1], most = held_mb() - before, 0
    for n in range(2, options.batches + 1):
        next(batches)
        if n & (n - 1) == 0:
            after[n] = held_mb() - before
        if n > options.batches // 2:
            most = max(most, held_mb() - before)
    return {"rise_mb": most, "after_mb": after, "peak_mb": peak, "first_s": first_s}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("root", help="a tree of JPEGs")
    parser.add_argument("--scratch", help="a folder for files of its own")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--store", help="of Taut")
    parser.add_argument("--memory", action="store_true", help="that, and not speed")
    parser.add_argument("--batches", type=int, help="memory after so many, of a long list")
    options = parser.parse_args()
    open_it = WAYS[options.way](options)
    turn = turn_of_memory if options.memory else turn_of_speed
    if options.batches:
        turn = turn_of_list
    print(json.dumps(turn(open_it, options)))
    sys.stdout.flush()
    os._exit(0)  # some wait for their threads for long


if __name__ == "__main__":
    main()
