# SPDX-License-Identifier: Apache-2.0
"""Data of ``fit``: arrays, ``keras.utils.PyDataset``, ``tf.data``, a ``DataLoader``; each member computes its share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Optional

import keras
import numpy as np

from ..errors import ArgumentError
from ..training.data import Arrays, Batch, Batches, Counted, Source, map_arrays
from ..watching import logger


class Shard:
    """What :func:`spotnik.keras.shard` returns; to be given to ``fit`` in place of the data."""

    def __init__(self, source: Source, seed: Optional[int]) -> None:
        self.source, self.seed = source, seed
        self.class_weight: Optional[dict[int, float]] = None

    @property
    def template(self) -> Batch:
        """What Keras sees of the data: its structure, shapes and types, in a tuple."""
        batch = self.take(0, 0, [range(0, min(2, self.source.samples))])
        return batch if isinstance(batch, tuple) else (batch,)

    def split(self, fraction: float) -> tuple[Shard, Batch]:
        """As ``fit(validation_split=...)``: this without the last samples, and these."""
        if not isinstance(self.source, Arrays):
            raise ArgumentError("fit(validation_split=...) goes with arrays; give fit() validation_data=... instead")
        source, last = self.source.split(fraction)
        return Shard(source, self.seed), last

    def take(self, seed: int, epoch: int, ranges: list[range]) -> Batch:
        """The samples at these places, as Keras' train_step gets them: inputs alone are in no tuple."""
        batch = self.source.take(seed, epoch, ranges)
        batch = tuple(batch) if isinstance(batch, list) else batch
        return batch if self.class_weight is None else _weighted(batch, self.class_weight)


def _weighted(batch: Batch, class_weight: dict[int, float]) -> Batch:
    """The batch with a weight for each sample, by its class, as ``fit(class_weight=...)`` of one process has them."""
    if not isinstance(batch, tuple) or len(batch) != 2 or isinstance(batch[1], (dict, tuple, list)):
        raise ArgumentError("class_weight goes with data (x, y), where y is one array; give sample weights to shard()")
    labels = np.asarray(batch[1])
    if labels.ndim > 1:
        labels = labels[..., 0] if labels.shape[-1] == 1 else labels.argmax(-1)
    kinds, places = np.unique(np.round(labels).astype(np.int64), return_inverse=True)
    table = np.array([class_weight.get(int(kind), 1.0) for kind in kinds], dtype=keras.config.floatx())
    return (*batch, table[places.reshape(labels.shape)])


def source_of(data: Any, batch_size: int, shuffle: Optional[bool]) -> Source:
    """The source for what the program has."""
    if isinstance(data, keras.utils.PyDataset):
        return _py_dataset(data, bool(shuffle))
    if hasattr(data, "element_spec") and hasattr(data, "cardinality"):
        return tf_source(data, bool(shuffle))
    if _is_torchs(data, "DataLoader"):
        from ._loader import Loaded

        if shuffle is not None:
            raise ArgumentError("a DataLoader has an order of its own: say DataLoader(..., shuffle=...)")
        return Loaded(data)
    if _is_torchs(data, "Dataset"):
        raise ArgumentError("a data set of PyTorch has no batches: give shard() a DataLoader(data, batch_size=...)")
    if hasattr(data, "__next__"):
        raise ArgumentError(
            "a generator cannot begin where the others are; give arrays, a keras.utils.PyDataset or a tf.data.Dataset"
        )
    return Arrays(data, batch_size, shuffle is None or shuffle, _as_floatx)


def _is_torchs(data: Any, name: str) -> bool:
    """Is it of this class of torch.utils.data? Nothing is, where PyTorch is not imported."""
    module = sys.modules.get("torch.utils.data")
    return module is not None and isinstance(data, getattr(module, name))


def _as_floatx(array: Any) -> Any:
    """As ``fit`` of one process has arrays: floats are Keras' default type."""
    array = np.asarray(array)
    return array.astype(keras.config.floatx(), copy=False) if array.dtype.kind == "f" else array


