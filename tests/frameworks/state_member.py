# SPDX-License-Identifier: Apache-2.0
"""A member that trains what programs keep their state in: flax's TrainState, optax.MultiSteps, None leaves, fields that
are no arrays; its loop averages its losses, too, to tell them."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
from typing import Any, Optional

import jax
import numpy as np
import optax
from data import digits
from flax.training.train_state import TrainState
from member import tell

import spotnik.jax


@functools.partial(jax.tree_util.register_dataclass, data_fields=["a", "b", "bias"], meta_fields=["act"])
@dataclasses.dataclass
class Net:
    a: Any
    b: Any
    bias: Optional[Any]  # a leaf of None
    act: str

    def __call__(self, x: Any) -> Any:
        return getattr(jax.nn, self.act)(x.reshape(len(x), -1) @ self.a) @ self.b


@jax.jit
def loss(params: Any, x: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(params["net"](x), y).mean()


def main(settings: dict[str, Any]) -> None:
    images, labels = digits(settings["samples"])
    a, b = jax.random.split(jax.random.key(3))
    net = Net(jax.random.normal(a, (784, 64)) / 28, jax.random.normal(b, (64, 10)) / 8, None, "relu")
    plain = settings.get("plain", False)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))
    if settings.get("outside"):
        tx = optax.MultiSteps(spotnik.jax.distributed(tx), 2)
    else:
        tx = optax.MultiSteps(tx, 2) if plain else spotnik.jax.distributed(optax.MultiSteps(tx, 2))
    state = TrainState.create(apply_fn=None, params={"net": net}, tx=tx)

    @jax.jit
    def train(state: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(state.params, x, y)
        return state.apply_gradients(grads=gradients), value

    if plain:
        for first in range(0, settings["samples"] * settings["epochs"], settings["batch"]):
            part = slice(first % settings["samples"], first % settings["samples"] + settings["batch"])
            state, value = train(state, images[part], labels[part])
    else:
        replica = spotnik.jax.Replica(state)
        given = (settings["batch"], settings["epochs"])
        for step, (x, y) in spotnik.jax.shard(replica, (images, labels), *given, shuffle=False):
            replica.value, value = train(replica.value, x, y)
            mean = spotnik.jax.allreduce(value) if settings.get("averages_losses") else value
            count = int(replica.value.step)
            more = {"digest": spotnik.jax.digest()} if count % 5 == 0 else {}
            tell(step=step.number, loss=float(mean), rank=step.rank, count=count, **more)
        tell(end=step.number, digest=spotnik.jax.digest())
        state = replica.value
    tell(final=float(loss(state.params, images[:500], labels[:500])), count=int(state.step))
    if os.environ.get("WEIGHTS") and (plain or spotnik.jax.rank() == 0):
        np.savez(os.environ["WEIGHTS"], *[np.asarray(one) for one in jax.tree.leaves(state.params)])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
