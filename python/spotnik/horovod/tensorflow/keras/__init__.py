# SPDX-License-Identifier: Apache-2.0
"""``import spotnik.horovod.tensorflow.keras as hvd``: the same as ``spotnik.horovod.keras``."""

from __future__ import annotations

from ...keras import *  # noqa: F403
from ...keras import __all__ as __all__
