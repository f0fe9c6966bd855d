# SPDX-License-Identifier: Apache-2.0
"""Data sets from which a member takes its share of a step: places in the order of an epoch, as arrays."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Optional, Protocol

import numpy as np

from ..errors import ArgumentError

if TYPE_CHECKING:
    from .memory import Array

_MARKED = 64  # samples whose checksum stands for all

Batch = Any  # arrays in tuples, lists and dicts


def map_arrays(function: Callable[[Any], Any], batch: Batch) -> Batch:
    """Apply `function` to each array of `batch`, in its structure; None stays None."""
    if isinstance(batch, dict):
        return {key: map_arrays(function, one) for key, one in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)(map_arrays(function, one) for one in batch)
    return None if batch is None else function(batch)


def leaves(batch: Batch) -> list[Any]:
    """The arrays of `batch`."""
    found: list[Any] = []
    map_arrays(found.append, batch)
    return found


def join(batches: Sequence[Batch]) -> Batch:
    """One batch of the samples of several."""
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    if isinstance(first, dict):
        return {key: join([one[key] for one in batches]) for key in first}
    if isinstance(first, (tuple, list)):
        return type(first)(join(list(ones)) for ones in zip(*batches))
    return None if first is None else np.concatenate([np.asarray(one) for one in batches])


def length(batch: Batch) -> int:
    """Samples in `batch`."""
    return len(leaves(batch)[0])


def _cut(batch: Batch, part: slice) -> Batch:
    return map_arrays(lambda one: np.asarray(one)[part], batch)


def _mark(arrays: Sequence[Any]) -> int:
    total = 0
    for one in map(np.asarray, arrays):
        spelled = repr(one.tolist()).encode() if one.dtype.kind == "O" else one.tobytes()
        total = zlib.crc32(spelled, total)
    return total


@contextmanager
def _same_numbers(seed: int, epoch: int) -> Iterator[None]:
    """Inside, what draws from the generators of Python and NumPy draws the same on every member."""
    states = random.getstate(), np.random.get_state()
    random.seed(f"{seed} {epoch}")
    np.random.seed([seed & 0xFFFFFFFF, epoch])
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


class Source(Protocol):
    """A data set. The same samples in the same order on every member."""

    samples: int
    batch: int
    mark: int  #: a checksum of some of it, by which members find that theirs differ

    def advance(self, seed: int, epoch: int) -> None:
        """Have what the data do between epochs done for all up to this one."""

    def take(self, seed: int, epoch: int, ranges: Sequence[range]) -> Batch:
        """The samples at these places of the epoch's order."""


