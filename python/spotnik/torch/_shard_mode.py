# SPDX-License-Identifier: Apache-2.0
"""How a model commits its steps that the processes of a group hold among them: FSDP2, tensor parallelism.

The gradients of a backward pass are the group's when the pass ends: FSDP has averaged them over its processes, as if
they had equally many samples. So the gradient of what the model returns is scaled by this process's part of the group's
samples, and what FSDP makes of it is the exact mean. At the end each process hands over its part of the whole
gradients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch.autograd import Variable
from torch.utils._pytree import tree_map_only

from .._native import Op
from ..errors import StateError
from ..job import Step
from ._buckets import Bucket
from ._entry import Exit
from ._gradients import Gradients
from ._mode import AtBackward
from ._places import ALONE, place_here
from ._replica import Replica
from ._shard_memory import ShardBuckets, ShardedReplica
from ._shards import Layout, add_up, layout_of, reshard
from ._weights import Weights

if TYPE_CHECKING:
    from ._session import Session


class GroupWeights(Weights):
    """What the mini-batches of a step weigh in the group: their losses are added up over its processes.

    The scale of a mini-batch has no part that differs among the processes and follows from a later mini-batch: FSDP
    mixes their gradients at once.
    """

    def __init__(self, layout: Layout, base_of: Callable[[int], int], tell: Callable[[int], None]) -> None:
        self._layout, self._base_of, self._tell_own = layout, base_of, tell
        super().__init__(lambda factor: None, lambda weight: None)

    def plan(self, samples: Sequence[int]) -> None:
        """A step begins. `base_of` says what the group counts where this process counts so much."""
        super().plan(samples)
        self._group_base = self._base_of(sum(samples))
        self._group_counts: dict[int, int] = {}

    def scale(self, number: int) -> float:
        """By what the gradient of what the model returns for mini-batch `number` is multiplied."""
        if number >= len(self._counts) or not self._group_base:
            return 0.0
        if self._fixed:
            return self._fixed[number]
        return len(self._counts) * self._counts[number] * self._layout.parts / self._group_base

    def _count(self, number: int, weight: int) -> None:
        """Its loss was divided by `weight` here: a collective call of the processes of the group."""
        self._said.add(number)
        self._counts[number] = 0 if self._fills[number] else weight
        (whole,) = add_up([self._counts[number] if self._layout.counts else 0])
        if not any(self._group_counts[one] for one in self._group_counts if one != number):
            self._group_base = len(self._counts) * whole
        self._group_counts[number] = whole
        self._tell_own(sum(self._counts[one] for one in self._said))

    def divide(self, divisor: int, counts: Sequence[int]) -> None:
        """As of one process: a collective call of the processes of the group."""
        super().divide(divisor, counts)
        own = sum(self._counts)
        (whole,) = add_up([own if self._layout.counts else 0])
        self._fixed = [self._layout.parts * divisor / whole if count else 0.0 for count in self._counts]
        self._tell_own(own)

    @property
    def correction(self) -> float:
        """By what the sum of the gradients is multiplied: the base was that of the first mini-batch."""
        total = sum(self._group_counts.values())
        return self._group_base / total if total else 1.0


class _Scaled(torch.autograd.Function):
    """What a model has returned; its gradient is scaled."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, begin: Any) -> torch.Tensor:
        ctx.begin = begin
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (gradient,) = gradients
        scale = ctx.begin()
        if scale == 1.0:
            return gradient, None
        return (torch.zeros_like(gradient) if scale == 0.0 else gradient * scale), None


