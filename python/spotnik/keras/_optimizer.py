# SPDX-License-Identifier: Apache-2.0
"""An optimiser whose ``apply`` keeps gradients while a train step runs; its own ``apply`` follows on their average.

Keeping is an assignment to variables of the optimiser's own: that works in any backend's graph, compiled or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

import keras

from ..arrays import check_wire
from ..errors import ArgumentError, StateError
from ..watching import logger

_classes: dict[type, type] = {}
_NOT_PREPARED = (
    "this optimizer was given to DistributedOptimizer, and it is not the one that its model was compiled with, so "
    "members would train apart. compile(optimizer=...) takes it; several go into keras.optimizers.MultiOptimizer, and "
    "that to DistributedOptimizer. In a loop of your own average gradients by spotnik.tensorflow or spotnik.jax"
)


class Keeping:
    """What an optimiser's class gets in front of its bases."""

    _spotnik_keeps = False
    _spotnik_prepared = False  # does a prepared model train with it?
    _spotnik_kept: Optional[list[Any]] = None
    _spotnik_shows = True
    _spotnik_wire = "auto"  # as what gradients travel
    _spotnik_applied: frozenset[int] = frozenset()  # ids of the variables whose gradients the train step has applied

    def build(self, variables: Any) -> None:
        """Make the optimiser's variables, and those for gradients."""
        super().build(variables)  # type: ignore[misc]
        _add_kept(self, variables)

    @property
    def variables(self) -> list[Any]:
        """The optimiser's, and those for gradients behind them."""
        own = list(super().variables)  # type: ignore[misc]
        return [*own, *(self._spotnik_kept or [])] if self._spotnik_shows else own

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """On JAX: :meth:`apply` on values. Optimisers around others have their own, which keeps nothing."""
        if self._spotnik_keeps:
            return keras.optimizers.Optimizer.stateless_apply(self, optimizer_variables, grads, trainable_variables)
        return super().stateless_apply(optimizer_variables, grads, trainable_variables)  # type: ignore[misc]

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Keep `grads` while a train step runs, else apply them."""
        if not self._spotnik_keeps:
            if not self._spotnik_prepared:
                raise StateError(_NOT_PREPARED)
            return super().apply(grads, trainable_variables)  # type: ignore[misc]
        if trainable_variables is not None and not self.built:  # type: ignore[attr-defined]
            self.build(list(trainable_variables))
        own = self._trainable_variables  # type: ignore[attr-defined]
        places = {id(one): number for number, one in enumerate(own)}
        given = list(own if trainable_variables is None else trainable_variables)
        self._spotnik_applied = self._spotnik_applied | frozenset(map(id, given))
        for gradient, variable in zip(grads, given):
            assert self._spotnik_kept is not None
            kept = self._spotnik_kept[places[id(variable)]]
            if type(gradient).__name__ == "IndexedSlices":
                _tell_sparse(variable)
            kept.assign(keras.ops.zeros_like(kept) if gradient is None else keras.ops.convert_to_tensor(gradient))
        return None

    def save_own_variables(self, store: Any) -> None:
        """Save what the optimiser without this would save."""
        for number, variable in enumerate(own_variables(self)):
            store[str(number)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Load what the optimiser without this would have saved."""
        own = own_variables(self)
        if len(store.keys()) != len(own):
            raise ArgumentError(f"the saved optimizer has {len(store.keys())} variables, and this one {len(own)}")
        for number, variable in enumerate(own):
            variable.assign(store[str(number)])


def own_variables(optimizer: Any) -> list[Any]:
    """The optimiser's variables but for kept gradients, which are the last ones."""
    with hiding(optimizer):
        return list(optimizer.variables)


def is_distributed(optimizer: Any) -> bool:
    """Was it given to DistributedOptimizer, or what ``compile`` has put a LossScaleOptimizer around?"""
    inner = getattr(optimizer, "inner_optimizer", None)
    return isinstance(optimizer, Keeping) or isinstance(inner, Keeping)


def distributed(optimizer: Any, wire: Optional[str] = None) -> Any:
    """Give `optimizer` the class that keeps gradients; it stays the same object. `wire` None: what it was given."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ArgumentError(f"DistributedOptimizer takes a Keras optimizer, not {type(optimizer).__name__}")
    inner = getattr(optimizer, "inner_optimizer", None)
    if isinstance(inner, Keeping):
        wire = wire or inner._spotnik_wire
        _undo(inner)  # the outer one keeps gradients, before it looks at them
    kind = type(optimizer)
    if not issubclass(kind, Keeping):
        if kind not in _classes:
            names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
            _classes[kind] = type(kind.__name__, (Keeping, kind), names)
        optimizer.__class__ = _classes[kind]
        if optimizer.built:
            _add_kept(optimizer, optimizer._trainable_variables)
    if wire is not None:
        check_wire(wire)
        vars(optimizer)["_spotnik_wire"] = wire
    return optimizer


_told_sparse: set[str] = set()


def _tell_sparse(variable: Any) -> None:
    if variable.path not in _told_sparse:
        _told_sparse.add(variable.path)
        logger.warning(
            "the gradient of %s is sparse, and is made dense before it travels: the entries of a row are added first. "
            "Keras on TensorFlow clips and squares each entry by itself; its JAX and PyTorch backends add first, too",
            variable.path,
        )


@contextmanager
def keeping(optimizer: Any) -> Iterator[None]:
    """Inside, ``apply`` keeps gradients."""
    optimizer._spotnik_keeps = True
    try:
        yield
    finally:
        optimizer._spotnik_keeps = False


@contextmanager
def hiding(optimizer: Any) -> Iterator[None]:
    """Inside, the optimiser sees its own variables alone."""
    optimizer._spotnik_shows = False
    try:
        yield
    finally:
        optimizer._spotnik_shows = True


def _undo(optimizer: Any) -> None:
    optimizer.__class__ = type(optimizer).__mro__[2]
    for name in ("_spotnik_kept", "_spotnik_wire"):
        vars(optimizer).pop(name, None)


def _add_kept(optimizer: Any, variables: Any) -> None:
    """Beside the optimiser's variables: Keras would track those of an attribute."""
    if optimizer._spotnik_kept is None:
        zeros = keras.initializers.Zeros()
        vars(optimizer)["_spotnik_kept"] = [
            keras.Variable(zeros, one.shape, one.dtype, trainable=False, name="spotnik_gradient") for one in variables
        ]
