# SPDX-License-Identifier: Apache-2.0
"""Gradients of embeddings by rows (_rows.py): _control.py decides, once for each model,
whether they pay, and whether any did is told at the end."""

from . import _decisions


def make(values):
    return Rows(values["ROWS"])


class Rows(_decisions.Decision):
    def __init__(self, value):
        if value != "on":
            raise ValueError("expected on or off, found '%s'" % value)
        super().__init__("rows")

    def decided(self, text, are_taken):
        """Of one model, in words."""
        if are_taken:
            self.made()
        elif not self.is_made:
            self.why = text
