# SPDX-License-Identifier: Apache-2.0
"""Gradients on their way: from the hooks of backward into buckets, and back as averages.

A hook per parameter puts the gradient in its bucket; the last one of a bucket sends it off, while backward goes on.
After the commit the parameter's ``grad`` is the average. ``_host_buckets`` and ``_staged_buckets`` have the memory of
buckets. Decides nothing about when a step begins or ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional, Union

import torch
from torch.autograd import Variable

from .._native import Op
from ..errors import ArgumentError, StateError
from ..job import Job
from ._buckets import Bucket, Slot, build
from ._host_buckets import HostBuckets
from ._options import Options
from ._staged_buckets import StagedBuckets
from ._staging import stage_of
from ._weights import Weights

_EARLY = (
    "backward() reached {name}, but no step was begun: iterate over spotnik.shard(loader), or call the prepared model "
    "(model(x)), and not only layers deep inside of it, before backward()"
)
_LATE = (
    "backward() reached {name} again after its gradient had been sent: call optimizer.step() after each backward(), "
    "or, to accumulate gradients over k batches of the loader, say prepare(..., accumulate=k); several losses with a "
    "backward() each, and parameters in several segments of checkpoint(use_reentrant=True), go with prepare(..., "
    'commit="step")'
)
_SAMPLES = 64  # of a bucket that are looked at
_APPLY = torch.autograd.function.BackwardCFunction.apply.__code__


def _outer_node() -> Any:
    """Return the outermost node in the midst of whose backward() this backward pass runs; None: in that of no node.

    Checkpointing with use_reentrant=True runs a pass of its own for each segment.
    """
    frame, node = sys._getframe(1), None
    while frame is not None:
        if frame.f_code is _APPLY:
            node = frame.f_locals["self"]
        frame = frame.f_back  # type: ignore[assignment]
    return node


def _sample(memory: Optional[torch.Tensor]) -> list[float]:
    """Some elements of what is in host memory."""
    if memory is None or not memory.numel():
        return []
    every = max(1, memory.numel() // _SAMPLES)
    return memory.detach().as_strided((memory.numel() // every,), (every,), memory.storage_offset()).tolist()


def gradients_of(model: torch.nn.Module, options: Options, backward_done: Callable[[], None]) -> Gradients:
    """The gradients of all trained parameters."""
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return Gradients(trained, options, options.accumulate, backward_done)


class Gradients:
    """The gradients of one model over the steps of a job. `job` is None in a job of one."""

    def __init__(
        self,
        named: Iterable[tuple[str, torch.nn.Parameter]],
        options: Options,
        accumulate: int,
        backward_done: Callable[[], None],
        passive: bool = False,
    ) -> None:
        self.buckets: list[Bucket] = build(named, options.bucket_mb, options.wire)
        self.slots: list[Slot] = list(dict.fromkeys(part.slot for bucket in self.buckets for part in bucket.parts))
        self.accumulate = accumulate
        self.sparse = options.sparse
        self.job: Optional[Job] = None
        self._memory: Union[HostBuckets, StagedBuckets, None] = None  # there is some in a job
        self.armed = False
        self.committed = False
        self.passes = 0
        self.weights = Weights(self._rescale, self._tell_weight)
        self.by_ddp = False  #: gradients come from a communication hook, not from ours
        self._backward_done = backward_done
        self._callback_queued = False
        self._outer: list[Any] = []  # hooks of the backward pass around the one that runs
        self._versions: list[Any] = []
        self._handles = [] if passive else [self._hook(slot) for slot in self.slots]  # passive: they are fetched
        if accumulate > 1 and not passive:
            for slot in self.slots:
                self._handles.append(slot.parameter.register_hook(self._scale))  # type: ignore[no-untyped-call]

    def _hook(self, slot: Slot) -> Any:
        def arrived(_: torch.Tensor) -> None:
            self._arrived(slot)

        return slot.parameter.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]

    def travel_in(self, job: Optional[Job]) -> None:
        """Gradients travel with the steps of `job`; None: they stay."""
        if self._memory is not None:
            self._memory.close()
        self.job, self._memory = job, None
        if job is None or not self.buckets:
            return
        stage = stage_of(job, self.buckets, self._send)
        self._memory = HostBuckets(self.buckets, self._send) if stage is None else StagedBuckets(self.buckets, stage)
        job.at_end(self._memory)

    def close(self) -> None:
        """Take all hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    # ---- during backward ----

    def _scale(self, gradient: torch.Tensor) -> Optional[torch.Tensor]:
        scale = self.weights.scale(self.passes)
        if scale == 0.0:
            return torch.zeros_like(gradient)  # what counts for nothing may be NaN
        return None if scale == 1.0 else gradient * scale

    @torch.no_grad()
    def _rescale(self, factor: float) -> None:
        for slot in self.slots:
            if slot.parameter.grad is not None:
                slot.parameter.grad.mul_(factor)

    def _tell_weight(self, weight: int) -> None:
        if self.job is not None:
            self.job.weight_set(weight)

    def _arrived(self, slot: Slot) -> None:
        if self.by_ddp:
            is_last = self.passes + 1 >= self.accumulate  # whose end the communication hook tells
            if self.armed and not (is_last or self._callback_queued or self._outer):
                self._await_end()
            return
        if not self.armed:
            if self.committed:
                raise StateError(_LATE.format(name=slot.name))
            raise StateError(_EARLY.format(name=slot.name))
        if not self._callback_queued and not self._outer:
            self._await_end()
        slot.fired += 1
        if slot.fired == self.accumulate:
            self.take(slot, slot.parameter.grad)
        elif slot.fired > self.accumulate:
            raise StateError(_LATE.format(name=slot.name))

    def _await_end(self) -> None:
        """Have the end of the whole backward pass told: from within a segment of it, by what follows the segment."""
        node = _outer_node()
        if node is None:
            self._queue()
            return
        following = [one for one, _ in node.next_functions if one is not None]
        self._outer = [one.register_prehook(self._queue) for one in following]

    def _queue(self, *_: Any) -> None:
        self._leave_outer()
        if not self._callback_queued:
            self._callback_queued = True
            Variable._execution_engine.queue_callback(self._end)

    def _leave_outer(self) -> None:
        for handle in self._outer:
            handle.remove()
        self._outer = []

    def _end(self) -> None:
        self._callback_queued = False
        self.passes += 1
        if self.passes == self.accumulate:
            self._backward_done()

    def take(self, slot: Slot, gradient: Optional[torch.Tensor]) -> None:
        """The parameter's gradient of this step is complete (None: there is none): put it in its bucket."""
        if gradient is not None and gradient.is_sparse and self.sparse != "dense":
            raise ArgumentError(
                f"the gradient of {slot.name} is sparse, and sparse gradients are not summed; make the layer with "
                'sparse=False, or say prepare(..., sparse="dense") to send it in full'
            )
        if self._memory is None:
            return
        if any(part.bucket.started for part in slot.parts):
            raise StateError(_LATE.format(name=slot.name))
        if gradient is not None and gradient.is_sparse:
            self._memory.place(slot, gradient.to_dense(), may_lend=False)
        else:
            self._memory.place(slot, gradient, may_lend=not self.by_ddp)
        for part in slot.parts:
            part.bucket.missing -= 1
            if part.bucket.missing == 0:
                part.bucket.started = True
                self._memory.start(part.bucket)

    def _send(self, bucket: Bucket, memory: torch.Tensor) -> None:
        assert self.job is not None
        elements = bucket.wire.elements(bucket.count)
        self.job.allreduce_start(bucket.number, memory.data_ptr(), elements, bucket.wire.dtype, Op.MEAN, memory)

    # ---- the step ----

    def arm(self, counts: bool = True) -> None:
        """A step was begun: gradients may arrive. `counts`: they weigh something."""
        self.armed, self.committed, self.passes = True, False, 0
        self.weights.plan([1] * self.accumulate)
        self._callback_queued = False
        self._leave_outer()
        for bucket in self.buckets:
            bucket.reset()
        for slot in self.slots:
            slot.fired = 0
        if self._memory is not None:
            self._memory.reset(counts)

    @property
    def fired(self) -> bool:
        """Has backward() been called in this step?"""
        return any(slot.fired for slot in self.slots)

    @property
    def arrived(self) -> bool:
        """Is there any gradient in this step?"""
        return self.fired or (self.armed and any(slot.parameter.grad is not None for slot in self.slots))

    def send_rest(self) -> list[int]:
        """Send what has not been sent: parameters that got no gradient contribute zeros.

        Returns for each parameter whether it has a gradient here.
        """
        used = [int(slot.parameter.grad is not None) for slot in self.slots]
        for slot in self.slots:
            if slot.fired < self.accumulate and not any(part.bucket.started for part in slot.parts):
                slot.fired = self.accumulate
                self.take(slot, slot.parameter.grad)
        if self._memory is not None:
            self._memory.wait()
        return used

    def raw(self) -> Iterator[Optional[torch.Tensor]]:
        """This member's own gradients of the step, before the commit."""
        return (slot.parameter.grad for slot in self.slots)

    def send_nothing(self) -> list[int]:
        """Take part in a step without gradients."""
        if self._memory is not None:
            for bucket in self.buckets:
                if not bucket.started:
                    bucket.started = True
                    self._memory.start_empty(bucket)
            self._memory.wait()
        return [0] * len(self.slots)

    @torch.no_grad()
    def finish(self, used: list[int]) -> None:
        """The step is committed: every parameter that a member used gets the average as its gradient."""
        self.armed, self.committed = False, True
        if self._memory is not None:
            self._memory.take_back([slot for slot, flag in zip(self.slots, used) if flag > 0])
            for slot, flag in zip(self.slots, used):
                if flag <= 0:
                    slot.parameter.grad = None
        self._versions = self._look()

    @torch.no_grad()
    def drop(self, scaled: bool) -> None:
        """Nothing is to be applied: no parameter has a gradient, or an infinite one for a gradient scaler to skip."""
        self.armed, self.committed = False, True
        if isinstance(self._memory, StagedBuckets):
            self._memory.forget()
        for slot in self.slots:
            slot.parameter.grad = torch.full_like(slot.parameter, float("inf")) if scaled else None
        self._versions = self._look()

    # ---- what the program does with the averages ----

    def _look(self) -> list[Any]:
        """What tells that the program changed an average: `p.grad.data` and a scaler leave versions as they were."""
        seen: list[Any] = [] if self._memory is None else [_sample(one) for one in self._memory.looked_at()]
        for slot in self.slots:
            gradient = slot.parameter.grad
            seen.append(0 if gradient is None else id(gradient))
            seen.append(0 if gradient is None else gradient._version)
        return seen

    @property
    def touched(self) -> bool:
        """Were the averages changed (clipped, unscaled, ...) since the commit?"""
        return self._look() != self._versions

    @property
    def present(self) -> bool:
        """Has any parameter a gradient?"""
        return any(slot.parameter.grad is not None for slot in self.slots)

    @property
    def finite(self) -> bool:
        """Are all averages finite numbers?"""
        return all(
            bool(torch.isfinite(slot.parameter.grad).all()) for slot in self.slots if slot.parameter.grad is not None
        )
