# SPDX-License-Identifier: Apache-2.0
"""Schedules that know their length, and a job that takes one step more than planned.

A loss adds no step to an epoch of data, but for one: what a member had in the last step of an epoch is made up for in a
step of its own. A schedule with a fixed number of steps would refuse that step, on all members at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger("spotnik.torch")


def hold_at_end(scheduler: Any, has_losses: Callable[[], bool]) -> None:
    """Let `scheduler` stay at its last value, instead of raising, once the job has lost a member.

    By its class and not by an attribute, which would be part of its state_dict().
    """
    total, kind = getattr(scheduler, "total_steps", None), type(scheduler)
    if not isinstance(total, int) or hasattr(kind, "spotnik_total"):
        return

    def step(self: Any, *args: Any, **kwargs: Any) -> None:
        if args or kwargs or self.last_epoch < total - 1 or not has_losses():
            kind.step(self, *args, **kwargs)
        else:  # after its last value it has none that were meant
            log.debug("%s is at the end of its %d steps and stays there", kind.__name__, total)

    def reduce(self: Any, _: Any) -> Any:
        """A file, and a copy, have the class that can be imported."""
        return kind.__new__, (kind,), self.__dict__

    members = {
        "step": step,
        "__reduce_ex__": reduce,
        "spotnik_total": total,
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
    }
    scheduler.__class__ = type(kind.__name__, (kind,), members)
