# SPDX-License-Identifier: Apache-2.0
"""May a joiner repeat a step without the program's loop? Where the program does nothing but optimizer.step().

What the program does to gradients and parameters in a step is seen here. The answer is a number of the replica, and
travels with each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from ..watching import logger
from .control import Control

UNKNOWN, YES, NO = range(3)  #: values of :attr:`Control.repeats`


class Repeats:
    """What this member knows of its own program.

    `settings` are the numbers by which the program's optimisers apply a step. `versions` changes whenever a parameter
    is changed.
    """

    def __init__(
        self, control: Control, settings: Callable[[], list[object]], versions: Callable[[], int]
    ) -> None:
        self._control, self._settings, self._now = control, settings, versions
        self.touched = False  #: did the program change averages or parameters in this step?
        self.known = True  #: do we know what the program did after the last step?
        self._versions: Optional[int] = None  # of the parameters, after the loop took the last step
        self._committed: list[object] = []  # settings of the optimisers
        self._late: Optional[list[object]] = None  # those set after the commit, before the step was applied

    @property
    def allowed(self) -> bool:
        """May a joiner do so?"""
        return self._control.repeats == YES

    @property
    def refused(self) -> bool:
        """Is it known that none may?"""
        return self._control.repeats == NO

    def committed(self) -> None:
        """A step was committed: settings count from here."""
        self._committed, self._late = self._settings(), None

    def received(self) -> None:
        """The state of others has come."""
        self.known, self._late = True, None

    def look(self, changed: bool) -> None:
        """The program applies a step; `changed`: it did something to the averages, or gave step() arguments."""
        settings = self._settings()
        if settings != self._committed:  # between backward() and step(): no joiner can repeat that alone
            self._late = settings
        if changed or self._late is not None:
            self.touched = True

    @property
    def has_parted(self) -> bool:
        """Were settings of the last step this member's own, and others than those of the senior member?"""
        return self._late is not None and self._settings() != self._late

    def applied(self) -> None:
        """The program's loop has applied a step."""
        self.known = True
        self.watch()

    def watch(self) -> None:
        """See from here whether the program changes parameters."""
        self._versions = self._now()

    @property
    def watches(self) -> bool:
        """Did the program's loop take the last step?"""
        return self._versions is not None

    def forget(self) -> None:
        """The last step was not taken by the loop."""
        self._versions = None

    def mark(self, number: int) -> None:
        """A step is about to begin: write down what was seen in step `number`."""
        if self._versions is None:
            return
        control = self._control
        if self.touched or self._now() != self._versions:
            if control.repeats == YES:
                logger.warning(
                    "the program changes gradients or parameters in a step for the first time in step %d; members "
                    "that join in this moment have to start again",
                    number,
                )
            control.repeats = NO
        elif control.repeats == UNKNOWN:
            control.repeats = YES
        self.touched, self._versions = False, None

    def learn(self, said: int) -> bool:
        """Take over what the members of a step said. False: a joiner repeated alone what it cannot."""
        if said != NO:
            return True
        was, self._control.repeats = self._control.repeats, NO
        return was != YES or self.known
