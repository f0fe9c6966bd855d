# SPDX-License-Identifier: Apache-2.0
"""A process that gives spotnik.keras data that members cannot share, and models that would part; tells what it says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from member import tell

from spotnik import SpotnikError
from spotnik.keras import Callback, DistributedOptimizer, leave, shard


class Endless(keras.utils.PyDataset):
    num_batches = None

    def __getitem__(self, number: int) -> Any:
        return np.zeros((2, 3)), np.zeros(2)


def refused(name: str, act: Callable[[], object]) -> None:
    try:
        act()
    except SpotnikError as error:
        tell(refused=name, words=str(error))


def refused_models() -> None:
    data = np.zeros((4, 3), "float32"), np.zeros((4, 1), "float32")
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    refused("unprepared", lambda: model.fit(shard(data)))
    weights = model.trainable_variables
    other = DistributedOptimizer(keras.optimizers.SGD())
    refused("elsewhere", lambda: other.apply([keras.ops.zeros(one.shape) for one in weights], weights))
    model.compile(DistributedOptimizer(keras.optimizers.SGD()), "mse")
    model.fit(shard(data), callbacks=[Callback()], verbose=0)
    refused("longer", lambda: model.fit(shard(tuple(map(np.concatenate, zip(data, data))))))
    refused("shared", lambda: model.fit(shard(data), validation_data=shard(data)))
    second = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    second.compile(DistributedOptimizer(keras.optimizers.SGD()), "mse")
    refused("second", lambda: second.train_on_batch(*data))
    leave()
    large = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2200), keras.layers.Dense(2200)])
    large.compile(DistributedOptimizer(keras.optimizers.SGD()), keras.losses.MeanSquaredError(reduction="sum"))
    stopping = keras.callbacks.EarlyStopping("loss", restore_best_weights=True)
    large.fit(shard((data[0], np.zeros((4, 2200), "float32"))), callbacks=[stopping], verbose=0)


def main() -> None:
    logging.basicConfig()  # warnings are records of the logger "spotnik"
    refused_models()
    refused("generator", lambda: shard(one for one in [(np.zeros((2, 3)), np.zeros(2))]))
    refused("endless", lambda: shard(Endless()))
    refused("listed", lambda: shard((np.zeros((2, 3)), [0, 1])))
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    lines = tf.data.Dataset.from_tensor_slices(np.zeros((4, 3)))
    counted = lines.filter(lambda _: True).batch(2)
    refused("repeated", lambda: shard(lines.repeat().batch(2)))
    refused("shuffled", lambda: shard(counted, shuffle=True))
    refused("unseeded", lambda: shard(lines.shuffle(4).batch(2).prefetch(1)))
    refused("anew", lambda: shard(lines.filter(lambda _: True).shuffle(4, seed=1).batch(2)))
    shard(lines.shuffle(4, seed=1).batch(2).prefetch(1))
    refused("cached", lambda: shard(lines.filter(lambda _: True).cache().shuffle(4, seed=1).batch(2)))
    shard(lines.filter(lambda _: True).shuffle(4, seed=1).batch(2).cache())
    shard(lines.filter(lambda _: True).shuffle(4, seed=1, reshuffle_each_iteration=False).batch(2))


if __name__ == "__main__":
    main()
