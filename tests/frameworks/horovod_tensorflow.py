# SPDX-License-Identifier: Apache-2.0
"""A member of a Horovod program for TensorFlow 2, in the calls that Horovod's own examples make; import changed."""

from __future__ import annotations

import json
import os
import signal
import sys
import zlib
from typing import Any

import numpy as np
import tensorflow as tf
from data import digits
from member import tell

import spotnik.horovod.tensorflow as hvd


def digest(model: Any) -> int:
    return zlib.crc32(b"".join(one.numpy().tobytes() for one in model.variables))


def make(settings: dict[str, Any]) -> Any:
    hvd.init()
    tf.keras.utils.set_random_seed(3 + hvd.rank())  # members begin with other weights
    images, labels = digits(settings["samples"])
    data = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(1000).batch(settings["batch"])
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((28, 28)), layers.Flatten(), layers.Dense(64, "relu"), layers.Dense(10)])
    score = tf.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.optimizers.Adam(0.001 * hvd.size())
    return images, labels, data, model, score, optimizer


def plain(settings: dict[str, Any]) -> None:
    images, labels, data, model, score, optimizer = make(settings)

    @tf.function
    def train(x: Any, y: Any, first_batch: bool) -> Any:
        with tf.GradientTape() as tape:
            loss = score(y, model(x, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        if first_batch:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables, root_rank=0)
        return loss

    for batch, (x, y) in enumerate(data.take(settings["steps"] // hvd.size())):
        loss = train(x, y, batch == 0)
        tell(step=batch + 1, loss=float(loss), digest=digest(model))
    mean = hvd.allreduce(score(labels[:500], model(images[:500])))
    rows = hvd.allgather(tf.fill([hvd.rank() + 1, 2], float(hvd.rank())))
    root = hvd.broadcast(tf.constant([hvd.rank()]), root_rank=0)
    more = {"rows": len(rows), "root": int(root[0]), "size": hvd.size(), "local": hvd.local_rank()}
    tell(end=batch + 1, digest=digest(model), final=float(mean), **more)


def elastic(settings: dict[str, Any]) -> None:
    images, labels, data, model, score, optimizer = make(settings)
    optimizer.build(model.trainable_variables)

    @tf.function
    def one_batch(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = score(y, model(x, training=True))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @hvd.elastic.run
    def train(state: Any) -> None:
        tell(entered=state.batch, size=hvd.size(), rank=hvd.rank())
        start = state.batch
        for index, (x, y) in enumerate(data.take(settings["steps"] - start)):
            if index == 5 and settings.get("notice") and hvd.rank() == 1:
                os.kill(os.getpid(), signal.SIGTERM)  # a notice: it leaves in its next call, which is in the graph
            loss = one_batch(x, y)
            state.batch = start + index + 1
            tell(step=state.batch, loss=float(loss))
            if state.batch % settings["commit"] == 0:
                state.commit()

    def reset() -> None:
        optimizer.lr.assign(0.001 * hvd.size())

    state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)
    state.register_reset_callbacks([reset])
    train(state)
    mean = hvd.allreduce(np.float32(score(labels[:500], model(images[:500]))))
    tell(end=state.batch, digest=digest(model), final=float(mean), size=hvd.size())


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    (elastic if given.get("elastic") else plain)(given)
