# SPDX-License-Identifier: Apache-2.0
"""A communicator: the fixed set of members of a process group, on a job whose members come and go.

An operation is a step without samples. All members that commit it know the same contributors, so all judge it alike:
where a member of the communicator is missing, each survivor discards the result and raises at the same operation.

A communicator is made in steps of one shape, the roll calls: each member gives its row, and all decide from the same
table. A number of the replica says whether the members are at roll calls. A newcomer that finds them at other steps
leaves, before it has contributed anything, and joins again.
"""

from __future__ import annotations

import array
import secrets
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Optional

from ..._native import Dtype, Op
from ...config import Config
from ...job import Job
from ...training.buckets import Bucket
from ...training.control import Control
from ...training.membership import Membership
from ._errors import AbortedError, CallMismatchError, GroupError, MemberLostError, WaitError, lost_text

__all__ = ["Communicator", "Part"]

_PAUSE_S = 0.002  # between two roll calls that are not complete
_NOWHERE = 1 << 32


@dataclass(frozen=True)
class Part:
    """An all-reduce of memory, in place."""

    pointer: int
    count: int
    dtype: Dtype
    op: Op
    owner: object


@dataclass(frozen=True)
class Row:
    """What a member tells in a roll call."""

    uid: int
    place: int  # its rank in the communicator before, or the one it asks for
    wanted: int  # members to wait for; 0: those that are here
    late: int  # 1: it has waited long enough
    serial: int  # how many communicators it has been in: survivors come before newcomers

    def numbers(self) -> list[int]:
        return [self.uid, self.place, self.wanted, self.late, self.serial]


class Communicator:
    """Members in order of rank. All calls come from one thread."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._control = Control()
        self._membership = Membership(self._control.register)
        self._serial = 0
        self._operations = 0
        self._is_member = False  # this membership has taken part in a roll call
        self.row = Row(secrets.randbits(63), _NOWHERE, 0, 0, 0)
        self.uids: tuple[int, ...] = ()
        self.broken: Optional[GroupError] = None

    @property
    def rank(self) -> int:
        """This member's place."""
        return self.uids.index(self.row.uid)

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.uids)

    @property
    def job(self) -> Job:
        """The membership underneath. GroupError: there is none."""
        if self._membership.job is None:
            raise AbortedError("this process has left the group; call init_process_group() again")
        return self._membership.job

    # ---- closing a communicator ----

    def close(self, place: int, wanted: int, limit_s: float) -> tuple[int, ...]:
        """Hold roll calls until `wanted` members are here (0: those that are), and become a communicator with them.

        `place` is the rank asked for, -1: any. Returns the ranks that its members had in the communicator before.
        Raises WaitError on every member when one of them has waited `limit_s`.
        """
        until = time.monotonic() + limit_s
        old = self.uids
        self.row = replace(self.row, place=place if place >= 0 else _NOWHERE, wanted=wanted, serial=self._serial)
        self._control.at_work = 0
        rows = self._roll_call(until)
        while not _is_complete(rows) or not self._is_among(rows):
            if self._is_among(rows) and any(row.late for row in rows):
                wanted = max(row.wanted for row in rows)
                raise WaitError(
                    f"{len(rows)} of {wanted} members were here after {limit_s:g} s; start the others, or ask for fewer"
                )
            if _is_complete(rows) or not self._is_member:
                self._membership.retreat()  # the others are not at a roll call, or held one without us
            else:
                time.sleep(_PAUSE_S)
            rows = self._roll_call(until)
        self.uids = tuple(row.uid for row in sorted(rows, key=_order))
        self._serial = 1 + max(row.serial for row in rows)
        self._operations, self.broken = 0, None
        self._membership.settled()
        self._control.at_work = 1
        return tuple(old.index(uid) if uid in old else -1 for uid in self.uids)

    def _is_among(self, rows: Sequence[Row]) -> bool:
        return any(row.uid == self.row.uid for row in rows)

    def _roll_call(self, until: float) -> list[Row]:
        """One step in which every member tells its row; empty where this member has no part in it."""
        late = time.monotonic() >= until
        if self._membership.job is None:
            if late:
                raise WaitError("the members of the job are in a group without this one; call reconfigure() there")
            self._is_member, self._control.at_work = False, 0
            self._membership.join(self._config)
        self.row = replace(self.row, late=int(late))
        self._membership.begin()
        if not self._is_member and self._control.at_work:
            return []
        self._is_member = True
        rows = self._membership.gather(self.row.numbers())
        if rows is None:
            self._membership.abandon()
            return []
        return [Row(*row) for row in rows]

    # ---- operations ----

    def operate(self, name: str, parts: Sequence[Part]) -> None:
        """All-reduce `parts` over the members, in place, in one step. Raises on every survivor where one is missing.

        `name` says what the call is: members whose names differ find out. The memory of `parts` is undefined after an
        error.
        """
        if self.broken is not None:
            raise self.broken
        try:
            self._step(parts, name)
        except GroupError as error:
            self.broken = error
            raise
        except Exception as error:
            self.broken = GroupError(f"{name}: {error}")
            raise self.broken from error
        self._operations += 1

    def _roll(self, name: str) -> array.array[int]:
        words = (self.size + 63) // 64
        roll = array.array("Q", bytes(8 * (1 + words)))
        roll[0] = zlib.crc32(f"{self._operations} {name}".encode())
        roll[1 + self.rank // 64] = 1 << self.rank % 64
        return roll

    def _step(self, parts: Sequence[Part], name: str) -> None:
        """One step: `parts` and the roll."""
        job, roll = self.job, self._roll(name)
        mine = roll[0]
        self._membership.begin()
        job.samples_decline()
        for bucket, part in enumerate(parts):
            job.allreduce_start(bucket, part.pointer, part.count, part.dtype, part.op, part.owner)
        job.allreduce_start(Bucket.ROLL, roll.buffer_info()[0], len(roll), Dtype.U64, Op.SUM, roll)
        if not self._membership.commit():
            raise MemberLostError(
                "the others went on without this process: it was stopped or cut off. End it and start it again"
            )
        lost = [rank for rank in range(self.size) if not roll[1 + rank // 64] >> rank % 64 & 1]
        if lost:
            raise MemberLostError(f"{lost_text(lost, self.size)}; it has no result on any of them", lost)
        if roll[0] != mine * self.size % (1 << 64):
            raise CallMismatchError(
                "the members made different calls, or in another order; make the same calls on every rank"
            )

    # ---- the end ----

    def leave(self) -> None:
        """Leave the job with goodbye."""
        self._membership.leave()

    def abandon(self) -> None:
        """Leave at once: to the others this member is lost."""
        self._membership.abandon()


def _is_complete(rows: Sequence[Row]) -> bool:
    return bool(rows) and len(rows) >= max(row.wanted for row in rows)


def _order(row: Row) -> tuple[int, int, int]:
    """Survivors first, in the order they had; then newcomers as they ask."""
    return (-row.serial, row.place, row.uid)
