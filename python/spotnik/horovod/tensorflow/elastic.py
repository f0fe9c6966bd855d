# SPDX-License-Identifier: Apache-2.0
"""``hvd.elastic`` for TensorFlow 2: states with variables, or with a Keras model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ...errors import StateError
from .._elastic import ObjectState, State, run

__all__ = ["ObjectState", "State", "TensorFlowKerasState", "TensorFlowState", "run"]


class TensorFlowState(State):
    """``TensorFlowState(variables, epoch=0, batch=0)``: variables that exist before ``elastic.run``."""

    def __init__(self, variables: Sequence[Any] = (), **attributes: Any) -> None:
        super().__init__(**attributes)
        self.variables = list(variables)

    def _all(self) -> Sequence[Any]:
        return self.variables

    def read(self) -> Sequence[Any]:
        """The values of the variables."""
        return [np.array(one.numpy()) for one in self._all()]

    def write(self, values: Sequence[Any]) -> None:
        """Take over the values of variables."""
        for variable, value in zip(self._all(), values):
            variable.assign(np.array(value))


class TensorFlowKerasState(TensorFlowState):
    """``TensorFlowKerasState(model, optimizer, epoch=0, batch=0)``; the optimiser of ``compile()`` by default."""

    def __init__(self, model: Any, optimizer: Optional[Any] = None, backend: Any = None, **attributes: Any) -> None:
        super().__init__((), **attributes)
        self.model = model
        self.optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        if not model.built:
            raise StateError("the model has no variables yet; call it once, or give it an Input, before the state")
        if self.optimizer is not None and not self.optimizer.built:
            self.optimizer.build(model.trainable_variables)

    def _all(self) -> Sequence[Any]:
        return [*self.model.variables, *(self.optimizer.variables if self.optimizer is not None else ())]
