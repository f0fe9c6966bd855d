# SPDX-License-Identifier: Apache-2.0
"""The members of a group at work: a communicator, the thread that makes its calls, and the rank of this process.

Groups of the same members share a dispatcher: their calls are steps of one job, and one thread makes them in order.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, Optional

from ...config import Config
from ._communicator import Communicator, Part
from ._errors import AbortedError, GroupError, MemberLostError
from ._work import CallThread, GroupWork

__all__ = ["Dispatcher", "SoloDispatcher"]

_SHUTDOWN_S = 10.0


class Dispatcher:
    """Made by :meth:`gather`, which waits for the members."""

    def __init__(self, config: Config, rank: int, size: int, limit_s: float, kept: object = None) -> None:
        self._kept = kept  # files that the config names
        self._communicator = Communicator(config)
        self._thread = CallThread("spotnik-group")
        self.rank, self.size = rank, size
        self.is_over = False  # aborted, or left
        try:
            self.gather(size, limit_s)
        except BaseException:
            self._end("the group was not made", self._communicator.abandon)
            raise

    @property
    def error(self) -> Optional[GroupError]:
        """Why calls are refused; None: they are taken."""
        return self._communicator.broken

    @property
    def communicator(self) -> str:
        """A name of the group as it is, the same on all its members."""
        return f"{zlib.crc32(repr(self._communicator.uids).encode()):08x}.{self._communicator.uids[0]:x}"

    @property
    def can_go_on(self) -> bool:
        """Are the survivors still in one job? Not after abort(), nor in a process that the others went on without."""
        error = self.error
        return not self.is_over and (error is None or bool(isinstance(error, MemberLostError) and error.lost))

    def gather(self, size: int, limit_s: float) -> dict[int, int]:
        """Make the next communicator; return its ranks by those before. Raises as :meth:`Communicator.close` does."""
        before: list[tuple[int, ...]] = []
        work = GroupWork("gathering the members", None, limit_s + _SHUTDOWN_S)
        self._thread.add(work, lambda: before.append(self._communicator.close(self.rank, size, limit_s))).wait()
        self.rank, self.size = self._communicator.rank, self._communicator.size
        return {old: new for new, old in enumerate(before[0]) if old >= 0}

    def call(self, work: GroupWork, parts: Callable[[], Sequence[Part]], done: Callable[[], None]) -> GroupWork:
        """Hand over one operation: `parts` is called when its turn comes, `done` when it is through."""

        def make() -> None:
            self._communicator.operate(work.what, parts())
            done()

        return self._thread.add(work, make)

    def abort(self, why: str = "abort() was called; call init_process_group() again") -> None:
        """End every pending call, and the membership without goodbye."""
        self._thread.abort(AbortedError(why))
        self._end("the group was aborted", self._communicator.abandon)

    def leave(self) -> None:
        """Leave the job, once the calls handed over have ended."""
        self._end("the group was shut down", self._communicator.leave)

    def _end(self, why: str, end: Callable[[], None]) -> None:
        self.is_over = True
        try:
            work = self._thread.add(GroupWork(why, None, _SHUTDOWN_S), end)
        except AbortedError:
            return
        self._thread.close()
        work.wait()
        self._thread.join(_SHUTDOWN_S)


class SoloDispatcher:
    """A dispatcher of one: nothing travels."""

    rank, size = 0, 1
    error: Optional[GroupError] = None

    def gather(self, *_: Any) -> dict[int, int]:
        """No member is lost."""
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
        """There is no job to leave."""
