# SPDX-License-Identifier: Apache-2.0
"""The configurations of bench/accuracy.py: for each model a baseline, which is
recorded, and changes of it, which are predicted from that recording and really
made."""

import collections
import dataclasses
import os
import re

RANKS, MBIT = 2, 1000  # of every baseline

# Options of job.py of each model's baseline.
BASE = {
    "vgg": {"workers": 1},
    "resnet": {"workers": 1, "fetch_ms": 24.0, "prefetch": 1},
    "gpt": {"workers": 1},
    "rnn": {"workers": 1},
}


@dataclasses.dataclass
class Config:
    model: str
    name: str = "baseline"
    change: str = ""  # words of `taut whatif`
    job: dict = dataclasses.field(default_factory=dict)
    ranks: int = RANKS
    mbit: float = MBIT
    slow: tuple = ()  # (host, share of its core)

    @property
    def key(self):
        return f"{self.model}/{self.name}"

    def options(self):
        return {"model": self.model, **BASE[self.model], **self.job}


def changes_of_all():
    """(name, change, fields of Config) that are tried on every model."""
    yield "link 4 Gbit/s", "link=4gbit", {"mbit": 4000}
    yield "link 0.5 Gbit/s", "link=500mbit", {"mbit": 500}
    yield "4 ranks", "world=4", {"ranks": 4}
    yield "batch x2", "batch=2x", {"job": {"batch": 2.0}}
    yield "buckets of 4 MiB", "bucket=4MiB", {"job": {"bucket_mb": 4.0}}
    yield "fp16 gradients", "compress=fp16", {"job": {"compress": "fp16"}}
    yield "accumulate 2", "accumulate=2", {"job": {"accumulate": 2}}
    yield "link 2 Gbit/s", "link=2gbit", {"mbit": 2000}
    yield "3 ranks", "world=3", {"ranks": 3}
    yield "batch x0.5", "batch=0.5x", {"job": {"batch": 0.5}}
    yield "link 0.25 Gbit/s", "link=250mbit", {"mbit": 250}


def changes_of_one():
    """(model, name, change, fields of Config)."""
    late = {"job": {"slow_rank": 1, "slow_ms": 80.0}}
    yield "vgg", "rank 1 late by 80 ms", "slow=1,delay=80ms", late
    yield "gpt", "rank 1 late by 80 ms", "slow=1,delay=80ms", late
    yield "resnet", "2 loader workers", "workers=2", {"job": {"workers": 2}}
    yield "rnn", "rank 1 at 0.7 of a core", "slow=1,factor=1.4286", {"slow": (1, 0.7)}
    both = {"job": {"workers": 2, "batch": 2.0}}
    yield "resnet", "2 loader workers, batch x2", "workers=2 batch=2x", both
    yield "resnet", "storage 2x as fast", "storage=2x", {"job": {"fetch_ms": 12.0}}
    yield "resnet", "storage half as fast", "storage=0.5x", {"job": {"fetch_ms": 48.0}}
    both = {"mbit": 500, "job": {"bucket_mb": 4.0}}
    yield "gpt", "0.5 Gbit/s, buckets of 4 MiB", "link=500mbit bucket=4MiB", both
    yield "vgg", "buckets of 1 MiB", "bucket=1MiB", {"job": {"bucket_mb": 1.0}}
    yield "rnn", "buckets of 10 MiB", "bucket=10MiB", {"job": {"bucket_mb": 10.0}}
    both = {"ranks": 4, "mbit": 2000}
    yield "gpt", "4 ranks, 2 Gbit/s", "world=4 link=2gbit", both
    both = {"mbit": 500, "job": {"compress": "fp16"}}
    yield "vgg", "0.5 Gbit/s, fp16", "link=500mbit compress=fp16", both
    yield "rnn", "accumulate 4", "accumulate=4", {"job": {"accumulate": 4}}
    yield "vgg", "rank 1 at 0.7 of a core", "slow=1,factor=1.4286", {"slow": (1, 0.7)}
    more = {"ranks": 3, "mbit": 500, "job": {"bucket_mb": 4.0}}
    name = "3 ranks, 0.5 Gbit/s, buckets of 4 MiB"
    yield "gpt", name, "world=3 link=500mbit bucket=4MiB", more
    both = {"ranks": 4, "job": {"batch": 2.0}}
    yield "vgg", "4 ranks, batch x2", "world=4 batch=2x", both
    both = {"mbit": 2000, "job": {"compress": "fp16"}}
    yield "rnn", "2 Gbit/s, fp16", "link=2gbit compress=fp16", both
    both = {"ranks": 4, "job": {"workers": 2}}
    yield "resnet", "4 ranks, 2 loader workers", "world=4 workers=2", both


def batches_of():
    """Samples of each model's own batch, without importing PyTorch."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models.py")
    with open(path, encoding="utf-8") as file:
        found = re.findall(r'"(\w+)": Model\(.*, (\d+)\)', file.read())
    return {name: int(batch) for name, batch in found}


def configs(batch_of):
    """All, baselines first. batch_of: samples of each model's own batch, of
    which a change has a factor."""
    found = [Config(model) for model in BASE]
    for name, change, fields in changes_of_all():
        found += [Config(model, name, change, **fields) for model in BASE]
    for model, name, change, fields in changes_of_one():
        found.append(Config(model, name, change, **fields))
    for config in found:
        if "batch" in config.job:
            batch = round(batch_of[config.model] * config.job["batch"])
            config.job = {**config.job, "batch": batch}
    twice = [k for k, n in collections.Counter(c.key for c in found).items() if n > 1]
    assert not twice, twice
    return found
