# SPDX-License-Identifier: Apache-2.0
"""A training loop that knows nothing of what it is run by. An item is a file; it takes ITEM
ms of sleep and SPIN ms of a core. A step sleeps for STEP ms, by its share of a batch."""

import argparse
import mmap
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset
from torch.utils.data import SubsetRandomSampler, default_collate

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--item", type=float, default=0)
parser.add_argument("--spin", type=float, default=0)
parser.add_argument("--step", type=float, default=5)
parser.add_argument("--pages", type=int, default=0, help="that an item asks the system for")
parser.add_argument("--step-pages", type=int, default=0, help="the same of a step")
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--subset", type=int, default=0, help="an epoch has so many items")
parser.add_argument("--batched", action="store_true", help="an item is a batch")
parser.add_argument("--stream", action="store_true")
parser.add_argument("--persistent", action="store_true")
parser.add_argument("--validate-first", action="store_true")
parser.add_argument("--break-every", type=int, default=0)
parser.add_argument("--fail-at", type=int, default=-1)
parser.add_argument("--cold", action="store_true", help="files are forgotten first")
parser.add_argument("--steps", type=int, default=5000)
job = parser.parse_args()
torch.set_num_threads(1)
PATHS = sorted(os.path.join(job.data, name) for name in os.listdir(job.data))
BYTES = os.path.getsize(PATHS[0])


def touch(pages):
    if pages:
        size = pages * mmap.PAGESIZE
        with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            for at in range(0, size, mmap.PAGESIZE):
                memory[at] = 1


def load(path):
    touch(job.pages)
    with open(path, "rb") as f:
        if job.cold:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        found = len(f.read())
    time.sleep(job.item / 1000)
    end = time.thread_time_ns() + job.spin * 1e6
    while time.thread_time_ns() < end:
        pass
    return {"bytes": torch.full((8,), float(found)), "name": os.path.basename(path)}


class Files(Dataset):
    def __len__(self):
        return len(PATHS)

    def __getitem__(self, i):
        return load(PATHS[i])


class Batches(Dataset):
    def __len__(self):
        return len(PATHS) // job.batch

    def __getitem__(self, i):
        return default_collate([load(path) for path in PATHS[i * job.batch :][: job.batch]])


class Stream(IterableDataset):
    """Shorter than a phase."""

    def __iter__(self):
        return map(load, PATHS[: 5 * job.batch])


class Own(DataLoader):
    def __iter__(self):
        yield from super().__iter__()


def validate(model):
    n = 0
    with torch.no_grad():
        for batch in validation:
            model(batch)
            n += 1
    time.sleep(0.2)
    return n


def train_step(batch):
    """Takes what it is given apart, and writes over it."""
    names, x = batch.pop("name"), batch.pop("bytes")
    assert len(names) == len(x) and (x == BYTES).all(), "a batch that was used before"
    optimizer.zero_grad()
    model(x / BYTES).sum().backward()
    optimizer.step()
    x.zero_()
    touch(job.step_pages)
    time.sleep(job.step / 1000 * len(x) / job.batch)


model = torch.nn.Linear(8, 1)
sampler = None
if "WORLD_SIZE" in os.environ:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
    sampler = DistributedSampler(Files())
if job.subset:
    sampler = SubsetRandomSampler(range(job.subset))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
loader = Own(
    Stream() if job.stream else Batches() if job.batched else Files(),
    batch_size=None if job.batched else job.batch,
    num_workers=job.workers,
    persistent_workers=job.persistent,
    sampler=sampler,
    shuffle=None if job.stream or sampler else True,
)
validation = DataLoader(torch.ones(240, 8), batch_size=2)
if job.validate_first:
    print("validated", validate(model), flush=True)
step = 0
while step < job.steps:
    for batch in loader:
        train_step(batch)
        step += 1
        if step == job.fail_at:
            raise RuntimeError("the schedule is over")
        if step == job.steps or (job.break_every and step % job.break_every == 0):
            break
    if job.break_every:
        validate(model)
print("went to its end", flush=True)
