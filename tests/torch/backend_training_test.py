# SPDX-License-Identifier: Apache-2.0
"""Training over the backend "taut": unchanged DDP, FSDP2, ZeRO, DTensor, checkpoints."""

import unittest

from backend_test import begin
from ranks import end, lines, main

ALL = "ddp ddp_views ddp_unused ddp_static ddp_hook ddp_power fsdp2 checkpoint zero tensors".split()


class Training(unittest.TestCase):
    def test_as_with_gloo(self):
        """Of two ranks' numbers there is one sum: every loss and every bit of the
        parameters is the same."""
        taut = begin("taut", 2, ALL, job="backend_training")
        gloo = lines(end(begin("gloo", 2, ALL, job="backend_training")))
        taut = lines(end(taut))
        self.assertEqual(list(taut[0]), ALL)
        self.assertEqual(taut, gloo)

    def test_in_the_order_of_the_ranks(self):
        """DDP's, and those of one process that adds the three ranks' gradients one
        after the other."""
        more = {"job": "backend_training", "TAUT_RUN_ORDERED": "on"}
        for rows in lines(end(begin("taut", 3, ["ddp_ordered"], **more))):
            self.assertEqual(rows["ddp_ordered"]["found"], rows["ddp_ordered"]["expected"])


if __name__ == "__main__":
    main()
