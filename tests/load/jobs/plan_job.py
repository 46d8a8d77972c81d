# SPDX-License-Identifier: Apache-2.0
"""A job of one rank that knows nothing of Taut: it trains on pictures of a folder. The last
line that it prints has whose batches they were, the last losses, and the random number that
comes next. usage: plan_job.py FOLDER [own]: with a transform that Taut has not"""

import json
import pathlib
import sys

import torch
from torch.utils import data

try:
    import torchvision
except Exception:  # none, or none that this PyTorch can import
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stand_in"))
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]
    import torchvision  # noqa: F401

from torchvision import datasets
from torchvision import transforms

torch.set_num_threads(1)
torch.manual_seed(1)
chain = [transforms.Resize(48), transforms.CenterCrop(40), transforms.ToTensor()]
if "own" in sys.argv:
    chain.append(transforms.Lambda(lambda image: image))
images = datasets.ImageFolder(sys.argv[1], transforms.Compose(chain))
batches = data.DataLoader(images, batch_size=8, shuffle=True, num_workers=1)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 40 * 40, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
losses, whose = [], ""
for epoch in range(2):
    own = iter(batches)
    whose = type(own).__module__
    for x, y in own:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print(json.dumps([whose, losses, torch.rand(1).item()]))
