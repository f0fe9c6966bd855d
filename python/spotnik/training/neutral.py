# SPDX-License-Identifier: Apache-2.0
"""What changes no result of a reduction: the part of a member that has nothing to give."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING

from .._native import Dtype, Op

if TYPE_CHECKING:
    from ..job import Job

_FORMATS = {
    Dtype.F32: "f",
    Dtype.F64: "d",
    Dtype.F16: "e",
    Dtype.U8: "B",
    Dtype.I8: "b",
    Dtype.I16: "h",
    Dtype.U16: "H",
    Dtype.I32: "i",
    Dtype.U32: "I",
    Dtype.I64: "q",
    Dtype.U64: "Q",
}


def neutral(count: int, dtype: Dtype, op: Op) -> bytearray:
    """The bytes of `count` elements. A mean also needs the weight 0."""
    return bytearray(_element(dtype, op) * count)


def _element(dtype: Dtype, op: Op) -> bytes:
    if dtype == Dtype.BF16:
        return _element(Dtype.F32, op)[2:]  # the upper half, of a little-endian machine
    kind = _FORMATS[dtype]
    bits = 8 * struct.calcsize(kind)
    if kind in "fde":
        least, most = float("-inf"), float("inf")
    elif kind.isupper():
        least, most = 0, 2**bits - 1
    else:
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return struct.pack(kind, {Op.PRODUCT: 1, Op.MIN: most, Op.MAX: least}.get(op, 0))


def start_neutral(job: Job, bucket: int, count: int, dtype: Dtype, op: Op) -> None:
    """Start the all-reduce of a bucket with nothing to give."""
    memory = array("B", neutral(count, dtype, op))
    job.allreduce_start(bucket, memory.buffer_info()[0], count, dtype, op, memory)
