# SPDX-License-Identifier: Apache-2.0
"""A member that trains an autoencoder, whose data are inputs alone, and tells in what its train step gets them."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import keras
import numpy as np
from member import tell

import spotnik.keras

SETTINGS = json.loads(sys.argv[1])
PLAIN = SETTINGS.get("plain", False)
kinds: set[str] = set()


class Autoencoder(keras.Model):
    def train_step(self, *given: Any) -> Any:
        kinds.add("tuple" if isinstance(given[-1], tuple) else "inputs")
        return super().train_step(*given)

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
        return keras.ops.mean((x - y_pred) ** 2)


class Coder(keras.Model):
    """A train step around two models, without a call of its own."""

    def __init__(self, encoder: Any, decoder: Any) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.tracker = keras.metrics.Mean(name="error")

    @property
    def metrics(self) -> list[Any]:
        return [self.tracker]

    def train_step(self, data: Any) -> Any:
        import tensorflow as tf

        kinds.add("tuple" if isinstance(data, tuple) else "inputs")
        with tf.GradientTape() as tape:
            loss = keras.ops.mean((data - self.decoder(self.encoder(data))) ** 2)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights))
        self.tracker.update_state(loss)
        return {"error": self.tracker.result()}


class Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, number: int) -> Any:
        return x[20 * number : 20 * number + 20]


x = np.random.default_rng(3).normal(size=(100, 8)).astype("float32")
keras.utils.set_random_seed(1)
given = keras.Input((8,))
first, last = keras.layers.Dense(3), keras.layers.Dense(8)
if SETTINGS.get("coder"):
    code = keras.Input((3,))
    model = Coder(keras.Model(given, first(given)), keras.Model(code, last(code)))
else:
    model = Autoencoder(given, last(first(given)))
optimizer = keras.optimizers.Adam(1e-2)
model.compile(optimizer if PLAIN else spotnik.keras.DistributedOptimizer(optimizer))
told = []
for data in (x,) if SETTINGS.get("coder") else (x, Batches()):
    if PLAIN:
        model.fit(data, batch_size=20 if data is x else None, shuffle=False, epochs=2, verbose=0)
    else:
        model.fit(spotnik.keras.shard(data, 20, shuffle=False), epochs=2, verbose=0)
    told.append(sorted(kinds))
    kinds.clear()
tell(kinds=told)
if os.environ.get("WEIGHTS") and (PLAIN or spotnik.keras.rank() == 0):
    np.savez(os.environ["WEIGHTS"], *[np.array(one.numpy()) for one in model.trainable_variables])
