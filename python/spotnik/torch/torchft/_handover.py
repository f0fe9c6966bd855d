# SPDX-License-Identifier: Apache-2.0
"""How newcomers get the state: steps in which one member sends what its ``state_dict`` functions return.

Every member knows from the committed results alone what the next step is, so a newcomer that repeats steps follows. A
donor that is lost on the way sends nothing more, which all see at the same step; then they choose again.
"""

from __future__ import annotations

import array
import enum
import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Optional

import torch

from ..._native import Dtype, Op
from ...job import Job
from ._state import packed, unpacked

__all__ = ["Handover", "Place", "Stage"]

_SLOTS = 256  # members of a job at most
_ROW = 3  # numbers a member tells at the beginning: uid, has the state, step
_CHUNK = 64 << 20  # bytes of state in one step
_TABLE, _SIZE, _BYTES = 0, 1, 2  # buckets


class Stage(enum.IntEnum):
    """What the next step of the job is."""

    CHOOSE = 0  # all tell whether they have the state; the first of those that have it is the donor
    MEASURE = 1  # the donor tells how much it is
    COPY = 2  # and sends it
    TRAIN = 3


@dataclass
class Place:
    """Where the job stands, the same on every member. A newcomer receives it when it joins."""

    stage: int = Stage.CHOOSE
    is_new: bool = True  # nobody has had a state from another
    wanted: bool = False  # a newcomer waits for the state
    phase: int = 0  # commits since start_quorum()
    donor: int = 0
    size: int = 0
    offset: int = 0
    step: int = 0
    batches: int = 0

    def packed(self) -> bytes:
        """As a blob."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def of(data: bytes) -> Place:
        """From a blob."""
        return Place(**json.loads(data)) if data else Place()


class Handover:
    """This member's part: `read` returns the state, and `write` takes one over."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
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

    def turn(self, job: Job, place: Place) -> bool:
        """Take the step that has begun, and move `place` on. False: the others went on without this member."""
        take = {Stage.CHOOSE: self._choose, Stage.MEASURE: self._measure, Stage.COPY: self._copy}
        return take[Stage(place.stage)](job, place)

    def _choose(self, job: Job, place: Place) -> bool:
        mine = array.array("Q", [self.uid, int(self.is_whole), place.step])
        table = array.array("Q", bytes(8 * _ROW * _SLOTS))
        arguments = (mine.buffer_info()[0], _ROW, Dtype.U64, table.buffer_info()[0], _SLOTS)
        job.collective_start("spotnik_allgather", (mine, table), _TABLE, *arguments)
        if not job.step_commit():
            return False
        rows = [table[_ROW * i : _ROW * (i + 1)] for i in range(job.contributor_count)]
        if all(row[1] for row in rows):
            place.stage, place.is_new = Stage.TRAIN, False
        else:
            place.stage, place.donor = Stage.MEASURE, max(rows, key=lambda row: (row[1], row[2]))[0]
        return True

    def _measure(self, job: Job, place: Place) -> bool:
        told = array.array("Q", bytes(8 * 4))
        if place.donor == self.uid:
            self._outgoing = packed(self._read())
            told = array.array("Q", [1, self._outgoing.numel(), place.step, place.batches])
        job.allreduce_start(_SIZE, told.buffer_info()[0], len(told), Dtype.U64, Op.SUM, told)
        if not job.step_commit():
            return False
        if not told[0]:
            place.stage = Stage.CHOOSE
            return True
        place.stage, place.offset = Stage.COPY, 0
        place.size, place.step, place.batches = told[1:]
        self._filled = 0
        self._incoming = (
            None if self.is_whole or self._outgoing is not None else torch.empty(told[1], dtype=torch.uint8)
        )
        return True

    def _copy(self, job: Job, place: Place) -> bool:
        end = min(place.size, place.offset + _CHUNK)
        chunk = torch.zeros(end - place.offset, dtype=torch.uint8)
        sent = array.array("Q", [0])
        if self._outgoing is not None:
            chunk.copy_(self._outgoing[place.offset : end])
            sent[0] = 1
        job.allreduce_start(_BYTES, chunk.data_ptr(), chunk.numel(), Dtype.U8, Op.SUM, chunk)
        job.allreduce_start(_SIZE, sent.buffer_info()[0], 1, Dtype.U64, Op.SUM, sent)
        if not job.step_commit():
            return False
        if not sent[0]:
            place.stage = Stage.CHOOSE
            self._incoming = None
            return True
        self._keep(chunk, place.offset)
        place.offset = end
        if end == place.size:
            self._end(place)
        return True

    def _keep(self, chunk: torch.Tensor, offset: int) -> None:
        if self._incoming is not None and self._filled == offset:
            self._incoming[offset : offset + chunk.numel()] = chunk
            self._filled += chunk.numel()

    def _end(self, place: Place) -> None:
        place.stage, place.is_new = Stage.TRAIN, False
        if self._outgoing is not None:
            self.is_whole = True
        elif self._incoming is not None and self._filled == place.size:
            self._write(unpacked(self._incoming))
            self.is_whole = True
        self._outgoing = self._incoming = None
