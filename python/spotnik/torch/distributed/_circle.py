# SPDX-License-Identifier: Apache-2.0
"""A circle: the fixed set of members of a process group, on a job whose members come and go.

An operation is a step without samples. All members that commit it know the same contributors, so all judge it alike:
where a member of the circle is missing, each survivor discards the result and raises at the same operation.

A circle closes in steps of one shape, the roll calls: each member tells who it is, and all decide from the same table.
A blob of the replica says whether the members are at roll calls. A newcomer that finds them at other steps goes, before
it has contributed anything, and comes again.
"""

from __future__ import annotations

import array
import hashlib
import os
import secrets
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Optional

from ..._native import Dtype, Op
from ...config import Config
from ...errors import SpotnikError
from ...job import Job, Step
from ._errors import AbortedError, CallMismatchError, GroupError, MemberLostError, WaitError, lost_text
from ._post import Post

__all__ = ["Circle", "Part"]

ROLL_BUCKET = 200  # who contributed, beside the operation's own buckets
CALL_BUCKET = 0  # the table of a roll call
SLOTS = 256  # members of a job at most
_ROW = 5  # numbers a member tells: uid, place, wanted, late, serial
_BLOB = "spotnik.circle"
_OPEN, _CLOSED = b"open", b"closed"
_PAUSE_S = 0.002  # between two roll calls that are not complete
_AWAY_S, _AWAY_MOST_S = 0.05, 2.0  # before a newcomer comes again; each time is twice as long
_NOWHERE = 1 << 32
_LATE, _LETTERS = 1, 2
_ADDRESS_BYTES, _NONCE_BYTES = 96, 32
_CARD_BYTES = 32 + _NONCE_BYTES + _ADDRESS_BYTES  # a member's id, a random number, where letters arrive


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
    place: int  # its rank in the circle before, or the one it asks for
    wanted: int  # members to wait for; 0: those that are here
    late: int  # 1: it has waited long enough; 2 beside it: it allows letters
    serial: int  # how many circles it has been in: survivors come before newcomers

    @property
    def is_late(self) -> bool:
        return bool(self.late & _LATE)

    @property
    def has_letters(self) -> bool:
        return bool(self.late & _LETTERS)

    def numbers(self) -> list[int]:
        return [self.uid, self.place, self.wanted, self.late, self.serial]


