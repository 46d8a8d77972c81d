# SPDX-License-Identifier: Apache-2.0
"""Two models of images, three optimizers: what `taut run` trains has the bits
of synchronous training by hand."""

import unittest

from ranks import main, programs

CROSSING = {"TAUT_RUN_GATE": "off"}


class Lab(unittest.TestCase):
    def same(self, *models, **more):
        """Two ranks: whichever comes first, a sum of two has the same bits."""
        both, _ = programs("lab", *models, **CROSSING, **more)
        for seen in both:
            self.assertEqual(len(seen), 3 * len(models))
            for name, row in seen.items():
                self.assertTrue(row["same"], name)
        self.assertTrue(any(row["late"] for row in both[0].values()))

    def test_images(self):
        self.same("vgg", "resnet")


if __name__ == "__main__":
    main()