class ShardGradients(Gradients):
    """Gradients of which this process has parts. They are handed over together, at the end of the last pass."""

    def __init__(self, session: Session, layout: Layout, backward_done: Callable[[], None]) -> None:
        named = [(name, p) for name, p in session.model.named_parameters() if p.requires_grad]
        super().__init__(named, session.options, session.options.accumulate, backward_done, passive=True)
        self._session, self._parts = session, layout.parts
        self.weights: Weights = GroupWeights(layout, self._group_count, self._tell_weight)
        self._exit = Exit(session.model, self._returned)

    def _group_count(self, own: int) -> int:
        job: Any = self.job
        return own * self._parts if self._session.data is None or job is None else int(job.samples_of_group)

    def travel_in(self, job: Any) -> None:
        """Gradients travel with the steps of `job`."""
        self.job = job
        self._memory = ShardBuckets(self.buckets, job, self._send)

    def _send(self, bucket: Bucket, memory: torch.Tensor) -> None:
        job: Any = self.job
        job.parts_start(bucket.number, memory, bucket.wire.dtype, Op.MEAN)

    def _returned(self, output: Any) -> Any:
        if not (self.armed and torch.is_grad_enabled()):
            return output

        def scaled(tensor: torch.Tensor) -> torch.Tensor:
            apply: Callable[..., torch.Tensor] = _Scaled.apply
            return apply(tensor, self._begin) if tensor.requires_grad else tensor

        return tree_map_only(torch.Tensor, scaled, output)

    def _begin(self) -> float:
        """A backward pass has reached what the model returned."""
        if not self._callback_queued:
            self._check_pass()
            self._callback_queued = True
            Variable._execution_engine.queue_callback(self._last)
        return self.weights.scale(self.passes)

    def _check_pass(self) -> None:
        if not self.armed or self.passes >= self.accumulate:
            raise StateError(
                "backward() of a sharded model has run more often than the step has mini-batches: call "
                "optimizer.step() after each backward(); to accumulate gradients over k batches say prepare(..., "
                "accumulate=k); add several losses up before one backward()"
            )

    def _last(self) -> None:
        """FSDP ends its work in a callback of its own, which it may have queued after ours."""
        Variable._execution_engine.queue_callback(self._end)

    @torch.no_grad()
    def send_rest(self) -> list[int]:
        """Hand over this process's parts of all gradients."""
        assert isinstance(self.weights, GroupWeights)
        factor = self.weights.correction
        if factor != 1.0:
            for slot in self.slots:
                if slot.parameter.grad is not None:
                    slot.parameter.grad.mul_(factor)
        return super().send_rest()

    def raw(self) -> Iterator[Optional[torch.Tensor]]:
        """None to compare: a part is that of all samples of the group."""
        return iter(())

    @property
    def finite(self) -> bool:
        """Are all averages finite numbers? The same in every process of the group."""
        return isinstance(self._memory, ShardBuckets) and self._memory.is_finite

    def close(self) -> None:
        """Take all hooks away."""
        super().close()
        self._exit.remove()


class Sharded(AtBackward):
    """A mode: the processes of a group hold one replica among them."""

    is_sharded = True

    def __init__(self, session: Session) -> None:
        self._session = session
        self._has_looked = False
        self._layout = layout_of(session.model, place_here() or ALONE)
        self.gradients = ShardGradients(session, self._layout, self.commit)

    def replicate(self) -> Replica:
        """This process's part of the state of the program."""
        session = self._session
        return ShardedReplica(session.model, session.optimizers, session.extras)

    def joined(self, job: Any) -> None:
        """Each process gets its part of the group's samples."""
        job.deal(self._layout.part, self._layout.parts, self._layout.counts)
        super().joined(job)

    def before_begin(self) -> None:
        """The state of others may come with the next step."""
        reshard(self._session.model)

    def armed(self, step: Step) -> None:
        """Without data of the job each data-parallel process weighs the same."""
        if self._session.data is None and not step.replay:
            self._session.membership.open_job.weight_set(self.weight_of(step))

    def weight_of(self, step: Step) -> int:
        """That of one process for all that have its samples."""
        return super().weight_of(step) if self._layout.counts else 0

    def _counted(self, step: Step) -> Step:
        if self._layout.counts:
            return step
        return dataclasses.replace(step, sample_count=0, ranges=[], share=step.shares)

    def skip(self) -> None:
        """Refused: the others of the group would wait in backward() for this process."""
        raise StateError(
            "skip() is not for sharded models: their backward() needs all processes of the group. Call "
            "spotnik.weigh(0) in place of it, and backward() of a finite loss"
        )
