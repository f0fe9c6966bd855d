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
    """Let `scheduler` stay at its last value, instead of raising, once the job has lost somebody."""
    total, inner = getattr(scheduler, "total_steps", None), scheduler.step
    if not isinstance(total, int):
        return
    told = False

    def step(*args: Any, **kwargs: Any) -> None:
        nonlocal told
        if args or kwargs or scheduler.last_epoch < total - 1 or not has_losses():
            inner(*args, **kwargs)
        elif not told:  # after its last value it has none that were meant
            told = True
            log.info(
                "%s is at the end of its %d steps and stays there: what a member had that was lost in the last step of "
                "an epoch takes a step more",
                type(scheduler).__name__,
                total,
            )

    scheduler.step = step
