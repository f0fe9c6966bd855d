# SPDX-License-Identifier: Apache-2.0
"""``hvd.callbacks`` for ``fit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

import keras
import numpy as np

from .._words import broadcast_object
from .._world import once, world

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """After the first batch, all members take over the variables of the member of rank `root_rank`."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank, self._done = root_rank, False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcast, once."""
        if self._done:
            return
        self._done = True
        variables = [*self.model.variables, *self.model.optimizer.variables]
        values = broadcast_object([np.array(one.numpy()) for one in variables], self.root_rank)
        for variable, value in zip(variables, values):
            variable.assign(value)


class MetricAverageCallback(keras.callbacks.Callback):
    """Averages the logs of an epoch over the members, in place: put it before callbacks that decide by them."""

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Average."""
        if logs:
            names = sorted(logs)
            means = world.reduce([np.array([float(logs[name]) for name in names])], "mean")[0]
            logs.update(zip(names, means.tolist()))


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Multiplies `initial_lr` by `multiplier`, a number or a function of the epoch, from one epoch to another."""

    def __init__(
        self,
        initial_lr: float,
        multiplier: Union[float, Callable[[float], float]],
        start_epoch: int = 0,
        end_epoch: Optional[int] = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ) -> None:
        super().__init__()
        self.initial_lr, self.start_epoch, self.end_epoch = initial_lr, start_epoch, end_epoch
        self.staircase, self.steps_per_epoch = staircase, steps_per_epoch
        constant = not callable(multiplier)
        self.staircase |= constant
        self.multiplier: Any = (lambda _epoch: multiplier) if constant else multiplier
        self._epoch = 0
        if momentum_correction:
            once("momentum is not corrected when the learning rate changes; Keras 3 keeps it apart from the rate")

    def _set(self, epoch: float) -> None:
        if self.start_epoch <= epoch and (self.end_epoch is None or epoch < self.end_epoch):
            self.model.optimizer.learning_rate.assign(self.initial_lr * self.multiplier(epoch))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """By epochs."""
        self._epoch = epoch
        if self.staircase:
            self._set(epoch)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """By batches."""
        steps = self.steps_per_epoch or (self.params or {}).get("steps")
        if not self.staircase and steps:
            self._set(self._epoch + batch / steps)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Log the rate."""
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate.numpy())


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the rate from ``initial_lr / size()`` to `initial_lr` in `warmup_epochs`."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            size = world.size
            epoch += 1.0 / (self.steps_per_epoch or (self.params or {}).get("steps") or 1)
            return 1.0 / size * (epoch * (size - 1) / warmup_epochs + 1)

        super().__init__(
            initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch=steps_per_epoch
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Log the rate."""
        super().on_epoch_end(epoch, logs)
        if self.end_epoch is not None and epoch == self.end_epoch - 1 and self.verbose and world.rank == 0:
            print(f"Epoch {epoch + 1}: finished gradual learning rate warmup to {self.initial_lr}.")
