# SPDX-License-Identifier: Apache-2.0
"""JAX: pytrees as replicas, averages outside and inside of ``jit``.

    tx = spotnik.jax.distributed(optax.adamw(1e-3))
    replica = spotnik.jax.Replica({"params": params, "opt": tx.init(params)})
    for step, (x, y) in spotnik.jax.shard(replica, (x, y), batch_size=128, epochs=3):
        replica.value = train(replica.value, x, y)       # calls tx.update() once, jitted or not

See docs/guide/frameworks.md.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from ..errors import ArgumentError, StateError
from ..job import Config, Job, Step
from ..training.data import Arrays
from ..training.program_loop import ProgramLoop
from ..training.replica import Settings

__all__ = ["Replica", "allreduce", "digest", "distributed", "fold", "job", "leave", "rank", "shard", "size"]

_current: Optional[Replica] = None
_ADVICE = (
    "Average it in the same call as the gradients: allreduce((gradients, statistics)), with tx.update() of the plain "
    "optax transformation after it. Random keys of the replica must not follow from fold()"
)


class Replica:
    """A pytree that all members hold alike: parameters, optimiser state, statistics, keys. One per process at a time.

    Read and set :attr:`value` between the steps of :func:`shard`; its structure, shapes and types never change.

    Args:
        value: arrays, numbers, typed random keys and Flax states, in any pytree.
        seed: of the shuffling; default: the founder's, at random.
        checkpoint: directory that all members share, for surviving the loss of all.
        config: settings of the job; default: from the environment (``spotnik run`` sets it).
    """

    def __init__(
        self,
        value: Any,
        *,
        seed: Optional[int] = None,
        checkpoint: Union[str, os.PathLike[str], None] = None,
        config: Optional[Config] = None,
    ) -> None:
        global _current
        _check_leaves(value)
        self._value = value
        self._loop = ProgramLoop(self._read, self._write, Settings(seed=seed, checkpoint=checkpoint, config=config))
        self._loop.settle, self._loop.assigned = self._settle, 0
        self._loop.names, self._loop.advice = self._names, _ADVICE
        _current = self

    @property
    def value(self) -> Any:
        """The pytree."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value
        assert self._loop.assigned is not None
        self._loop.assigned += 1

    def _read(self) -> list[Any]:
        return [np.asarray(_plain(one)) for one in jax.tree.leaves(self.value)]

    def _write(self, values: Sequence[Any]) -> None:
        old, structure = jax.tree.flatten(self.value)
        # A copy: JAX keeps arrays for as long as it likes, and the registered memory changes.
        self.value = jax.tree.unflatten(structure, [_like(jnp.array(new), was) for new, was in zip(values, old)])

    def _names(self) -> list[str]:
        return ["value" + jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(self.value)]

    def _settle(self) -> None:
        jax.effects_barrier()  # the callback of a jitted average may not have run yet
        if any(isinstance(one, jax.Array) and one.is_deleted() for one in jax.tree.leaves(self.value)):
            raise StateError(
                "replica.value holds arrays that were donated; assign replica.value = what the function returned "
                "before the step ends"
            )

    @property
    def loop(self) -> ProgramLoop:
        """For the functions of this module."""
        return self._loop


def _is_key(one: Any) -> bool:
    return isinstance(one, jax.Array) and jnp.issubdtype(one.dtype, jax.dtypes.prng_key)


def _plain(one: Any) -> Any:
    """Numbers of Python as JAX has them once they went through a function of it."""
    return jax.random.key_data(one) if _is_key(one) else jnp.asarray(one)


def _like(new: Any, was: Any) -> Any:
    if _is_key(was):
        return jax.random.wrap_key_data(new, impl=jax.random.key_impl(was))
    return _placed(new, was)


def _placed(new: Any, was: Any) -> Any:
    """`new` on the devices of `was`, where the program has spread that over several."""
    if isinstance(was, jax.Array) and len(was.sharding.device_set) > 1:
        return jax.device_put(new, was.sharding)
    return new


