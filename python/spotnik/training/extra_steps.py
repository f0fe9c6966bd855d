# SPDX-License-Identifier: Apache-2.0
"""Extra steps of a program's loop: an iteration is one step, and one more for each other thing that it averages.

A newcomer may come between these. It has the state of the middle of an iteration, and its program stands at the head
of the loop. So the replica holds what the extra steps of an iteration consist of. The newcomer takes those that are
left by itself, contributing nothing, as many as the iteration before had; then its program begins with the others. If
the others do something else in this iteration, it ends with a mismatch: extra steps have a bucket of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import arrays
from .._native import Dtype, Op
from .buckets import Bucket
from .neutral import start_neutral
from .replica import Replica

if TYPE_CHECKING:
    from ..job import Job, Step
    from .memory import Array

_STEPS, _BUCKETS = 16, 6  # of an iteration, and of an extra step of it, that a newcomer can take
_UNKNOWN = -1


class ExtraSteps:
    """The extra steps of `replica`'s iterations."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._table = np.zeros((_STEPS, 1 + 3 * _BUCKETS), dtype=np.int64)
        replica.control.extra = _UNKNOWN  # before the first iteration
        replica.after_join.append(self._register)

    def _register(self, job: Job) -> None:
        arrays.register("spotnik.extra_steps", self._table, job)

    def next(self) -> None:
        """An iteration is about to begin."""
        control = self._replica.control
        control.extra_before, control.extra = control.extra, 0

    def note(self, vectors: Sequence[tuple[Array, str]]) -> int:
        """An extra step is about to begin: note what travels in it. Returns its number in the iteration."""
        control = self._replica.control
        number = control.extra = control.extra + 1
        if number <= _STEPS:
            row = self._table[number - 1]
            known = len(vectors) <= _BUCKETS and all(one.dtype.name in arrays.TYPES for one, _ in vectors)
            row[0] = len(vectors) if known else _UNKNOWN
            for place, (one, op) in enumerate(vectors if known else ()):
                row[1 + 3 * place : 4 + 3 * place] = one.size, arrays.TYPES[one.dtype.name], Op[op.upper()]
        return number

    @property
    def is_next(self) -> bool:
        """Are the others in the middle of an iteration?"""
        return self._replica.control.extra > 0

    def take(self, step: Step) -> None:
        """Take the running extra step without the program. Leave and join again where its contents are unknown."""
        replica, control = self._replica, self._replica.control
        number, last = control.extra, control.extra_before
        if last == _UNKNOWN or number > _STEPS or self._table[number - 1, 0] == _UNKNOWN:
            replica.rejoin()
            return
        job = replica.membership.open_job
        replica.decline()
        if not step.replay:
            job.weight_set(0)
        row = self._table[number - 1].tolist()
        for place in range(row[0]):
            size, dtype, op = row[1 + 3 * place : 4 + 3 * place]
            start_neutral(job, place, size, Dtype(dtype), Op(op))
        if replica.commit(totals=Bucket.EXTRA_TOTALS) and number < last:
            control.extra = number + 1
        else:
            self.next()

    def finish(self, vectors: Sequence[tuple[Array, str]]) -> bool:
        """Finish the running step, an extra one, with the reductions of `vectors` in place."""
        self._replica.decline()
        for place, (one, op) in enumerate(vectors):
            arrays.start(one, op, place, self._replica.job)
        return self._replica.commit(totals=Bucket.EXTRA_TOTALS)
