# SPDX-License-Identifier: Apache-2.0
"""How newcomers get the state: steps in which one member sends what its ``state_dict`` functions return.

Every member knows from the committed results alone what the next step is, so a newcomer that repeats steps follows. A
donor that is lost on the way sends nothing more, which all see at the same step; then they choose again.
"""

from __future__ import annotations

import array
import enum
import secrets
from collections.abc import Callable
from typing import Any, Optional

import torch

from ..._native import Dtype, Op
from ...job import Step
from ...training.buckets import GRADIENTS
from ...training.control import Control
from ...training.membership import Membership
from ._state import packed, unpacked

__all__ = ["Handover", "Stage"]

_CHUNK = 64 << 20  # bytes of state in one step
_BYTES, _SIZE = GRADIENTS[:2]


class Stage(enum.IntEnum):
    """What the next step of the job is."""

    CHOOSE = 0  # all tell whether they have the state; the first of those that have it is the donor
    MEASURE = 1  # the donor tells how much it is
    COPY = 2  # and sends it
    TRAIN = 3


class Handover:
    """This member's part: `read` returns the state, and `write` takes one over."""

    def __init__(
        self,
        control: Control,
        membership: Membership,
        read: Callable[[], Any],
        write: Callable[[Any], None],
    ) -> None:
        self._control, self._membership = control, membership
        self._read, self._write = read, write
        self.uid = secrets.randbits(63)
        self.is_whole = False  # this member has the state
        self._outgoing: Optional[torch.Tensor] = None
        self._incoming: Optional[torch.Tensor] = None
        self._filled = 0

    def reset(self) -> None:
        """Another's state was begun and not finished, or this member is new."""
        self._outgoing = self._incoming = None
        self.is_whole = False

    @property
    def is_next(self) -> bool:
        """Does a newcomer lack the state?"""
        return self._control.stage != Stage.TRAIN

    def take(self, step: Step) -> None:
        """Take the step that has begun, and say what the next one is."""
        take = {Stage.CHOOSE: self._choose, Stage.MEASURE: self._measure, Stage.COPY: self._copy}
        if not take[Stage(self._control.stage)]():
            self.reset()  # the others went on without this member

    def _choose(self) -> bool:
        control = self._control
        rows = self._membership.gather([self.uid, int(self.is_whole), control.step])
        if rows is None:
            return False
        if all(row[1] for row in rows):
            control.stage, control.shared = Stage.TRAIN, 1
        else:
            control.stage, control.donor = Stage.MEASURE, max(rows, key=lambda row: (row[1], row[2]))[0]
        return True

    def _measure(self) -> bool:
        control, job = self._control, self._membership.open_job
        told = array.array("Q", bytes(8 * 4))
        if control.donor == self.uid:
            self._outgoing = packed(self._read())
            told = array.array("Q", [1, self._outgoing.numel(), control.step, control.batches])
        job.allreduce_start(_SIZE, told.buffer_info()[0], len(told), Dtype.U64, Op.SUM, told)
        if not self._membership.commit():
            return False
        if not told[0]:
            control.stage = Stage.CHOOSE
            return True
        control.stage, control.state_sent = Stage.COPY, 0
        control.state_bytes, control.step, control.batches = told[1:]
        self._filled = 0
        self._incoming = (
            None if self.is_whole or self._outgoing is not None else torch.empty(told[1], dtype=torch.uint8)
        )
        return True

    def _copy(self) -> bool:
        control, job = self._control, self._membership.open_job
        begin, end = control.state_sent, min(control.state_bytes, control.state_sent + _CHUNK)
        chunk = torch.zeros(end - begin, dtype=torch.uint8)
        sent = array.array("Q", [0])
        if self._outgoing is not None:
            chunk.copy_(self._outgoing[begin:end])
            sent[0] = 1
        job.allreduce_start(_BYTES, chunk.data_ptr(), chunk.numel(), Dtype.U8, Op.SUM, chunk)
        job.allreduce_start(_SIZE, sent.buffer_info()[0], 1, Dtype.U64, Op.SUM, sent)
        if not self._membership.commit():
            return False
        if not sent[0]:
            control.stage = Stage.CHOOSE
            self._incoming = None
            return True
        self._keep(chunk, begin)
        control.state_sent = end
        if end == control.state_bytes:
            self._end()
        return True

    def _keep(self, chunk: torch.Tensor, offset: int) -> None:
        if self._incoming is not None and self._filled == offset:
            self._incoming[offset : offset + chunk.numel()] = chunk
            self._filled += chunk.numel()

    def _end(self) -> None:
        control = self._control
        control.stage, control.shared = Stage.TRAIN, 1
        if self._outgoing is not None:
            self.is_whole = True
        elif self._incoming is not None and self._filled == control.state_bytes:
            self._write(unpacked(self._incoming))
            self.is_whole = True
        self._outgoing = self._incoming = None
