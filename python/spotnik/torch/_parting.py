# SPDX-License-Identifier: Apache-2.0
"""Members whose replicas have parted: parameters, large buffers and the state of optimisers have the same bits.

In some steps each member gives a digest of them, as they were before the step; it travels with the common numbers.
Where one differs, the next step of the job is one beside the training, in which members compare tensor by tensor, and
all end with the same words. How often members compare follows from what it costs: the slowest one decides.
"""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Callable, Sequence
from typing import Optional

import torch

from ..errors import StateError
from ..job import Step
from ..training.control import Control
from ..training.membership import Membership
from ..training.shares import mix

_COST = 0.001  # of the time that steps take
_RARELY = 1024  # steps between two comparisons, at most: one that was slow by chance is not the last
_AT_ONCE = 1 << 15  # elements in host memory: a sum that widens them as it goes is seven times slower
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Named = Sequence[tuple[str, torch.Tensor]]


@torch.no_grad()
def sums_of(named: Named) -> list[int]:
    """For each tensor the sum of its bits as whole numbers: on its device, and the same in any order of summing."""
    sums = []
    for _, tensor in named:
        bits = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        sums.append(_sum(bits.view(_WHOLE[bits.element_size()])))
    result = [0] * len(sums)
    for device in {one.device for one in sums}:  # one copy from each
        own = [at for at, one in enumerate(sums) if one.device == device]
        for at, value in zip(own, torch.stack([sums[at] for at in own]).tolist()):
            result[at] = int(value)
    return result


def _sum(bits: torch.Tensor) -> torch.Tensor:
    if bits.device.type != "cpu":
        return bits.sum(dtype=torch.int64)
    wide = torch.empty(min(_AT_ONCE, bits.numel()), dtype=torch.int64)
    pieces = torch.split(bits.flatten(), _AT_ONCE)
    return torch.stack([wide[: piece.numel()].copy_(piece).sum() for piece in pieces]).sum()


class Parting:
    """What this member compares: a number for each tensor of its replica, in the order that all members have."""

    def __init__(self, control: Control, membership: Membership) -> None:
        self._control, self._membership = control, membership
        self.names: Sequence[str] = ()
        self.sums: Callable[[], list[int]] = list  #: of the tensors' bits
        self._sums: list[int] = []  # of the last comparison
        self._compared_at: Optional[float] = None
        self._steps = 0  # since then
        self.pace = 1  #: steps until the next comparison, as far as this member is concerned

    def is_due(self, step: Step) -> bool:
        """Do members compare in this step? The same on all of them."""
        self._steps += 1
        return step.number >= self._control.compared_next

    def number(self) -> int:
        """The digest of this member's replica."""
        began = time.perf_counter()
        self._sums = self.sums()
        took = time.perf_counter() - began
        if self._compared_at is not None:
            a_step = (began - self._compared_at) / self._steps
            self.pace = min(_RARELY, math.ceil(took / (_COST * a_step)))
        self._compared_at, self._steps = began, 0
        return mix(*self._sums)

    def heard(self, step: Step, are_equal: bool, pace: int) -> None:
        """What all members said in a step in which they compare."""
        self._control.compared_next = step.number + max(1, pace)
        if not are_equal:
            self._control.parted = step.number

    # ---- the step beside the training ----

    @property
    def is_next(self) -> bool:
        """Have replicas parted?"""
        return self._control.parted > 0

    def take(self, step: Step) -> None:
        """Compare tensor by tensor, and raise StateError on all members."""
        at, width = self._control.parted, len(self.names)
        sums = self._sums if len(self._sums) == width else [0] * width
        try:
            rows = self._membership.gather([int(sums is self._sums), step.rank, *sums])
            self._membership.begin()
            self._membership.gather([0])  # now every member has the rows, and may see others end
        except StateError:  # a group of processes has no gather: the tensor and the ranks stay unknown
            rows = None
        self._membership.abandon()  # a checkpoint of what has parted would be the newest
        raise StateError(_words(at - 1, self.names, rows or []))


def _words(step: int, names: Sequence[str], rows: Sequence[Sequence[int]]) -> str:
    known = [row for row in rows if row[0]]
    first = next((at for at in range(len(names)) if len({row[2 + at] for row in known}) > 1), None)
    what, who = "what they hold", "all of them"
    if first is not None:
        usual, count = collections.Counter(row[2 + first] for row in known).most_common(1)[0]
        odd = [row[1] for row in known if row[2 + first] != usual]
        what = names[first]
        who = _ranks([row[1] for row in known] if 2 * count <= len(known) else odd)
    return (
        f"after step {step} the replicas have parted: {what} is not the same on all members; look at {who}. "
        "What changes parameters, large buffers or the state of an optimizer must do the same on every member: give "
        "prepare() what has a state of its own, let nothing depend on rank() or on a member's own share, and use "
        "torch.use_deterministic_algorithms(True). Where the program does so, a machine computes wrongly, or machines "
        "of different kinds round differently. Start the job again from a checkpoint before that step"
    )


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(str(rank) for rank in sorted(ranks))}"
