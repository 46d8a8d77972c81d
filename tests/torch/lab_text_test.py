# SPDX-License-Identifier: Apache-2.0
"""Two models of text, three optimizers: what `taut run` trains has the bits
of synchronous training by hand."""

import unittest

from ranks import main, programs

ORDERED = {"TAUT_RUN_GATE": "off", "TAUT_RUN_ENGINE": "coll", "TAUT_RUN_ORDERED": "on"}


class Lab(unittest.TestCase):
    def test_bits(self):
        both, _ = programs("lab", "gpt", "rnn", n_ranks=3, **ORDERED, TAUT_RUN_PIECE="65536", TAUT_RUN_HALVES="on")
        for seen in both:
            self.assertEqual(len(seen), 6)
            for name, row in seen.items():
                self.assertTrue(row["same"], name)
        self.assertTrue(any(row["late"] for row in both[0].values()))


if __name__ == "__main__":
    main()
