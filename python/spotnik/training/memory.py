# SPDX-License-Identifier: Apache-2.0
"""Several arrays in one piece of aligned memory: what is registered with a job, and what travels in a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

_ALIGNMENT = 64


def _aligned(count: int) -> Array:
    room = np.zeros(count + _ALIGNMENT, dtype=np.uint8)
    first = -room.ctypes.data % _ALIGNMENT
    return room[first : first + count]


def _room_of(array: Array) -> int:
    return -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT


def size_of(like: Sequence[Array]) -> int:
    """Bytes that arrays as `like` take in a :class:`Memory`."""
    return sum(map(_room_of, like))


class Memory:
    """Arrays of the shapes and types of `like`, zero at first, one behind the other in :attr:`bytes`.

    `room`: bytes behind them, for :meth:`lay_out`.
    """

    def __init__(self, like: Sequence[Array], room: int = 0) -> None:
        self.bytes = _aligned(max(_ALIGNMENT, size_of(like) + -(-room // _ALIGNMENT) * _ALIGNMENT))
        self.lay_out(like)

    def lay_out(self, like: Sequence[Array]) -> None:
        """Divide the memory anew, for arrays as `like`, which take no more of it than there is; it keeps its bytes."""
        assert size_of(like) <= self.bytes.nbytes
        self.shapes = [(one.shape, one.dtype) for one in like]
        ends = np.cumsum([0, *map(_room_of, like)], dtype=np.int64).tolist()
        self.views = [self._view(begin, one) for begin, one in zip(ends, like)]

    def _view(self, begin: int, one: Array) -> Array:
        part = self.bytes[begin : begin + one.nbytes]
        return part.view(one.dtype).reshape(one.shape) if one.nbytes else np.empty(one.shape, one.dtype)

    def fill(self, values: Sequence[Array]) -> None:
        """Copy `values` here."""
        for view, value in zip(self.views, values):
            np.copyto(view, value, casting="no")

    def fits(self, values: Sequence[Array]) -> bool:
        """Are `values` of these shapes and types?"""
        return self.shapes == [(one.shape, one.dtype) for one in values]


class Bucket:
    """Arrays of any float or whole type, as one vector of a type that travels."""

    def __init__(self, like: Sequence[Array], dtype: Any) -> None:
        self.shapes = [one.shape for one in like]
        self._ends = np.cumsum([0, *(one.size for one in like)], dtype=np.int64).tolist()
        self.flat = np.zeros(self._ends[-1], dtype=dtype)

    def fill(self, values: Sequence[Array]) -> None:
        """Copy `values` here, converting them."""
        for begin, end, value in zip(self._ends, self._ends[1:], values):
            self.flat[begin:end] = np.asarray(value).reshape(-1)

    def views(self) -> list[Array]:
        """The parts of the vector in their shapes; valid until the next :meth:`fill`."""
        pairs = zip(self._ends, self._ends[1:], self.shapes)
        return [self.flat[begin:end].reshape(shape) for begin, end, shape in pairs]
