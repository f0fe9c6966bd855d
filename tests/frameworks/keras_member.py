# SPDX-License-Identifier: Apache-2.0
"""A member that trains a small network with Keras; settings and findings are JSON."""

from __future__ import annotations

import json
import os
import sys
import zlib
from typing import Any

import keras
import numpy as np
from data import samples
from member import tell
from networks import network

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


class Batches(keras.utils.PyDataset):
    def __init__(self, x: Any, y: Any, batch: int) -> None:
        super().__init__()
        self.x, self.y, self.batch = x, y, batch

    def __len__(self) -> int:
        return -(-len(self.x) // self.batch)

    def __getitem__(self, number: int) -> Any:
        part = slice(number * self.batch, (number + 1) * self.batch)
        return self.x[part], self.y[part]


def weights_of(y: Any) -> Any:
    return 1 + y.astype("float32") / 10


def loader(x: Any, y: Any, batch: int, shuffle: bool) -> Any:
    from torch import from_numpy
    from torch.utils.data import DataLoader, TensorDataset

    return DataLoader(TensorDataset(from_numpy(x), from_numpy(y)), batch_size=batch, shuffle=shuffle)


def sharded(kind: str, x: Any, y: Any, batch: int) -> Any:
    """The same batches in the same order, in each kind of data set."""
    if kind == "arrays":
        return spotnik.keras.shard((x, y), batch_size=batch, shuffle=False)
    if kind == "weighted":
        return spotnik.keras.shard((x, y, weights_of(y)), batch_size=batch, shuffle=False)
    if kind == "pydataset":
        return spotnik.keras.shard(Batches(x, y, batch))
    if kind == "loader":
        return spotnik.keras.shard(loader(x, y, batch, shuffle=False))
    import tensorflow as tf

    if kind in ("tf.data", "repeated"):
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
        return spotnik.keras.shard(data if kind == "tf.data" else data.repeat().prefetch(1))
    lines = tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda _x, _y: True)  # no random access behind this
    return spotnik.keras.shard(lines.batch(batch))


class OwnStep(keras.Model):
    """A train_step as programs write it, which leaves the metrics of ``compile`` alone."""

    steals = False

    def train_step(self, *given: Any) -> Any:
        return getattr(self, "step_" + keras.backend.backend())(*given)

    def step_tensorflow(self, data: Any) -> Any:
        import tensorflow as tf

        x, y = data
        if self.steals:
            self.trainable_variables[0].assign_sub(0.01 * self.trainable_variables[0])  # as a second optimizer does
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss, "twice": 2 * loss}

    def step_torch(self, data: Any) -> Any:
        import torch

        x, y = data
        self.zero_grad()
        loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        loss.backward()
        with torch.no_grad():
            self.optimizer.apply([one.value.grad for one in self.trainable_weights], self.trainable_weights)
        return {"loss": loss, "twice": 2 * loss}

    def step_jax(self, state: Any, data: Any) -> Any:
        import jax

        trained, rest, of_optimizer, of_metrics = state
        x, y = data

        def score(trained: Any) -> Any:
            predicted, more = self.stateless_call(trained, rest, x, training=True)
            return self.compute_loss(x=x, y=y, y_pred=predicted), more

        (loss, rest), gradients = jax.value_and_grad(score, has_aux=True)(trained)
        trained, of_optimizer = self.optimizer.stateless_apply(of_optimizer, gradients, trained)
        if self.steals:
            trained = [0.99 * one for one in trained]  # as a second optimizer does
        return {"loss": loss, "twice": 2 * loss}, (trained, rest, of_optimizer, of_metrics)


class DenseAdam(keras.optimizers.Adam):
    """Adam to which no gradient is sparse."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        import tensorflow as tf

        return super().apply([tf.convert_to_tensor(one) for one in grads], trainable_variables)


def optimizer_of(settings: dict[str, Any]) -> Any:
    """Its rate follows a schedule, unless a callback is to change it."""
    decay = keras.optimizers.schedules.CosineDecay(3e-3, 500)
    rate: Any = 3e-3 if settings.get("folder") or settings.get("scheduler") else decay
    kinds = {"adam": keras.optimizers.Adam, "dense": DenseAdam, "sgd": keras.optimizers.SGD}
    more = {"clipnorm": None if settings.get("unclipped") else 1.0, **settings.get("of_optimizer", {})}
    optimizer = kinds[settings.get("optimizer", "adam")](rate, **more)
    if settings.get("scale"):  # shares have fewer samples, so the gradient of one is larger, and may be infinite
        return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=settings["scale"])
    if settings.get("several"):
        return keras.optimizers.MultiOptimizer(lambda one: optimizer if one.ndim > 1 else several)
    return optimizer


several = keras.optimizers.SGD(0.1)


def on_batches(model: keras.Model, x: Any, y: Any, settings: dict[str, Any]) -> None:
    """train_on_batch with batches of this member's own, which differ in length."""
    chance = np.random.default_rng(os.getpid())
    while spotnik.keras.step() < settings["steps"]:
        part = chance.integers(0, len(x), chance.integers(20, 60))
        logs = model.train_on_batch(x[part], y[part], return_dict=True)
        tell(step=spotnik.keras.step(), loss=float(logs["loss"]), digest=spotnik.keras.digest())
    loss = float(model.evaluate(x[:500], y[:500], verbose=0, return_dict=True)["loss"])
    tell(end=spotnik.keras.step(), final=loss)


