# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on TensorFlow, JAX or PyTorch: ``fit`` that survives the loss of machines.

    model.compile(optimizer=spotnik.keras.DistributedOptimizer(keras.optimizers.Adam()), loss=...)
    model.fit(spotnik.keras.shard((x, y), batch_size=128), epochs=3, callbacks=[spotnik.keras.Callback()])

The replica is all state: of the model, the optimiser, metrics, seed generators, callbacks.
See docs/guide/frameworks.md.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Optional, Union

import keras

from ..config import is_alone
from ..errors import ArgumentError
from ..job import Config, Job
from ..training.replica import Settings
from . import _driver
from ._callbacks import Callback
from ._data import Shard, source_of
from ._optimizer import distributed, is_distributed

_NOT_PREPARED = (
    "fit() got spotnik.keras.shard(data), and this model is not prepared: compile it with "
    "optimizer=spotnik.keras.DistributedOptimizer(optimizer), or call spotnik.keras.prepare(model) after compile()"
)

__all__ = [
    "Callback",
    "DistributedOptimizer",
    "Shard",
    "digest",
    "job",
    "leave",
    "prepare",
    "rank",
    "shard",
    "size",
    "step",
]


def DistributedOptimizer(optimizer: Any, wire: str = "auto") -> Any:  # noqa: N802  # a class to its users
    """Return `optimizer`, which from now on steps with the average over the job. It stays the object it was.

    A model compiled with it is prepared by its first ``fit`` or ``train_on_batch``. Raises ArgumentError for anything
    but a Keras optimizer, and for another word.

    Args:
        optimizer: of Keras.
        wire: as what gradients travel, the same on every member: "auto" (as float32, or float64), "f32", "bf16" or
            "f16" (half the bytes) or "q8" (a quarter; what rounding takes away is added to the next gradients).
    """
    return distributed(optimizer, wire)


def prepare(
    model: Any,
    *,
    seed: Optional[int] = None,
    checkpoint: Union[str, os.PathLike[str], None] = None,
    config: Optional[Config] = None,
    sync: Optional[str] = None,
) -> Any:
    """Make the compiled `model` take its training steps together with the other members. Returns `model`.

    Args:
        model: compiled; one for a process at a time.
        seed: of the shuffling; default: the founder's, at random.
        checkpoint: directory that all members share, for surviving the loss of all.
        config: settings of the job; default: from the environment (``spotnik run`` sets it).
        sync: "ssgd", "sma", "easgd", "localsgd" or "lookahead+NAME"; default: SPOTNIK_SYNC, or "ssgd".

    Raises ArgumentError for a model that is not compiled, StateError when another model is prepared.
    """
    _driver.prepare(model, Settings(seed=seed, checkpoint=checkpoint, config=config), sync)
    return model


def shard(data: Any, batch_size: int = 32, *, shuffle: Optional[bool] = None, seed: Optional[int] = None) -> Shard:
    """Return `data` as ``fit`` of a prepared model takes them: each sample once an epoch, over all members together.

    Args:
        data: arrays ``(x, y)`` or ``(x, y, sample_weight)``; a ``keras.utils.PyDataset``, a ``tf.data.Dataset`` of
            batches or a ``torch.utils.data.DataLoader``, whose batch is that of a step over all members.
        batch_size: of arrays: samples in a step over all members.
        shuffle: another order in each epoch. Default: True for arrays, False for batches (whose order it changes).
        seed: of the shuffling; default: the founder's, at random.

    Raises ArgumentError for generators and endless data.
    """
    return Shard(source_of(data, batch_size, shuffle), seed)


def job() -> Job:
    """Return the job of the prepared model; joins it if that was not done."""
    return _driver.current().replica.open()


def digest() -> int:
    """Return a hash of the whole replica: equal on all members after each step and each epoch."""
    return _driver.current().digest


def step() -> int:
    """Return how many steps the job has begun, as this member knows it: the number to log by, and to end a loop by."""
    found = _driver.find()
    last = found.replica.last_step if found else None
    return last.number if last else 0


def rank() -> int:
    """Return this member's place in the view, from 0; another after members came or went. One alone has 0 in a step.

    -1 where it has none: before its first step, and where the others may have taken steps without it since.
    """
    found = _driver.find()
    return found.replica.rank if found else 0 if is_alone() else -1


def size() -> int:
    """Return how many members the view has; 1 before the first step."""
    found = _driver.find()
    return found.replica.size if found else 1


def leave() -> None:
    """Leave the job after the last committed step. At exit this is done for you."""
    found = _driver.find()
    if found is not None:
        found.replica.leave()


def _watch_models() -> None:
    """Have models prepare themselves when they begin to train with an optimiser of ours. Others train as ever."""
    for name in ("fit", "train_on_batch"):
        plain = getattr(keras.Model, name)
        if not hasattr(plain, "_spotnik"):
            setattr(keras.Model, name, _watched(name, plain))


def _watched(name: str, plain: Any) -> Any:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if not is_distributed(getattr(self, "optimizer", None)) or name in vars(self):
            if isinstance(arguments[0] if arguments else named.get("x"), Shard):
                raise ArgumentError(_NOT_PREPARED)
            return plain(self, *arguments, **named)
        prepare(self)
        return getattr(self, name)(*arguments, **named)

    functools.update_wrapper(method, plain)
    method._spotnik = True  # type: ignore[attr-defined]
    return method


if not keras.version().startswith("3."):
    raise ArgumentError(f"spotnik.keras is for Keras 3, not {keras.version()}")
_watch_models()
