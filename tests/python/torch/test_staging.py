# SPDX-License-Identifier: Apache-2.0
"""Gradients of an accelerator on their way to the job and back, on a device whose streams are late (fake_device.py).

Claims: whatever the order of work, a bucket is handed over with this step's gradients, and the program that goes on
sees the averages; memory of one step is not changed by the next too early; a copy that fails is an error. Faults that
are planted in the staging are found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from fake_device import FakeDevice
from torch import nn

from spotnik.torch._buckets import Bucket, Slot, build
from spotnik.torch._staged_buckets import StagedBuckets
from spotnik.torch._staging import Staging
from spotnik.torch._wire import unpack

COUNTS = (5, 40, 3, 90, 7, 300)
SCHEDULES = 2_000  # of each seed; test_reach.py makes 10,000 of them. Ten times as many in long runs


class Mixed(Staging):
    small_bytes = 100  # two of the gradients are larger


class Program:
    """Its stream computes gradients and reads averages. An average is twice the gradient."""

    def __init__(self, seed: int, wire: str = "auto", kind: type[Staging] = Mixed) -> None:
        self.device = FakeDevice(seed)
        named = [(str(n), nn.Parameter(torch.zeros(count))) for n, count in enumerate(COUNTS)]
        self.buckets = build(named, bucket_mb=400 / (1 << 20), wire=wire)
        self.slots: list[Slot] = list(dict.fromkeys(part.slot for one in self.buckets for part in one.parts))
        self.gradients = {slot: torch.zeros_like(slot.parameter) for slot in self.slots}
        self.stage = kind(self.device, self._make, self._send)
        self.memory = StagedBuckets(self.buckets, self.stage)
        self.wrong: list[str] = []
        self.step = 0
        self.sent: dict[Bucket, torch.Tensor] = {bucket: torch.zeros(bucket.count) for bucket in self.buckets}

    def _make(self, bucket: Bucket) -> torch.Tensor:
        return torch.full((bucket.wire.size(bucket.count),), 77, dtype=torch.uint8)

    def value(self, slot: Slot) -> float:
        return 1.0 + self.step % 7 + 0.25 * self.slots.index(slot)

    def _send(self, bucket: Bucket, memory: torch.Tensor) -> None:
        """The job takes a bucket: on the thread of the staging."""
        if bucket.wire.is_packed:
            self.sent[bucket] += unpack(memory, bucket.count)
            return
        for part in bucket.parts:
            if not memory[part.offset : part.offset + part.count].eq(self.value(part.slot)).all():
                self.wrong.append(f"step {self.step}: bucket {bucket.number} was handed over too early")

    def run(self, steps: int, shows_early: bool = False) -> None:
        for _ in range(steps):
            self.step += 1
            self.memory.reset(counts=True)
            for bucket in self.buckets:
                for part in bucket.parts:
                    self._backward(part.slot)
                self.memory.start(bucket)
            if shows_early:
                self.memory.take_back(self.slots)
            self.memory.wait()
            if not self.buckets[0].wire.is_packed:
                for bucket in self.buckets:
                    self.stage.host(bucket).mul_(2)  # the commit
            if not shows_early:
                self.memory.take_back(self.slots)
            self.device.run(None, self._optimise(self.step))
        self.device.record(None).synchronize()

    def _backward(self, slot: Slot) -> None:
        gradient, value = self.gradients[slot], self.value(slot)
        self.device.run(None, lambda: gradient.fill_(value))
        self.memory.place(slot, gradient, may_lend=True)

    def _optimise(self, step: int) -> Callable[[], None]:
        expected = {slot: 2 * self.value(slot) for slot in self.slots}

        def look() -> None:
            for slot in self.slots if not self.buckets[0].wire.is_packed else ():
                if not slot.parameter.grad.eq(expected[slot]).all():
                    self.wrong.append(f"step {step}: the gradient of {slot.name} is not the average")

        return look


@pytest.mark.quick
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_every_order_of_work_gradients_leave_whole_and_averages_come_back(long_run: bool, seed: int) -> None:
    program, schedules = Program(seed), SCHEDULES * (10 if long_run else 1)
    assert sum(len(bucket.parts) for bucket in program.buckets) == len(COUNTS) > len(program.buckets) > 2
    program.run(schedules)
    assert not program.wrong
    assert program.device.synchronised <= (len(program.buckets) + 1) * schedules
    assert len(program.device.pinned) == len(program.buckets)
    program.memory.close()
    assert not program.device.pinned


class NoEvent(Mixed):
    def hand_over(self, bucket: Bucket) -> None:
        self._send(bucket, self.host(bucket))


class WrongStream(Mixed):
    def hand_over(self, bucket: Bucket) -> None:
        self._down, self._up = self._up, self._down
        super().hand_over(bucket)
        self._down, self._up = self._up, self._down


class BeforeBackward(Mixed):
    def outward(self, work: Callable[[], object]) -> None:
        self._device.run(self._down, work)


class OptimiserDoesNotWait(Mixed):
    def back(self, work: Callable[[], object]) -> None:
        self._device.wait(self._up, self._device.record(None))
        self._device.run(self._up, work)


class MemoryReusedEarly(Mixed):
    shared = torch.zeros(1 << 16, dtype=torch.uint8)

    def host(self, bucket: Bucket) -> torch.Tensor:
        return self.shared[: bucket.wire.size(bucket.count)].view(bucket.wire.torch_type)


@pytest.mark.quick
@pytest.mark.parametrize("fault", [NoEvent, WrongStream, BeforeBackward, OptimiserDoesNotWait, MemoryReusedEarly])
def test_a_planted_fault_is_found(fault: type[Staging]) -> None:
    program = Program(seed=2, kind=fault)
    program.run(200)
    assert program.wrong
    program.memory.close()


@pytest.mark.quick
def test_averages_that_are_shown_before_the_commit_are_found() -> None:
    program = Program(seed=3)
    program.run(50, shows_early=True)
    assert program.wrong


@pytest.mark.quick
def test_a_copy_that_fails_is_an_error_of_the_step() -> None:
    for after in range(0, 40, 3):
        program = Program(seed=after)
        program.device.fail_after = after
        with pytest.raises(RuntimeError, match="the copy failed"):
            program.run(20)
        assert not [line for line in program.wrong if "handed over" in line]


def test_what_rounding_took_away_is_sent_later() -> None:
    """As q8, the sum of what was sent follows the sum of the gradients: the residual stays below one rounding."""
    program = Program(seed=4, wire="q8")
    due: dict[Any, float] = dict.fromkeys(program.slots, 0.0)
    for _ in range(300):
        program.run(1)
        for slot in program.slots:
            due[slot] += program.value(slot)
    for bucket in program.buckets:
        for part in bucket.parts:
            sent = program.sent[bucket][part.offset : part.offset + part.count]
            assert float((sent - due[part.slot]).abs().max()) < 0.1
    program.memory.close()


def test_a_step_in_which_this_member_weighs_nothing_leaves_the_residual() -> None:
    program = Program(seed=5, wire="q8")
    program.run(3)
    before = {bucket: one.clone() for bucket, one in program.memory._residuals.items()}
    program.memory.reset(counts=False)
    for bucket in program.buckets:
        for part in bucket.parts:
            program.memory.place(part.slot, torch.ones_like(part.slot.parameter), may_lend=True)
        program.memory.start(bucket)
    program.memory.wait()
    assert all(torch.equal(one, before[bucket]) for bucket, one in program.memory._residuals.items())
    program.memory.reset(counts=True)
    for bucket in program.buckets:
        program.memory.start_empty(bucket)
    program.memory.wait()
    assert all(torch.equal(one, before[bucket]) for bucket, one in program.memory._residuals.items())
    program.memory.close()
