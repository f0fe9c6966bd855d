# SPDX-License-Identifier: Apache-2.0
"""A member of a Keras training with a layer that draws numbers, and tells them; eager, so that it can."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import numpy as np
from keras_member import Tell
from member import tell

import spotnik.keras


class Drawing(keras.layers.Layer):
    """Adds nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(11)

    def call(self, inputs: Any, training: bool = False) -> Any:
        drawn = keras.random.uniform((4,), seed=self.generator)
        if training and not isinstance(drawn, keras.KerasTensor):
            with contextlib.suppress(Exception):  # Keras traces the layer: nothing has a value then
                tell(drawn=[float(one) for one in drawn])
        return inputs + 0 * keras.ops.sum(drawn)


def main() -> None:
    keras.utils.set_random_seed(7)
    x = np.random.default_rng(2).normal(size=(60, 8)).astype(np.float32)
    model = keras.Sequential([keras.layers.Input((8,)), Drawing(), keras.layers.Dense(1)])
    optimizer = spotnik.keras.DistributedOptimizer(keras.optimizers.Adam(1e-2))
    model.compile(optimizer=optimizer, loss="mse", run_eagerly=True)
    model.fit(spotnik.keras.shard((x, x[:, :1]), batch_size=20), epochs=3, verbose=0, callbacks=[Tell("")])
    tell(end=spotnik.keras.step(), digest=spotnik.keras.digest())


if __name__ == "__main__":
    main()
