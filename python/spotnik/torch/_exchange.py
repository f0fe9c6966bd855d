# SPDX-License-Identifier: Apache-2.0
"""What travels with the gradients: the common numbers, the totals, and the means of buffers.

Common numbers are settings of optimisers and schedulers, whole-number buffers, which buffers changed, which parameters
got a gradient, whether joiners may repeat steps by themselves, and numbers that members compare. They are combined by
MAX; a member that does not know a number says UNKNOWN, the least of all. Totals are sums: samples, members, and a hash
of the shares.

Settings are those of the senior member, the one with share 0, where it is in the step and knows them: members that
count for themselves have other learning rates each, and the greatest of all is no member's. It alone adds them to the
totals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Optional

import torch

from .._native import Dtype, Op
from ..job import Job, Step
from ..training.buckets import Bucket
from ..training.control import Control
from ..training.shares import pairs, share_hash
from . import _twins as twins
from ._leaves import UNKNOWN
from ._replica import Replica


@dataclasses.dataclass(frozen=True)
class Common:
    """What a committed step says, the same on all members."""

    numbers: list[int]
    wholes: list[int]
    buffers_changed: list[int]
    used: list[int]
    inside: int
    pace: int  # steps until members compare their replicas again
    marks: list[bool]  # of each number that members compare: is it the same on all?
    marked: list[int]  # the number, or the greatest of those that differ
    samples: int
    members: int
    contributors: int


class Exchange:
    """The memory in which it travels."""

    MARKS = 3 + twins.COUNT

    def __init__(self, replica: Replica, control: Control, parameters: int) -> None:
        self.replica, self._control = replica, control
        self._ends = [len(replica.leaves)]
        for count in (replica.buffers.whole_count, replica.buffers.flag_count, parameters):
            self._ends.append(self._ends[-1] + count)
        self._common = torch.zeros(self._ends[-1] + 2 + 2 * self.MARKS, dtype=torch.int64)
        self._totals = torch.zeros(4 + len(replica.leaves), dtype=torch.int64)

    def send(
        self,
        job: Job,
        step: Step,
        used: list[int],
        idle: bool,
        known: bool,
        with_buffers: bool = True,
        marks: Sequence[Optional[int]] = (0,) * MARKS,
        pace: int = 0,
    ) -> None:
        """Send what this member has to say; nothing, but for its numbers, if it is `idle` in this step.

        `marks` are compared with those of the others, but for None, and of `pace` the greatest counts.
        """
        buffers, leaves = self.replica.buffers, self.replica.leaves
        wholes, flags = buffers.contribute()
        if not with_buffers:
            wholes, flags = [UNKNOWN] * len(wholes), [0] * len(flags)
        if idle:
            wholes, flags, used = [UNKNOWN] * len(wholes), [0] * len(flags), [0] * len(used)
        numbers = leaves.read() if known else [UNKNOWN] * len(leaves)
        inside = self._control.repeats
        both = []  # the greatest, and the least
        for mark in marks:
            both += [UNKNOWN, UNKNOWN] if idle or mark is None else [mark, -mark]
        self._common.copy_(torch.tensor([*numbers, *wholes, *flags, *used, inside, pace, *both], dtype=torch.int64))
        contributor = 0 if idle else share_hash(step.number, pairs(step))
        senior = known and not step.replay and step.share == 0 < step.shares
        settings = numbers if senior else [0] * len(leaves)
        self._totals.copy_(torch.tensor([step.sample_count, int(not idle), contributor, int(senior), *settings]))
        self._start(job, Bucket.COMMON, self._common, Dtype.I64, Op.MAX)
        self._start(job, Bucket.TOTALS, self._totals, Dtype.I64, Op.SUM)
        if buffers.mean.numel() and with_buffers:
            self._start(job, Bucket.MEANS, buffers.mean, Dtype.F64, Op.MEAN)

    @staticmethod
    def _start(job: Job, bucket: Bucket, tensor: torch.Tensor, dtype: Dtype, op: Op) -> None:
        job.allreduce_start(bucket, tensor.data_ptr(), tensor.numel(), dtype, op, tensor)

    def receive(self) -> Common:
        """After the commit: what all members together said. Means of buffers are in ``buffers.mean``."""
        common = [int(code) for code in self._common.tolist()]
        samples, members, contributors, senior, *settings = (int(total) for total in self._totals.tolist())
        a, b, c, d = self._ends
        numbers = settings if senior == 1 else common[:a]
        marks = [most == -least for most, least in zip(common[d + 2 :: 2], common[d + 3 :: 2])]
        said = common[a:b], common[b:c], common[c:d], common[d], common[d + 1]
        return Common(numbers, *said, marks, common[d + 2 :: 2], samples, members, contributors)
