#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a small network learns of images that DataLoader(ImageFolder), `taut run --load auto`
of the same job, and taut.load in a job written for it bring: accuracy on images that it has
not seen, by seed. The images are scikit-learn's digits, written as JPEGs of 32 x 32 in a
folder a class; --made: drawn shapes, which need no download. Needs PyTorch, Pillow, perhaps
scikit-learn, and torchvision or what the tests have in its place."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ARMS = "DataLoader", "taut run --load", "taut.load"
SIDE, CROP, BATCH = 32, 28, 64
MEAN, STD = (0.3, 0.3, 0.3), (0.35, 0.35, 0.35)
SCALE, RATIO, BRIGHTNESS = (0.6, 1.0), (0.8, 1.25), 0.3


# --- images -----------------------------------------------------------------------------


def digits():
    """(picture, class) of 1,797 that people wrote."""
    import numpy
    from PIL import Image
    from sklearn.datasets import load_digits

    found = load_digits()
    for image, label in zip(found.images, found.target):
        grey = Image.fromarray((image * 255 / 16).astype(numpy.uint8))
        yield grey.resize((SIDE, SIDE), Image.Resampling.BICUBIC).convert("RGB"), str(label)


def shapes(n=600):
    """(picture, class): a disc, a square or a cross somewhere, in noise."""
    import numpy
    from PIL import Image, ImageDraw

    dice = numpy.random.default_rng(1)
    for i in range(n):
        kind = ("cross", "disc", "square")[i % 3]
        image = Image.fromarray(dice.integers(0, 120, (SIDE, SIDE, 3)).astype(numpy.uint8))
        draw, reach = ImageDraw.Draw(image), int(dice.integers(5, 9))
        x, y = (int(v) for v in dice.integers(reach + 2, SIDE - reach - 2, 2))
        colour = tuple(int(v) for v in dice.integers(120, 255, 3))
        box = (x - reach, y - reach, x + reach, y + reach)
        if kind == "disc":
            draw.ellipse(box, fill=colour)
        elif kind == "square":
            draw.rectangle(box, fill=colour)
        else:
            draw.line((x - reach, y, x + reach, y), fill=colour, width=4)
            draw.line((x, y - reach, x, y + reach), fill=colour, width=4)
        yield image, kind


def write(folder, pictures):
    """Every fourth is for the test."""
    for i, (picture, label) in enumerate(pictures):
        path = folder / ("test" if i % 4 == 3 else "train") / label / ("%04d.jpg" % i)
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path, quality=95)


# --- a job ------------------------------------------------------------------------------


def torchvision():
    try:
        import torchvision as found
    except Exception:  # none, or none that this PyTorch can import
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        sys.path.insert(0, str(ROOT / "tests" / "load" / "stand_in"))
        import torchvision as found
    return found


def of_pytorch(folder, is_plain):
    """As anybody's job has it."""
    from torch.utils.data import DataLoader

    vision = torchvision()
    t = vision.transforms
    ends = [t.ToTensor(), t.Normalize(MEAN, STD)]
    fixed = [t.Resize(SIDE), t.CenterCrop(CROP)]
    drawn = [t.RandomResizedCrop(CROP, SCALE, RATIO), t.ColorJitter(BRIGHTNESS)]
    images = vision.datasets.ImageFolder
    train = images(folder / "train", t.Compose((fixed if is_plain else drawn) + ends))
    test = images(folder / "test", t.Compose(fixed + ends))
    return DataLoader(train, BATCH, shuffle=True, num_workers=1), DataLoader(test, BATCH)


def of_taut(folder, is_plain, seed):
    sys.path.insert(0, str(ROOT / "python"))
    from taut.load import Image, Loader

    ends = {"type": "float32", "mean": MEAN, "std": STD}
    fixed = Image(CROP, crop="centre", short_side=SIDE, **ends)
    drawn = Image(CROP, scale=SCALE, ratio=RATIO, brightness=BRIGHTNESS, **ends)
    train = Loader(
        str(folder / "train"), BATCH, shuffle=True, seed=seed, num_workers=1,
        transform=fixed if is_plain else drawn,
    )  # fmt: skip
    return train, Loader(str(folder / "test"), BATCH, num_workers=1, transform=fixed)


def network(n_classes):
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 25, n_classes),
    )  # fmt: skip


def job(arm, folder, epochs, seed, is_plain):
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    if arm == "taut.load":
        train, test = of_taut(folder, is_plain, seed)
    else:
        train, test = of_pytorch(folder, is_plain)
    model = network(len(os.listdir(folder / "train")))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    steps = epochs * len(train)  # the rate falls as half a cosine
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for _ in range(epochs):
        for images, labels in train:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rate.step()
            losses.append(loss.item())
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).float() for x, y in test]
    whose = type(iter(train)).__module__
    print(json.dumps({
        "accuracy": torch.cat(hits).mean().item(),
        "losses": losses,
        "swapped": whose.endswith("_load_torch"),
    }))  # fmt: skip


# --- several ----------------------------------------------------------------------------


def run(arm, folder, options, seed):
    words = [sys.executable, __file__, "--job", arm, "--data", folder, "--seed", seed,
             "--epochs", options.epochs]  # fmt: skip
    words += ["--plain"] * options.plain
    if arm == "taut run --load":
        words = [options.taut, "run", "--load", "auto", "--", *words]
    ended = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if ended.returncode:
        sys.exit("%s: status %d\n%s" % (arm, ended.returncode, ended.stderr))
    told = json.loads(ended.stdout.splitlines()[-1])
    if told["swapped"] != (arm == "taut run --load"):
        sys.exit("%s: the DataLoader is not whose it should be\n%s" % (arm, ended.stderr))
    return told


def show(found):
    print("%-16s %10s %8s   %s" % ("", "mean, %", "spread", "by seed"))
    for arm, runs in found.items():
        hits = [100 * one["accuracy"] for one in runs]
        spread = statistics.stdev(hits) if len(hits) > 1 else 0.0
        print("%-16s %10.2f %8.2f   %s"
              % (arm, statistics.mean(hits), spread, " ".join("%.2f" % hit for hit in hits)))  # fmt: skip
    base = found.get(ARMS[0])
    for arm in found if base and len(base) > 1 else ():
        if arm == ARMS[0]:
            continue
        apart = [100 * (a["accuracy"] - b["accuracy"]) for a, b in zip(found[arm], base)]
        error = statistics.stdev(apart) / len(apart) ** 0.5
        print("%s less %s: %+.2f, standard error %.2f"
              % (arm, ARMS[0], statistics.mean(apart), error))  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--made", action="store_true", help="shapes in place of digits")
    parser.add_argument("--plain", action="store_true", help="nothing is drawn for an image")
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS, metavar="ARM")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--taut", default=str(ROOT / "build" / "taut"))
    parser.add_argument("--job", choices=ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.job:
        job(options.job, options.data, options.epochs, options.seed, options.plain)
        return
    os.environ.setdefault("TAUT_LIB", str(pathlib.Path(options.taut).parent / "libtaut.so.0"))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write(folder, shapes() if options.made else digits())
        found = {arm: [] for arm in options.arms}
        for seed in range(options.seeds):  # in turns
            for arm in options.arms:
                found[arm].append(run(arm, folder, options, seed))
    if options.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main()