def _check_leaves(value: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
            raise ArgumentError(
                f"replica{jax.tree_util.keystr(path)} is a {type(leaf).__name__}, and a replica holds arrays and "
                "numbers: keep the rest beside it (nnx.split, or eqx.partition(model, eqx.is_array))"
            )


def _replica() -> Replica:
    if _current is None:
        raise StateError("no replica yet; make one with spotnik.jax.Replica(state)")
    return _current


# ---- steps ----


def shard(
    replica: Replica, data: Any, batch_size: int, epochs: int = 1, *, shuffle: bool = True
) -> Iterator[tuple[Step, Any]]:
    """Yield each step of the job, and this member's share of its samples as NumPy arrays in the structure of `data`.

    Finish every step by one average: :func:`allreduce` or ``update`` of :func:`distributed`. A late member begins where
    the job is, with ``replica.value`` set. A member without samples in a step gets one, whose results count nothing.

    Args:
        replica: what the loop changes.
        data: arrays in tuples or dicts, whose first dimension counts samples.
        batch_size: samples in a step over all members.
        epochs: epochs of data; another call goes on with as many more.
        shuffle: another order in each epoch, by the job's seed.
    """
    return replica.loop.steps(Arrays(data, batch_size, shuffle), epochs)


def allreduce(tree: Any, op: str = "mean", *, donate: bool = False, wire: str = "auto") -> Any:
    """Return the mean of the pytree `tree` over the samples of the running step, which this finishes.

    Outside of a step, or with another `op` ("sum", "min", "max", "product"), it is a step of its own without samples.
    In a function that is being traced (``jit``) it becomes an ordered ``io_callback``; it has no derivative, so
    average gradients, not losses. With `donate` the memory of arrays on the CPU is overwritten by the result, which
    large arrays of float32 or float64 reach without a copy: for arrays that are used nowhere else, not in ``jit``.

    With `wire` "bf16", "f16" or "q8" means of floats travel shorter and are rounded, as in :func:`distributed`.

    When the others went on without this member, `tree` comes back: set ``replica.value`` as ever, the next step
    overwrites it. Raises ArgumentError when it is differentiated.
    """
    travel = _Travel(op, wire=wire)
    return _allreduce(tree, travel, donate)


class _Travel(NamedTuple):
    """How values travel: the first `gradients` of them (None: all) as `wire`; `once` in an iteration of the loop."""

    op: str = "mean"
    once: bool = False
    wire: str = "auto"
    gradients: Optional[int] = None


def _allreduce(tree: Any, travel: _Travel, donate: bool) -> Any:
    values, structure = jax.tree.flatten(tree)
    if any(isinstance(one, jax.core.Tracer) for one in values):
        if donate:
            raise ArgumentError("donate=True is for arrays outside of jit; inside, XLA owns their memory")
        return jax.tree.unflatten(structure, _traced(functools.partial(_on_host, travel._replace(once=True)), values))
    jax.effects_barrier()  # an average in a function that still runs comes first
    if donate:
        return jax.tree.unflatten(structure, _in_place(travel, values))
    pairs = zip(_on_host(travel, *values), values)
    return jax.tree.unflatten(structure, [_placed(jnp.asarray(new), was) for new, was in pairs])


def _traced(host: Any, values: Sequence[Any]) -> Any:
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in map(jnp.asarray, values)]
    try:
        return io_callback(host, shapes, *_without_derivative(values), ordered=True)
    except ValueError as error:
        if "vmap" not in str(error):
            raise
        raise ArgumentError(
            "spotnik.jax.allreduce() and update() of spotnik.jax.distributed() cannot stand under vmap; return the "
            "gradients from there, and average what came out"
        ) from None


def _no_derivative(primals: Any, tangents: Any) -> Any:
    raise ArgumentError(
        "spotnik.jax.allreduce() and update() of spotnik.jax.distributed() have no derivative; take jax.grad of this "
        "member's loss first, and average the gradients"
    )


_without_derivative = jax.custom_jvp(lambda values: values)
_without_derivative.defjvp(_no_derivative)


