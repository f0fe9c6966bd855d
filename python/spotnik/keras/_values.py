# SPDX-License-Identifier: Apache-2.0
"""A model's values by kind, where the backend has them: in variables, or in the state of JAX's ``fit``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional

import keras
import numpy as np

from ._beside import beside
from ._optimizer import hiding, own_variables

if TYPE_CHECKING:
    from ..training.memory import Array

TRAINED, REST, OPTIMIZER, METRICS = range(4)  # in the order of JAX's state
KINDS = (TRAINED, REST, OPTIMIZER, METRICS)


class Values:
    """Reads and writes the values of `model`; they are copies."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.kinds: tuple[int, ...] = KINDS  #: that are registered; a strategy does that for trained weights
        self.state: Optional[list[list[Any]]] = None  #: of JAX, while its train function runs
        self._update: Optional[Callable[..., Any]] = None
        self._beside: Optional[tuple[int, list[Any]]] = None  # how many variables the model had, and what it has else

    def variables(self, kind: int) -> list[Any]:
        """Those of a kind; an optimiser's kept gradients come last."""
        model = self.model
        if kind == REST:
            return [*model.non_trainable_variables, *self._others()]
        lists = {TRAINED: model.trainable_variables, OPTIMIZER: model.optimizer.variables}
        return list(model.metrics_variables if kind == METRICS else lists[kind])

    def _others(self) -> list[Any]:
        """State that Keras does not count among the model's variables; layers get theirs when they are built."""
        count = len(self.model.variables)
        if self._beside is None or self._beside[0] != count:
            self._beside = count, beside(self.model)
        return self._beside[1]

    def read(self, kind: int) -> list[Array]:
        """Copies of the values of a kind, without kept gradients."""
        if self.state is None and keras.backend.backend() == "jax":
            self.model.jax_state_sync()  # between two batches of fit the variables are empty
        count = len(own_variables(self.model.optimizer)) if kind == OPTIMIZER else None
        if self.state is not None:
            return [np.array(one) for one in self.state[kind][:count]]
        return [np.array(one.numpy()) for one in self.variables(kind)[:count]]

    def read_all(self) -> list[Array]:
        """All of :attr:`kinds`."""
        return [one for kind in self.kinds for one in self.read(kind)]

    def kept(self) -> list[Array]:
        """The gradients that the last train step kept."""
        optimizer = self.model.optimizer
        count = len(optimizer._spotnik_kept)
        if self.state is not None:
            return [np.asarray(one) for one in self.state[OPTIMIZER][-count:]]
        return [np.asarray(one.numpy()) for one in optimizer._spotnik_kept]

    def applied(self) -> list[bool]:
        """For each trained variable: has the train step given its gradient to the optimiser? Not known on JAX."""
        known = self.model.optimizer._spotnik_applied
        return [self.state is None and id(one) in known for one in self.variables(TRAINED)]

    def write(self, kind: int, values: Sequence[Any]) -> None:
        """Overwrite the first values of a kind."""
        if self.state is not None:
            import jax.numpy as jnp

            self.state[kind][: len(values)] = [jnp.array(one) for one in values]
            return
        for variable, value in zip(self.variables(kind), values):
            variable.assign(np.array(value))

    def write_all(self, values: Sequence[Array]) -> None:
        """Overwrite all, as :meth:`read_all` orders them."""
        at = 0
        for kind in self.kinds:
            count = len(own_variables(self.model.optimizer)) if kind == OPTIMIZER else len(self.variables(kind))
            self.write(kind, values[at : at + count])
            at += count

    # ---- the second half of a train step ----

    def update(self, gradients: Sequence[Array]) -> None:
        """Have the optimiser apply the averaged `gradients`."""
        if self._update is None:
            make = {"jax": self._make_jax, "tensorflow": self._make_tensorflow, "torch": self._make_torch}
            self._update = make[keras.backend.backend()]()
        self._update(list(gradients))

    def forget(self) -> None:
        """The model was compiled anew."""
        self._update = self._beside = None

    def _make_jax(self) -> Callable[..., Any]:
        import jax

        optimizer = self.model.optimizer
        compiled = jax.jit(lambda state, grads, trained: optimizer.stateless_apply(state, grads, trained))

        def update(gradients: list[Array]) -> None:
            assert self.state is not None
            state = self.state
            copies = [np.array(one) for one in gradients]  # JAX may look at the memory later
            own, kept = state[OPTIMIZER][: -len(copies)], state[OPTIMIZER][-len(copies) :]
            with hiding(optimizer):
                trained, updated = compiled(own, copies, state[TRAINED])
            state[TRAINED], state[OPTIMIZER] = list(trained), [*updated, *kept]

        return update

    def _make_tensorflow(self) -> Callable[..., Any]:
        import tensorflow as tf

        model = self.model
        apply = lambda grads: model.optimizer.apply(grads, model.trainable_variables)  # noqa: E731
        compiled = apply if model.run_eagerly else tf.function(apply)
        return lambda gradients: compiled([tf.constant(one) for one in gradients])

    def _make_torch(self) -> Callable[..., Any]:
        import torch

        model = self.model

        def update(gradients: list[Array]) -> None:
            with torch.no_grad():
                pairs = zip(gradients, model.trainable_variables)
                tensors = [torch.as_tensor(np.array(one), device=like.value.device) for one, like in pairs]
                model.optimizer.apply(tensors, model.trainable_variables)

        return update

    def results(self) -> dict[str, Any]:
        """What the metrics say now."""
        if self.state is None:
            return dict(self.model.get_metrics_result())
        pairs = list(zip(self.model.metrics_variables, self.state[METRICS]))
        with keras.StatelessScope(state_mapping=pairs):
            return dict(self.model.get_metrics_result())
