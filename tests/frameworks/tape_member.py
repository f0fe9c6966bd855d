# SPDX-License-Identifier: Apache-2.0
"""A member that trains a small network in a TensorFlow loop of its own; as keras_member.py."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from data import samples
from member import tell
from networks import network

import spotnik.tensorflow


def main(settings: dict[str, Any]) -> None:
    images, labels = samples(settings["model"], settings["samples"])
    model = network(settings["model"])
    optimizer = keras.optimizers.Adam(3e-3)
    optimizer.build(model.trainable_variables)
    score = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    plain, wire = settings.get("plain", False), settings.get("wire", "auto")

    def train(x: Any, y: Any) -> Any:
        with tf.GradientTape() if plain else spotnik.tensorflow.DistributedGradientTape(wire=wire) as tape:
            value = score(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return value

    if settings.get("graph"):
        train = tf.function(train, reduce_retracing=True)
    if plain:
        for first in range(0, settings["samples"] * settings["epochs"], settings["batch"]):
            at = first % settings["samples"]
            train(images[at : at + settings["batch"]], labels[at : at + settings["batch"]])
    else:
        replica = spotnik.tensorflow.Replica([*model.variables, *optimizer.variables])
        data = (images, labels)
        for step, (x, y) in spotnik.tensorflow.shard(
            replica, data, settings["batch"], settings["epochs"], shuffle=False
        ):
            seeds = [one.numpy().tolist() for one in model.variables if one.name == "seed_generator_state"]
            value = train(x, y)
            line = {"step": step.number, "loss": float(value), "rank": step.rank, "samples": step.sample_count}
            if seeds:
                line["seeds"] = seeds
            if step.number % 10 == 0:
                line["digest"] = spotnik.tensorflow.digest()
            tell(**line)
        tell(end=step.number, digest=spotnik.tensorflow.digest())
    tell(final=float(score(labels[:500], model(images[:500]))))
    if os.environ.get("WEIGHTS") and (plain or spotnik.tensorflow.rank() == 0):
        np.savez(os.environ["WEIGHTS"], *[np.array(one.numpy()) for one in model.trainable_variables])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
