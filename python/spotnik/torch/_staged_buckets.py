# SPDX-License-Identifier: Apache-2.0
"""Buckets of gradients that travel as a copy: from an accelerator, or in another type than they have.

A bucket has memory of the job, in the host. Gradients are narrowed or packed where they are and copied there, and the
averages are copied back to where the gradients lie. This member keeps what q8 rounded away, and
adds it to the next ones: the *residual*, a vector beside each bucket. It is this member's own and no part of the
replica: registered memory has the same bits on all members, and newcomers copy it from several.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Optional, Protocol

import torch

from ._buckets import Bucket, Part, Slot, is_like, memory_of
from ._wire import pack, unpack


class Stage(Protocol):
    """Where the work between gradients and the memory of the job is done: ``_staging`` has those there are."""

    small_bytes: int  #: smaller gradients of a bucket are copied together

    def host(self, bucket: Bucket) -> torch.Tensor:
        """The memory of the bucket in the host, made at the first call."""

    def outward(self, work: Callable[[], object]) -> None:
        """Have `work` done in order, after what the program has computed so far."""

    def hand_over(self, bucket: Bucket) -> None:
        """Give the bucket to the job, when all `outward` work so far is done."""

    def wait(self) -> None:
        """Wait until the job has all buckets. Raises what their work has raised."""

    def back(self, work: Callable[[], object]) -> None:
        """Have `work` done; what the program computes from now on comes after it."""

    def close(self) -> None:
        """End, before the job does."""


class StagedBuckets:
    """The memory of `buckets` beside the program's own, on its way by `stage`."""

    def __init__(self, buckets: list[Bucket], stage: Stage) -> None:
        self._buckets, self._stage = buckets, stage
        self._lent: dict[Slot, torch.Tensor] = {}  # gradients of this step, where the averages are to go
        self._flats: dict[Bucket, torch.Tensor] = {}  # small gradients of a bucket
        self._residuals: dict[Bucket, torch.Tensor] = {}
        self._counts = True

    def reset(self, counts: bool) -> None:
        """Another step has begun. `counts`: gradients of this member weigh something in it."""
        self._lent.clear()
        self._counts = counts

    def forget(self) -> None:
        """What this member has sent of late is void."""
        self._residuals.clear()

    # ---- on the way ----

    def place(self, slot: Slot, gradient: Optional[torch.Tensor], may_lend: bool) -> None:
        """Have the gradient of this step (None: zeros) travel, from where it lies if it `may_lend` its memory."""
        if gradient is not None and not (may_lend and is_like(gradient, slot.parameter)):
            gradient = torch.empty_like(slot.parameter).detach().copy_(gradient.detach())
            slot.parameter.grad = gradient
        if gradient is not None:
            self._lent[slot] = gradient
        for part in slot.parts:
            if gradient is not None and part.bucket.wire.is_packed and self._counts:
                self._stage.outward(functools.partial(self._add, part, memory_of(gradient, part)))
            elif not part.bucket.wire.is_packed:
                values = None if gradient is None else memory_of(gradient, part)
                self._stage.outward(functools.partial(self._place, part, values))

    def _add(self, part: Part, values: torch.Tensor) -> None:
        self._residual(part.bucket)[part.offset : part.offset + part.count].add_(values)

    def _place(self, part: Part, values: Optional[torch.Tensor]) -> None:
        place = self._small(part) if self._is_small(part) else self._host_part(part)
        if values is None:
            place.zero_()
        else:
            place.copy_(values.to(place.dtype), non_blocking=True)

    def start(self, bucket: Bucket) -> None:
        """All gradients of the bucket have come."""
        if bucket.wire.is_packed and not self._counts:
            self.start_empty(bucket)
            return
        self._stage.outward(functools.partial(self._complete, bucket))
        self._stage.hand_over(bucket)

    def _complete(self, bucket: Bucket) -> None:
        host = self._stage.host(bucket)
        if bucket.wire.is_packed:
            host.copy_(self._packed(bucket), non_blocking=True)
        else:
            begin, flat = self._small_ones(bucket)
            host[begin:].copy_(flat, non_blocking=True)

    def _packed(self, bucket: Bucket) -> torch.Tensor:
        residual = self._residual(bucket)
        packed = pack(residual)
        residual.sub_(unpack(packed, bucket.count)).nan_to_num_(0.0, 0.0, 0.0)
        return packed

    def start_empty(self, bucket: Bucket) -> None:
        """The bucket travels without gradients of this member."""
        self._stage.outward(self._stage.host(bucket).zero_)
        self._stage.hand_over(bucket)

    def wait(self) -> None:
        """Wait until the job has every bucket that was started."""
        self._stage.wait()

    # ---- back ----

    def take_back(self, slots: list[Slot]) -> None:
        """The step is committed: each of `slots` gets the average as its gradient."""
        for slot in slots:
            if slot not in self._lent:
                self._lent[slot] = torch.empty_like(slot.parameter).detach()
            slot.parameter.grad = self._lent[slot]
        wanted = set(slots)
        for bucket in self._buckets:
            parts = [part for part in bucket.parts if part.slot in wanted]
            if parts:
                to = [memory_of(self._lent[part.slot], part) for part in parts]
                self._stage.back(functools.partial(self._spread, bucket, parts, to))

    def _spread(self, bucket: Bucket, parts: list[Part], to: list[torch.Tensor]) -> None:
        if bucket.wire.is_packed:
            blocks = self._stage.host(bucket).to(to[0].device, non_blocking=True)
            values = unpack(blocks, bucket.count)
            came = [values[part.offset : part.offset + part.count] for part in parts]
        else:
            came = self._came(bucket, parts, to[0].device)
        torch._foreach_copy_(to, came)

    def _came(self, bucket: Bucket, parts: list[Part], device: torch.device) -> list[torch.Tensor]:
        begin, flat = self._small_ones(bucket)
        flat.copy_(self._stage.host(bucket)[begin:], non_blocking=True)
        return [
            self._small(part) if self._is_small(part) else self._host_part(part).to(device, non_blocking=True)
            for part in parts
        ]

    def looked_at(self) -> Iterator[Optional[torch.Tensor]]:
        """The memory of averages in the host, for finding changes that no version tells of."""
        for gradient in self._lent.values():
            yield gradient if gradient.device.type == "cpu" else None

    def close(self) -> None:
        """The job ends, and its memory with it."""
        self._stage.close()

    # ---- memory ----

    def _is_small(self, part: Part) -> bool:
        return part.bucket.wire.size(part.slot.parameter.numel()) < self._stage.small_bytes

    def _host_part(self, part: Part) -> torch.Tensor:
        return self._stage.host(part.bucket)[part.offset : part.offset + part.count]

    def _small_ones(self, bucket: Bucket) -> tuple[int, torch.Tensor]:
        """The flat of the small gradients, where they are. In the bucket they are the last ones, from here on."""
        begin = next((part.offset for part in bucket.parts if self._is_small(part)), bucket.count)
        if bucket not in self._flats:
            device = bucket.parts[0].slot.parameter.device
            self._flats[bucket] = torch.zeros(bucket.count - begin, dtype=bucket.wire.torch_type, device=device)
        return begin, self._flats[bucket]

    def _small(self, part: Part) -> torch.Tensor:
        begin, flat = self._small_ones(part.bucket)
        return flat[part.offset - begin : part.offset - begin + part.count]

    def _residual(self, bucket: Bucket) -> torch.Tensor:
        if bucket not in self._residuals:
            device = bucket.parts[0].slot.parameter.device
            self._residuals[bucket] = torch.zeros(bucket.count, dtype=torch.float32, device=device)
        return self._residuals[bucket]
