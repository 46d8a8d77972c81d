#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`taut run --load auto`: a job with DataLoaders over an ImageFolder, of which it changes
nothing, gets its batches from Taut's loader; other DataLoaders stay as they are. Against
PyTorch's own iterator in the same job, over torchvision where there is one, else over a
stand-in."""

import os
import unittest

import load_world

PYTHON = load_world.find_python("torch")
JOB = load_world.JOBS / "folder_job.py"
HELD = (
    "fixed types batches samplers ranks ways changes random_crops jitter broken strangers faults "
    "indices sizes drawn used anew pinned stays"
).split()


class Runs(unittest.TestCase):
    def run_job(self, options, programs, **more):
        command = [os.environ["TAUT"], "run", *options, "--", PYTHON, JOB, *programs]
        return load_world.held(self, [load_world.start(*command, **more)], programs)

    def test_swapped(self):
        said = self.run_job(["--load", "auto"], HELD)
        self.assertIn("taut: DataLoader over 36 images of", said)
        for why in (
            "transform Lambda is not one that Taut has",
            "transform function is not torchvision's own",
            "Resize with interpolation",
            "ColorJitter before the crop or resize",
            "ColorJitter's brightness between 0.2 and 1.1",
            "RandomHorizontalFlip before CenterCrop",
            "ImageFolder has a target_transform",
            "Counted has a __getitem__ of its own",
            "ImageFolder has a loader of its own",
            "it is a Own",
            "it has a collate_fn",
            "its sampler Always is not PyTorch's own",
            "its batch_sampler is not PyTorch's own",
            "it makes no batches",
            "it has a worker_init_fn",
            "ToTensor gives torch.float64",
            "Taut does not make enough of its images",
            "its transform leaves images of unlike sizes",
            "its data set TensorDataset is no ImageFolder",
            "Taut decodes no .bmp",
        ):
            self.assertEqual(said.count(why), 1, why)

    def test_cache_and_rank(self):
        """With a cache too; a rank other than 0 says nothing."""
        options = ["--load", "auto", "--load-cache", "10M"]
        said = self.run_job(options, ["samplers", "anew"], RANK="1")
        self.assertNotIn("taut: DataLoader", said)

    def test_off(self):
        self.assertEqual(self.run_job([], ["off"]), "")


if __name__ == "__main__":
    load_world.main("torch", PYTHON, "PIL", "numpy")
