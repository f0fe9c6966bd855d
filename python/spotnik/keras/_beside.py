# SPDX-License-Identifier: Apache-2.0
"""State of layers that Keras does not count among its variables: tf.Variable, and buffers of PyTorch's modules.

A train step of the program may keep a count of steps there, or a wrapped module its BatchNorm's statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras


class Buffer:
    """A buffer of a PyTorch module, with what the values of a model are read and written by."""

    def __init__(self, path: str, buffer: Any) -> None:
        self.path = self.name = path
        self._buffer = buffer

    def numpy(self) -> Any:
        """A view of its value."""
        return self._buffer.detach().cpu().numpy()

    def assign(self, value: Any) -> None:
        """Overwrite it where it lies."""
        import torch

        with torch.no_grad():
            self._buffer.copy_(torch.as_tensor(value))


def beside(model: Any) -> list[Any]:
    """Those of `model`, in an order that is the same on every member."""
    find = {"tensorflow": _variables, "torch": _buffers}.get(keras.backend.backend())
    return [] if find is None else list(find(model))


def _variables(model: Any) -> Iterator[Any]:
    import tensorflow as tf

    optimizer = [] if model.optimizer is None else model.optimizer.variables
    known = {id(one.value) for one in [*model.variables, *model.metrics_variables, *optimizer]}
    for layer in model._flatten_layers():
        for name, value in vars(layer).items():
            for one in [value] if name.startswith("_") else _within(value):
                if isinstance(one, tf.Variable) and _is_number(one) and id(one) not in known:
                    known.add(id(one))
                    yield one


def _is_number(variable: Any) -> bool:
    kind = variable.dtype
    return bool((kind.is_floating or kind.is_integer or kind.is_bool) and variable.shape.is_fully_defined())


def _within(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _within(one)
    else:
        yield value


def _buffers(model: Any) -> Iterator[Any]:
    known: set[int] = set()
    for layer in model._flatten_layers():
        for name, one in layer.named_buffers():
            if one.numel() and id(one) not in known:
                known.add(id(one))
                yield Buffer(f"{layer.path}/{name}", one)