def _py_dataset(data: Any, shuffle: bool) -> Batches:
    count = data.num_batches
    if count is None:
        raise ArgumentError("an endless PyDataset has no epochs to share; give it a length (num_batches)")

    def fetch(number: int) -> Batch:
        batch = data[number]
        is_bare = not isinstance(batch, (dict, list, tuple))
        return (batch,) if is_bare and keras.backend.backend() != "torch" else batch  # as Keras has it

    source = Batches(count, fetch, shuffle)
    if type(data).on_epoch_end is not keras.utils.PyDataset.on_epoch_end:
        source.at_epoch_end = data.on_epoch_end
    return source


def _shuffles(data: Any, kept: bool = True) -> list[Any]:
    """The shuffling stages of a tf.data pipeline; they have no public way to be asked.

    With `kept` also those whose first order a ``cache()`` behind them keeps.
    """
    if not kept and type(data).__name__ == "CacheDataset":
        return []
    inputs: list[Any] = getattr(data, "_inputs", list)()
    own = [data] if hasattr(data, "_reshuffle_each_iteration") and hasattr(data, "_seed2") else []
    return [*own, *(one for stage in inputs for one in _shuffles(stage, kept))]


def _without_repeat(data: Any) -> Any:
    """The pipeline before an endless ``repeat()`` at its end: ``fit`` of sharded data repeats them by itself."""
    one = data
    while "Prefetch" in type(one).__name__:
        [one] = one._inputs()
    if "Repeat" in type(one).__name__ and int(one.cardinality()) == -1:
        return _without_repeat(one._inputs()[0])
    return data


def tf_source(data: Any, shuffle: bool) -> Batches:
    """Batches of a tf.data pipeline: by index where it has random access, else counted."""
    import tensorflow as tf

    data = _without_repeat(data)

    def plain(batch: Any) -> Batch:
        return map_arrays(lambda one: one.numpy() if hasattr(one, "numpy") else np.asarray(one), batch)

    count, shuffles = int(data.cardinality()), _shuffles(data)
    if any(not (int(one._seed) or int(one._seed2)) for one in shuffles):
        raise ArgumentError(
            "shuffle() of this tf.data pipeline has no seed, so each member would read the data in another order: say "
            "shuffle(..., seed=1), or take it out and give shard() the arrays, which it shuffles"
        )
    if count == tf.data.INFINITE_CARDINALITY:
        raise ArgumentError(
            "an endless tf.data pipeline has no epochs to share; take repeat() out: fit() repeats it. Behind all else "
            "repeat() may stay"
        )
    if count >= 0:
        try:
            plain(tf.data.experimental.at(data, 0))
            return Batches(count, lambda number: plain(tf.data.experimental.at(data, number)), shuffle)
        except (tf.errors.OpError, TypeError):
            pass  # no random access in this pipeline

    if any(one._reshuffle_each_iteration for one in _shuffles(data, kept=False)):
        raise ArgumentError(
            "this tf.data pipeline has no random access, and shuffles anew in each pass: a member that comes later "
            "would read another order than the others. Say shuffle(..., seed=1, reshuffle_each_iteration=False). Of "
            "image_dataset_from_directory(..., seed=1) and the like, which shuffle by themselves, say .cache() behind "
            "it: each member then keeps the first pass in memory"
        )

    def again() -> Iterator[Batch]:
        return (plain(one) for one in iter(data))

    counted = Counted(again)
    logger.warning(
        "this tf.data pipeline has no random access: every member reads all of it and computes its part. It must be "
        "in the same order on all of them: give shuffle() a seed and reshuffle_each_iteration=False. Its batches are "
        "being counted: it must have an end"
    )
    count, last = counted.lengths()
    if shuffle:
        raise ArgumentError("shuffle=True needs a pipeline with random access; let the pipeline shuffle, with a seed")
    return Batches(count, counted.fetch, False, last)
