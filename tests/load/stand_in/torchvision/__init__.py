# SPDX-License-Identifier: Apache-2.0
"""What the tests need of torchvision where there is none: the same names, arguments and
attributes, and with Pillow the same results."""

from . import datasets, transforms  # noqa: F401


def get_image_backend():
    return "PIL"
