# SPDX-License-Identifier: Apache-2.0
"""Shares of a step as whole numbers: equal everywhere, so that members can compare and draw by them."""

from __future__ import annotations

from ..job import Step

_MASK = (1 << 64) - 1


def mix(*parts: int) -> int:
    """A 63-bit hash of whole numbers: equal everywhere, unlike hash()."""
    z = 0x9E3779B97F4A7C15
    for part in parts:
        z = (z + (part & _MASK) + 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        z ^= z >> 31
    return z >> 1


def pairs(step: Step) -> tuple[tuple[int, int], ...]:
    """The step's share as half-open ranges."""
    return tuple((part.start, part.stop) for part in step.ranges)


def share_hash(number: int, ranges: tuple[tuple[int, int], ...]) -> int:
    """What a member adds to ``StepReport.contributors`` of step `number` for its share; 40 bits."""
    return mix(number, *(edge for part in ranges for edge in part)) & ((1 << 40) - 1)
