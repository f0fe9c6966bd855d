# SPDX-License-Identifier: Apache-2.0
"""``import spotnik.horovod.tensorflow as hvd`` in place of ``import horovod.tensorflow as hvd``: TensorFlow 2."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as _tf

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
    check_set,
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
from ..keras._optimizer import DistributedOptimizer
from . import elastic
from ._collectives import allgather, allreduce, broadcast, broadcast_variables, grouped_allreduce, reduce

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedGradientTape",
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
    "broadcast_object",
    "broadcast_variables",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "gloo_built",
    "gloo_enabled",
    "grouped_allreduce",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
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


class DistributedGradientTape:
    """A ``tf.GradientTape`` whose :meth:`gradient` returns means over the members; other arguments change nothing."""

    def __init__(
        self,
        gradtape: Any,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        op: Optional[str] = None,
        *,
        process_set: Any = None,
        **_more: Any,
    ) -> None:
        check_set(process_set)
        self._tape, self._op, self._compression = gradtape, operation(None, op), compression

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *arguments: Any) -> None:
        self._tape.__exit__(*arguments)

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, use_local: bool = False) -> Any:
        """As ``tf.GradientTape.gradient``, averaged; with `use_local` this member's own."""
        gradients = self._tape.gradient(target, sources, output_gradients)
        if use_local:
            return gradients
        means = reduce(_tf.nest.flatten(gradients), self._op, self._compression)
        return _tf.nest.pack_sequence_as(gradients, means)
