# SPDX-License-Identifier: Apache-2.0
"""What a loop averages in one call, by how it travels: floats in a vector for each type, large ones by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ArgumentError
from .memory import Bucket

if TYPE_CHECKING:
    from .memory import Array

_ALONE_BYTES = 65536  # an array as large is worth a bucket of its own
ALONE_MAX = 128  #: buckets of a step
_NOTHING = np.iinfo(np.int64).min  # of a member without samples, among whole numbers


class FlatBuffers:
    """`values` on their way: means of floats, the greatest of whole numbers and booleans.

    `is_idle`: this member has no samples. With `in_place` large floats travel from where they lie. The first
    `gradients` of the values travel as `wire`, in a vector of their own: a block of q8 has one scale.
    """

    def __init__(
        self, values: Sequence[Array], in_place: bool, is_idle: bool, wire: str = "auto", gradients: int = 0
    ) -> None:
        self._values = values
        self._wire, self._rounded = wire, _rounded(values[:gradients], wire)
        self._wholes = [at for at, one in enumerate(values) if one.dtype.kind in "biu"]
        rest = sorted(set(range(len(values))) - {*self._rounded, *self._wholes})
        self._alone = [at for at in rest if in_place and _travels_alone(values[at])][:ALONE_MAX]
        self._means = [_filled(values, self._rounded, np.float32)] if self._rounded else []
        self._means += _by_type(values, [at for at in rest if at not in self._alone])
        self._most = Bucket([values[at] for at in self._wholes], np.int64)
        self._most.fill([values[at] for at in self._wholes])
        if is_idle:
            self._most.flat[:] = _NOTHING

    @property
    def vectors(self) -> list[tuple[Array, str]]:
        """What is sent, and by which operation members reduce it, in place."""
        means = [*(bucket.flat for bucket, _ in self._means), *(self._values[at] for at in self._alone)]
        return [(one, op) for one, op in [*((one, "mean") for one in means), (self._most.flat, "max")] if one.size]

    @property
    def wires(self) -> list[str]:
        """As what each of :attr:`vectors` travels."""
        return ["auto" if number or not self._rounded else self._wire for number in range(len(self.vectors))]

    def results(self) -> list[Array]:
        """After the commit: the values of all members, in the order and of the types of this member's."""
        values = self._values
        made = {at: values[at] for at in self._alone}
        for bucket, places in self._means:
            made.update({at: one.astype(values[at].dtype, copy=False) for at, one in zip(places, bucket.views())})
        for at, one in zip(self._wholes, self._most.views()):
            made[at] = np.where(one == _NOTHING, values[at], one).astype(values[at].dtype)
        return [made[at] for at in range(len(values))]


def _travels_alone(value: Array) -> bool:
    known = value.dtype in (np.float32, np.float64)
    return known and value.nbytes >= _ALONE_BYTES and value.flags.c_contiguous and value.flags.writeable


def _by_type(values: Sequence[Array], among: Sequence[int]) -> list[tuple[Bucket, list[int]]]:
    wide = [at for at in among if values[at].dtype == np.float64]
    rest = [at for at in among if values[at].dtype != np.float64]
    for at in rest:
        if values[at].dtype.kind not in "fV" and "float" not in values[at].dtype.name:
            raise ArgumentError(f"averages are of floats, whole numbers and booleans, not of {values[at].dtype}")
    return [_filled(values, rest, np.float32), _filled(values, wide, np.float64)]


def _filled(values: Sequence[Array], places: list[int], dtype: type) -> tuple[Bucket, list[int]]:
    bucket = Bucket([values[at] for at in places], dtype)
    bucket.fill([values[at] for at in places])
    return bucket, places


def _rounded(gradients: Sequence[Array], wire: str) -> list[int]:
    """The places of those that travel shorter than they are."""
    if wire in ("auto", "f32"):
        return []
    floats = [at for at, one in enumerate(gradients) if one.dtype.kind not in "biu" and one.size]
    if any(gradients[at].dtype == np.float64 for at in floats):
        raise ArgumentError(f"gradients of float64 cannot travel as {wire}; leave wire out, or compute in float32")
    return floats
