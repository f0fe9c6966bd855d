# SPDX-License-Identifier: Apache-2.0
"""Data that are read from front to back, as data sets that shard() can deal: by shards, or by the number of a record.

A stream has no length, and no record of it can be asked for. What can be dealt all the same is one of its shards,
which one member reads whole, or a record by its place, which a member finds by reading on from where it is. Any object
will do that has the interface named below: an IterableDataset of PyTorch, or one of Hugging Face ``datasets`` in
streaming mode. A stream with an index besides (MosaicML's, litdata's) gives any record at once.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional

from torch.utils.data import Dataset
from torch.utils.data._utils import worker

from ..errors import ArgumentError

__all__ = ["Records", "Shards"]


@contextlib.contextmanager
def _as_one_reader() -> Iterator[None]:
    """Have a stream give all that it has: in a worker it would keep the part of other workers from this one."""
    kept, worker._worker_info = worker._worker_info, None  # what get_worker_info() returns
    try:
        yield
    finally:
        worker._worker_info = kept


class Shards(Dataset[list[Any]]):
    """The shards of a stream, each dealt as one sample: ``shard(DataLoader(Shards(stream), batch_size=4))``.

    `stream` has ``num_shards`` (or ``n_shards``) and ``shard(num_shards=n, index=i)``, as a streaming data set of
    Hugging Face has; or it is a sequence of functions that each open one shard, or of iterables. The member that is
    dealt a shard reads it whole, so one shard fits in memory. ``batch_size`` counts shards, and the loader's collate
    function gets the records of all shards of a batch. Each record is used once per epoch, even after losses.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        if isinstance(stream, Sequence):
            self._count = len(stream)
            return
        count = getattr(stream, "num_shards", getattr(stream, "n_shards", None))
        if not isinstance(count, int) or not callable(getattr(stream, "shard", None)):
            raise ArgumentError(
                f"{type(stream).__name__} has no num_shards and shard(num_shards, index), so it cannot be split; give "
                "a list of functions that each open one shard, or say Records(stream, count) to find records by "
                "reading on"
            )
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> list[Any]:
        with _as_one_reader():
            if not isinstance(self._stream, Sequence):
                return list(self._stream.shard(num_shards=self._count, index=index))
            part = self._stream[index]
            return list(part() if callable(part) else part)


class Records(Dataset[Any]):
    """The records of a stream, each dealt by its place: ``shard(DataLoader(Records(stream, count)))``.

    A `stream` with ``__getitem__`` and a length is asked for the record itself, and `count` may be left out. So members
    read what they use, in any order.

    Another one is iterable anew from its beginning, and gives the same records in the same order each time and on every
    member: a shuffled one has a fixed seed. Each member reads the stream to where its next record is, and drops what
    others were dealt; ``stream.skip(n)``, where there is one, begins a reading in the middle. So N members together
    read it N times: prefer :class:`Shards` where there are any. The loader has ``shuffle=False``.
    """

    def __init__(self, stream: Iterable[Any], count: Optional[int] = None) -> None:
        by_place = getattr(type(stream), "__getitem__", Dataset.__getitem__)  # PyTorch's own raises an error
        self.has_index = by_place is not Dataset.__getitem__ and hasattr(stream, "__len__")
        if isinstance(stream, Iterator) and not self.has_index:
            raise ArgumentError(
                "this stream can be read once only, and every epoch reads it again; give the object that iter() is of, "
                "or a function's result with __iter__"
            )
        if count is None and self.has_index:
            count = len(stream)  # type: ignore[arg-type]
        if count is None or count < 1:
            raise ArgumentError(f"count is the number of records in an epoch, 1 or more, not {count}")
        self._stream, self._count = stream, count
        self._at = 0  # the place of the record that comes next
        self._reading: Optional[Iterator[Any]] = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        with _as_one_reader():
            return self._stream[index] if self.has_index else self._read_to(index)  # type: ignore[index]

    def _read_to(self, index: int) -> Any:
        if self._reading is None or index < self._at:
            self._open(index)
        assert self._reading is not None
        try:
            record = next(itertools.islice(self._reading, index - self._at, None))
        except StopIteration:
            self._reading = None
            raise ArgumentError(
                f"the stream ended before record {index} of {self._count}; give the count that it has"
            ) from None
        self._at = index + 1
        return record

    def _open(self, index: int) -> None:
        skip: Optional[Callable[[int], Iterable[Any]]] = getattr(self._stream, "skip", None)
        self._at = index if callable(skip) and index else 0
        self._reading = iter(skip(index) if callable(skip) and index else self._stream)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_at": 0, "_reading": None}  # a worker opens its own
