# SPDX-License-Identifier: Apache-2.0
"""Members that leave while others train on: a loop that ends by a number of its own ends at another step on each."""

from __future__ import annotations

from ..job import Job, Step
from ._log import log


class Leavers:
    """What this member has seen of members that left in good order. A notice makes them leave, too."""

    def __init__(self) -> None:
        self._size = 0  # of the job, in the last step of the training
        self._leaves = 0  # until it began
        self._told = False

    def look(self, job: Job, step: Step) -> None:
        """A step of the training has begun, so the others' loops go on: tell the program, once, who has left."""
        if self._told or step.replay or step.size == self._size:
            return
        leaves = job.status().leaves
        if step.size < self._size and leaves > self._leaves:
            self._told = True
            log.warning(
                "a member left in good order before step %d, and %d train on. Unless it had a notice its loop has "
                "ended before theirs, as one that stops early by its own loss does: a member's loss is that of its own "
                'share. Decide by what is the same on all members: prepare(..., metrics=("loss",)), '
                'spotnik.tell("loss", loss) before backward(), and if spotnik.told("loss") < limit: break; a number '
                'of an evaluation: prepare(..., pauses="epoch") and spotnik.allreduce()',
                step.number,
                step.size,
            )
        self._size, self._leaves = step.size, leaves
