# SPDX-License-Identifier: Apache-2.0
"""Do all members hold the same replica? What follows from a member's own share, BatchNorm's statistics say, parts them.

In some steps members compare a number for each value, as it was when the step began. They all see the same result.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import arrays
from ..errors import StateError
from .buckets import Bucket

if TYPE_CHECKING:
    from ..job import Job
    from .memory import Array

DATA = "data"  #: name of the data's mark
OTHER_DATA = (
    "members were given other data, or the same in another order: shard() takes the same on every member, and deals it "
    "out. Give a shuffle before it a seed, or leave that to shard(shuffle=True)"
)
_RARELY = 1024
_ROUNDING = 1e-3  # of a mean: members on machines of different kinds round differently


def is_due(steps: int) -> bool:
    """After how many steps members compare: often at first, for a program that parts does so from the first one."""
    return steps > 0 and (steps & (steps - 1) == 0 or steps % _RARELY == 0)


class ReplicaCheck:
    """The comparison that travels in a step."""

    def __init__(self, values: Sequence[Array]) -> None:
        self._rounding = np.array([_ROUNDING if _is_float(one) else 0 for one in values])
        numbers = np.array([_number(one) for one in values])
        self._ends = np.concatenate([numbers, -numbers])  # the greatest of both: the greatest and the least

    def start(self, job: Job) -> None:
        """Send it."""
        if self._ends.size:
            arrays.start(self._ends, "max", Bucket.CHECK, job)

    def differing(self, names: Callable[[], Sequence[str]]) -> list[str]:
        """After the commit: names of the values that differ, the same on every member."""
        if not self._ends.size:
            return []
        most, least = np.split(self._ends, 2)
        differs = most + least > self._rounding * np.abs(most)
        return [name for name, one in zip(names(), differs) if one]

    def check(self, names: Callable[[], Sequence[str]], advice: str) -> None:
        """After the commit: raise StateError, on every member, if a value differs."""
        found = self.differing(names)
        if DATA in found:
            raise StateError(OTHER_DATA)
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            raise StateError(
                f"{found[0]}{more} of the replica differ among members: what they are follows from this member's "
                f"share alone. {advice}"
            )


def _is_float(one: Array) -> bool:
    return one.dtype.kind in "fcV" or "float" in one.dtype.name


def _number(one: Array) -> float:
    """The mean size of floats, a checksum of whole numbers and keys."""
    if not _is_float(one):
        return float(zlib.crc32(np.ascontiguousarray(one).data))
    size = np.abs(one.astype(np.complex128 if one.dtype.kind == "c" else np.float64)).mean() if one.size else 0.0
    return float(size) if np.isfinite(size) else 0.0
