#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training sees no difference: where nothing is drawn for an image, `taut run --load auto`
gives the same losses, step by step, as DataLoader does. bench/load_train.py has the rest."""

import json
import os
import unittest

import load_world

PYTHON = load_world.find_python("torch")
BENCH = load_world.ROOT / "bench" / "load_train.py"
ARMS = "DataLoader", "taut run --load"


class Trains(unittest.TestCase):
    def test_losses(self):
        process = load_world.start(
            PYTHON, BENCH, "--made", "--plain", "--json", "--seeds", 1, "--epochs", 2,
            "--taut", os.environ["TAUT"], "--arms", *ARMS,
        )  # fmt: skip
        out, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, err)
        theirs, ours = (json.loads(out)[arm][0] for arm in ARMS)
        self.assertEqual(len(theirs["losses"]), 2 * 8)
        self.assertNotAlmostEqual(theirs["losses"][0], theirs["losses"][-1], 3)
        for one, other in zip(theirs["losses"], ours["losses"]):
            self.assertAlmostEqual(one, other, 4)
        self.assertEqual((theirs["swapped"], ours["swapped"]), (False, True))


if __name__ == "__main__":
    load_world.main("torch", PYTHON, "PIL", "numpy")
