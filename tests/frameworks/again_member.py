# SPDX-License-Identifier: Apache-2.0
"""A member that trains a head on frozen layers, thaws these, compiles anew, and fits epoch by epoch."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import keras
import numpy as np
from data import samples
from member import tell

import spotnik.keras


class Tell(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        tell(step=spotnik.keras.step(), loss=float(logs["loss"]))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        tell(step=spotnik.keras.step(), digest=spotnik.keras.digest())


def main(settings: dict[str, Any]) -> None:
    images, labels = samples("mlp", settings["samples"])
    keras.utils.set_random_seed(7)
    layers = keras.layers
    base = [layers.Flatten(), layers.Dense(64, activation="relu"), layers.BatchNormalization()]
    body = keras.Sequential([layers.Input((28, 28)), *base])
    model = keras.Sequential([layers.Input((28, 28)), body, layers.Dense(10)])
    plain = settings.get("plain", False)

    def compiled(rate: float) -> None:
        optimizer = keras.optimizers.Adam(rate)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer if plain else spotnik.keras.DistributedOptimizer(optimizer), loss, metrics=["accuracy"])

    def fit(epochs: int) -> int:
        if plain:
            given: Any = {"x": images, "y": labels, "batch_size": settings["batch"], "shuffle": False}
        else:
            data = spotnik.keras.shard((images, labels), settings["batch"], shuffle=False)
            given = {"x": data, "callbacks": [spotnik.keras.Callback(), Tell()]}
        return len(model.fit(epochs=epochs, verbose=0, **given).epoch)

    body.trainable = False
    compiled(1e-2)
    told = [fit(2)]
    body.trainable = True
    compiled(1e-3)
    told += [fit(1) for _ in range(settings["more"])]
    if not plain:
        tell(end=spotnik.keras.step(), digest=spotnik.keras.digest())
    tell(final=float(model.evaluate(images, labels, verbose=0, return_dict=True)["loss"]), epochs=told)
    if os.environ.get("WEIGHTS") and (plain or spotnik.keras.rank() == 0):
        np.savez(os.environ["WEIGHTS"], *[np.array(one.numpy()) for one in model.trainable_variables])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
