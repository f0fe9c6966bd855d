# SPDX-License-Identifier: Apache-2.0
"""The trained weights of a Keras model as one vector under a strategy other than "ssgd" (``spotnik.sync``).

The optimiser stays the program's: where the strategy wants a step of it, the vector is spread over the weights, the
optimiser runs, and the result is gathered again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from ..errors import ArgumentError
from ..job import Job
from ..sync import Sync
from ._values import TRAINED, Values

if TYPE_CHECKING:
    from ..training.memory import Array

#: Members do not wait for each other in these: what else a step of Keras carries would make them.
_APART = ("adpsgd", "asp", "hogwild", "auto")


def chosen(sync: Optional[str]) -> Optional[str]:
    """The strategy that is to be run; None: gradients are averaged. Raises ArgumentError for those that cannot be."""
    name = sync if sync is not None else os.environ.get("SPOTNIK_SYNC") or "ssgd"
    if any(part.startswith(_APART) for part in name.split("+")):
        raise ArgumentError(
            f"sync={name!r}: members of a Keras model share metrics and statistics in every step, so none runs apart; "
            "choose ssgd, sma, easgd, localsgd or lookahead+NAME of these"
        )
    return None if name == "ssgd" else name


class Strategy:
    """The trained weights of `values` under the strategy `name`; made after the join, before the first step."""

    def __init__(self, job: Job, values: Values, name: str) -> None:
        self._values = values
        weights = values.read(TRAINED)
        if any(one.dtype != np.float32 for one in weights):
            raise ArgumentError(f"sync={name!r} keeps weights as float32; this model has others")
        self._shapes = [one.shape for one in weights]
        self._ends = np.cumsum([0, *(one.size for one in weights)]).tolist()
        self.model, self._gradient = (np.zeros(self._ends[-1], np.float32) for _ in range(2))
        self._gather(self.model, weights)
        self.sync: Sync[Any] = Sync(job, self.model, self._apply, strategy=name)

    def step(self, gradients: Sequence[Array]) -> bool:
        """Finish the job's step. False: the others went on without this member."""
        self._gather(self._gradient, gradients)
        committed = self.sync.step(self._gradient)
        self.take_over()
        return committed

    def take_over(self) -> None:
        """Give the model the weights that the strategy has."""
        self._values.write(TRAINED, self._parts(self.model))

    def _apply(self, model: Any, gradient: Any) -> None:
        self._values.write(TRAINED, self._parts(model))
        self._values.update(self._parts(gradient))
        self._gather(model, self._values.read(TRAINED))

    def _parts(self, vector: Array) -> list[Array]:
        pairs = zip(self._ends, self._ends[1:], self._shapes)
        return [vector[begin:end].reshape(shape).copy() for begin, end, shape in pairs]

    def _gather(self, vector: Array, parts: Sequence[Array]) -> None:
        for begin, end, part in zip(self._ends, self._ends[1:], parts):
            vector[begin:end] = part.reshape(-1)
