# SPDX-License-Identifier: Apache-2.0
from .folder import DatasetFolder, ImageFolder  # noqa: F401
