# SPDX-License-Identifier: Apache-2.0
"""Horovod's collectives on TensorFlow's tensors, eager or in a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from .._words import Compression, broadcast_object, check_set, operation
from .._world import once, world


def on_host(function: Callable[..., Sequence[Any]], given: Sequence[Any], shaped: bool = True) -> list[Any]:
    """`function` of arrays, which returns as many of the same types; in a graph as a ``tf.py_function``."""
    if tf.executing_eagerly():
        return [tf.constant(one) for one in function(*[np.array(one) for one in given])]
    kinds = [one.dtype for one in given]
    results = tf.py_function(lambda *all_of: function(*[one.numpy() for one in all_of]), given, kinds)
    if shaped:
        for result, one in zip(results, given):
            result.set_shape(one.shape)
    return list(results)


def reduce(tensors: Sequence[Any], op: str, compression: Any = Compression.none) -> list[Any]:
    """Reduce all of `tensors` in one step; None stays None."""
    if any(isinstance(one, tf.IndexedSlices) for one in tensors):
        once("sparse gradients (tf.IndexedSlices) are made dense, as with sparse_as_dense=True; none is gathered")
    given = [tf.convert_to_tensor(one) for one in tensors if one is not None]
    results = iter(on_host(lambda *arrays: world.reduce(arrays, op, compression.wire), given))
    return [None if one is None else next(results) for one in tensors]


def grouped_allreduce(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: Any = None,
) -> list[Any]:
    """The mean of each of `tensors` over the members, or what `op` says."""
    check_set(process_set)
    given = [tf.convert_to_tensor(one) for one in tensors]
    scaled = [one * tf.cast(prescale_factor, one.dtype) if prescale_factor != 1 else one for one in given]
    results = reduce(scaled, operation(average, op), compression)
    return [one * tf.cast(postscale_factor, one.dtype) if postscale_factor != 1 else one for one in results]


def allreduce(tensor: Any, *arguments: Any, **named: Any) -> Any:
    """The mean of `tensor` over the members; arguments as of :func:`grouped_allreduce`."""
    return grouped_allreduce([tensor], *arguments, **named)[0]


def allgather(tensor: Any, name: Optional[str] = None, process_set: Any = None) -> Any:
    """The tensors of all members, one behind the other along the first dimension, which may differ."""
    check_set(process_set)

    def gathered(array: Any) -> list[Any]:
        parts = world.gather(array.tobytes())
        return [np.concatenate([np.frombuffer(one, array.dtype).reshape(-1, *array.shape[1:]) for one in parts])]

    tensor = tf.convert_to_tensor(tensor)
    result = on_host(gathered, [tensor], shaped=False)[0]
    result.set_shape([None, *tensor.shape[1:]]) if not tf.executing_eagerly() else None
    return result


def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None, process_set: Any = None) -> Any:
    """`tensor` as the member of rank `root_rank` has it."""
    check_set(process_set)

    def copied(array: Any) -> list[Any]:
        return [np.frombuffer(world.broadcast(array.tobytes(), root_rank), array.dtype).reshape(array.shape).copy()]

    return on_host(copied, [tf.convert_to_tensor(tensor)])[0]


def broadcast_variables(variables: Sequence[Any], root_rank: int, process_set: Any = None) -> None:
    """Overwrite `variables` by those of the member of rank `root_rank`."""
    check_set(process_set)
    variables = list(variables)
    if not variables:
        return
    given = [tf.identity(one) for one in variables]
    results = on_host(lambda *arrays: broadcast_object(list(arrays), root_rank), given)
    for variable, value in zip(variables, results):
        variable.assign(value)
