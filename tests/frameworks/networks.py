# SPDX-License-Identifier: Apache-2.0
"""The small networks that members train, in Keras."""

from __future__ import annotations

import keras
from data import LENGTH


def network(kind: str) -> keras.Model:
    keras.utils.set_random_seed(7)
    layers = keras.layers
    if kind == "transformer":
        return transformer()
    if kind == "embedded":
        return keras.Sequential([layers.Input((LENGTH,), dtype="int32"), layers.Embedding(128, 32), layers.Dense(128)])
    if kind == "mlp":
        body = [layers.Flatten(), layers.Dense(64, activation="relu")]
    else:
        norm = [layers.BatchNormalization(), layers.Dropout(0.1)] if kind == "normed" else []
        body = [layers.Reshape((28, 28, 1)), layers.Conv2D(8, 3, strides=2, activation="relu"), *norm]
        body += [layers.Conv2D(16, 3, strides=2, activation="relu"), layers.Flatten()]
    return keras.Sequential([layers.Input((28, 28)), *body, layers.Dense(10)])


def transformer() -> keras.Model:
    layers = keras.layers
    given = layers.Input((LENGTH,), dtype="int32")
    # So that runs can be compared: an Embedding's gradient is sparse in TensorFlow, where one process treats it
    # otherwise than a dense average; and a bias of keys has no gradient but rounding, of which Adam makes whole steps.
    h = layers.Dense(32, use_bias=False)(keras.ops.one_hot(given, 128))
    h = layers.Add()([h, layers.MultiHeadAttention(2, 16, use_bias=False)(h, h, use_causal_mask=True)])
    h = layers.Add()([h, layers.Dense(32)(layers.Dense(64, activation="relu")(layers.LayerNormalization()(h)))])
    return keras.Model(given, layers.Dense(128)(h))
