# SPDX-License-Identifier: Apache-2.0
"""Four models, sized so that one core does a training step in some 200 ms.

    vgg   few large layers, 9 in 10 parameters in two of them
    resnet  many small layers with batch norms, whose buffers are broadcast
    gpt   a decoder-only Transformer with tied embeddings
    rnn   an LSTM language model with large embedding and softmax

Each entry of MODELS has build() and sample(index): input and target of one
sample, made from the index."""

import collections

import torch
from torch import nn
from torch.nn import functional

CLASSES = 100
IMAGE = 32
WORDS = 4000
GPT_LENGTH, GPT_WIDTH, GPT_BLOCKS = 64, 256, 6
RNN_LENGTH, RNN_EMBED, RNN_WIDTH = 24, 320, 512

Model = collections.namedtuple("Model", "build sample batch")


def image(index):
    g = torch.Generator().manual_seed(index)
    return torch.randn(3, IMAGE, IMAGE, generator=g), index % CLASSES


def text(length):
    def sample(index):
        g = torch.Generator().manual_seed(index)
        words = torch.randint(WORDS, (length + 1,), generator=g)
        return words[:-1], words[1:]

    return sample


class Vgg(nn.Module):
    def __init__(self):
        super().__init__()
        layers, before = [], 3
        for width in (32, "pool", 64, 64, "pool", 128, 128, "pool", 256, 256, "pool"):
            if width == "pool":
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
                before = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(before * 4, 2560),
            nn.ReLU(),
            nn.Linear(2560, 1280),
            nn.ReLU(),
            nn.Linear(1280, CLASSES),
        )

    def forward(self, x, target):
        scores = self.classifier(self.features(x).flatten(1))
        return functional.cross_entropy(scores, target)


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, after, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(after)
        self.skip = None
        if stride != 1 or before != after:
            self.skip = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        y = functional.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return functional.relu(y + (x if self.skip is None else self.skip(x)))


class Resnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)
        blocks, before = [], 32
        for width, count, stride in ((16, 3, 1), (32, 4, 2), (64, 6, 2), (128, 3, 2)):
            for i in range(count):
                blocks.append(Bottleneck(before, width, stride if i == 0 else 1))
                before = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, CLASSES)

    def forward(self, x, target):
        x = self.blocks(functional.relu(self.norm(self.stem(x))))
        return functional.cross_entropy(self.head(x.mean((2, 3))), target)


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, 2)
        parts = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.reshape(parts).transpose(1, 2) for t in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, GPT_WIDTH)
        self.places = nn.Parameter(torch.zeros(GPT_LENGTH, GPT_WIDTH))
        self.blocks = nn.Sequential(*(GptBlock(GPT_WIDTH, 4) for _ in range(GPT_BLOCKS)))
        self.norm = nn.LayerNorm(GPT_WIDTH)
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, x, target):
        y = self.norm(self.blocks(self.words(x) + self.places))
        scores = y @ self.words.weight.t()
        return functional.cross_entropy(scores.flatten(0, 1), target.flatten())


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, RNN_EMBED)
        self.lstm = nn.LSTM(RNN_EMBED, RNN_WIDTH, 2, batch_first=True)
        self.head = nn.Linear(RNN_WIDTH, WORDS)

    def forward(self, x, target):
        y, _ = self.lstm(self.words(x))
        return functional.cross_entropy(self.head(y).flatten(0, 1), target.flatten())


MODELS = {
    "vgg": Model(Vgg, image, 24),
    "resnet": Model(Resnet, image, 16),
    "gpt": Model(Gpt, text(GPT_LENGTH), 6),
    "rnn": Model(Rnn, text(RNN_LENGTH), 12),
}
