# SPDX-License-Identifier: Apache-2.0
"""A member that trains a Flax NNX network with BatchNorm and dropout, whose whole state is the replica."""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from data import digits
from flax import nnx
from member import tell

import spotnik.jax


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.last = nnx.Linear(784, 64, rngs=rngs), nnx.Linear(64, 10, rngs=rngs)
        self.norm, self.drop = nnx.BatchNorm(64, rngs=rngs), nnx.Dropout(0.1)

    def __call__(self, x: Any, rngs: nnx.Rngs) -> Any:
        return self.last(self.drop(nnx.relu(self.norm(self.first(x.reshape(len(x), -1)))), rngs=rngs))


def main(settings: dict[str, Any]) -> None:
    data = digits(settings["samples"])
    graph, params, statistics = nnx.split(Net(nnx.Rngs(1)), nnx.Param, nnx.BatchStat)
    tx = optax.adam(3e-3)
    state = {"params": params, "statistics": statistics, "opt": tx.init(params), "key": jax.random.key(0)}
    replica = spotnik.jax.Replica(state)

    @jax.jit
    def gradients(state: Any, key: Any, x: Any, y: Any) -> Any:
        def score(params: Any) -> Any:
            model = nnx.merge(graph, params, state["statistics"], copy=True)
            losses = optax.softmax_cross_entropy_with_integer_labels(model(x, nnx.Rngs(dropout=key)), y)
            return losses.mean(), nnx.state(model, nnx.BatchStat)

        (value, statistics), gradients = jax.value_and_grad(score, has_aux=True)(state["params"])
        return value, (gradients, statistics)

    @jax.jit
    def update(state: Any, gradients: Any, statistics: Any) -> Any:
        updates, opt = tx.update(gradients, state["opt"], state["params"])
        key = jax.random.split(state["key"])[0]
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "statistics": statistics, "opt": opt, "key": key}

    for step, (x, y) in spotnik.jax.shard(replica, data, settings["batch"], settings["epochs"]):
        value, mine = gradients(replica.value, spotnik.jax.fold(replica.value["key"]), x, y)
        replica.value = update(replica.value, *spotnik.jax.allreduce(mine, donate=True))
        line = {"step": step.number, "loss": float(value)}
        if step.number % 10 == 0:
            line["digest"] = spotnik.jax.digest()
        tell(**line)
    moved = float(jnp.abs(jnp.concatenate([one.ravel() for one in jax.tree.leaves(replica.value["statistics"])])).sum())
    key = np.asarray(jax.random.key_data(replica.value["key"])).tolist()
    # The loss of a step may be that of a sample which counts nothing, and BatchNorm makes nothing of one sample.
    x, y = (one[:500] for one in data)
    final = float(gradients(replica.value, jax.random.key(1), x, y)[0])
    tell(end=step.number, digest=spotnik.jax.digest(), moved=moved, key=key, final=final)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
