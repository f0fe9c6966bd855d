# SPDX-License-Identifier: Apache-2.0
"""A member that takes a few steps with each word of spotnik.jax, and tells what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from member import tell

import spotnik.jax
from spotnik import SpotnikError

TREE = {"large": (200, 100), "small": (3,), "none": (0, 2)}


def filled(number: float) -> Any:
    tree = {name: jnp.full(shape, number, jnp.float32) + 0 for name, shape in TREE.items()}
    return {**tree, "half": jnp.full(5, number, jnp.bfloat16) + 0}


def addresses(tree: Any) -> dict[str, int]:
    return {name: one.unsafe_buffer_pointer() for name, one in tree.items() if one.size}


def words(_settings: Any) -> None:
    """Each step's share is of equal length, so a mean is that of the ranks."""
    key = jax.random.key(4)
    replica = spotnik.jax.Replica({"total": jnp.zeros(2), "key": key, "seen": jnp.zeros(3, jnp.uint32)})
    for step, _ in spotnik.jax.shard(replica, np.zeros(60), batch_size=6, epochs=2):
        given = filled(step.rank)
        before = addresses(given)
        folded = jax.random.key_data(spotnik.jax.fold(replica.value["key"])).tolist()
        whole = {"rank": jnp.int32(step.rank) + 0, "last": jnp.array([step.rank == step.shares - 1])}
        mean, whole = spotnik.jax.allreduce((given, whole), donate=True)
        tell(whole=[int(whole["rank"]), bool(whole["last"][0])], size=step.shares)
        kept = sum(before[name] == at for name, at in addresses(mean).items())
        numbers = {name: float(one.astype(jnp.float32).mean()) for name, one in mean.items() if one.size}
        tell(number=step.number, mean=numbers, kept=kept, size=step.shares, rank=step.rank, folded=folded)
        replica.value = {**replica.value, "total": replica.value["total"] + mean["small"][:2]}
        largest = spotnik.jax.allreduce({"a": jnp.int32(step.rank), "b": jnp.array([True])}, "max")
        given = {"x": jnp.full(4, 2.0) + 0, "y": jnp.ones(2, jnp.int32) + 0}
        before = addresses(given)
        total = spotnik.jax.allreduce(given, "sum", donate=True)
        same = addresses(total) == before
        tell(largest=int(largest["a"]), total=[float(total["x"][0]), int(total["y"][0])], same=same, size=step.shares)
    tell(end=step.number, digest=spotnik.jax.digest())


def refused(name: str, act: Callable[[], object]) -> None:
    try:
        act()
    except (SpotnikError, jax.errors.JaxRuntimeError) as error:  # JAX's own carries what a callback raised
        tell(refused=name, words=str(error))


def mistakes(_settings: Any) -> None:
    """What a program may do wrong."""
    average = spotnik.jax.allreduce
    params = jnp.ones(4)
    refused("eager", lambda: jax.grad(lambda p: average(p * p).sum())(params))
    refused("jitted", lambda: jax.grad(jax.jit(lambda p: average(p * p).sum()))(params))
    wrapped = jax.value_and_grad(lambda p: average({"a": p, "n": jnp.int32(1)})["a"].sum())
    refused("inside", lambda: jax.jit(wrapped)(params))
    replica = spotnik.jax.Replica({"params": params})
    forget = jax.jit(lambda value, mean: {"params": value["params"] - mean}, donate_argnums=0)

    def loop() -> None:
        for _ in spotnik.jax.shard(replica, np.zeros(8), batch_size=4):
            forget(replica.value, average(jnp.ones(4)))

    refused("forgotten", loop)
    one = jnp.ones(4)
    refused("shared", lambda: average([one, one], "sum", donate=True))
    refused("traced", lambda: jax.jit(lambda p: average(p, donate=True))(one))
    refused("numpy", lambda: average([np.ones(4)], "sum", donate=True))
    refused("bool", lambda: average(jnp.array([True]), "sum"))
    refused("leaf", lambda: spotnik.jax.Replica({"net": [params, jax.nn.relu]}))
    tx = spotnik.jax.distributed(optax.sgd(1.0))

    def update(value: Any, gradient: Any) -> Any:
        return optax.apply_updates(value, tx.update(gradient, tx.init(value), value)[0])

    search = {"value": 1.0, "grad": one, "value_fn": lambda p: p.sum()}
    refused("search", lambda: tx.update(one, tx.init(one), one, **search))
    refused("vmap", lambda: jax.vmap(lambda g: update(one, g))(jnp.ones((2, 4))))


def turns(_settings: Any) -> None:
    """What an iteration of the loop may do wrong: averages before the value of the last one is assigned, or none."""
    tx = spotnik.jax.distributed(optax.sgd(1.0))
    replica = spotnik.jax.Replica(jnp.ones(4))

    def update(value: Any, gradient: Any) -> Any:
        return optax.apply_updates(value, tx.update(gradient, tx.init(value), value)[0])

    @jax.jit
    def many(value: Any, gradients: Any) -> Any:
        return jax.lax.scan(lambda v, g: (update(v, g), None), value, gradients)[0]

    steps = spotnik.jax.shard(replica, np.zeros(12), batch_size=4)
    next(steps)
    mean = spotnik.jax.allreduce(jnp.ones(4))
    refused("stale", lambda: spotnik.jax.allreduce(jnp.ones(2)))
    refused("stale-sum", lambda: spotnik.jax.allreduce(jnp.ones(2), "sum"))
    replica.value = replica.value + mean
    refused("twice", lambda: update(jnp.ones(4), jnp.ones(4)))
    next(steps)
    refused("scan", lambda: jax.block_until_ready(many(replica.value, jnp.ones((2, 4)))))
    next(steps)
    replica.value = replica.value + spotnik.jax.allreduce(jnp.ones(4))
    spotnik.jax.allreduce(jnp.ones(2))
    replica.value = replica.value + 1
    refused("late", lambda: next(steps))


def micro(_settings: Any) -> None:
    """Gradients that a program adds up by itself, to average every second sum."""
    steps = spotnik.jax.shard(spotnik.jax.Replica(jnp.ones(4)), np.zeros(12), batch_size=4)
    next(steps)
    refused("micro", lambda: next(steps))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    {"mistakes": mistakes, "turns": turns, "micro": micro}.get(given.get("what"), words)(given)
