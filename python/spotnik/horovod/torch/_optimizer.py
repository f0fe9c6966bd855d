# SPDX-License-Identifier: Apache-2.0
"""An optimiser whose step is taken with the mean of the members' gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

import torch

from .._words import Compression, check_set, operation
from .._world import once
from ._collectives import reduce

_classes: dict[type, type] = {}


class _Distributed:
    """In front of an optimiser's bases."""

    _spotnik_op = "mean"
    _spotnik_compression: Any = Compression.none
    _spotnik_done = False

    def synchronize(self) -> None:
        """Replace gradients by their mean over the members."""
        groups: Any = self.param_groups  # type: ignore[attr-defined]
        trained = [one for group in groups for one in group["params"] if one.requires_grad]
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
        dense = [one.to_dense() if one.is_sparse else one for one in gradients]
        for parameter, mean in zip(trained, reduce(dense, self._spotnik_op, self._spotnik_compression)):
            parameter.grad = mean
        self._spotnik_done = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Inside, ``step()`` takes gradients as they are: after ``synchronize()``, to clip them say."""
        self._spotnik_done = True
        yield

    def step(self, closure: Any = None) -> Any:
        """Synchronize, and step."""
        if closure is not None:
            with torch.enable_grad():
                closure()
        if not self._spotnik_done:
            self.synchronize()
        self._spotnik_done = False
        return super().step()  # type: ignore[misc]


def DistributedOptimizer(  # noqa: N802  # Horovod's word
    optimizer: torch.optim.Optimizer,
    named_parameters: Any = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: Optional[str] = None,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: Any = None,
) -> Any:
    """Return `optimizer`, which from now on steps with the mean of the members' gradients."""
    check_set(process_set)
    once("DistributedOptimizer: gradients travel in step(), not while backward() runs; spotnik.prepare() overlaps them")
    kind = type(optimizer)
    if not issubclass(kind, _Distributed):
        if kind not in _classes:
            _classes[kind] = type(kind.__name__, (_Distributed, kind), {"__module__": kind.__module__})
        optimizer.__class__ = _classes[kind]
    made: Any = optimizer
    made._spotnik_op, made._spotnik_compression = operation(None, op), compression
    return made
