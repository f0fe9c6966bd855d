# SPDX-License-Identifier: Apache-2.0
"""What travels or lies in a folder beside registered memory: JSON, and the bytes of arrays behind it. No pickle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Union

from .errors import StateError

_LENGTH_BYTES = 8  # of the JSON, at the beginning

Bytes = Union[bytes, bytearray, memoryview]


def pack(told: Any, buffers: Sequence[Bytes]) -> bytearray:
    """`told`, which must be JSON, and `buffers` behind it."""
    header = json.dumps([told, [len(one) for one in buffers]]).encode()
    packed = bytearray(len(header).to_bytes(_LENGTH_BYTES, "little") + header)
    for one in buffers:
        packed += one
    return packed


def unpack(data: Bytes) -> tuple[Any, list[memoryview]]:
    """What :func:`pack` was given. StateError: these are no such bytes."""
    view = memoryview(data)
    at = _LENGTH_BYTES + int.from_bytes(view[:_LENGTH_BYTES], "little")
    try:
        told, sizes = json.loads(bytes(view[_LENGTH_BYTES:at]))
        if at + sum(sizes) != len(view) or any(size < 0 for size in sizes):
            raise ValueError(f"{len(view)} bytes in place of {at + sum(sizes)}")
    except (ValueError, TypeError) as error:
        raise StateError(f"the state of another member is damaged: {error}; start this member again") from None
    buffers = []
    for size in sizes:
        buffers.append(view[at : at + size])
        at += size
    return told, buffers
