# SPDX-License-Identifier: Apache-2.0
"""The all-reduces of one step, from its begin to its commit. Decides which bucket each of them is."""

from __future__ import annotations

import array
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
import torch.distributed as dist

from ..._native import Dtype, Op
from ...job import Step
from ...training.buckets import Bucket
from ...training.membership import Membership
from ..distributed._errors import NotSupportedError
from ..distributed._memory import check_dense, reduce_part
from ._work import Result

__all__ = ["Outcome", "Round"]

_DIRECT = 180  # calls that have a bucket of their own; LocalSGD makes one for each parameter


@dataclass(frozen=True)
class Outcome:
    """What all members know after a commit."""

    participants: int  # members whose data count
    newcomers: int  # members that want the state of the others
    failures: int  # members that reported an error


@dataclass
class Call:
    """One all-reduce."""

    tensor: torch.Tensor
    work: torch.Tensor  # on the CPU and contiguous; the tensor itself where that is so
    op: dist.ReduceOp
    wire: Optional[Dtype] = None  # as what it travels; None: as it is
    result: Result = field(default_factory=Result)

    def finish(self) -> None:
        """Give the tensor its result, and wake those that wait."""
        if self.work is not self.tensor:
            self.tensor.copy_(self.work)
        self.result.set_result(self.tensor)


class Round:
    """A step that has begun. Data of a member that does not take part count as nothing."""

    def __init__(self, membership: Membership, step: Step, takes_part: bool) -> None:
        self._membership, self._job = membership, membership.open_job
        self._takes_part = takes_part
        self._calls: list[Call] = []
        self.step = step
        self._job.weight_set(int(takes_part))

    def add(self, tensor: torch.Tensor, op: Any, quantized: bool = False) -> Result:
        """Start one all-reduce, in place. `quantized`: float32 travels as q8.

        Raises NotSupportedError, and ValueError for the mean of whole numbers.
        """
        call = self._call(tensor.detach(), op)
        if quantized and call.work.dtype == torch.float32:
            call.wire = Dtype.Q8
        if len(self._calls) < _DIRECT:
            self._start(len(self._calls), call.work, call)
        self._calls.append(call)
        return call.result

    def _call(self, tensor: torch.Tensor, op: Any) -> Call:
        if op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            raise NotSupportedError(f"{op} is not there; use AVG or SUM, to which a newcomer adds nothing")
        if op == dist.ReduceOp.AVG and not torch.is_floating_point(tensor):
            raise ValueError("average reduce op is only supported for floating point tensors")
        is_direct = tensor.device.type == "cpu" and tensor.is_contiguous()
        work = tensor if is_direct else tensor.to("cpu", copy=True, memory_format=torch.contiguous_format)
        check_dense([work])
        if not self._takes_part and op == dist.ReduceOp.SUM:
            work.zero_()
        return Call(tensor, work, op)

    def _start(self, bucket: int, work: torch.Tensor, call: Call) -> None:
        part = reduce_part(work, call.op)
        self._job.allreduce_start(bucket, part.pointer, part.count, part.dtype, part.op, part.owner, call.wire)

    def commit(self, failed: bool) -> Optional[Outcome]:
        """Commit the step. None: the others went on without this member, and the tensors are as they were."""
        packed = self._pack()
        roll = array.array("q", [int(self._takes_part), int(not self._takes_part), int(failed)])
        self._job.allreduce_start(Bucket.ROLL, roll.buffer_info()[0], len(roll), Dtype.I64, Op.SUM, roll)
        is_committed = self._membership.commit()
        for flat, calls in packed:
            _unpack(flat, calls)
        for call in self._calls:
            call.finish()
        return Outcome(*roll) if is_committed else None

    def _pack(self) -> list[tuple[torch.Tensor, list[Call]]]:
        """Start the calls that have no bucket of their own: one bucket for each type, operation and wire."""
        groups: dict[tuple[torch.dtype, str, Optional[Dtype]], list[Call]] = {}
        for call in self._calls[_DIRECT:]:
            groups.setdefault((call.work.dtype, str(call.op), call.wire), []).append(call)
        packed = []
        for bucket, calls in enumerate(groups.values(), _DIRECT):
            flat = torch.cat([call.work.reshape(-1) for call in calls])
            self._start(bucket, flat, calls[0])
            packed.append((flat, calls))
        return packed


def _unpack(flat: torch.Tensor, calls: list[Call]) -> None:
    sizes = [call.work.numel() for call in calls]
    for call, part in zip(calls, torch.split(flat, sizes)):
        call.work.copy_(part.reshape(call.work.shape))
