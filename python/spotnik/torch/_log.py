# SPDX-License-Identifier: Apache-2.0
"""The logger of the modules for PyTorch."""

from __future__ import annotations

import logging

log = logging.getLogger("spotnik.torch")