def watching(folder: str) -> list[Any]:
    """The callbacks of a usual program."""
    callbacks = keras.callbacks
    return [
        callbacks.ModelCheckpoint(f"{folder}/best-{{epoch:02d}}.keras", save_best_only=True, verbose=1),
        callbacks.ReduceLROnPlateau(factor=0.5, patience=1, min_delta=0.05),
        callbacks.EarlyStopping(patience=3, min_delta=0.05, restore_best_weights=True),
        callbacks.CSVLogger(f"{folder}/log.csv"),
        *([callbacks.TensorBoard(f"{folder}/board")] if keras.backend.backend() == "tensorflow" else []),
    ]


def main(settings: dict[str, Any]) -> None:
    keras.mixed_precision.set_global_policy(settings.get("policy", "float32"))
    images, labels = samples(settings["model"], settings["samples"])
    model = network(settings["model"])
    if settings.get("own_step"):
        model = OwnStep(model.inputs, model.outputs)
        model.steals = settings.get("steals", False)
    if settings.get("frozen"):
        model.layers[1].trainable = False
    optimizer = optimizer_of(settings)
    plain = settings.get("plain", False)
    model.compile(
        optimizer=optimizer if plain else spotnik.keras.DistributedOptimizer(optimizer, settings.get("wire", "auto")),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=None if settings.get("own_step") else ["accuracy"],  # Keras wants metrics updated
        **settings.get("of_compile", {}),
    )
    verbose = settings.get("verbose", 0)
    given = {"epochs": settings["epochs"], "verbose": verbose, "validation_data": (images[:200], labels[:200])}
    if settings.get("split"):
        given["validation_split"] = settings["split"]
        del given["validation_data"]
    if settings.get("class_weight"):
        given["class_weight"] = {number: 1 + number / 10 for number in range(10)}
    if settings.get("steps"):
        on_batches(model, images, labels, settings)
        return
    if settings.get("data") == "weighted" and plain:
        given["sample_weight"] = weights_of(labels)
    # It changes the rate at the begin of an epoch, by what the rate was.
    scheduler = [keras.callbacks.LearningRateScheduler(lambda _, rate: rate / 2)] if settings.get("scheduler") else []
    if plain:
        history = model.fit(images, labels, batch_size=settings["batch"], shuffle=False, callbacks=scheduler, **given)
    else:
        data = sharded(settings.get("data", "arrays"), images, labels, settings["batch"])
        if settings.get("steps_per_epoch"):
            given["steps_per_epoch"] = settings["steps_per_epoch"]
        more = watching(settings["folder"]) if settings.get("folder") else scheduler
        history = model.fit(data, callbacks=[spotnik.keras.Callback(), *more, Tell("")], **given)
        tell(digest=spotnik.keras.digest(), end=spotnik.keras.step())
    rate = 0.0 if settings.get("several") else float(keras.ops.convert_to_numpy(model.optimizer.learning_rate))
    tell(epochs=history.epoch, rate=rate, updates=int(keras.ops.convert_to_numpy(model.optimizer.iterations)))
    rest = model.non_trainable_variables
    frozen = [one for one in rest if "moving" not in one.path and "seed" not in one.path]
    tell(frozen=[zlib.crc32(np.array(one.numpy()).tobytes()) for one in frozen])
    statistics = [one for one in rest if "moving" in one.path]
    tell(statistics=[float(np.abs(one.numpy()).sum()) for one in statistics])
    tell(history={name: list(map(float, row)) for name, row in history.history.items()})
    if os.environ.get("WEIGHTS") and (plain or spotnik.keras.rank() == 0):
        np.savez(os.environ["WEIGHTS"], *[np.array(one.numpy()) for one in model.trainable_variables])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
