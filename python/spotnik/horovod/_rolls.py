# SPDX-License-Identifier: Apache-2.0
"""Calls under ``elastic.run`` are two steps: a roll, in which members say what they are about to reduce, and the
reduction. What a roll said is part of the replica, so a newcomer can take both without the program (design/0031).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import arrays
from .._native import Dtype, Op
from ..hosting.turns import CODES, nothing

if TYPE_CHECKING:
    from ..hosting.memory import Array
    from ..job import Job

_BUCKETS = 4  # types that values travel as
_GATHER = 5
_GATHER_BUCKET = 253
ROOM = 1 + 4 * _BUCKETS
NOBODYS_ROW = -1  # the length that a row of allgather() has whose member is no caller


def of_reduction(vectors: Sequence[Array], op: str, halves: bool) -> Array:
    """What a reduction consists of, in ROOM numbers. `halves`: float32 travels as float16."""
    said = np.zeros(ROOM, np.int64)
    said[0] = len(vectors)
    for place, one in enumerate(vectors):
        as_half = halves and one.dtype == np.float32
        said[1 + 4 * place : 5 + 4 * place] = one.size, CODES[one.dtype], Op[op.upper()], as_half
    return said


def of_gathering(size: int) -> Array:
    """What an all-gather of `size` bytes of each member consists of."""
    said = np.zeros(ROOM, np.int64)
    said[:2] = _GATHER, size
    return said


def start_gathering(job: Job, mine: Array) -> Array:
    """Start an all-gather; returns where the rows will be."""
    rows = np.zeros((job.members_max, mine.size), np.uint8)
    arguments = (_GATHER_BUCKET, mine.ctypes.data, mine.size, Dtype.U8, rows.ctypes.data, len(rows))
    job.collective_start("spotnik_allgather", (mine, rows), *arguments)
    return rows


def start_nothing(job: Job, said: Array) -> None:
    """Start what `said` consists of, contributing nothing."""
    if said[0] == _GATHER:
        mine = np.zeros(said[1], np.uint8)
        mine[:8] = np.frombuffer(np.int64(NOBODYS_ROW).tobytes(), np.uint8)
        start_gathering(job, mine)
        return
    for place in range(int(said[0])):
        size, dtype, op, as_half = said[1 + 4 * place : 5 + 4 * place].tolist()
        arrays.start(nothing(size, Dtype(dtype), Op(op)), Op(op), place, job, "f16" if as_half else None)
