# SPDX-License-Identifier: Apache-2.0
"""Turns of a program's loop. A turn is one step, and one more for each other thing the program averages in it.

A newcomer may come between these: it has the state of the middle of a turn, and its program stands at the head of the
loop. So the replica holds what the further steps of a turn consist of. The newcomer takes those that are left of the
turn itself, contributing nothing, as many as the turn before had; then its program begins with the others. If the turn
differs from the one before, and what the newcomer does from what the others do, it ends with a mismatch: further steps
have a bucket of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arrays
from .._native import Dtype, Op
from .buckets import Bucket
from .replica import EXTRA, LAST, Replica

if TYPE_CHECKING:
    from ..job import Job
    from .memory import Array

_STEPS, _BUCKETS = 16, 6  # of a turn, and of a further step of it, that a newcomer can take
_UNKNOWN = -1
_TYPES = {
    getattr(Dtype, name): np.dtype(kind)
    for name, kind in {
        "F32": np.float32,
        "F64": np.float64,
        "F16": np.float16,
        "U8": np.uint8,
        "I8": np.int8,
        "I16": np.int16,
        "U16": np.uint16,
        "I32": np.int32,
        "U32": np.uint32,
        "I64": np.int64,
        "U64": np.uint64,
    }.items()
}
CODES = {kind: code for code, kind in _TYPES.items()}  #: of types that a newcomer can take part in


class ExtraSteps:
    """The further steps of `replica`'s turns."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._table = np.zeros((_STEPS, 1 + 3 * _BUCKETS), dtype=np.int64)
        replica.control[EXTRA] = _UNKNOWN  # before the first turn
        replica.after_join.append(self._register)

    def _register(self, job: Job) -> None:
        arrays.register("spotnik.extra_steps", self._table, job)

    def next(self) -> None:
        """A turn is about to begin."""
        control = self._replica.control
        control[LAST], control[EXTRA] = control[EXTRA], 0

    def note(self, vectors: Sequence[tuple[Array, str]]) -> int:
        """A further step is about to begin: note what travels in it. Returns its number in the turn."""
        control = self._replica.control
        control[EXTRA] += 1
        number = int(control[EXTRA])
        if number <= _STEPS:
            row = self._table[number - 1]
            known = len(vectors) <= _BUCKETS and all(one.dtype in CODES for one, _ in vectors)
            row[0] = len(vectors) if known else _UNKNOWN
            for place, (one, op) in enumerate(vectors if known else ()):
                row[1 + 3 * place : 4 + 3 * place] = one.size, CODES[one.dtype], Op[op.upper()]
        return number

    def pass_on(self) -> bool:
        """Take the running step, a further one, without the program. False: what travels in it is not known.

        The next step has begun then, or the turn is over.
        """
        replica = self._replica
        assert replica.job is not None
        number = int(replica.control[EXTRA])
        step, last = replica.step, int(replica.control[LAST])
        if last == _UNKNOWN or number > _STEPS or self._table[number - 1, 0] == _UNKNOWN:
            return False
        replica.decline()
        assert step is not None
        if not step.replay:
            replica.job.weight_set(0)
        row = self._table[number - 1].tolist()
        for place in range(row[0]):
            size, dtype, op = row[1 + 3 * place : 4 + 3 * place]
            arrays.start(nothing(size, Dtype(dtype), Op(op)), Op(op), place, replica.job)
        if replica.commit(totals=Bucket.EXTRA_TOTALS) and number < last:
            replica.control[EXTRA] = number + 1
            replica.begin()
        else:
            self.next()
        return True

    def finish(self, vectors: Sequence[tuple[Array, str]]) -> bool:
        """Finish the running step, a further one, with the reductions of `vectors` in place."""
        assert self._replica.job is not None
        self._replica.decline()
        for place, (one, op) in enumerate(vectors):
            arrays.start(one, op, place, self._replica.job)
        return self._replica.commit(totals=Bucket.EXTRA_TOTALS)


def nothing(size: int, dtype: Dtype, op: Op) -> Any:
    """What changes no result of `op`."""
    made = np.ones(size, _TYPES[dtype]) if op == Op.PRODUCT else np.zeros(size, _TYPES[dtype])
    if op in (Op.MIN, Op.MAX):
        limits = np.iinfo(made.dtype) if made.dtype.kind in "iu" else np.finfo(made.dtype)
        made[:] = limits.max if op == Op.MIN else limits.min
    return made
