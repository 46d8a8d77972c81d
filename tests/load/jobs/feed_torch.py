# SPDX-License-Identifier: Apache-2.0
"""What a DataLoader has made when a job has taken so many batches, and who made what: a line
of JSON for each number of workers and batches ahead."""

import json
import multiprocessing
import time

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

ITEMS, BATCH, TAKEN = 48, 2, 3


class Items(Dataset):
    def __init__(self):
        self.n_made = multiprocessing.Value("i", 0)

    def __len__(self):
        return ITEMS

    def __getitem__(self, i):
        with self.n_made.get_lock():
            self.n_made.value += 1
        info = get_worker_info()
        return torch.tensor([i, info.id if info else -1])


def when_still(value):
    """What it stays at for a third of a second; in a minute it does."""
    for _ in range(180):
        before = value.value
        time.sleep(0.33)
        if value.value == before:
            return before
    raise SystemExit("items are made on and on")


def main():
    for workers, ahead in ((0, None), (2, 3), (3, 1)):
        items = Items()
        loader = DataLoader(items, BATCH, num_workers=workers, prefetch_factor=ahead)
        batches, makers, made = iter(loader), [], []
        for _ in range(TAKEN):
            makers.append(next(batches)[:, 1].tolist())
            made.append(when_still(items.n_made))
        rest = [batch[:, 1].tolist() for batch in batches]
        print(json.dumps({
            "workers": workers, "ahead": ahead, "made": made, "makers": makers + rest,
            "all": items.n_made.value,
        }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
