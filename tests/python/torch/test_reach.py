# SPDX-License-Identifier: Apache-2.0
"""State of an accelerator that the library copies beside the program, on a device whose streams are late.

Claims: whatever the order of work, a copy holds the state of the boundary it was begun at, whole; what is written is
there before the program computes with it; a copy that fails is an error. Faults that are planted are found.
"""

from __future__ import annotations

import ctypes

import pytest
import torch
from fake_device import FakeDevice

from spotnik.torch._reach import Reach

COUNTS = (5, 0, 40, 3, 900, 7, 300)
pytestmark = pytest.mark.quick
SCHEDULES = 4_000  # with test_staging.py 10,000; ten times as many in long runs


class Program:
    """An optimizer sets the whole state to the number of its step. Copies are begun at boundaries."""

    def __init__(self, seed: int, kind: type[Reach] = Reach, late: bool = False) -> None:
        self.device, self._late = FakeDevice(seed), late
        self.state = [torch.zeros(count, dtype=torch.uint8) for count in COUNTS if count]
        self.reach = kind(self.device, block_bytes=256)
        for tensor in self.state:
            self.reach.add(tensor)
        self.wrong = 0
        self.step = 0

    def _optimise(self) -> None:
        self.step += 1
        for tensor in self.state:
            self.device.run(None, lambda to=tensor, value=self.step % 250: to.fill_(value))

    def run(self, steps: int) -> None:
        size = sum(COUNTS)
        for number in range(steps):
            self._optimise()
            self.reach.mark()
            self.device.run(None, lambda: None)  # forward and backward
            boundary, begin = self.step % 250, number % 7
            if self._late:
                self._optimise()
            copy = (ctypes.c_uint8 * size)()
            self.reach.read(begin, ctypes.addressof(copy), size - begin)
            self.wrong += any(value != boundary for value in copy[: size - begin])
        self.device.record(None).synchronize()


def test_a_copy_is_the_state_of_its_boundary(long_run: bool) -> None:
    program = Program(seed=1)
    program.run(SCHEDULES * (10 if long_run else 1))
    assert not program.wrong


class BeforeItsEvent(Reach):
    def mark(self) -> None:
        if self._complete is None:
            super().mark()


class OneBlock(Reach):
    """The second copy goes to memory from which the first was not taken yet."""

    def _begin(self) -> None:
        super()._begin()
        self._ring = [self._ring[0], self._ring[0]]


@pytest.mark.parametrize(
    ("kind", "late"),
    [(BeforeItsEvent, False), (OneBlock, False), (Reach, True)],
    ids=["read before its event", "ring reused early", "optimizer before the snapshot"],
)
def test_a_planted_fault_is_found(kind: type[Reach], late: bool) -> None:
    program = Program(seed=2, kind=kind, late=late)
    if kind is OneBlock:  # what its blocks hold differs
        program.state[3].fill_(1)
        program._optimise = lambda: [t.copy_(torch.arange(t.numel()) % 250) for t in program.state]  # type: ignore
        program.reach.mark()
        size = sum(COUNTS)
        copy = (ctypes.c_uint8 * size)()
        program._optimise()
        for _ in range(200):
            program.reach.read(0, ctypes.addressof(copy), size)
            program.wrong += bytes(copy) != b"".join(bytes(t.tolist()) for t in program.state)
    else:
        program.run(200)
    assert program.wrong


def test_what_is_written_is_there_before_the_program_goes_on() -> None:
    program, size = Program(seed=3), sum(COUNTS)
    for step in range(300):
        program._optimise()
        program.reach.mark()
        came = (ctypes.c_uint8 * size)(*([step % 199 + 1] * size))
        program.reach.write(0, ctypes.addressof(came), size)
        ctypes.memset(came, 0, size)
        assert all(bool(tensor.eq(step % 199 + 1).all()) for tensor in program.state)


def test_a_copy_that_fails_is_an_error() -> None:
    for after in range(0, 20, 3):
        program = Program(seed=after)
        program.device.fail_after = after
        with pytest.raises(RuntimeError, match="the copy failed"):
            program.run(20)
        assert not program.wrong
