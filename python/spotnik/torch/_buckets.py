# SPDX-License-Identifier: Apache-2.0
"""Which gradient travels in which bucket, and the memory it travels in.

The layout is a function of the model alone (order, shapes and types of its parameters), so that a joiner and a
veteran always agree. Parameters go in reverse order, as backward reaches them, and the first bucket is small, so that
something travels early. Large gradients travel alone, and on the CPU from where autograd has put them, without a copy.
Nothing here knows of steps.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Optional

import torch

from ..arrays import TYPES
from ..errors import ArgumentError, LimitError
from ..training.buckets import GRADIENTS

FIRST_BYTES = 1 << 20
ALONE_BYTES = 1 << 20  #: a gradient of this size travels alone,
ALONE_MAX = 120  #: as long as there are not more of them

#: The type in which a gradient is summed: 16-bit types are summed in 32 bits.
WIRE_TYPE = {
    torch.float32: torch.float32,
    torch.float64: torch.float64,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}
NATIVE_TYPE = {getattr(torch, name): TYPES[name] for name in ("float32", "float64", "int32", "int64", "uint8")}


@dataclasses.dataclass
class Slot:
    """One parameter's place: where its gradient is summed, and how often it has arrived in this step."""

    parameter: torch.nn.Parameter
    name: str
    bucket: int
    fired: int = 0
    offset: int = 0
    memory: Optional[torch.Tensor] = None

    @property
    def is_cast(self) -> bool:
        """Is the gradient summed in another type than it has?"""
        return WIRE_TYPE[self.parameter.dtype] != self.parameter.dtype


@dataclasses.dataclass
class Bucket:
    """The gradients of some parameters, in contiguous memory."""

    slots: list[Slot]
    missing: int = 0  #: gradients that have not arrived yet
    started: bool = False
    own: Optional[torch.Tensor] = None  #: in place of `flat`: the one gradient of this step where it lies

    @functools.cached_property
    def flat(self) -> torch.Tensor:
        """The memory; made when it is first needed."""
        first = self.slots[0].parameter
        return torch.zeros(self.count, dtype=WIRE_TYPE[first.dtype], device=first.device)

    @property
    def count(self) -> int:
        """Elements."""
        return sum(slot.parameter.numel() for slot in self.slots)

    def view(self, slot: Slot) -> torch.Tensor:
        """The memory of one gradient, in the shape of its parameter."""
        if slot.memory is None:
            slot.memory = _like(self.flat[slot.offset : slot.offset + slot.parameter.numel()], slot.parameter)
        return slot.memory

    def lend(self, gradient: torch.Tensor) -> bool:
        """Let this gradient travel from where it lies; False: it has to be copied."""
        parameter = self.slots[0].parameter
        fits = gradient.dtype == parameter.dtype and gradient.stride() == parameter.stride() and is_dense(gradient)
        if len(self.slots) > 1 or not fits or gradient.device.type != "cpu" or gradient.requires_grad:
            return False
        self.own = gradient
        return True

    def reset(self) -> None:
        """Get ready for another step."""
        self.missing = len(self.slots)
        self.started, self.own = False, None
        for slot in self.slots:
            slot.fired = 0


def plan(sizes: Sequence[tuple[int, object]], bucket_bytes: int) -> list[list[int]]:
    """Cut parameters, given as (bytes, kind), into buckets of one kind each; returns their indices, last ones first.

    A bucket is closed when the next parameter would not fit in `bucket_bytes`; the first of a kind holds 1 MiB at
    most. Parameters of 1 MiB or more have a bucket of their own.
    """
    alone = _alone([size for size, _ in sizes])
    groups: list[list[int]] = []
    open_group: dict[object, int] = {}
    used: dict[object, int] = {}
    limit: dict[object, int] = {}
    for index in reversed(range(len(sizes))):
        size, kind = sizes[index]
        if index in alone:
            groups.append([index])
            continue
        if kind in open_group and used[kind] + size > limit[kind]:
            del open_group[kind]
            limit[kind] = bucket_bytes
        if kind not in open_group:
            limit.setdefault(kind, min(FIRST_BYTES, bucket_bytes))
            open_group[kind] = len(groups)
            used[kind] = 0
            groups.append([])
        groups[open_group[kind]].append(index)
        used[kind] += size
    return groups


def _alone(sizes: list[int]) -> set[int]:
    largest = sorted(range(len(sizes)), key=lambda index: (-sizes[index], index))[:ALONE_MAX]
    return {index for index in largest if sizes[index] >= ALONE_BYTES}


def is_dense(tensor: torch.Tensor) -> bool:
    """Does the tensor fill one piece of memory, in any order of its dimensions?"""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.size()) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _like(flat: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """`flat` in the shape of the parameter, and in its memory order where that has no gaps."""
    if is_dense(parameter):
        return flat.as_strided(parameter.size(), parameter.stride(), flat.storage_offset())
    return flat.view(parameter.size())


def build(named: Iterable[tuple[str, torch.nn.Parameter]], bucket_mb: float) -> list[Bucket]:
    """Lay out the gradients of `named`; their memory is on the device of the parameters."""
    if not bucket_mb > 0:
        raise ArgumentError(f"bucket_mb is the size of a bucket in MiB and must be positive, not {bucket_mb}")
    parameters = list(named)
    sizes: list[tuple[int, object]] = []
    for name, parameter in parameters:
        if parameter.dtype not in WIRE_TYPE:
            raise ArgumentError(
                f"parameter {name} is of type {parameter.dtype}, which cannot be averaged; convert it to float32, "
                "or freeze it with requires_grad_(False)"
            )
        wire = WIRE_TYPE[parameter.dtype]
        sizes.append((parameter.numel() * wire.itemsize, wire))
    groups = plan(sizes, int(bucket_mb * (1 << 20)))
    total = sum(size for size, _ in sizes)
    if len(groups) > len(GRADIENTS):
        raise LimitError(
            f"{len(groups)} buckets of {bucket_mb} MiB, but at most {len(GRADIENTS)}: "
            f"say bucket_mb={max(1, total // (len(GRADIENTS) << 19))} or more"
        )
    return [_bucket(number, [parameters[i] for i in group]) for number, group in enumerate(groups)]


def _bucket(number: int, group: list[tuple[str, torch.nn.Parameter]]) -> Bucket:
    slots = []
    at = 0
    for name, parameter in group:
        slots.append(Slot(parameter, name, number, offset=at))
        at += parameter.numel()
    return Bucket(slots)
