# SPDX-License-Identifier: Apache-2.0
"""Staging through host memory without an accelerator: streams and events whose work is done when it is waited for.

Shows that no bucket is handed out before its copy is complete, and that what comes back waits for both sides. That CUDA
keeps the same rules is for a machine that has it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Optional

import pytest
import torch

from spotnik.torch import _staging


class Stream:
    """Work in order, done when somebody waits for it."""

    def __init__(self, device: object = None) -> None:
        self.work: list[Callable[[], object]] = []

    def run(self, upto: Optional[int] = None) -> None:
        upto = len(self.work) if upto is None else upto
        for number in range(upto):
            work, self.work[number] = self.work[number], lambda: None
            work()

    def wait_stream(self, other: Stream) -> None:
        mark = len(other.work)
        self.work.append(lambda: other.run(mark))


class Event:
    def __init__(self) -> None:
        self.done = False
        self.stream, self.mark = Stream(), 0

    def record(self, stream: Stream) -> None:
        self.stream = stream
        stream.work.append(lambda: setattr(self, "done", True))
        self.mark = len(stream.work)

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.stream.run(self.mark)


class Device:
    """The part of torch.cuda that staging uses."""

    def __init__(self) -> None:
        self.program = Stream()
        self.present = self.program

    def current_stream(self, device: object = None) -> Stream:
        return self.present

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.present = self.present, stream
        yield
        self.present = before


class Flat:
    """Device memory: copies are work of the present stream."""

    device = "cuda:0"

    def __init__(self, device: Device, values: torch.Tensor) -> None:
        self.on, self.values = device, values
        self.shape, self.dtype = values.shape, values.dtype

    def copy_(self, other: torch.Tensor, non_blocking: bool) -> None:
        assert non_blocking
        self.on.present.work.append(lambda: self.values.copy_(other))


class Host:
    """Pinned memory; a copy of device memory into it is work of the present stream."""

    def __init__(self, *shape: Any, **settings: Any) -> None:
        assert settings.pop("pin_memory")
        self.values = torch.full(*shape, -1.0, **settings)

    def copy_(self, other: Flat, non_blocking: bool) -> None:
        assert non_blocking
        other.on.present.work.append(lambda: self.values.copy_(other.values))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    monkeypatch.setattr(_staging.torch.cuda, "Stream", Stream)
    monkeypatch.setattr(_staging.torch.cuda, "Event", Event)
    monkeypatch.setattr(_staging.torch.cuda, "current_stream", device.current_stream)
    monkeypatch.setattr(_staging.torch.cuda, "stream", device.stream)
    monkeypatch.setattr(_staging.torch, "empty", Host)
    return device


def staging(device: Device, count: int) -> _staging.Staging:
    flats = [Flat(device, torch.zeros(4)) for _ in range(count)]
    return _staging.Staging(flats)  # type: ignore[arg-type]


def backward(device: Device, flat: Any, value: float) -> None:
    """The gradient is computed on the program's stream, some time."""
    device.program.work.append(lambda: flat.values.fill_(value))


def test_a_bucket_is_handed_out_when_backward_and_copy_are_done(device: Device) -> None:
    stage = staging(device, 2)
    for number in (1, 0):
        backward(device, stage.device[number], 10.0 + number)
        stage.fetch(number)
    assert stage.fetched() == []
    handed: list[int] = []
    while ready := stage.fetched(wait=True):
        (number,) = ready
        assert stage.host[number].values.tolist() == [10.0 + number] * 4
        handed.append(number)
        if len(handed) == 1:  # the second copy goes on while the first bucket travels
            assert stage.host[0].values.tolist() == [-1.0] * 4
    assert handed == [1, 0]
    assert stage.fetched() == []


def test_what_is_complete_is_told_once_without_waiting(device: Device) -> None:
    stage = staging(device, 3)
    for number in range(3):
        backward(device, stage.device[number], number)
        stage.fetch(number)
    stage._stream.run(4)  # wait, copy, event of the first; and the wait of the second
    assert stage.fetched() == [0]
    assert stage.fetched() == []
    stage._stream.run()
    assert stage.fetched() == [1, 2]


def test_averages_are_on_the_device_before_the_program_goes_on(device: Device) -> None:
    stage = staging(device, 2)
    for number in range(2):
        stage.host[number].values.fill_(7.0 + number)
    stage.host = [host.values for host in stage.host]
    stage.put_back()
    seen: list[list[float]] = []
    device.program.work.append(lambda: seen.extend(flat.values.tolist() for flat in stage.device))  # the optimiser
    assert seen == []
    device.program.run()
    assert seen == [[7.0] * 4, [8.0] * 4]
