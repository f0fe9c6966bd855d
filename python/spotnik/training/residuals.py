# SPDX-License-Identifier: Apache-2.0
"""What the rounding of q8 took from a gradient, kept for the next one. The loops of torch have theirs on the device.

It is this member's own and no part of the replica: of a member that is lost at most one rounding is lost with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .memory import Array

_BLOCK = 252  # numbers with one scale; the layout is that of SPOTNIK_Q8 in include/spotnik/spotnik.h
_LEAST = 2.0**-119  # a block of smaller numbers travels as zeros


class Residuals:
    """One for each vector that travels as q8, by number."""

    def __init__(self) -> None:
        self._left: dict[int, Array] = {}

    def add(self, number: int, vector: Array) -> None:
        """Add to `vector` what its last rounding took, and keep what the next one will take."""
        left = self._left.get(number)
        if left is not None and left.shape == vector.shape:
            vector += left
        self._left[number] = np.nan_to_num(vector - rounded(vector), nan=0.0, posinf=0.0, neginf=0.0)


def rounded(vector: Array) -> Array:
    """`vector`, of float32, as it comes out of q8."""
    rows = np.zeros((-(-vector.size // _BLOCK), _BLOCK), np.float32)
    rows.reshape(-1)[: vector.size] = vector
    most = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    with np.errstate(all="ignore"):
        scale = ((most / np.float32(127)).view(np.int32) & ~0x7F).view(np.float32)
        scale = np.where(most < _LEAST, 0, np.where(np.isfinite(most), scale, np.nan)).astype(np.float32)
        units = np.where(scale > 0, np.float32(127) / most, 0).astype(np.float32)
        steps = np.nan_to_num(np.rint(rows * units))
        found: Array = (steps * scale).reshape(-1)[: vector.size]
        return found
