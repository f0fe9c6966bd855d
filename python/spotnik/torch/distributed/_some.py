# SPDX-License-Identifier: Apache-2.0
"""A group of some members of a circle: its all-reduces are made of letters, by a thread of its own.

Members combine in order of rank, so all have the same bits. Nothing commits: a loss may leave the result on one member
and an error on another.
"""

from __future__ import annotations

import queue
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Optional

import torch

from ..._native import Op
from ._circle import Part
from ._errors import AbortedError, CallMismatchError, GroupError
from ._memory import bytes_from, combine, table_part, view_of
from ._post import Letter, Post
from ._work import Errands, GroupWork

if TYPE_CHECKING:
    from ._crew import Crew

__all__ = ["Some"]

_WHOLE_BYTES = 32 << 10  # smaller all-reduces travel whole, which is one exchange instead of two


class Some:
    """The members of `crew` that have `ranks` there; `box` names the group on all of them."""

    def __init__(self, crew: Crew, ranks: Sequence[int], box: int) -> None:
        assert crew.post is not None
        self._crew, self._post, self._circle = crew, crew.post, crew.circle
        self._ranks, self._box = list(ranks), box
        self._calls = 0
        self._broken: Optional[GroupError] = None
        self._errands = Errands("spotnik-some")
        self.rank, self.size = self._ranks.index(crew.rank), len(self._ranks)
        crew.keep(self)

    @property
    def error(self) -> Optional[GroupError]:
        """Why calls are refused; None: they are taken."""
        if self._crew.is_over or self._crew.circle != self._circle or self._crew.post is not self._post:
            return AbortedError("reconfigure() has ended this group; make it again with new_group()")
        return self._broken or self._crew.error

    @property
    def letters(self) -> tuple[Post, int, Sequence[int]]:
        """What carries send and recv: the post, the box of this group, and the ranks there by those here."""
        return self._post, self._box, self._ranks

    def call(self, work: GroupWork, parts: Callable[[], Sequence[Part]], done: Callable[[], None]) -> GroupWork:
        """Hand over one operation: `parts` is called when its turn comes, `done` when it is through."""

        def make() -> None:
            if self.error is not None:
                raise self.error
            todo = parts()
            try:
                for part in todo or [_nothing()]:
                    self._all_reduce(work.what, part)
            except CallMismatchError as error:
                self._broken = error
                raise
            done()

        if self.error is not None:
            raise self.error
        return self._errands.add(work, make)

    def _all_reduce(self, what: str, part: Part) -> None:
        whole = part.owner
        assert isinstance(whole, torch.Tensor)
        if whole.nbytes <= _WHOLE_BYTES:
            whole.copy_(self._combined(f"{what} {whole.nbytes}", [whole] * self.size, part.op))
            return
        what = f"{what} {whole.nbytes}"
        pieces = list(whole.reshape(-1).tensor_split(self.size))
        mine = self._combined(what, pieces, part.op)
        for piece, told in zip(pieces, self._exchange(what, [mine] * self.size)):
            piece.view(torch.uint8).copy_(told)

    def _combined(self, what: str, pieces: Sequence[torch.Tensor], op: Op) -> torch.Tensor:
        """Our piece, of all members."""
        mine = pieces[self.rank]
        told = self._exchange(what, [piece.clone() for piece in pieces])
        return combine([one.view(mine.dtype).reshape(mine.shape) for one in told], op)

    def _exchange(self, what: str, pieces: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Send each member its piece, and return theirs for us, as bytes. Nobody changes the pieces afterwards."""
        self._calls += 1
        call = zlib.crc32(what.encode())
        come: queue.SimpleQueue[tuple[Optional[GroupError], Optional[Letter]]] = queue.SimpleQueue()
        for rank in self._others():
            self._post.send(self._ranks[rank], ~self._box, self._calls, view_of(pieces[rank]), call)
        for rank in self._others():
            self._post.take(self._ranks[rank], ~self._box, self._calls, lambda *said: come.put(said))
        told = {self._ranks[self.rank]: pieces[self.rank].reshape(-1).view(torch.uint8)}
        for _ in self._others():
            error, letter = come.get()
            if error is not None:
                raise error
            assert letter is not None
            if letter.number != call:
                raise CallMismatchError("the members of this group made different calls, or in another order")
            told[letter.source] = bytes_from(letter.data)
        return [told[rank] for rank in self._ranks]

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def abort(self) -> None:
        """End every pending call of this group."""
        self._errands.abort(AbortedError("abort() was called; make the group again with new_group()"))

    def leave(self) -> None:
        """Take no more calls."""
        self._errands.close()


def _nothing() -> Part:
    """A barrier: one byte of each."""
    return table_part(torch.zeros(1, dtype=torch.uint8))
