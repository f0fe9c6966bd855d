# SPDX-License-Identifier: Apache-2.0
"""A member of a Horovod program for Keras, in the calls that Horovod's own examples make; import changed."""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

import keras
import numpy as np
from data import digits
from member import tell

import spotnik.horovod.keras as hvd


class Tell(keras.callbacks.Callback):
    def __init__(self, state: Any = None) -> None:
        super().__init__()
        self.state = state
        self.number = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.number += 1
        tell(step=self.number, loss=float(logs["loss"]), rank=hvd.rank())

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        tell(ended=epoch, logs={name: float(value) for name, value in logs.items()})


def main(settings: dict[str, Any]) -> None:
    hvd.init()
    keras.utils.set_random_seed(3 + hvd.rank())  # members begin with other weights
    images, labels = digits(settings["samples"])
    layers = keras.layers
    model = keras.Sequential([layers.Input((28, 28)), layers.Flatten(), layers.Dense(64, "relu"), layers.Dense(10)])
    rate = 0.001 * hvd.size()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(rate))
    score = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=score, optimizer=optimizer, metrics=["accuracy"], experimental_run_tf_function=False)
    given = {"batch_size": settings["batch"], "verbose": 0, "validation_data": (images[:200], labels[:200])}
    part = slice(hvd.rank(), None, hvd.size())
    if settings.get("elastic"):
        warm = {"steps_per_epoch": 1, "epochs": 1, "batch_size": settings["batch"], "verbose": 0}

        def reset() -> None:
            import tensorflow as tf

            tf.keras.backend.set_value(model.optimizer.lr, 0.001 * hvd.size())
            model.fit(images, labels, **warm)

        if settings.get("warm"):  # as an example does: before elastic.run, and when members came or went
            model.fit(images, labels, **warm)
        state = hvd.elastic.KerasState(model, batch=0, epoch=0)
        if settings.get("warm"):
            state.register_reset_callbacks([reset])

        @hvd.elastic.run
        def train(state: Any) -> None:
            tell(entered=state.epoch, batch=state.batch, size=hvd.size(), rank=hvd.rank())
            part = slice(hvd.rank(), settings["samples"] // hvd.size() * hvd.size(), hvd.size())
            elastic = hvd.elastic
            updates = [elastic.UpdateEpochStateCallback(state), elastic.UpdateBatchStateCallback(state)]
            callbacks = [*updates, elastic.CommitStateCallback(state, batches_per_commit=settings["commit"]), Tell()]
            epochs = settings["epochs"] - state.epoch
            if epochs > 0:
                model.fit(images[part], labels[part], epochs=epochs, callbacks=callbacks, **given)

        train(state)
        done = state.epoch
    else:
        callbacks = [
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(initial_lr=rate, warmup_epochs=1, verbose=1),
            keras.callbacks.ReduceLROnPlateau(patience=10, verbose=0),
            Tell(),
        ]
        model.fit(images[part], labels[part], epochs=settings["epochs"], callbacks=callbacks, **given)
        done = settings["epochs"]
    mean = hvd.allreduce(model.evaluate(images[:500], labels[:500], verbose=0)[0], name="final")
    rate = float(model.optimizer.learning_rate.numpy())
    weights = [keras.ops.convert_to_numpy(one.value) for one in model.trainable_variables]
    digest = zlib.crc32(b"".join(np.asarray(one).tobytes() for one in weights))
    tell(end=done, digest=digest, final=float(mean), size=hvd.size(), rate=rate, local=hvd.local_rank())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
