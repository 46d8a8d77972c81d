# SPDX-License-Identifier: Apache-2.0
import enum
import math

import numpy
import torch
from PIL import Image, ImageEnhance

__all__ = (
    "CenterCrop ColorJitter Compose ConvertImageDtype InterpolationMode Lambda Normalize "
    "PILToTensor RandomCrop RandomHorizontalFlip RandomResizedCrop Resize ToTensor"
).split()


class InterpolationMode(enum.Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


_PILLOW = {"nearest": 0, "bilinear": 2, "bicubic": 3}


def resized(image, height, width, interpolation):
    return image.resize((width, height), _PILLOW[getattr(interpolation, "value", interpolation)])


def _pair(size):
    size = [size] if isinstance(size, int) else list(size)
    return tuple(size * (2 // len(size)))


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for one in self.transforms:
            image = one(image)
        return image


class Resize:
    def __init__(
        self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True
    ):
        self.size, self.interpolation = size, interpolation
        self.max_size, self.antialias = max_size, antialias

    def __call__(self, image):
        if not isinstance(self.size, int) and len(self.size) == 2:
            return resized(image, *self.size, self.interpolation)
        side = self.size if isinstance(self.size, int) else self.size[0]
        long = side * max(image.size) // min(image.size)
        height, width = (side, long) if image.width > image.height else (long, side)
        return resized(image, height, width, self.interpolation)


class CenterCrop:
    def __init__(self, size):
        self.size = _pair(size)

    def __call__(self, image):
        top = round((image.height - self.size[0]) / 2)
        left = round((image.width - self.size[1]) / 2)
        return image.crop((left, top, left + self.size[1], top + self.size[0]))


class RandomCrop:
    def __init__(self, size):
        self.size = _pair(size)

    def __call__(self, image):
        return image.crop((0, 0, self.size[1], self.size[0]))


class RandomResizedCrop:
    def __init__(
        self,
        size,
        scale=(0.08, 1.0),
        ratio=(3 / 4, 4 / 3),
        interpolation=InterpolationMode.BILINEAR,
        antialias=True,
    ):
        self.size, self.scale, self.ratio = _pair(size), scale, ratio
        self.interpolation, self.antialias = interpolation, antialias

    def box(self, width, height):
        logs = [math.log(ratio) for ratio in self.ratio]
        for _ in range(10):
            area = width * height * torch.empty(1).uniform_(*self.scale).item()
            ratio = math.exp(torch.empty(1).uniform_(*logs).item())
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                left = torch.randint(0, width - w + 1, (1,)).item()
                top = torch.randint(0, height - h + 1, (1,)).item()
                return left, top, left + w, top + h
        w, h = width, height
        if width / height < self.ratio[0]:
            h = round(w / self.ratio[0])
        elif width / height > self.ratio[1]:
            w = round(h * self.ratio[1])
        left, top = (width - w) // 2, (height - h) // 2
        return left, top, left + w, top + h

    def __call__(self, image):
        return resized(image.crop(self.box(*image.size)), *self.size, self.interpolation)


class RandomHorizontalFlip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, image):
        if torch.rand(1) >= self.p:
            return image
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


class ColorJitter:
    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        self.brightness, self.contrast = self._factors(brightness), self._factors(contrast)
        self.saturation = self._factors(saturation)
        self.hue = (-hue, hue) if hue else None

    @staticmethod
    def _factors(value):
        if isinstance(value, (tuple, list)):
            return tuple(value)
        return (max(0, 1 - value), 1 + value) if value else None

    def __call__(self, image):
        for way, factors in (
            (ImageEnhance.Brightness, self.brightness),
            (ImageEnhance.Contrast, self.contrast),
            (ImageEnhance.Color, self.saturation),
        ):
            if factors:
                image = way(image).enhance(torch.empty(1).uniform_(*factors).item())
        return image


class PILToTensor:
    def __call__(self, image):
        return torch.from_numpy(numpy.array(image)).permute(2, 0, 1).contiguous()


class ToTensor(PILToTensor):
    def __call__(self, image):
        return super().__call__(image).to(torch.get_default_dtype()).div(255)


class ConvertImageDtype:
    def __init__(self, dtype):
        self.dtype = dtype

    def __call__(self, image):
        return image if image.dtype == self.dtype else image.to(self.dtype).div(255)


class Normalize:
    def __init__(self, mean, std, inplace=False):
        self.mean, self.std, self.inplace = mean, std, inplace

    def __call__(self, image):
        mean, std = (torch.tensor(v, dtype=image.dtype) for v in (self.mean, self.std))
        return (image - mean[:, None, None]) / std[:, None, None]


class Lambda:
    def __init__(self, lambd):
        self.lambd = lambd

    def __call__(self, image):
        return self.lambd(image)
