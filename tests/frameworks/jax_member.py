# SPDX-License-Identifier: Apache-2.0
"""A member that trains a small network with JAX; as keras_member.py."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from data import LENGTH, samples
from member import tell

import spotnik.jax

WIDTH = 32


def init(kind: str, key: Any) -> Any:
    draw = jax.random.normal
    if kind == "mlp":
        a, b = jax.random.split(key)
        return {"a": draw(a, (784, 64)) / 28, "b": draw(b, (64, 10)) / 8, "c": jnp.zeros(64), "d": jnp.zeros(10)}
    if kind == "conv":
        a, b, c = jax.random.split(key, 3)
        kernels = {"first": draw(a, (3, 3, 1, 8)) / 3, "second": draw(b, (3, 3, 8, 16)) / 9}
        return {**kernels, "dense": draw(c, (7 * 7 * 16, 10)) / 28, "bias": jnp.zeros(10)}
    keys = iter(jax.random.split(key, 8))
    shapes = {"embed": (128, WIDTH), "place": (LENGTH, WIDTH), "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH)}
    shapes |= {"up": (WIDTH, 64), "down": (64, WIDTH), "head": (WIDTH, 128)}
    return {name: draw(next(keys), shape) / shape[0] ** 0.5 for name, shape in shapes.items()}


def convolve(params: Any, x: Any) -> Any:
    h = x.reshape(-1, 28, 28, 1)
    for kernel in (params["first"], params["second"]):
        h = jax.lax.conv_general_dilated(h, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = jax.nn.relu(h)
    return h.reshape(len(h), -1) @ params["dense"] + params["bias"]


def predict(params: Any, x: Any) -> Any:
    if "a" in params:
        return jax.nn.relu(x.reshape(len(x), -1) @ params["a"] + params["c"]) @ params["b"] + params["d"]
    if "first" in params:
        return convolve(params, x)
    h = params["embed"][x] + params["place"]
    q, k, v = jnp.split(h @ params["qkv"], 3, -1)
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(mask, q @ k.swapaxes(1, 2) / WIDTH**0.5, -1e9))
    h = h + (weights @ v) @ params["out"]
    h = h + jax.nn.relu(h @ params["up"]) @ params["down"]
    return h @ params["head"]


def loss(params: Any, x: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(predict(params, x), y).mean()


def main(settings: dict[str, Any]) -> None:
    data = samples(settings["model"], settings["samples"])
    params = init(settings["model"], jax.random.key(3))
    plain, inside = settings.get("plain", False), settings.get("inside", False)
    base = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))
    more = settings.get("plateau", False)
    if more:  # a transformation that takes the loss
        base = optax.chain(base, optax.contrib.reduce_on_plateau(0.5, patience=2, rtol=0.1))
    tx = base if plain else spotnik.jax.distributed(base, settings.get("wire", "auto"))
    state = {"params": params, "opt": tx.init(params)}

    def train(state: Any, x: Any, y: Any) -> tuple[Any, Any]:
        value, gradients = gradient(state["params"], x, y)
        given = {"value": value} if more else {}
        updates, opt = tx.update(gradients, state["opt"], state["params"], **given)
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, value

    gradient = jax.value_and_grad(loss)
    if inside or plain:
        train = jax.jit(train)
    else:
        gradient = jax.jit(gradient)
    if plain:
        for first in range(0, settings["samples"] * settings["epochs"], settings["batch"]):
            at = first % settings["samples"]
            state, value = train(state, *(one[at : at + settings["batch"]] for one in data))
    else:
        replica = spotnik.jax.Replica(state)
        steps = spotnik.jax.shard(replica, data, settings["batch"], settings["epochs"], shuffle=False)
        for step, (x, y) in steps:
            replica.value, value = train(replica.value, x, y)
            line = {"step": step.number, "loss": float(value), "rank": step.rank, "samples": step.sample_count}
            if step.number % 10 == 0:
                line["digest"] = spotnik.jax.digest()
            tell(**line)
        tell(end=step.number, digest=spotnik.jax.digest())
        state = replica.value
    final = float(loss(state["params"], *(one[:500] for one in data)))
    tell(final=final)
    if more:
        tell(scale=float(state["opt"][1].scale))
    if os.environ.get("WEIGHTS") and (plain or spotnik.jax.rank() == 0):
        np.savez(os.environ["WEIGHTS"], *[np.asarray(one) for one in jax.tree.leaves(state["params"])])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
