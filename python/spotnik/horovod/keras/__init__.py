# SPDX-License-Identifier: Apache-2.0
"""``import spotnik.horovod.keras as hvd`` in place of Horovod's: Keras 3, on TensorFlow or PyTorch."""

from __future__ import annotations

from typing import Any

import keras as _keras
import numpy as _np

from ...errors import StateError
from .._words import (
    Adasum,
    Average,
    Compression,
    Max,
    Min,
    Product,
    Sum,
    allgather_object,
    barrier,
    broadcast_object,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    operation,
    rank,
    rocm_built,
    shutdown,
    size,
)
from .._world import world as _world
from . import callbacks, elastic
from ._optimizer import DistributedOptimizer, check_backend, take_words_of_keras_2

check_backend()
take_words_of_keras_2()

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allgather_object",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
]


def allreduce(value: Any, name: Any = None, average: Any = None, op: Any = None) -> Any:
    """The mean of `value`, a number or an array, over the members, or what `op` says."""
    return _world.reduce([_np.asarray(value)], operation(average, op))[0]


def allgather(value: Any, name: Any = None) -> Any:
    """The arrays of all members, one behind the other along the first dimension."""
    array = _np.asarray(value)
    parts = _world.gather(array.tobytes())
    return _np.concatenate([_np.frombuffer(one, array.dtype).reshape(-1, *array.shape[1:]) for one in parts])


def broadcast(value: Any, root_rank: int, name: Any = None) -> Any:
    """`value` as the member of rank `root_rank` has it."""
    return broadcast_object(_np.asarray(value), root_rank)


def broadcast_global_variables(root_rank: int, model: Any = None) -> None:
    """Not here: Keras 3 has no global variables. Raises StateError, which says what to do."""
    raise StateError("Keras 3 has no global variables; use callbacks.BroadcastGlobalVariablesCallback(0) in fit()")


def load_model(filepath: Any, compression: Any = Compression.none, **named: Any) -> Any:
    """``keras.models.load_model``, with its optimiser made a :func:`DistributedOptimizer`."""
    named = {key: value for key, value in named.items() if key != "custom_optimizers"}
    model = _keras.models.load_model(filepath, **named)
    if model.optimizer is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
        model.jit_compile = False
    return model
