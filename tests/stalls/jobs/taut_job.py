# SPDX-License-Identifier: Apache-2.0
"""A training loop over taut.load with a cache, that knows nothing of what it is run by."""

import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from taut.load import Image, Loader

SIDE = 64, 104  # of pixels that a file has, in no format
torch.set_num_threads(1)
loader = Loader(
    sys.argv[1],
    batch_size=8,
    shuffle=True,
    num_workers=2,
    cache_bytes=16 << 20,
    transform=Image(SIDE, crop="none", format="raw", raw_size=SIDE),
)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for _ in range(500):
    for images, labels in loader:
        x = images.flatten(1)[:, :8] / 255
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        images.zero_()
        time.sleep(0.01)
