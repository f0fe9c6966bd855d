# SPDX-License-Identifier: Apache-2.0
"""As what gradients travel: their own type, a shorter one, or blocks of bytes with a scale (q8).

The layout of q8 is that of ``include/spotnik/spotnik.h`` (SPOTNIK_Q8). It is made here, with operations that run where
the gradient is, so that the copy to the host is as small as what travels. Decides nothing about buckets.
"""

from __future__ import annotations

import dataclasses

import torch

from .._native import Dtype
from ..errors import ArgumentError

WIRES = ("auto", "f32", "bf16", "f16", "q8")

_OWN = {
    torch.float32: Dtype.F32,
    torch.float64: Dtype.F64,
    torch.float16: Dtype.F16,
    torch.bfloat16: Dtype.BF16,
}
_BLOCK, _BLOCK_BYTES = 252, 256  # numbers of a block; bytes with their scale
_LEAST = 2.0**-119  # a block of smaller numbers travels as zeros


@dataclasses.dataclass(frozen=True)
class Wire:
    """What travels: elements of `dtype`, in memory of type `torch_type`."""

    dtype: Dtype
    torch_type: torch.dtype

    @property
    def is_packed(self) -> bool:
        """Are numbers packed into blocks?"""
        return self.dtype == Dtype.Q8

    def elements(self, count: int) -> int:
        """How many elements `count` numbers travel as."""
        return -(-count // _BLOCK) if self.is_packed else count

    def size(self, count: int) -> int:
        """Bytes that `count` numbers travel as."""
        return self.elements(count) * (_BLOCK_BYTES if self.is_packed else self.torch_type.itemsize)


_BY_NAME = {
    "f32": Wire(Dtype.F32, torch.float32),
    "bf16": Wire(Dtype.BF16, torch.bfloat16),
    "f16": Wire(Dtype.F16, torch.float16),
    "q8": Wire(Dtype.Q8, torch.uint8),
}


def wire_of(name: str, dtype: torch.dtype, wire: str) -> Wire:
    """As what the gradient of parameter `name` travels, where prepare() was given `wire`."""
    own = _OWN.get(dtype)
    if own is None and dtype.is_complex:
        raise ArgumentError(
            f"parameter {name} is of type {dtype}; keep it as real numbers, which the optimizer updates alike: "
            "self.w = torch.nn.Parameter(torch.view_as_real(w)), and torch.view_as_complex(self.w) in forward()"
        )
    if own is None:
        raise ArgumentError(
            f"parameter {name} is of type {dtype}, which cannot be averaged; convert it to float32, "
            "or freeze it with requires_grad_(False)"
        )
    return Wire(own, dtype) if wire == "auto" else _BY_NAME[wire]


def pack(values: torch.Tensor) -> torch.Tensor:
    """Make blocks of a vector of float32; the last one is filled up with zeros. Returns bytes on the same device."""
    rows = values.new_zeros(-(-values.numel() // _BLOCK) * _BLOCK)
    rows[: values.numel()] = values
    rows = rows.view(-1, _BLOCK)
    most = rows.abs().amax(1, keepdim=True)  # NaN where there is one
    scale = ((most / 127).view(torch.int32) & ~0x7F).view(torch.float32)  # so that q * scale is exact in float32
    scale = torch.where(most < _LEAST, 0.0, torch.where(most.isfinite(), scale, torch.nan))
    units = torch.where(scale > 0, 127 / most, 0.0)
    blocks = torch.empty(rows.shape[0], _BLOCK_BYTES, dtype=torch.uint8, device=values.device)
    blocks[:, :4] = scale.view(torch.uint8)
    blocks[:, 4:] = (rows * units).round_().nan_to_num_(0.0).to(torch.int8).view(torch.uint8)
    return blocks.view(-1)


def unpack(blocks: torch.Tensor, count: int) -> torch.Tensor:
    """The first `count` numbers of blocks, as float32. A block with an infinity or a NaN is NaN throughout."""
    rows = blocks.view(-1, _BLOCK_BYTES)
    scale = rows[:, :4].contiguous().view(torch.float32)
    return (rows[:, 4:].view(torch.int8) * scale).view(-1)[:count]
