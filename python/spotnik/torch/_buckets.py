# SPDX-License-Identifier: Apache-2.0
"""Which gradient travels in which bucket, and as what.

The layout is a function of the model alone (order, shapes and types of its parameters), so that a joiner and a
veteran always agree. Parameters go in reverse order, as backward reaches them, and the first bucket is small, so that
something travels early. Large gradients travel alone, very large ones in several buckets. Buckets grow with the model,
since a step has a limited number of them. Nothing here knows of steps or has memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Optional

import torch

from ..arrays import TYPES
from ..errors import ArgumentError
from ..training.buckets import GRADIENTS
from ._wire import Wire, wire_of

FIRST_BYTES = 1 << 20
ALONE_BYTES = 1 << 20  #: a gradient of this size travels alone,
ALONE_MAX = 120  #: as long as there are not more of them
PIECE_BYTES = 1 << 28  #: a larger gradient travels in pieces, so that the first is summed while others are copied

NATIVE_TYPE = {getattr(torch, name): TYPES[name] for name in ("float32", "float64", "int32", "int64", "uint8")}


@dataclasses.dataclass(eq=False, repr=False)
class Slot:
    """One parameter's gradient: the buckets that it travels in, and how often it has arrived in this step."""

    parameter: torch.nn.Parameter
    name: str
    parts: list[Part] = dataclasses.field(default_factory=list)
    fired: int = 0


@dataclasses.dataclass(eq=False, repr=False)
class Part:
    """`count` elements of a gradient from `begin` on, in the order of its memory, at `offset` in their bucket."""

    slot: Slot
    bucket: Bucket
    begin: int
    count: int
    offset: int


@dataclasses.dataclass(eq=False, repr=False)
class Bucket:
    """Gradients that travel together, as `wire`."""

    number: int
    wire: Wire
    parts: list[Part] = dataclasses.field(default_factory=list)
    missing: int = 0  #: gradients that have not arrived yet
    started: bool = False

    @property
    def count(self) -> int:
        """Elements."""
        return sum(part.count for part in self.parts)

    @property
    def dtype(self) -> torch.dtype:
        """The type of all its gradients."""
        return self.parts[0].slot.parameter.dtype

    def reset(self) -> None:
        """Get ready for another step."""
        self.missing, self.started = len(self.parts), False


def plan(sizes: Sequence[tuple[int, object]], bucket_bytes: int, pieces: Sequence[int] = ()) -> list[list[int]]:
    """Cut parameters, given as (bytes, kind), into buckets of one kind each; returns their indices, last ones first.

    A bucket is closed when the next parameter would not fit in `bucket_bytes`; the first of a kind holds 1 MiB at
    most. `pieces`, and most parameters of 1 MiB or more, have a bucket of their own.
    """
    alone = {*pieces, *_alone([size for size, _ in sizes])}
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


@dataclasses.dataclass(frozen=True)
class Piece:
    """Part `number` of the `of` that parameter `index` is cut into."""

    index: int
    number: int
    of: int


def lay_out(sizes: Sequence[tuple[int, object]], bucket_bytes: int) -> list[list[Piece]]:
    """Cut parameters, given as (bytes, kind), into as many buckets as a step has; buckets grow until they suffice."""
    while True:
        cuts = [-(-size // max(bucket_bytes, PIECE_BYTES)) or 1 for size, _ in sizes]
        pieces = [Piece(index, number, of) for index, of in enumerate(cuts) for number in range(of)]
        cut = [(-(-sizes[one.index][0] // one.of), sizes[one.index][1]) for one in pieces]
        groups = plan(cut, bucket_bytes, [place for place, one in enumerate(pieces) if one.of > 1])
        if len(groups) <= len(GRADIENTS):
            return [[pieces[place] for place in group] for group in groups]
        bucket_bytes *= 2


def is_dense(tensor: torch.Tensor) -> bool:
    """Does the tensor fill one piece of memory, in any order of its dimensions?"""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.size()) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def is_like(gradient: torch.Tensor, parameter: torch.Tensor) -> bool:
    """Do the two have one type and one order of memory, without gaps?"""
    fits = gradient.dtype == parameter.dtype and gradient.stride() == parameter.stride() and is_dense(gradient)
    return fits and not gradient.requires_grad


def memory_of(dense: torch.Tensor, part: Optional[Part] = None) -> torch.Tensor:
    """Elements of a dense tensor in the order of its memory: all, or those of `part`."""
    begin, count = (part.begin, part.count) if part is not None else (0, dense.numel())
    return dense.detach().as_strided((count,), (1,), dense.storage_offset() + begin)


def shaped(flat: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """`flat` in the shape of the parameter, and in its memory order where that has no gaps."""
    if is_dense(parameter):
        return flat.as_strided(parameter.size(), parameter.stride(), flat.storage_offset())
    return flat.view(parameter.size())


def build(named: Iterable[tuple[str, torch.nn.Parameter]], bucket_mb: float, wire: str = "auto") -> list[Bucket]:
    """Lay out the gradients of `named`, which travel as `wire` (see prepare())."""
    if not bucket_mb > 0:
        raise ArgumentError(f"bucket_mb is the size of a bucket in MiB and must be positive, not {bucket_mb}")
    slots = [Slot(parameter, name) for name, parameter in named]
    wires = [wire_of(slot.name, slot.parameter.dtype, wire) for slot in slots]
    sizes = [(one.size(slot.parameter.numel()), (one, slot.parameter.dtype)) for slot, one in zip(slots, wires)]
    buckets = []
    for number, group in enumerate(lay_out(sizes, int(bucket_mb * (1 << 20)) or 1)):
        bucket = Bucket(number, wires[group[0].index])
        for piece in sorted(group, key=lambda piece: -sizes[piece.index][0]):  # small ones at the end, for one copy
            _add(bucket, slots[piece.index], piece)
        buckets.append(bucket)
    return buckets


def _add(bucket: Bucket, slot: Slot, piece: Piece) -> None:
    total = slot.parameter.numel()
    begin, end = total * piece.number // piece.of, total * (piece.number + 1) // piece.of
    part = Part(slot, bucket, begin, end - begin, bucket.count)
    bucket.parts.append(part)
    slot.parts.append(part)
