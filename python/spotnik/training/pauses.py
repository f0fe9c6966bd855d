# SPDX-License-Identifier: Apache-2.0
"""Pauses between steps of the training, in which members all-reduce numbers of the program's own: prepare(pauses=...).

Whether a pause is open is registered state, so every member knows what the next step of the job is about, a joiner
too. In an open pause two kinds of steps alternate, neither with samples:

    roll     each member says whether it calls allreduce(), and with what; when none does, the pause is closed
    values   what the callers gave, reduced; the others contribute nothing

Decides what such a step says, and nothing about when it is begun. docs/design/0015-python.md has the reasons.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Sequence
from typing import Optional, Protocol, Union

from .. import arrays
from .._native import Dtype, Op
from ..errors import ArgumentError, MismatchError
from ..job import Job, Step
from .buckets import GRADIENTS
from .control import Control
from .membership import Membership
from .neutral import start_neutral

When = Union[str, int, None]

CLOSED, OPEN, VALUES = range(3)  # values of Control.pause
EXCUSED, GOES_ON, CALLS = range(3)  # what a member says in a roll
_VALUES, _CALLERS = GRADIENTS[:2]
_TYPES = {kind: name for name, kind in arrays.TYPES.items()}


@dataclasses.dataclass(frozen=True)
class Row:
    """What a member says in a roll."""

    says: int
    rank: int
    what: tuple[int, int, int]


class Wish(Protocol):
    """One call of allreduce()."""

    @property
    def what(self) -> tuple[int, int, int]:
        """Count, type and operation: the same on all members that make the same call."""

    def start(self, job: Job, bucket: int, op: Op) -> None:
        """Send a copy of the value."""

    def accept(self, callers: int) -> None:
        """The copy is the result, to which `callers` members contributed."""


class Pauses:
    """Where the job stands between two steps of the training; the same on all members."""

    def __init__(
        self, when: When, control: Control, membership: Membership, excluded: Callable[[], object]
    ) -> None:
        known = when is None or when == "epoch" or (isinstance(when, int) and not isinstance(when, bool) and when > 0)
        if not known:
            raise ArgumentError(f'pauses is "epoch", or a number of steps of the training, 1 or more, not {when!r}')
        self.when = when
        self._control, self._membership, self._excluded = control, membership, excluded
        self._last = 0
        self.saw_step = False  #: did the program's loop take the last step of the training?

    @property
    def on(self) -> bool:
        """Does the program have pauses?"""
        return self.when is not None

    @property
    def is_next(self) -> bool:
        """Is the next step of the job one of a pause?"""
        return self._control.pause != CLOSED

    def plan(self, epoch: int, last: int) -> None:
        """A framework counts epochs of `epoch` steps, whatever losses add to an epoch of data, and `last` steps in all.

        So pauses at the ends of epochs are at those of the framework.
        """
        if self.when == "epoch":
            self.when = epoch
        self._last = last  # a Trainer evaluates there, too

    def number(self, step: Step) -> Step:
        """The step as the training counts."""
        return dataclasses.replace(step, number=self._control.trained + 1) if self.on else step

    def received(self) -> None:
        """The state is another's: whatever this member's loop took before, it did not take the last step of this."""
        self.saw_step = False

    def step_trained(self, shown: bool, is_end_of_epoch: bool) -> None:
        """A step of the training was committed; `shown`: the program's loop took it."""
        if not self.on:
            return
        self.saw_step = shown
        control = self._control
        control.trained += 1
        is_due = is_end_of_epoch if self.when == "epoch" else control.trained % int(self.when or 1) == 0
        if is_due or control.trained == self._last:
            control.pause = OPEN

    # ---- steps of a pause ----

    def take(self, step: Step) -> None:
        """Take the begun step of the job without a call of the program."""
        if self.answer(step, None) is None:
            self._excluded()

    def answer(self, step: Step, wish: Optional[Wish]) -> Optional[bool]:
        """Take the begun step of the job.

        Returns None when the others went on without this member; else whether `wish` has its result. Raises
        MismatchError on all members alike when they make different calls.
        """
        if self._control.pause == VALUES:
            return self._reduce(wish)
        says = CALLS if wish is not None else GOES_ON if self.saw_step else EXCUSED
        told = self._membership.gather([says, step.rank, *(wish.what if wish is not None else (0, 0, 0))])
        if told is None:
            return None
        self._decide([Row(says, rank, (count, dtype, op)) for says, rank, count, dtype, op in told], wish)
        return False

    def _decide(self, rows: Sequence[Row], wish: Optional[Wish]) -> None:
        """All members do so from the same rows."""
        callers = [row for row in rows if row.says == CALLS]
        if not rows:
            return  # all that had a say in it were lost
        _check(callers, [row for row in rows if row.says == GOES_ON])
        if wish is not None and (not callers or callers[0].what != wish.what):
            raise MismatchError(
                "this member calls spotnik.allreduce() where the others made another call, or none; call it at places "
                "that are the same on all members, counted by spotnik.step() and spotnik.epochs()"
            )
        control = self._control
        control.pause = VALUES if callers else CLOSED
        if callers:
            control.value_count, control.value_dtype, control.value_op = callers[0].what

    def _reduce(self, wish: Optional[Wish]) -> Optional[bool]:
        control, job = self._control, self._membership.open_job
        job.samples_decline()
        what = control.value_count, control.value_dtype, control.value_op
        if wish is not None and wish.what != what:
            wish = None
        callers, op = array("q", [int(wish is not None)]), Op.SUM if what[2] == Op.MEAN else Op(what[2])
        if wish is None:
            start_neutral(job, _VALUES, what[0], Dtype(what[1]), op)
        else:
            wish.start(job, _VALUES, op)
        job.allreduce_start(_CALLERS, callers.buffer_info()[0], 1, Dtype.I64, Op.SUM, callers)
        if not self._membership.commit():
            return None
        control.pause = OPEN
        if wish is None or not callers[0]:
            return False  # without callers in it, the caller asks again
        wish.accept(callers[0])
        return True


def _check(callers: Sequence[Row], others: Sequence[Row]) -> None:
    """MismatchError where the programs differ."""
    if callers and others:
        raise MismatchError(
            f"{_ranks(callers)} called spotnik.allreduce() and {_ranks(others)} went on with the training; make the "
            "same number of calls on all members in each pause"
        )
    odd = [row for row in callers if row.what != callers[0].what]
    if odd:
        raise MismatchError(
            f"{_ranks(odd)} gave spotnik.allreduce() another size, type or operation ({_words(odd[0])}) than rank "
            f"{callers[0].rank} ({_words(callers[0])}); make the same call on all members"
        )


def _ranks(rows: Sequence[Row]) -> str:
    return f"rank{'s' if len(rows) > 1 else ''} {', '.join(str(row.rank) for row in rows)}"


def _words(row: Row) -> str:
    count, dtype, op = row.what
    return f"{Op(op).name.lower()} of {count} {_TYPES[Dtype(dtype)]}"
