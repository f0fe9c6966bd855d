# SPDX-License-Identifier: Apache-2.0
"""TensorFlow loops of your own: a gradient tape whose gradients are averages over the job, eager or in a graph.

    replica = spotnik.tensorflow.Replica([*model.variables, *optimizer.variables])
    for step, (x, y) in spotnik.tensorflow.shard(replica, (x, y), batch_size=128, epochs=3):
        train(x, y)                      # a tf.function with spotnik.tensorflow.DistributedGradientTape in it, or not

See docs/guide/frameworks.md.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from ..errors import StateError
from ..job import Config, Job, Step
from ..training.data import Arrays, map_arrays
from ..training.program_loop import ProgramLoop
from ..training.replica import Settings

__all__ = ["DistributedGradientTape", "Replica", "average", "digest", "job", "leave", "rank", "shard", "size"]

_current: Optional[Replica] = None
_ADVICE = (
    "DistributedGradientTape averages BatchNorm's statistics of the replica; with plain tapes give all of it to one "
    "average([*gradients, *statistics]), and assign the results"
)


class Replica:
    """Variables that all members hold alike: of the model and of the optimiser, built before. One per process.

    Args:
        variables: TensorFlow's or Keras'; those of metrics need not be among them. Of seed generators among them
            each member draws other numbers.
        seed: of the shuffling; default: the founder's, at random.
        checkpoint: directory that all members share, for surviving the loss of all.
        config: settings of the job; default: from the environment (``spotnik run`` sets it).
    """

    def __init__(
        self,
        variables: Sequence[Any],
        *,
        seed: Optional[int] = None,
        checkpoint: Union[str, os.PathLike[str], None] = None,
        config: Optional[Config] = None,
    ) -> None:
        global _current
        self.variables = list(variables)
        self.loop = ProgramLoop(self._read, self._write, Settings(seed=seed, checkpoint=checkpoint, config=config))
        self.loop.names, self.loop.advice, self.loop.begun = self._names, _ADVICE, self._stir
        #: What the forward pass makes of this member's share: BatchNorm's means and variances.
        self.statistics = [one for one in self.variables if _last_name(one).startswith("moving_")]
        seeds = [place for place, one in enumerate(self.variables) if _last_name(one) == "seed_generator_state"]
        self._seeds = {place: np.array(self.variables[place].numpy()) for place in seeds}
        _current = self

    def _names(self) -> list[str]:
        return [getattr(one, "path", one.name) for one in self.variables]

    def _read(self) -> list[Any]:
        return [
            self._seeds[place] if place in self._seeds else np.array(one.numpy())
            for place, one in enumerate(self.variables)
        ]

    def _write(self, values: Sequence[Any]) -> None:
        for place, (variable, value) in enumerate(zip(self.variables, values)):
            if place in self._seeds:
                self._seeds[place] = np.array(value)
            variable.assign(np.array(value))

    def _stir(self) -> None:
        """Give each seed generator numbers of this step and share; the replica keeps what they follow from."""
        for place, seed in self._seeds.items():
            self.variables[place].assign(self.loop.replica.stirred(place, seed))


def _last_name(variable: Any) -> str:
    return str(variable.name).split(":")[0].rsplit("/", 1)[-1]


def _replica() -> Replica:
    if _current is None:
        raise StateError("no replica yet; make one with spotnik.tensorflow.Replica(variables)")
    return _current


def shard(
    replica: Replica, data: Any, batch_size: int, epochs: int = 1, *, shuffle: bool = True
) -> Iterator[tuple[Step, Any]]:
    """Yield each step of the job, and this member's share of its samples as tensors in the structure of `data`.

    Finish every step by one average: ``tape.gradient()``, or :func:`average`. A late member begins where the job is,
    its variables set. A member without samples in a step gets one, whose results count nothing.

    Args:
        replica: what the loop changes.
        data: arrays in tuples or dicts, whose first dimension counts samples.
        batch_size: samples in a step over all members.
        epochs: epochs of data; another call goes on with as many more.
        shuffle: another order in each epoch, by the job's seed.
    """
    for step, batch in replica.loop.steps(Arrays(data, batch_size, shuffle), epochs):
        yield step, map_arrays(tf.constant, batch)


def average(tensors: Sequence[Any], wire: str = "auto") -> list[Any]:
    """Return the means of `tensors` over the samples of the running step, which this finishes; None stays None.

    In a graph it is a ``tf.py_function``, which XLA (``jit_compile=True``) cannot compile. Outside of a step it is one
    of its own without samples. `wire`: as of :class:`DistributedGradientTape`, for all of `tensors`.
    """
    return _average(tensors, functools.partial(_on_host, False, wire, None))


def _average(tensors: Sequence[Any], on_host: Any) -> list[Any]:
    given = [tf.convert_to_tensor(one) for one in tensors if one is not None]
    if tf.executing_eagerly():
        means = [tf.constant(one) for one in on_host(*given)]
    else:
        means = tf.py_function(on_host, given, [one.dtype for one in given])
        for mean, one in zip(means, given):
            mean.set_shape(one.shape)
    left = iter(means)
    return [None if one is None else next(left) for one in tensors]


def _on_host(once: bool, wire: str, gradients: Optional[int], *tensors: Any) -> list[Any]:
    values = [one.numpy() for one in tensors]
    return _replica().loop.average(values, once=once, wire=wire, gradients=gradients)


class DistributedGradientTape:
    """A ``tf.GradientTape`` whose :meth:`gradient` returns averages over all members. Call it once a step.

    Args:
        tape: to be wrapped; default: a new one.
        wire: as what gradients travel, the same on every member: "auto" (as float32, or float64), "f32", "bf16" or
            "f16" (half the bytes) or "q8" (a quarter; what rounding takes away is added to the next gradients).
    """

    def __init__(self, tape: Any = None, wire: str = "auto") -> None:
        self._tape = tape if tape is not None else tf.GradientTape()
        self._wire = wire

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *arguments: Any) -> None:
        self._tape.__exit__(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def gradient(self, target: Any, sources: Any, *arguments: Any, **named: Any) -> Any:
        """Return gradients as ``tf.GradientTape.gradient`` does, averaged; finishes the running step.

        BatchNorm's statistics in the replica become their mean over the members.
        """
        gradients = self._tape.gradient(target, sources, *arguments, **named)
        flat, statistics = tf.nest.flatten(gradients, expand_composites=False), _replica().statistics
        count = sum(one is not None for one in flat)
        means = _average([*flat, *statistics], functools.partial(_on_host, True, self._wire, count))
        for variable, mean in zip(statistics, means[len(flat) :]):
            variable.assign(mean)
        return tf.nest.pack_sequence_as(gradients, means[: len(flat)])


# ---- looking ----


def job() -> Job:
    """Return the job; joins it if that was not done."""
    return _replica().loop.replica.open()


def digest() -> int:
    """Return a hash of the whole replica: equal on all members after each step."""
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
