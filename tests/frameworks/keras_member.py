# SPDX-License-Identifier: Apache-2.0
"""A member that trains a small network with Keras; settings and findings are JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import keras
import numpy as np
from data import digits
from member import tell

import spotnik.keras


class Tell(keras.callbacks.Callback):
    def __init__(self, stop: str) -> None:
        super().__init__()
        self.stop = stop

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        loss = float(logs["loss"])
        tell(step=spotnik.keras.step(), loss=loss, rank=spotnik.keras.rank())

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        values = {name: float(value) for name, value in logs.items()}
        line = {"epoch": epoch, "logs": values, "digest": spotnik.keras.digest(), "step": spotnik.keras.step()}
        tell(**line)


def network(kind: str) -> keras.Model:
    keras.utils.set_random_seed(7)
    layers = keras.layers
    if kind == "mlp":
        body = [layers.Flatten(), layers.Dense(64, activation="relu")]
    else:
        body = [
            layers.Reshape((28, 28, 1)),
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.BatchNormalization(),
        ]
        body += [layers.Conv2D(16, 3, strides=2, activation="relu"), layers.Flatten(), layers.Dropout(0.1)]
    return keras.Sequential([layers.Input((28, 28)), *body, layers.Dense(10)])


def main(settings: dict[str, Any]) -> None:
    images, labels = digits(settings["samples"])
    model = network(settings["model"])
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(3e-3, 500), clipnorm=1.0)
    plain = settings.get("plain", False)
    model.compile(
        optimizer=optimizer if plain else spotnik.keras.DistributedOptimizer(optimizer),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    given = {"epochs": settings["epochs"], "verbose": 0, "validation_data": (images[:200], labels[:200])}
    if plain:
        history = model.fit(images, labels, batch_size=settings["batch"], shuffle=False, **given)
    else:
        data = spotnik.keras.shard((images, labels), batch_size=settings["batch"], shuffle=False)
        history = model.fit(data, callbacks=[spotnik.keras.Callback(), Tell("")], **given)
        tell(digest=spotnik.keras.digest(), end=spotnik.keras.step())
    tell(history={name: list(map(float, row)) for name, row in history.history.items()})
    if os.environ.get("WEIGHTS") and (plain or spotnik.keras.rank() == 0):
        np.savez(os.environ["WEIGHTS"], *[np.array(one.numpy()) for one in model.trainable_variables])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