def _on_host(travel: _Travel, *values: Any) -> list[Any]:
    op, once, wire, gradients = travel
    loop = _replica().loop
    if op == "mean":
        return loop.average([np.asarray(one) for one in values], once=once, wire=wire, gradients=gradients)
    copies = [np.array(one) for one in values]
    loop.reduce(_as_numbers(copies, op), op, once)
    return copies


def _as_numbers(values: Sequence[Any], op: str) -> list[Any]:
    if op not in ("min", "max") and any(one.dtype == np.bool_ for one in values):
        raise ArgumentError('booleans take op="min" (all) or "max" (any); convert them to numbers to count them')
    return [one.view(np.uint8) if one.dtype == np.bool_ else one for one in values]


def _in_place(travel: _Travel, values: Sequence[Any]) -> Sequence[Any]:
    for one in values:
        if not isinstance(one, jax.Array) or one.devices() != {jax.devices("cpu")[0]}:
            raise ArgumentError("donate=True needs JAX arrays in the memory of the CPU")
    jax.block_until_ready(values)
    if len({one.unsafe_buffer_pointer() for one in values}) < len(values):
        raise ArgumentError("donate=True needs memory of its own for each leaf; two of these share theirs")
    views = [_memory(one) for one in values]
    loop = _replica().loop
    if travel.op == "mean":
        loop.average(views, in_place=True, wire=travel.wire)
    else:
        loop.reduce(_as_numbers(views, travel.op), travel.op)
    return values


def _memory(array: Any) -> Any:
    import ctypes

    if not array.size:
        return np.empty(array.shape, array.dtype)
    raw: Any = (ctypes.c_char * array.nbytes).from_address(array.unsafe_buffer_pointer())
    return np.frombuffer(raw, dtype=array.dtype).reshape(array.shape)


class _Distributed(NamedTuple):
    init: Any
    update: Any


def distributed(tx: Any, wire: str = "auto") -> Any:
    """Return the optax transformation `tx` with gradients averaged over the job first: a GradientTransformation, too.

    ``update`` finishes the running step; call it exactly once a step, in ``jit`` or not. What stands inside `tx`
    (clipping, say) works on the average. ``value`` and ``grad``, which some transformations take, are averaged along.

    Args:
        tx: the transformation.
        wire: as what gradients travel, the same on every member: "auto" (as float32, or float64), "f32", "bf16" or
            "f16" (half the bytes) or "q8" (a quarter; what rounding takes away is added to the next gradients).
    """
    kind = type(tx) if hasattr(tx, "_fields") else _Distributed

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        if "value_fn" in extra:
            raise ArgumentError(
                "value_fn=... computes losses of this member's share, by which members would part; use a "
                "transformation without a search along the line, as optax.lbfgs(linesearch=None)"
            )
        shared = {name: extra[name] for name in ("value", "grad") if name in extra}
        travel = _Travel(once=True, wire=wire, gradients=len(jax.tree.leaves(updates)))
        updates, shared = _allreduce((updates, shared), travel, False)
        return tx.update(updates, state, params, **{**extra, **shared})

    return kind(tx.init, update)


def fold(key: Any) -> Any:
    """Return `key` folded by the running step and this member's share: no two members draw the same numbers."""
    step = _replica().loop.replica.step
    if step is None:
        raise StateError("no step is running; call fold() inside the loop over shard()")
    first = step.ranges[0].start if step.ranges else (1 << 31) + step.rank
    return jax.random.fold_in(jax.random.fold_in(key, step.number & 0xFFFFFFFF), first & 0xFFFFFFFF)


# ---- looking ----


def job() -> Job:
    """Return the job; joins it if that was not done."""
    return _replica().loop.replica.open()


def digest() -> int:
    """Return a hash of the whole replica: equal on all members after each step, once ``replica.value`` is set."""
    return _replica().loop.replica.digest


def rank() -> int:
    """Return this member's place in the view of the running step. One member alone has 0.

    -1 where it has none: before its first step, and where the others may have taken steps without it since.
    """
    return _replica().loop.replica.rank


def size() -> int:
    """Return how many members that view has; 1 before the first step."""
    return _replica().loop.replica.size


def leave() -> None:
    """Leave the job after the last committed step. At exit this is done for you."""
    _replica().loop.replica.leave()
