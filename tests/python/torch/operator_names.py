# SPDX-License-Identifier: Apache-2.0
"""Import torchvision beside a PyTorch for CPUs. Its wheel's operators are for CUDA and do not load; its import asks for
the names of two, which are never called here.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import torch


@functools.cache
def name_operators() -> Any:
    """Once, before the import; what is returned keeps the names."""
    if torch.version.cuda or importlib.util.find_spec("torchvision") is None:
        return None
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library
