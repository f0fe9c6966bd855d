# SPDX-License-Identifier: Apache-2.0
"""``hvd.elastic`` for ``fit``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from .._elastic import ObjectState, State, run

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "ObjectState",
    "State",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


class KerasState(State):
    """``KerasState(model, optimizer=None, epoch=0, batch=0)``; the optimiser of ``compile()`` by default."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.model, self.optimizer = model, optimizer if optimizer is not None else model.optimizer
        if not self.optimizer.built:
            self.optimizer.build(model.trainable_variables)

    def _all(self) -> Sequence[Any]:
        return [*self.model.variables, *self.optimizer.variables]

    def read(self) -> Sequence[Any]:
        """The values of model and optimiser."""
        return [np.array(one.numpy()) for one in self._all()]

    def write(self, values: Sequence[Any]) -> None:
        """Take over the values of model and optimiser."""
        for variable, value in zip(self._all(), values):
            variable.assign(np.array(value))


class CommitStateCallback(keras.callbacks.Callback):
    """Commits `state` after every `batches_per_commit` batches, and at the end of each epoch."""

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state, self.batches_per_commit, self._left = state, batches_per_commit, batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """Count anew."""
        self._left = self.batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count, and commit."""
        self._left -= 1
        if self._left <= 0:
            self._left = self.batches_per_commit
            self.state.commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commit."""
        self.state.commit()


class UpdateBatchStateCallback(keras.callbacks.Callback):
    """Keeps ``state.batch``: batches of the present epoch that are done; an epoch that goes on is shorter by them."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state, self._before, self._steps = state, 0, 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Note what was done before."""
        self._before = self.state.batch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Shorten an epoch that goes on, where Keras knows its length."""
        if self.params.get("steps"):
            self._steps = self._steps or self.params["steps"]
            self.params["steps"] = self._steps - self._before

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count."""
        self.state.batch = self._before + batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Begin anew."""
        self.state.batch = self._before = 0


class UpdateEpochStateCallback(keras.callbacks.Callback):
    """Keeps ``state.epoch``: epochs that are done."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state, self._before = state, 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Note what was done before."""
        self._before = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Count; `epoch` counts from where ``fit`` began, unless it was told its initial_epoch."""
        self.state.epoch = epoch + 1 if epoch >= self._before else self._before + epoch + 1
