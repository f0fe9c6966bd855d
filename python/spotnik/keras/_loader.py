# SPDX-License-Identifier: Apache-2.0
"""A ``torch.utils.data.DataLoader`` as data of ``fit``: by index, each member loads its own samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from ..errors import ArgumentError
from ..torch._loader import order_of
from ..torch._sampler import Piece
from ..training.data import Batch, mark_of_labels

_MARKED = 8  # samples that are loaded for a checksum


class Loaded:
    """The samples of `loader`, in the order of its sampler, by the job's seed. Its workers are not used."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        if isinstance(loader.dataset, IterableDataset) or loader.batch_size is None:
            raise ArgumentError(
                "a DataLoader whose samples have no numbers cannot begin where the others are: give it a data set with "
                "__getitem__ and __len__, and batch_size=..."
            )
        self._data: Any = loader.dataset
        self._collate, self._order = loader.collate_fn, order_of(loader)
        self.batch, total = loader.batch_size, self._order.samples
        self.samples = total - total % self.batch if loader.drop_last else total
        if self.samples < 1:
            raise ArgumentError(f"a DataLoader of {total} samples in batches of {self.batch} makes no data set")
        self.mark = mark_of_labels(self._load(range(min(_MARKED, self.samples))))

    def advance(self, seed: int, epoch: int) -> None:
        """Nothing: the order follows from the seed."""

    def take(self, seed: int, epoch: int, ranges: Sequence[range]) -> Batch:
        """Load the samples at these places of the epoch's order."""
        places = tuple((one.start, one.stop) for one in ranges)
        return self._load(self._order.indices(seed, Piece(epoch, places, 1.0)))

    def _load(self, numbers: Sequence[int]) -> Batch:
        return _as_arrays(self._collate([self._data[number] for number in numbers]))


def _as_arrays(batch: Any) -> Batch:
    """Tensors as NumPy arrays; a list that a collate function makes is a tuple to Keras."""
    if isinstance(batch, dict):
        return {key: _as_arrays(one) for key, one in batch.items()}
    if isinstance(batch, (tuple, list)):
        return tuple(map(_as_arrays, batch))
    return batch.numpy() if hasattr(batch, "numpy") else batch
