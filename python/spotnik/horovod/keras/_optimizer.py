# SPDX-License-Identifier: Apache-2.0
"""A Keras optimiser whose ``apply`` averages gradients first, in the graph of a train step or outside."""

from __future__ import annotations

import functools
from typing import Any, Optional

import keras

from ...errors import ArgumentError
from .._words import Compression, check_set, operation
from .._world import once

_classes: dict[type, type] = {}


class _Averaging:
    """In front of an optimiser's bases."""

    _spotnik_op = "mean"
    _spotnik_compression: Any = Compression.none

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Average `grads` over the members, and apply."""
        means = _reduce(list(grads), self._spotnik_op, self._spotnik_compression)
        return super().apply(means, trainable_variables)  # type: ignore[misc]


def _reduce(gradients: list[Any], op: str, compression: Any) -> list[Any]:
    if keras.backend.backend() == "tensorflow":
        from ..tensorflow._collectives import reduce
    else:
        from ..torch._collectives import reduce
    return reduce(gradients, op, compression)


def check_backend() -> None:
    """Refuse JAX: Horovod has no words for it."""
    if keras.backend.backend() == "jax":
        raise ArgumentError("spotnik.horovod.keras is for TensorFlow and PyTorch; with JAX use spotnik.keras")


def take_words_of_keras_2() -> None:
    """Have every optimiser know ``lr``, which Horovod's examples set when members came or went."""
    base = keras.optimizers.Optimizer
    if not hasattr(base, "lr"):
        base.lr = property(_rate, lambda self, value: setattr(self, "learning_rate", value))


def _rate(optimizer: Any) -> Any:
    """The rate, as ``assign()`` takes it, and as ``tf.keras.backend.set_value()`` does, which fails on one of Keras."""
    rate = optimizer.learning_rate
    is_variable = isinstance(rate, keras.Variable) and keras.backend.backend() == "tensorflow"
    return rate.value if is_variable else rate


def DistributedOptimizer(  # noqa: N802  # Horovod's word
    optimizer: Any,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: Optional[str] = None,
    *,
    backward_passes_per_step: int = 1,
    process_set: Any = None,
    **_more: Any,
) -> Any:
    """Return `optimizer`, which from now on steps with the mean of the members' gradients."""
    check_backend()
    check_set(process_set)
    if backward_passes_per_step != 1:
        once(
            "backward_passes_per_step changes nothing: the optimizer steps with each batch. To accumulate, give Keras' "
            "optimizer gradient_accumulation_steps"
        )
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ArgumentError(f"DistributedOptimizer takes a Keras 3 optimizer, not {type(optimizer).__name__}")
    _watch_compile()
    kind = type(optimizer)
    if not issubclass(kind, _Averaging):
        if kind not in _classes:
            names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
            _classes[kind] = type(kind.__name__, (_Averaging, kind), names)
        optimizer.__class__ = _classes[kind]
    optimizer._spotnik_op, optimizer._spotnik_compression = operation(None, op), compression
    return optimizer


def _watch_compile() -> None:
    """Have ``compile`` leave XLA out, which cannot call the host, and take what examples for Keras 2 say."""
    plain = keras.Model.compile
    if hasattr(plain, "_spotnik_horovod"):
        return

    @functools.wraps(plain)
    def compiled(self: Any, optimizer: Any = "rmsprop", *arguments: Any, **named: Any) -> Any:
        if isinstance(optimizer, _Averaging):
            if named.pop("experimental_run_tf_function", None) is not None:
                once("compile(experimental_run_tf_function=...) is of Keras 2, and changes nothing")
            if named.get("jit_compile", "auto") == "auto":
                named["jit_compile"] = False
        return plain(self, optimizer, *arguments, **named)

    compiled._spotnik_horovod = True  # type: ignore[attr-defined]
    keras.Model.compile = compiled
