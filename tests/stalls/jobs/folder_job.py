#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job over an ImageFolder of 40 pictures, which it makes: argument 1 is the folder. It goes
on until it is ended."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "load" / "stand_in"))

import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader

torch.set_num_threads(1)
root = pathlib.Path(sys.argv[1])
for i in range(40):
    (root / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (24, 24), (i, 2 * i, 3 * i)).save(root / "ab"[i % 2] / ("%02d.png" % i))
to_tensor = torchvision.transforms.Compose([torchvision.transforms.ToTensor()])
pictures = torchvision.datasets.ImageFolder(str(root), to_tensor)
loader = DataLoader(pictures, 4, shuffle=True, num_workers=1)
model = torch.nn.Linear(3 * 24 * 24, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for epoch in range(1000):
    for images, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images.flatten(1)), labels).backward()
        optimizer.step()