class Circle:
    """Members in order of rank. All calls come from one thread."""

    def __init__(self, config: Config, letters: bool = False) -> None:
        self._config = config
        self._job: Optional[Job] = None
        self._serial = 0
        self._operations = 0
        self._refusals = 0  # in a row
        self._is_member = False  # this membership has taken part in a roll call
        self.row = Row(secrets.randbits(63), _NOWHERE, 0, 0, 0)
        self.uids: tuple[int, ...] = ()
        self.broken: Optional[GroupError] = None
        self._wants_letters = letters
        self.has_letters = False  # each operation begins with its roll alone
        self.post: Optional[Post] = None  # of this circle, where it has letters

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
        if self._job is None:
            raise AbortedError("this process has left the group; call init_process_group() again")
        return self._job

    # ---- closing a circle ----

    def close(self, place: int, wanted: int, limit_s: float) -> tuple[int, ...]:
        """Hold roll calls until `wanted` members are here (0: those that are), and become a circle with them.

        `place` is the rank asked for, -1: any. Returns the ranks that this circle's members had in the one before.
        Raises WaitError on every member when one of them has waited `limit_s`.
        """
        until = time.monotonic() + limit_s
        old = self.uids
        self._announce()
        self._close(place, wanted, limit_s, until)
        while self.has_letters and not self._exchange_cards():
            self._close(place, wanted, limit_s, until)
        return tuple(old.index(uid) if uid in old else -1 for uid in self.uids)

    def _close(self, place: int, wanted: int, limit_s: float, until: float) -> None:
        self.row = replace(self.row, place=place if place >= 0 else _NOWHERE, wanted=wanted, serial=self._serial)
        self._open()
        rows = self._roll_call(until)
        while not _is_complete(rows) or not self._is_among(rows):
            if self._is_among(rows) and any(row.is_late for row in rows):
                wanted = max(row.wanted for row in rows)
                raise WaitError(
                    f"{len(rows)} of {wanted} members were here after {limit_s:g} s; start the others, or ask for fewer"
                )
            if _is_complete(rows) or not self._is_member:
                self._go_away()
            else:
                time.sleep(_PAUSE_S)
            rows = self._roll_call(until)
        self.uids = tuple(row.uid for row in sorted(rows, key=_order))
        self._serial = 1 + max(row.serial for row in rows)
        self._operations = self._refusals = 0
        self.broken = None
        self.has_letters = any(row.has_letters for row in rows)
        self.job.blob_set(_BLOB, _CLOSED)

    def _is_among(self, rows: Sequence[Row]) -> bool:
        return any(row.uid == self.row.uid for row in rows)

    def _open(self) -> None:
        if self._job is not None:
            self._job.blob_set(_BLOB, _OPEN)

    def _go_away(self) -> None:
        """The others are not at a roll call, or held one without us."""
        self.abandon()
        time.sleep(min(_AWAY_MOST_S, _AWAY_S * 2**self._refusals))
        self._refusals = min(self._refusals + 1, 16)

    def _roll_call(self, until: float) -> list[Row]:
        """One step in which every member tells its row; empty where this member has no part in it."""
        late = time.monotonic() >= until
        if self._job is None:
            if late:
                raise WaitError("the members of the job are in a group without this one; call reconfigure() there")
            self._join()
        self.row = replace(self.row, late=_LATE * late | _LETTERS * (self._wants_letters or self.has_letters))
        step = self.job.step_begin()
        if not self._is_member and not self._may_enter():
            return []
        self._is_member = True
        return self._tell(step)

    def _join(self) -> None:
        self._is_member = False
        job = Job(self._config)
        job.join()
        self._job = job

    def _may_enter(self) -> bool:
        """Are the others at roll calls? A founder has no blob, and a newcomer that of the others."""
        return self.job.blob_get(_BLOB) != _CLOSED

    def _tell(self, step: Step) -> list[Row]:
        mine = array.array("Q", self.row.numbers())
        table = array.array("Q", bytes(8 * _ROW * SLOTS))
        arguments = (mine.buffer_info()[0], _ROW, Dtype.U64, table.buffer_info()[0], SLOTS)
        job = self.job
        job.samples_decline()
        job.collective_start("spotnik_allgather", (mine, table), CALL_BUCKET, *arguments)
        if not job.step_commit():
            self.abandon()
            return []
        rows = [table[_ROW * i : _ROW * (i + 1)].tolist() for i in range(job.contributor_count)]
        return [Row(*row) for row in rows]

    # ---- operations ----

    def operate(self, name: str, parts: Sequence[Part]) -> None:
        """All-reduce `parts` over the circle, in place, in one step. Raises on every survivor where one is missing.

        `name` says what the call is: members whose names differ find out. The memory of `parts` is undefined after an
        error.
        """
        if self.broken is not None:
            raise self.broken
        if self.post is not None and self.post.error is not None:
            raise self.post.error  # the others hear of it by our next roll, from reconfigure()
        try:
            if self.has_letters:
                name = f"{name} {[(part.count, int(part.dtype), int(part.op)) for part in parts]}"
                self._step((), name)
            if parts or not self.has_letters:
                self._step(parts, name)
        except GroupError as error:
            self._break(error)
            raise
        except Exception as error:
            self._break(GroupError(f"{name}: {error}"))
            raise self.broken from error
        self._operations += 1

    def _break(self, error: GroupError) -> None:
        self.broken = error
        if self.post is not None:
            self.post.fail(error)

    def _roll(self, name: str, mark: bool) -> array.array[int]:
        words = (self.size + 63) // 64
        roll = array.array("Q", bytes(8 * (1 + words + self.has_letters)))
        roll[0] = zlib.crc32(f"{self._operations} {name}".encode())
        roll[1 + self.rank // 64] = 1 << self.rank % 64
        if mark:
            roll[-1] = 1
        return roll

    def _step(self, parts: Sequence[Part], name: str, mark: bool = False) -> None:
        """One step: `parts` and the roll. A mark, which needs letters, breaks the circle for all."""
        job, roll = self.job, self._roll(name, mark)
        mine = roll[0]
        job.step_begin()
        job.samples_decline()
        for bucket, part in enumerate(parts):
            job.allreduce_start(bucket, part.pointer, part.count, part.dtype, part.op, part.owner)
        job.allreduce_start(ROLL_BUCKET, roll.buffer_info()[0], len(roll), Dtype.U64, Op.SUM, roll)
        if not job.step_commit():
            raise MemberLostError(
                "the others went on without this process: it was stopped or cut off. End it and start it again"
            )
        lost = [rank for rank in range(self.size) if not roll[1 + rank // 64] >> rank % 64 & 1]
        if lost:
            raise MemberLostError(f"{lost_text(lost, self.size)}; it has no result on any of them", lost)
        if self.has_letters and roll[-1]:
            raise MemberLostError("a member has called reconfigure(); this call has no result. Call it here, too")
        if roll[0] != mine * self.size % (1 << 64):
            raise CallMismatchError(
                "the members made different calls, or in another order; make the same calls on every rank"
            )

    # ---- letters ----

    def allow_letters(self) -> None:
        """Let members send each other letters from now on, in the circles that follow, too. All members call it.

        In a circle that has letters it does nothing. Where a member is lost meanwhile the circle is broken for all, and
        the next one has letters. Otherwise raises as :meth:`operate`.
        """
        self._wants_letters = True
        if self.has_letters:
            return
        try:
            self.operate("letters", ())
        except MemberLostError:
            return
        self.has_letters = True
        self._operations = 0
        self._exchange_cards()

    def _exchange_cards(self) -> bool:
        """Where each member's letters arrive. False: a member was lost meanwhile, and all know."""
        mine = self.job.status().member
        host = next(one.address for one in self.job.members if one.member == mine).rpartition(":")[0].strip("[]")
        ids: list[str] = []
        post = Post(self.rank, self.size, host, lambda: self._absent(ids))
        card = mine.encode() + secrets.token_bytes(_NONCE_BYTES) + post.address.encode().ljust(_ADDRESS_BYTES)
        table = array.array("B", bytes(_CARD_BYTES * self.size))
        table[_CARD_BYTES * self.rank : _CARD_BYTES * (self.rank + 1)] = array.array("B", card)
        try:
            self.operate("cards", [Part(table.buffer_info()[0], len(table), Dtype.U8, Op.SUM, table)])
        except MemberLostError as error:
            post.close()
            if error.lost:
                return False
            raise
        cards = [bytes(table[_CARD_BYTES * i : _CARD_BYTES * (i + 1)]) for i in range(self.size)]
        ids.extend(one[:32].decode() for one in cards)
        self.post = post
        post.open([one[-_ADDRESS_BYTES:].decode().strip() for one in cards], self._secret(bytes(table)))
        return True

    def _absent(self, ids: Sequence[str]) -> list[int]:
        job = self._job
        try:
            here = {one.member for one in job.members} if job is not None else set(ids)
        except SpotnikError:
            return []  # the membership has ended
        return [rank for rank, one in enumerate(ids) if one not in here]

    def _secret(self, cards: bytes) -> bytes:
        """What only members of this circle know: the job's key, and random numbers that the job has carried."""
        path = self._config.key_file or os.environ.get("SPOTNIK_KEY_FILE")
        key = b""
        if path:
            with open(path, "rb") as file:
                key = file.read().strip()
        return hashlib.sha256(key + repr(self.uids).encode() + cards).digest()

    def _announce(self) -> None:
        """Before roll calls: all members of a circle that has letters must know that it ends."""
        post, self.post = self.post, None
        if post is not None:
            post.fail(MemberLostError("reconfigure() was called; make this call again"))
        if self.has_letters and self.broken is None and self._job is not None:
            try:
                self._step((), "reconfigure", mark=True)
            except GroupError as error:
                self.broken = error

    # ---- the end ----

    def leave(self) -> None:
        """Leave the job with goodbye."""
        if self.post is not None:
            self.post.close()
        job, self._job = self._job, None
        if job is not None:
            job.leave()

    def abandon(self) -> None:
        """Leave at once: to the others this member is lost."""
        if self.post is not None:
            self.post.fail(AbortedError("this process has abandoned the group"), [self.rank])
        job, self._job = self._job, None
        if job is not None:
            job.abandon()


def _is_complete(rows: Sequence[Row]) -> bool:
    return bool(rows) and len(rows) >= max(row.wanted for row in rows)


def _order(row: Row) -> tuple[int, int, int]:
    """Survivors first, in the order they had; then newcomers as they ask."""
    return (-row.serial, row.place, row.uid)
