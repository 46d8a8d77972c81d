# SPDX-License-Identifier: Apache-2.0
import os

from PIL import Image

IMG_EXTENSIONS = ".jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp".split()


def default_loader(path):
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


class DatasetFolder:
    def __init__(self, root, loader, extensions=None, transform=None, target_transform=None):
        self.root, self.loader, self.extensions = str(root), loader, extensions
        self.transform, self.target_transform = transform, target_transform
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples = [
            (os.path.join(folder, name), i)
            for i, one in enumerate(self.classes)
            for folder, _, names in sorted(os.walk(os.path.join(self.root, one)))
            for name in sorted(names)
            if name.lower().endswith(tuple(extensions))
        ]
        self.targets = [label for _, label in self.samples]

    def __getitem__(self, index):
        path, target = self.samples[index]
        sample = self.loader(path)
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target

    def __len__(self):
        return len(self.samples)


class ImageFolder(DatasetFolder):
    def __init__(self, root, transform=None, target_transform=None, loader=default_loader):
        super().__init__(root, loader, IMG_EXTENSIONS, transform, target_transform)
        self.imgs = self.samples
