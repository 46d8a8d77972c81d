# SPDX-License-Identifier: Apache-2.0
from . import v2  # noqa: F401
from .transforms import *  # noqa: F403
