# SPDX-License-Identifier: Apache-2.0
"""Whole tensors in the memory of a group, of which each process has and writes a part.

The job sees what one process with the whole model would give it, so groups of different sizes and single processes
train together, and a checkpoint resumes in any of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import torch

from .._native import Dtype
from ..group_job import GroupJob
from ._buckets import NATIVE_TYPE, Bucket, Slot
from ._host_buckets import HostBuckets, Send
from ._optimizers import state_parts
from ._parting import sums_of
from ._replica import Replica
from ._shards import add_up, is_own, is_sharded, local_of, slices_of

_LOOKED_AT = 4  # gradients


@dataclasses.dataclass
class _Piece:
    """A tensor of the whole model in the group's memory, and the part of it that this process has."""

    part: torch.Tensor  #: a view of the whole
    is_own: bool  #: does this process write it?

    def write(self, local: Optional[torch.Tensor]) -> None:
        if not self.is_own:
            return
        if local is None:
            self.part.zero_()
        else:
            self.part.copy_(local)


def _piece(flat: torch.Tensor, tensor: torch.Tensor, rank: int) -> _Piece:
    whole = flat.view(tensor.shape)
    part = whole[slices_of(tensor)] if is_sharded(tensor) and tensor.dim() else whole
    return _Piece(part, is_own(tensor, rank))


def _is_cut_as(gradient: Any, parameter: Any) -> bool:
    return not is_sharded(parameter) or bool(gradient.placements == parameter.placements)


def _as_cut(gradient: Any, parameter: Any) -> torch.Tensor:
    """The gradient, cut as the parameter is: autograd may leave it whole, or in sums of each process's own."""
    if _is_cut_as(gradient, parameter):
        return gradient  # type: ignore[no-any-return]
    cut: torch.Tensor = gradient.redistribute(placements=parameter.placements)
    return cut


class _Memory:
    """Tensors of one type, one behind the other in one piece of the group's memory."""

    def __init__(self, job: GroupJob, tensors: Sequence[torch.Tensor]) -> None:
        count, dtype = sum(tensor.numel() for tensor in tensors), tensors[0].dtype
        self.whole: torch.Tensor = job.memory(count * dtype.itemsize)[: count * dtype.itemsize].view(dtype)
        self.pieces: list[tuple[torch.Tensor, _Piece]] = []
        at = 0
        for tensor in tensors:
            self.pieces.append((tensor, _piece(self.whole[at : at + tensor.numel()], tensor, job.place.rank)))
            at += tensor.numel()


class ShardBuckets(HostBuckets):
    """The memory of `buckets`, which are those of the whole model. Nothing travels before all gradients are there."""

    def __init__(self, buckets: list[Bucket], job: GroupJob, send: Send) -> None:
        super().__init__(buckets, send)
        self._pieces: dict[Slot, _Piece] = {}
        self._wholes: dict[Bucket, torch.Tensor] = {}
        for slot in dict.fromkeys(part.slot for bucket in buckets for part in bucket.parts):
            if len(slot.parts) > 1:  # a large gradient has its buckets to itself: they lie side by side
                memory = _Memory(job, [slot.parameter])
                self._pieces[slot] = memory.pieces[0][1]
                for part in slot.parts:
                    self._wholes[part.bucket] = memory.whole[part.begin : part.begin + part.count]
        for bucket in buckets:
            if bucket not in self._wholes:
                memory = _Memory(job, [part.slot.parameter for part in bucket.parts])
                self._wholes[bucket] = memory.whole
                for part, (_, piece) in zip(bucket.parts, memory.pieces):
                    self._pieces[part.slot] = piece

    def place(self, slot: Slot, gradient: Optional[torch.Tensor], may_lend: bool) -> None:
        """Write this process's part of the gradient (None: zeros)."""
        self._pieces[slot].write(None if gradient is None else local_of(_as_cut(gradient, slot.parameter)))

    def _memory(self, bucket: Bucket) -> torch.Tensor:
        return self._wholes[bucket]

    def start_empty(self, bucket: Bucket) -> None:
        """The bucket travels without gradients of this group."""
        for part in bucket.parts:
            self._pieces[part.slot].write(None)
        self.start(bucket)

    def take_back(self, slots: list[Slot]) -> None:
        """The step is committed: each of `slots` gets this process's part of the average as its gradient."""
        for slot in slots:
            if slot.parameter.grad is None or not _is_cut_as(slot.parameter.grad, slot.parameter):
                slot.parameter.grad = torch.zeros_like(slot.parameter)
            local_of(slot.parameter.grad).copy_(self._pieces[slot].part)

    @property
    def is_finite(self) -> bool:
        """Are all averages of the whole model finite numbers? The same in every process of the group."""
        return all(bool(torch.isfinite(whole).all()) for whole in self._wholes.values())

    def looked_at(self) -> Iterator[Optional[torch.Tensor]]:
        """Some averages, for finding changes: those of DTensors count no versions."""
        for slot in list(self._pieces)[:_LOOKED_AT]:
            yield None if slot.parameter.grad is None else local_of(slot.parameter.grad).reshape(-1)


class ShardedReplica(Replica):
    """A replica of which this process has a part."""

    def _collect(self) -> None:
        named = [(f"parameter {name}", [p.detach()]) for name, p in self.model.named_parameters()]
        named += [(name, [one]) for name, one in self.buffers.state()]
        named += state_parts(self.optimizers)
        self.compared = [(name, parts[0]) for name, parts in named if parts[0].numel()]
        self._compared = [parts for _, parts in named if parts[0].numel()]
        named += [(name, [one]) for name, one in self._of_objects([one for _, parts in named for one in parts])]
        self._wholes = [(name, parts) for name, parts in named if parts[0].numel()]
        self._memories: list[_Memory] = []

    def _register_tensors(self, job: Any) -> None:
        self._rank = job.place.rank
        self._memories = [_Memory(job, parts) for _, parts in self._wholes]
        self._write()
        for number, ((name, _), memory) in enumerate(zip(self._wholes, self._memories)):
            dtype = NATIVE_TYPE.get(memory.whole.dtype)
            whole = memory.whole.view(torch.uint8) if dtype is None else memory.whole
            job.shared_state_add(f"{number} {name}"[:250], whole, Dtype.U8 if dtype is None else dtype)

    @torch.no_grad()
    def _write(self) -> None:
        for memory in self._memories:
            for tensor, piece in memory.pieces:
                piece.write(local_of(tensor))

    def pack(self) -> None:
        """Bring the registered memory up to date."""
        super().pack()
        self._write()

    @torch.no_grad()
    def unpack(self) -> None:
        """Give the program what the registered memory says."""
        for memory in self._memories:
            for tensor, piece in memory.pieces:
                local_of(tensor).copy_(piece.part)
        super().unpack()

    @torch.no_grad()
    def sums(self) -> list[int]:
        """A number for each of `compared`: a collective call of the processes of the group."""
        own = [[local_of(one) for one in parts if is_own(one, self._rank)] for parts in self._compared]
        sums = iter(sums_of([("", one) for parts in own for one in parts]))
        return add_up([_signed(sum(next(sums) for _ in parts)) for parts in own])


def _signed(number: int) -> int:
    """`number` as 64 bits hold it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
