# SPDX-License-Identifier: Apache-2.0
"""The one training loop: a collective is a step, and a newcomer must be able to repeat it.

A job takes steps of several kinds: those of the training, and those beside it, in which members average further values,
agree on a pause, or hand over state. Which kind comes next follows from the numbers of ``control``, so that all
members begin the same one, a newcomer too. Here stands what each of them does for that, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..job import Step
from .membership import Membership


class Beside(Protocol):
    """Steps of one kind beside the training."""

    @property
    def is_next(self) -> bool:
        """Do the replica's numbers say that the next step of the job is one of these?"""

    def take(self, step: Step) -> None:
        """Take the step that has begun, without the program."""


class Steps:
    """The steps of one member.

    `ready` prepares the program's state for a begin, and joins the job where that was not done. `begun` sees each step
    and whether the state of others has come with it. `beside` has the other kinds of steps.
    """

    def __init__(
        self,
        membership: Membership,
        ready: Callable[[], object],
        begun: Callable[[Step, bool], object],
        beside: Sequence[Beside],
    ) -> None:
        self._membership = membership
        self._ready, self._begun, self._beside = ready, begun, beside

    def begin(self) -> Step:
        """Begin the next step of the training; takes those beside it that come before."""
        while True:
            step, _ = self.begin_any()
            beside = next((one for one in self._beside if one.is_next), None)
            if beside is None:
                return step
            beside.take(step)

    def begin_any(self) -> tuple[Step, bool]:
        """Begin the next step, of whatever kind. Returns it, and whether the state of others has come with it."""
        while True:
            self._ready()
            step, came = self._membership.begin(), self._membership.received()
            self._begun(step, came)
            if self._membership.job is not None:  # else a newcomer could not follow, and has retreated
                return step, came
