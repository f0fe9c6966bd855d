# SPDX-License-Identifier: Apache-2.0
"""What travels in a step: gradients, what the step added to metrics, other state of layers, numbers of a train_step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

import keras
import numpy as np

from .. import arrays
from ..errors import ArgumentError
from ..training.memory import Bucket
from ..training.replica import Replica
from ..training.residuals import Residuals
from ._values import METRICS, REST, Values

if TYPE_CHECKING:
    from ..training.memory import Array

_LOGS = 64
_NOTHING = np.iinfo(np.int64).min


def _is_seed(variable: Any, value: Array) -> bool:
    """Its type is another one on each backend."""
    return value.shape == (2,) and value.dtype.kind in "iu" and "seed_generator_state" in variable.name


def frozen(model: Any) -> list[Any]:
    """The weights of frozen layers."""
    weights = {id(one): one for layer in model._flatten_layers() for one in layer._trainable_variables}
    return [one for one in weights.values() if not one.trainable]


def _unchanging(model: Any) -> set[int]:
    """Ids of the weights of frozen layers. Keras' own train step never changes them; one of the program's may."""
    if type(model).train_step is not keras.Model.train_step or "train_step" in vars(model):
        return set()
    return set(map(id, frozen(model)))


def _base(value: Array) -> Array:
    """What the change of `value` is counted from, in a step: the same on all members."""
    return np.where(np.isfinite(value), value, np.zeros_like(value))


class Exchange:
    """The buckets of a step. Floats travel as float32, or as float64 where they are.

    The change of layers' state travels, not the state: what no member changes keeps its last bit.
    """

    def __init__(self, values: Values, with_gradients: bool = True, wire: str = "auto") -> None:
        self._values, self._wire, self._residuals = values, wire, Residuals()
        rest = values.read(REST)
        names = values.variables(REST)
        kinds = [_is_seed(variable, one) for variable, one in zip(names, rest)]
        self.seeds = [n for n, seed in enumerate(kinds) if seed]
        unchanging = _unchanging(values.model)
        change = [n for n in range(len(rest)) if not kinds[n] and id(names[n]) not in unchanging]
        self._wholes = [n for n in change if rest[n].dtype == np.bool_ or np.issubdtype(rest[n].dtype, np.integer)]
        self._floats = [n for n in change if n not in self._wholes]
        gradients = values.kept() if with_gradients else []  # a strategy has them travel by itself
        dtype = np.float64 if any(one.dtype == np.float64 for one in gradients) else np.float32
        if dtype == np.float64 and wire not in ("auto", "f32"):
            raise ArgumentError(f"gradients of float64 cannot travel as {wire}; leave wire out")
        self._gradients = Bucket(gradients, dtype)
        self._means = Bucket([rest[n] for n in self._floats], dtype)
        self._most = Bucket([rest[n] for n in self._wholes], np.int64)
        self._sums = Bucket(values.read(METRICS), np.float64)
        self._logs = np.zeros(_LOGS, dtype=np.float64)
        self._rest: list[Array] = []
        self._metrics: list[Array] = []

    def before(self) -> None:
        """A step begins: note what it starts from."""
        self._rest, self._metrics = self._values.read(REST), self._values.read(METRICS)

    def stir(self, replica: Replica) -> None:
        """Give each seed generator numbers of this step and share."""
        rest: list[Array] = list(self._rest)
        for n in self.seeds:
            rest[n] = replica.stirred(n, self._rest[n])
        if self.seeds:
            self._values.write(REST, rest)

    def fill(self, logs: Optional[Sequence[float]]) -> None:
        """Take this member's part from the model; None: it has computed nothing."""
        self._logs[:] = 0
        if logs is None:
            for bucket in (self._gradients, self._means, self._sums):
                bucket.flat[:] = 0
            self._most.flat[:] = _NOTHING
            return
        rest = self._values.read(REST)
        if self._gradients.flat.size:
            self._gradients.fill(self._values.kept())
            if self._wire == "q8":
                self._residuals.add(0, self._gradients.flat)
        self._means.fill([rest[n] - _base(self._rest[n]) for n in self._floats])
        self._most.fill([rest[n] for n in self._wholes])
        pairs = zip(self._values.read(METRICS), self._metrics)
        self._sums.fill([after.astype(np.float64) - before for after, before in pairs])
        self._logs[: min(len(logs), _LOGS)] = logs[:_LOGS]

    def start(self, replica: Replica) -> None:
        """Send all of it."""
        vectors = (
            (self._gradients.flat, "mean", self._wire),
            (self._means.flat, "mean", "auto"),
            (self._most.flat, "max", "auto"),
            (self._sums.flat, "sum", "auto"),
            (self._logs, "mean", "auto"),
        )
        for number, (vector, op, wire) in enumerate(vectors):
            if vector.size:
                arrays.start(vector, op, number, replica.job, wire)

    def receive(self) -> list[float]:
        """Take over what all members computed; the optimiser steps unless a strategy did. Returns the mean numbers."""
        means, most = self._means.views(), self._most.views()
        rest: list[Array] = list(self._rest)
        for n, value in zip(self._floats, means):
            rest[n] = (_base(rest[n]) + value).astype(rest[n].dtype)
        for n, whole in zip(self._wholes, most):
            rest[n] = np.where(whole == _NOTHING, rest[n], whole).astype(rest[n].dtype)
        self._values.write(REST, rest)
        pairs = zip(self._metrics, self._sums.views())
        self._values.write(METRICS, [(before + added).astype(before.dtype) for before, added in pairs])
        if self._gradients.flat.size:
            self._values.update(self._gradients.views())
        return [float(one) for one in self._logs]
