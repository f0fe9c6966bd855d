# SPDX-License-Identifier: Apache-2.0
"""A member of a Keras training whose labels are the numbers of the samples, and whose metric counts each of them."""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
from keras_member import Batches, Tell, loader, sharded

import spotnik.keras


class Seen(keras.metrics.Metric):
    """How often each sample was trained on in this epoch: the least and the most of it."""

    def __init__(self, count: int) -> None:
        super().__init__(name="seen")
        self.seen = self.add_variable((count,), initializer="zeros", name="seen")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        numbers = keras.ops.cast(keras.ops.reshape(y_true, (-1,)), "int32")
        self.seen.assign(self.seen + keras.ops.sum(keras.ops.one_hot(numbers, self.seen.shape[0]), axis=0))

    def result(self) -> dict[str, Any]:
        return {"least": keras.ops.min(self.seen), "most": keras.ops.max(self.seen)}


class Shuffling(Batches):
    """Shuffles itself after each epoch, by a generator that no seed was given, as those of Keras' tutorials."""

    def __init__(self, x: Any, y: Any, batch: int) -> None:
        super().__init__(x, y, batch)
        self.given = x, y

    def on_epoch_end(self) -> None:
        order = np.arange(len(self.x))
        np.random.shuffle(order)
        self.x, self.y = (one[order] for one in self.given)


def given(kind: str, x: Any, y: Any, batch: int) -> Any:
    if kind == "arrays":
        return spotnik.keras.shard((x, y), batch_size=batch)  # shuffled
    if kind == "pydataset":
        np.random.seed(None)
        return spotnik.keras.shard(Shuffling(x, y, batch))
    if kind == "loader":
        return spotnik.keras.shard(loader(x, y, batch, shuffle=True))
    if kind == "cached":  # as image_dataset_from_directory(..., seed=3).cache()
        import tensorflow as tf

        lines = tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda _x, _y: True).shuffle(100, seed=3)
        return spotnik.keras.shard(lines.batch(batch).cache().prefetch(1))
    return sharded(kind, x, y, batch)


def main(settings: dict[str, Any]) -> None:
    count = settings["samples"]
    keras.utils.set_random_seed(7)
    x = np.random.default_rng(2).normal(size=(count, 8)).astype(np.float32)
    y = np.arange(count, dtype=np.float32).reshape(-1, 1)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    optimizer = spotnik.keras.DistributedOptimizer(keras.optimizers.Adam(1e-2))
    model.compile(optimizer=optimizer, loss="mse", metrics=[Seen(count)])
    data = given(settings["data"], x, y, settings["batch"])
    model.fit(data, epochs=settings["epochs"], verbose=0, callbacks=[spotnik.keras.Callback(), Tell("")])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
