# SPDX-License-Identifier: Apache-2.0
"""A call of allreduce() in a pause: a tensor on its way, and back as the kind of value that was given."""

from __future__ import annotations

from typing import Union

import torch

from .._native import Op
from ..errors import ArgumentError
from ..job import Job
from ._buckets import NATIVE_TYPE


class Wish:
    """A number or a tensor, and what is to be done with it."""

    def __init__(self, value: Union[torch.Tensor, float, int], op: Union[str, Op]) -> None:
        try:
            self.op = op if isinstance(op, Op) else Op[op.upper()]
        except (KeyError, AttributeError):
            raise ArgumentError(f'op must be "mean", "sum", "min", "max" or "product", not {op!r}') from None
        self.given = value
        given = value.detach() if isinstance(value, torch.Tensor) else torch.tensor(value)
        if given.is_complex() or given.is_sparse:
            raise ArgumentError(f"a {given.dtype} tensor, {given.layout}, cannot be reduced; make it dense and real")
        kind = torch.float64 if not isinstance(value, torch.Tensor) and given.is_floating_point() else given.dtype
        if kind not in NATIVE_TYPE or kind == torch.uint8:
            kind = torch.float32 if given.is_floating_point() else torch.int64
        if self.op == Op.MEAN and not kind.is_floating_point:
            kind = torch.float64
        self.memory = given.to("cpu", kind, copy=True).contiguous().reshape(-1)
        self.shape, self.device = given.shape, given.device
        self.kept = given.dtype if self.op != Op.MEAN or given.is_floating_point() else torch.float64

    @property
    def what(self) -> tuple[int, int, int]:
        """Count, type and operation: the same on all members that make the same call."""
        return self.memory.numel(), int(NATIVE_TYPE[self.memory.dtype]), int(self.op)

    def result(self) -> Union[torch.Tensor, float, int]:
        """As the value was given: a number, or a tensor of its shape on its device."""
        if not isinstance(self.given, torch.Tensor):
            return self.memory.item()
        kind = self.kept if self.kept != torch.bool else torch.int64
        return self.memory.reshape(self.shape).to(self.device, kind)

    def start(self, job: Job, bucket: int, op: Op) -> None:
        """Send a copy of the value."""
        self._sent = sent = self.memory.clone()
        job.allreduce_start(bucket, sent.data_ptr(), sent.numel(), NATIVE_TYPE[sent.dtype], op, sent)

    def accept(self, callers: int) -> None:
        """The copy is the sum of `callers` members, or another result."""
        self.memory = self._sent / callers if self.op == Op.MEAN else self._sent
