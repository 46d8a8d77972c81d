# SPDX-License-Identifier: Apache-2.0
"""The programs of gradients.py, models.py and habits.py in one job, those that are
named, and one with an option of its own."""

import os

import gradients  # noqa: F401
import habits  # noqa: F401
import models
from base import main, program


@program
def declared_order():
    """The next forward pass waits for sums of the iteration before it."""
    os.environ["TAUT_RUN_ORDER"] = "declared"
    try:
        return models.attention()
    finally:
        del os.environ["TAUT_RUN_ORDER"]


if __name__ == "__main__":
    main()
