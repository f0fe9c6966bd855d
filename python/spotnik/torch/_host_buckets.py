# SPDX-License-Identifier: Apache-2.0
"""Buckets of gradients that are in host memory and travel in their own type: nothing is copied but small ones.

A gradient that has its buckets to itself travels from where autograd has put it. The others of a bucket are copied
into one flat, and ``grad`` becomes its part of that. The job reduces both in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Optional

import torch

from ._buckets import Bucket, Slot, is_like, memory_of, shaped

Send = Callable[[Bucket, torch.Tensor], object]


class HostBuckets:
    """The memory of `buckets`. `send` gives the job a bucket, with the memory that it is to reduce."""

    def __init__(self, buckets: list[Bucket], send: Send) -> None:
        self._buckets, self._send = buckets, send
        self._flats: dict[Bucket, torch.Tensor] = {}
        self._views: dict[Slot, torch.Tensor] = {}
        self._lent: dict[Slot, torch.Tensor] = {}  # gradients of this step that travel from where they lie

    def reset(self, counts: bool) -> None:
        """Another step has begun."""
        self._lent.clear()

    # ---- on the way ----

    def place(self, slot: Slot, gradient: Optional[torch.Tensor], may_lend: bool) -> None:
        """Have the gradient of this step (None: zeros) travel, from where it lies if it `may_lend` its memory."""
        if gradient is None:
            self._zero(slot)
        elif gradient is not self._views.get(slot):
            self._place(slot, gradient, may_lend)

    def _zero(self, slot: Slot) -> None:
        if self._is_alone(slot) and len(slot.parts) > 1:
            self._lent[slot] = torch.zeros_like(slot.parameter)
        else:
            self._view(slot).zero_()

    def _place(self, slot: Slot, gradient: torch.Tensor, may_lend: bool) -> None:
        if self._is_alone(slot) and may_lend and is_like(gradient, slot.parameter):
            self._lent[slot] = gradient
            return
        if len(slot.parts) > 1:
            place = self._lent[slot] = torch.empty_like(slot.parameter)
        else:
            place = self._view(slot)
        slot.parameter.grad = place.copy_(gradient.detach())

    def start(self, bucket: Bucket) -> None:
        """All gradients of the bucket have come."""
        self._send(bucket, self._memory(bucket))

    def start_empty(self, bucket: Bucket) -> None:
        """The bucket travels without gradients of this member."""
        for part in bucket.parts:
            if part.slot not in self._lent:
                self._zero(part.slot)
        self.start(bucket)

    def wait(self) -> None:
        """Every bucket that was started is with the job: at once."""

    # ---- back ----

    def take_back(self, slots: list[Slot]) -> None:
        """The step is committed: each of `slots` gets the average as its gradient."""
        for slot in slots:
            slot.parameter.grad = self._lent[slot] if slot in self._lent else self._view(slot)

    def looked_at(self) -> Iterator[Optional[torch.Tensor]]:
        """The memory of averages in the host, for finding changes that no version tells of."""
        for bucket in self._buckets:
            lent = self._lent.get(bucket.parts[0].slot) if bucket.parts else None
            yield self._flats.get(bucket) if lent is None else lent

    def close(self) -> None:
        """The job ends: this memory is PyTorch's, and stays."""

    # ---- memory ----

    @staticmethod
    def _is_alone(slot: Slot) -> bool:
        return len(slot.parts[0].bucket.parts) == 1

    def _memory(self, bucket: Bucket) -> torch.Tensor:
        first = bucket.parts[0]
        return memory_of(self._lent[first.slot], first) if first.slot in self._lent else self._flat(bucket)

    def _flat(self, bucket: Bucket) -> torch.Tensor:
        if bucket not in self._flats:
            self._flats[bucket] = torch.zeros(bucket.count, dtype=bucket.dtype)
        return self._flats[bucket]

    def _view(self, slot: Slot) -> torch.Tensor:
        if slot not in self._views:
            (part,) = slot.parts
            flat = self._flat(part.bucket)[part.offset : part.offset + part.count]
            self._views[slot] = shaped(flat, slot.parameter)
        return self._views[slot]
