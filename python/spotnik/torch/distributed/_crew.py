# SPDX-License-Identifier: Apache-2.0
"""The members of a group at work: a circle, the thread that makes its calls, and where this process stands in it.

Groups of the same members share a crew: their calls are steps of one job, and one thread makes them in their order.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, Optional

from ...config import Config
from ._circle import Circle, Part
from ._errors import AbortedError, GroupError, MemberLostError
from ._work import Errands, GroupWork

__all__ = ["Crew", "Loner"]

_SHUTDOWN_S = 10.0


class Crew:
    """Made by :meth:`gather`, which waits for the members."""

    def __init__(self, config: Config, rank: int, size: int, limit_s: float, kept: object = None) -> None:
        self._kept = kept  # files that the config names
        self._circle = Circle(config)
        self._errands = Errands("spotnik-group")
        self.rank, self.size = rank, size
        self.is_over = False  # aborted, or left
        try:
            self.gather(size, limit_s)
        except BaseException:
            self._end("the group was not made", self._circle.abandon)
            raise

    @property
    def error(self) -> Optional[GroupError]:
        """Why calls are refused; None: they are taken."""
        return self._circle.broken

    @property
    def circle(self) -> str:
        """A name of the group as it is, the same on all its members."""
        return f"{zlib.crc32(repr(self._circle.uids).encode()):08x}.{self._circle.uids[0]:x}"

    @property
    def can_go_on(self) -> bool:
        """Are the survivors still in one job? Not after abort(), nor in a process that the others went on without."""
        error = self.error
        return not self.is_over and (error is None or bool(isinstance(error, MemberLostError) and error.lost))

    def gather(self, size: int, limit_s: float) -> dict[int, int]:
        """Close the next circle, and return its ranks by those before. :meth:`Circle.close` says what is raised."""
        before: list[tuple[int, ...]] = []
        work = GroupWork("gathering the members", None, limit_s + _SHUTDOWN_S)
        self._errands.add(work, lambda: before.append(self._circle.close(self.rank, size, limit_s))).wait()
        self.rank, self.size = self._circle.rank, self._circle.size
        return {old: new for new, old in enumerate(before[0]) if old >= 0}

    def call(self, work: GroupWork, parts: Callable[[], Sequence[Part]], done: Callable[[], None]) -> GroupWork:
        """Hand over one operation: `parts` is called when its turn comes, `done` when it is through."""

        def make() -> None:
            self._circle.operate(work.what, parts())
            done()

        return self._errands.add(work, make)

    def abort(self, why: str = "abort() was called; call init_process_group() again") -> None:
        """End every pending call, and the membership without goodbye."""
        self._errands.abort(AbortedError(why))
        self._end("the group was aborted", self._circle.abandon)

    def leave(self) -> None:
        """Leave the job, once the calls handed over have ended."""
        self._end("the group was shut down", self._circle.leave)

    def _end(self, why: str, end: Callable[[], None]) -> None:
        self.is_over = True
        try:
            work = self._errands.add(GroupWork(why, None, _SHUTDOWN_S), end)
        except AbortedError:
            return
        self._errands.close()
        work.wait()
        self._errands.join(_SHUTDOWN_S)


class Loner:
    """A crew of one: nothing travels."""

    rank, size = 0, 1
    error: Optional[GroupError] = None

    def gather(self, *_: Any) -> dict[int, int]:
        """Nobody is lost."""
        return {0: 0}

    def call(self, work: GroupWork, parts: Callable[[], Sequence[Part]], done: Callable[[], None]) -> GroupWork:
        """What one member puts in is the result."""
        parts()
        done()
        work.finish()
        return work

    def abort(self, why: str = "abort() was called; call init_process_group() again") -> None:
        """Nothing is pending."""

    def leave(self) -> None:
        """Nobody is left behind."""
