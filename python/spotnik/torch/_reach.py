# SPDX-License-Identifier: Apache-2.0
"""Registered state in the memory of an accelerator, as the library reads and writes it: no copy of it is kept.

Parameters and moments change only in optimizer.step(). So the library copies them while the next forward and backward
passes run, on a thread of its own, and the commit before optimizer.step() waits for the rest. A stream beside the
program's copies to two blocks of pinned memory in turn, from which the thread takes what has come.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import threading
from collections.abc import Iterator
from typing import Any, Optional

import torch

from ._staging import Device, Event

BLOCK_BYTES = 16 << 20


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a dense tensor as bytes, in the order in which it lies."""
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8)


def _host(address: int, size: int) -> torch.Tensor:
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    return torch.frombuffer(memory, dtype=torch.uint8)


class Reach:
    """Tensors of one accelerator, one behind the other."""

    def __init__(self, device: Device, block_bytes: int = BLOCK_BYTES) -> None:
        self._device, self._block_bytes = device, block_bytes
        self._stream = device.stream()
        self._tensors: list[torch.Tensor] = []  # as bytes
        self._starts = [0]
        self._ring: list[torch.Tensor] = []
        self._lock = threading.Lock()  # of the ring: a joiner and a checkpoint may read at the same time
        self._complete: Optional[Event] = None

    def add(self, tensor: torch.Tensor) -> None:
        """Append a tensor."""
        self._tensors.append(_bytes_of(tensor))
        self._starts.append(self._starts[-1] + self._tensors[-1].numel())

    def mark(self) -> None:
        """The program's stream has been given all that makes the state what it is. On the program's thread."""
        self._complete = self._device.record(None)

    def read(self, offset: int, address: int, size: int) -> None:
        """Copy bytes of the state to host memory, after what the program's stream had been given at the mark."""
        out, under_way = _host(address, size), None
        with self._lock:
            self._begin()
            for number, (begin, end) in enumerate(self._blocks(size)):
                block = self._ring[number % 2]
                pieces = self._pieces(offset + begin, offset + end)
                self._device.run(self._stream, functools.partial(_gather, block, pieces))
                event = self._device.record(self._stream)
                if under_way is not None:
                    _take(*under_way)
                under_way = event, block, out[begin:end]
            if under_way is not None:
                _take(*under_way)

    def write(self, offset: int, address: int, size: int) -> None:
        """Copy bytes from host memory to the state; they are there when this returns."""
        came = _host(address, size)
        with self._lock:
            self._begin()
            for begin, end in self._blocks(size):
                block = self._ring[0]
                block[: end - begin].copy_(came[begin:end])
                pieces = self._pieces(offset + begin, offset + end)
                self._device.run(self._stream, functools.partial(_spread, pieces, block))
                self._device.record(self._stream).synchronize()

    def _begin(self) -> None:
        if not self._ring:
            self._ring = [self._device.make_pinned(self._block_bytes) for _ in range(2)]
        assert self._complete is not None
        self._device.wait(self._stream, self._complete)

    def _blocks(self, size: int) -> Iterator[tuple[int, int]]:
        for begin in range(0, size, self._block_bytes):
            yield begin, min(size, begin + self._block_bytes)

    def _pieces(self, begin: int, end: int) -> list[torch.Tensor]:
        """Views of bytes [begin, end) of the state."""
        pieces, at = [], bisect.bisect_right(self._starts, begin) - 1
        while begin < end:
            stop = min(end, self._starts[at + 1])
            pieces.append(self._tensors[at][begin - self._starts[at] : stop - self._starts[at]])
            begin, at = stop, at + 1
        return pieces


def _gather(block: torch.Tensor, pieces: list[torch.Tensor]) -> None:
    at = 0
    for piece in pieces:
        block[at : at + piece.numel()].copy_(piece, non_blocking=True)
        at += piece.numel()


def _spread(pieces: list[torch.Tensor], block: torch.Tensor) -> None:
    at = 0
    for piece in pieces:
        piece.copy_(block[at : at + piece.numel()], non_blocking=True)
        at += piece.numel()


def _take(event: Event, block: torch.Tensor, out: torch.Tensor) -> None:
    event.synchronize()
    out.copy_(block[: out.numel()])
