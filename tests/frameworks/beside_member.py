# SPDX-License-Identifier: Apache-2.0
"""A member whose layers have state that Keras does not count among a model's variables, and tells it.

On TensorFlow a train step counts in a tf.Variable, weighs its loss by the count, and moves the weights and moves them
back, as sharpness-aware minimisation does. On PyTorch a wrapped module has BatchNorm's statistics. `average`: the train
step also keeps an average of the weights, in weights that are trainable.
"""

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


class Tell(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not PLAIN:
            tell(step=spotnik.keras.step())

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        beside = [np.asarray(one).tolist() for one in state()]
        if not PLAIN:
            tell(epoch=epoch, digest=spotnik.keras.digest(), beside=beside)


class Moving(keras.Model):
    def __init__(self, inner: Any) -> None:
        import tensorflow as tf

        super().__init__()
        self.inner, self.averaged = inner, keras.models.clone_model(inner)
        self.averaged.set_weights(inner.get_weights())
        self.counts = {"steps": tf.Variable(0, dtype="int64"), "samples": [tf.Variable(0.0)]}

    def call(self, x: Any, training: bool = False) -> Any:
        return self.inner(x, training=training)

    def train_step(self, data: Any) -> Any:
        import tensorflow as tf

        x, y = data
        weights = self.inner.trainable_variables
        steps = self.counts["steps"]
        moves = [0.05 * tf.sign(one) for one in weights]  # a slope would be that of this member's share
        for weight, move in zip(weights, moves):
            weight.assign_add(move)
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self.inner(x)) / (1 + 0.1 * tf.cast(steps, "float32"))
        gradients = tape.gradient(loss, weights)
        for weight, move in zip(weights, moves):
            weight.assign_sub(move)
        self.optimizer.apply_gradients(zip(gradients, weights))
        steps.assign_add(1)
        self.counts["samples"][0].assign_add(1.0)
        if SETTINGS.get("average"):
            for mean, weight in zip(self.averaged.trainable_variables, weights):
                mean.assign(0.9 * mean + 0.1 * weight)
        return {"loss": loss}


def wrapped() -> Any:
    import torch
    from keras.layers import TorchModuleWrapper

    return keras.Sequential([keras.Input((8,)), TorchModuleWrapper(torch.nn.BatchNorm1d(8)), keras.layers.Dense(1)])


def state() -> list[Any]:
    if keras.backend.backend() == "tensorflow":
        return [model.counts["steps"].numpy(), model.counts["samples"][0].numpy()]
    return [one.numpy() for layer in model.layers for one in layer.buffers()]


keras.utils.set_random_seed(5)
chance = np.random.default_rng(6)
x = chance.normal(size=(180, 8)).astype("float32")
y = (x @ chance.normal(size=(8, 1))).astype("float32")
is_moving = keras.backend.backend() == "tensorflow"
model = Moving(keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])) if is_moving else wrapped()
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
model.compile(optimizer if PLAIN else spotnik.keras.DistributedOptimizer(optimizer), "mse")
if PLAIN:
    model.fit(x, y, batch_size=12, shuffle=False, epochs=3, verbose=0, callbacks=[Tell()])
else:
    data = spotnik.keras.shard((x, y), batch_size=12, shuffle=False)
    model.fit(data, epochs=3, verbose=0, callbacks=[spotnik.keras.Callback(), Tell()])
tell(end=0 if PLAIN else spotnik.keras.step(), beside=[np.asarray(one).tolist() for one in state()])
if os.environ.get("WEIGHTS") and (PLAIN or spotnik.keras.rank() == 0):
    weights = model.inner.trainable_variables if is_moving else model.trainable_variables
    np.savez(os.environ["WEIGHTS"], *[np.array(one.numpy()) for one in weights])
