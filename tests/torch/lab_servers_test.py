# SPDX-License-Identifier: Apache-2.0
"""Four models, three optimizers, gradients summed by two parameter servers: what `taut
run` trains has the bits of synchronous training by hand, in the order of the ranks."""

import unittest

from ranks import SERVERS, main, programs


class Lab(unittest.TestCase):
    def bits(self, *models, **more):
        both, _ = programs("lab", *models, n_ranks=3, TAUT_RUN_GATE="off", **SERVERS, **more)
        for seen in both:
            self.assertEqual(len(seen), 3 * len(models))
            for name, row in seen.items():
                self.assertTrue(row["same"], name)
        self.assertTrue(any(row["late"] for row in both[0].values()))

    def test_vgg(self):
        self.bits("vgg")

    def test_resnet(self):
        self.bits("resnet")

    def test_gpt(self):
        """In other parts, and with a credit for one at a time."""
        self.bits("gpt", TAUT_RUN_PIECE="65536", TAUT_RUN_CREDIT="1")

    def test_rnn(self):
        self.bits("rnn", TAUT_RUN_PIECE="0")


if __name__ == "__main__":
    main()
