# SPDX-License-Identifier: Apache-2.0
"""Tensors as all-reduces: what a member puts in, and what it takes out.

Every collective is an all-reduce of a working copy. Where data travel unchanged, each member fills its own place with
its bytes and the rest with zeros, and the sum of the bytes is the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from ..._native import Dtype, Op
from ...arrays import TYPES
from ._communicator import Part
from ._errors import NotSupportedError

__all__ = [
    "bytes_of",
    "check_dense",
    "copy_bytes",
    "reduce_part",
    "reduced_copy",
    "table_part",
]

_DTYPES = {getattr(torch, name): kind for name, kind in TYPES.items()}
_OPS = {
    dist.ReduceOp.SUM: Op.SUM,
    dist.ReduceOp.AVG: Op.MEAN,
    dist.ReduceOp.MIN: Op.MIN,
    dist.ReduceOp.MAX: Op.MAX,
    dist.ReduceOp.PRODUCT: Op.PRODUCT,
}
_OF_BOOLEANS = {Op.SUM: Op.MAX, Op.MAX: Op.MAX, Op.MIN: Op.MIN, Op.PRODUCT: Op.MIN}


def check_dense(tensors: Sequence[torch.Tensor]) -> None:
    """Raise NotSupportedError for tensors that cannot travel as they are."""
    for tensor in tensors:
        if tensor.is_sparse or tensor.layout != torch.strided:
            raise NotSupportedError("sparse tensors do not travel; call to_dense() first")
        if tensor.device.type != "cpu":
            raise NotSupportedError(
                f'this group carries CPU tensors, not those of {tensor.device}; use "cpu:spotnik,cuda:nccl", or copy'
            )


def _op_of(op: Any, tensor: torch.Tensor) -> Op:
    kind = getattr(op, "op", op)  # a ReduceOp wraps its kind
    found = next((ours for theirs, ours in _OPS.items() if theirs == kind), None)
    if tensor.dtype == torch.bool and found is not None:
        found = _OF_BOOLEANS.get(found)
    if found is None:
        raise NotSupportedError(f"{op} of {tensor.dtype} is not there; use SUM, AVG, MIN, MAX or PRODUCT of numbers")
    return found


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` as real numbers, over the same memory."""
    if tensor.is_complex():
        return torch.view_as_real(tensor)
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def reduced_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A working copy to all-reduce."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def reduce_part(work: torch.Tensor, op: Any) -> Part:
    """The all-reduce of a working copy. Raises NotSupportedError."""
    kind = _op_of(op, work)
    if work.is_complex() and kind not in (Op.SUM, Op.MEAN):
        raise NotSupportedError(f"{op} of complex numbers is not there; use SUM or AVG")
    numbers = _numbers(work)
    if numbers.dtype not in _DTYPES:
        raise NotSupportedError(f"tensors of {work.dtype} cannot be reduced; convert them first")
    return Part(numbers.data_ptr(), numbers.numel(), _DTYPES[numbers.dtype], kind, numbers)


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of `tensor`, flat; a copy unless it is contiguous."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def copy_bytes(to: torch.Tensor, data: torch.Tensor) -> None:
    """Overwrite `to` by bytes as :func:`bytes_of` makes them."""
    to.detach().copy_(data.clone().view(to.dtype).reshape(to.shape))


def table_part(table: torch.Tensor) -> Part:
    """The all-reduce that fills in the others' places of a table of bytes."""
    return Part(table.data_ptr(), table.numel(), Dtype.U8, Op.SUM, table)