class Arrays:
    """Arrays whose first dimension counts samples."""

    def __init__(self, data: Batch, batch: int, shuffle: bool, convert: Callable[[Any], Any] = np.asarray) -> None:
        self._data = map_arrays(convert, data)
        alone = [type(one).__name__ for one in leaves(data) if np.ndim(one) == 0]
        if alone:
            raise ArgumentError(
                f"an array of samples belongs where the data have {alone[0]}. Lists and tuples are read as several "
                "arrays: make an array of a list of numbers, np.array(list)"
            )
        counts = {len(one) for one in leaves(self._data)}
        if len(counts) != 1 or batch < 1 or counts == {0}:
            raise ArgumentError(f"arrays of {sorted(counts)} samples in batches of {batch} make no data set")
        self.samples, self.batch = counts.pop(), batch
        self._shuffle = shuffle
        self.mark = _mark([one[:: max(1, self.samples // _MARKED)] for one in leaves(self._data)])
        self._order: tuple[Optional[tuple[int, int]], Array] = (None, np.empty(0, np.int64))

    def split(self, fraction: float) -> tuple[Arrays, Batch]:
        """What is left without the last samples, a `fraction` of all, and these."""
        at = int(self.samples * (1 - fraction))
        if not 0 < at < self.samples:
            raise ArgumentError(f"a split of {fraction} leaves none of {self.samples} samples on one side")
        first, last = (_cut(self._data, part) for part in (slice(None, at), slice(at, None)))
        return Arrays(first, self.batch, self._shuffle), last

    def advance(self, seed: int, epoch: int) -> None:
        """Nothing: the order follows from the seed."""

    def take(self, seed: int, epoch: int, ranges: Sequence[range]) -> Batch:
        """Take samples by their index."""
        places = np.concatenate([np.arange(one.start, one.stop) for one in ranges])
        if self._shuffle:
            places = self._permutation(seed, epoch)[places]
        return map_arrays(lambda one: one[places], self._data)

    def _permutation(self, seed: int, epoch: int) -> Array:
        if self._order[0] != (seed, epoch):
            self._order = ((seed, epoch), np.random.default_rng([seed, epoch]).permutation(self.samples))
        return self._order[1]


def mark_of_labels(batch: Batch) -> int:
    """The mark of a batch (x, y, ...): of y, for x may be changed at random."""
    return _mark(leaves(batch[1])) if isinstance(batch, (tuple, list)) and len(batch) > 1 else 0


class Batches:
    """A data set of batches, each of which is a step: all of the same length but the last one, which may be shorter.

    `fetch(i)` returns batch i. Each member fetches the batch and keeps its part of it.
    """

    def __init__(self, count: int, fetch: Callable[[int], Batch], shuffle: bool, last: Optional[int] = None) -> None:
        self._fetch, self._count, self._shuffle = fetch, count, shuffle
        if count < 1:
            raise ArgumentError("the data set is empty")
        first = fetch(0)
        self.batch, self.mark = length(first), mark_of_labels(first)
        last = length(fetch(count - 1)) if last is None else last
        self.samples = (count - 1) * self.batch + last
        self._whole = count if last == self.batch else count - 1  # those that may change places
        self._epoch = 0
        self.at_epoch_end: Optional[Callable[[], object]] = None

    def advance(self, seed: int, epoch: int) -> None:
        """End the epochs before this one, with the same random numbers on every member."""
        ended = self.at_epoch_end is not None and self._epoch < epoch
        while self._epoch < epoch:
            self._epoch += 1
            if self.at_epoch_end is not None:
                with _same_numbers(seed, self._epoch):
                    self.at_epoch_end()
        if ended:
            self.mark = mark_of_labels(self._fetch(0))

    def take(self, seed: int, epoch: int, ranges: Sequence[range]) -> Batch:
        """Take the parts of the batches that these places are in."""
        self.advance(seed, epoch)
        return join([part for one in ranges for part in self._parts(seed, epoch, one)])

    def _parts(self, seed: int, epoch: int, places: range) -> Iterator[Batch]:
        at = places.start
        while at < places.stop:
            number, begin = divmod(at, self.batch)
            end = min(self.batch, begin + places.stop - at)
            whole = self._fetch(self._place(seed, epoch, number))
            yield _cut(whole, slice(begin, end))
            at += end - begin

    def _place(self, seed: int, epoch: int, number: int) -> int:
        if not self._shuffle or number >= self._whole:
            return number
        return int(np.random.default_rng([seed, epoch]).permutation(self._whole)[number])


class Counted:
    """Batches of something that can only be iterated over: each member reads all of it, and skips what is not its own.

    `again()` begins a new pass, which must be in the same order on every member.
    """

    def __init__(self, again: Callable[[], Iterator[Batch]]) -> None:
        self._again = again
        self._at, self._iterator = 0, again()

    def fetch(self, number: int) -> Batch:
        """Batch `number`; going back begins another pass."""
        if number < self._at:
            self.rewind()
        while True:
            self._at += 1
            batch = next(self._iterator)
            if self._at > number:
                return batch

    def rewind(self) -> None:
        """Begin another pass."""
        self._at, self._iterator = 0, self._again()

    def lengths(self) -> tuple[int, int]:
        """How many batches a pass has, and samples in the last one: by counting them."""
        count, last = 0, 0
        for batch in self._again():
            count, last = count + 1, length(batch)
        return count, last
