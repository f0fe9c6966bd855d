# SPDX-License-Identifier: Apache-2.0
"""What the mini-batches of a step weigh: their samples, or that by which the program says their losses were divided.

Each mini-batch has the mean gradient over what it counts, divided by the number of mini-batches. Scaled by its part of
all that this member counts, their sum is this member's mean. The library weighs members by what they count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch

from ..errors import ArgumentError, StateError

_UNITS = 1 << 20  # of a count that is a fraction: the library weighs by whole numbers
_MOST = 1 << 56  # units: 128 members of that weight add up to a number of 64 bits


def units(count: Any) -> int:
    """The weight of `count`: itself where its type is that of whole numbers, else in parts of a millionth."""
    value = count.item() if isinstance(count, torch.Tensor) or hasattr(count, "dtype") else count
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    weight = (value if isinstance(value, int) else round(value * _UNITS)) if is_number else -1
    if not 0 <= weight <= _MOST:
        raise ArgumentError(
            f"weigh() takes the number by which the loss was divided, 0 or more and finite, not {count!r}; a "
            "mini-batch that is to count for nothing gets 0, or skip() in place of its backward()"
        )
    return weight


class Weights:
    """Those of one step. `rescale` multiplies the gradients that the step has so far; `tell` tells the job."""

    def __init__(self, rescale: Callable[[float], None], tell: Callable[[int], None]) -> None:
        self._rescale, self._tell = rescale, tell
        self.plan([1])

    def plan(self, samples: Sequence[int]) -> None:
        """A step begins, with mini-batches of so many samples; those of 0 only fill it."""
        self._counts = list(samples)
        self._fills = [not count for count in samples]
        self._base = sum(samples)  #: by this the gradients that the step has so far were divided
        self._said: set[int] = set()  # mini-batches whose weight the program has said
        self._weighed: dict[int, int] = {}  # those of weigh(), which a later part_of() leaves
        self._skipped: set[int] = set()
        self._fixed: list[float] = []  # scales that follow from no base
        self._settled = False

    @property
    def count(self) -> Optional[int]:
        """What this member counts in the step; None: its samples."""
        return sum(self._counts) if self._said or self._skipped else None

    @property
    def is_said(self) -> bool:
        """Has the program said what its losses were divided by?"""
        return bool(self._said)

    @property
    def is_explained(self) -> bool:
        """Has it said so by more than the part of a batch that it took?"""
        return bool(self._weighed or self._fixed)

    def scale(self, number: int) -> float:
        """By what the gradients of mini-batch `number` are multiplied; of its first one, before any is added."""
        if number >= len(self._counts):
            return 1.0
        if self._fixed:
            return self._fixed[number]
        if number == len(self._counts) - 1 and not self._settled:
            self._settle()
        return len(self._counts) * self._counts[number] / self._base if self._base else 0.0

    def weigh(self, number: int, weight: int) -> None:
        """The loss of mini-batch `number`, whose backward pass comes next, was divided by `weight`."""
        self._weighed[number] = weight
        self._count(number, weight)

    def _count(self, number: int, weight: int) -> None:
        if not self._said:
            self._base = 0
        self._said.add(number)
        self._check(range(number))
        self._counts[number] = 0 if self._fills[number] else weight
        self._base = self._base or len(self._counts) * self._counts[number]
        if number == len(self._counts) - 1:
            self._settle()

    def deal(self, number: int, samples: int) -> None:
        """Mini-batch `number` has `samples` samples; 0: it only fills. A weight that weigh() has given stays."""
        self._fills[number] = not samples
        self._count(number, self._weighed.get(number, samples))

    def skip(self, number: int) -> None:
        """Mini-batch `number` has no backward pass."""
        self._skipped.add(number)
        self._counts[number] = 0
        if number == len(self._counts) - 1:
            self._settle()

    def divide(self, divisor: int, counts: Sequence[int]) -> None:
        """The loss of each mini-batch is its sum divided by `divisor`, and the mini-batches count `counts`."""
        self._counts = [0 if fills else count for fills, count in zip(self._fills, counts)]
        self._said = set(range(len(counts)))
        self._base = sum(self._counts)
        self._fixed = [divisor / self._base if count else 0.0 for count in self._counts]
        self._tell(self._base)

    def _settle(self) -> None:
        """The last mini-batch comes: what all of them count is known."""
        self._settled = True
        if not (self._said or self._skipped):
            return
        if self._said:
            self._check(range(len(self._counts)))
        total = sum(self._counts)
        if self._base and total and self._base != total and len(self._counts) > 1:
            self._rescale(self._base / total)
        self._base = total
        self._tell(total)

    def _check(self, numbers: range) -> None:
        if any(one not in self._said | self._skipped and not self._fills[one] for one in numbers):
            raise StateError(
                "weigh() was called for one mini-batch of the step and not for another; call it before each backward() "
                "of a step, or for none"
            )
