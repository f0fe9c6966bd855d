# SPDX-License-Identifier: Apache-2.0
"""An accelerator as a table: streams whose work is done late, in any order between them, and may fail.

Its memory is PyTorch's in the host. The program's stream is one of them; `eager` does its work at once, for programs
that compute on the CPU, and a wait on it then has the other streams come so far.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Optional

import torch


class Event:
    def __init__(self, device: FakeDevice) -> None:
        self.done = False
        self.error: Optional[BaseException] = None
        self._device = device

    def synchronize(self) -> None:
        self._device.run_until(self)
        if self.error is not None:
            raise self.error


class Stream:
    def __init__(self) -> None:
        self.items: deque[tuple[str, Callable[[], object], Optional[Event]]] = deque()
        self.error: Optional[BaseException] = None


class FakeDevice:
    def __init__(self, seed: int, eager: bool = False) -> None:
        self._chance, self._eager = random.Random(seed), eager
        self._lock = threading.RLock()
        self._program = Stream()
        self._streams = [self._program]
        self.fail_after: Optional[int] = None  #: pieces of work
        self.pinned: set[int] = set()
        self.synchronised = 0  #: how often the host waited

    def stream(self) -> Stream:
        self._streams.append(Stream())
        return self._streams[-1]

    def run(self, stream: Optional[Stream], work: Callable[[], object]) -> None:
        self._give(stream, "run", work, None)

    def record(self, stream: Optional[Stream]) -> Event:
        event = Event(self)
        self._give(stream, "record", lambda: None, event)
        return event

    def wait(self, stream: Optional[Stream], event: Event) -> None:
        self._give(stream, "wait", lambda: None, event)

    def pin(self, memory: torch.Tensor) -> None:
        self.pinned.add(memory.data_ptr())

    def unpin(self, memory: torch.Tensor) -> None:
        self.pinned.remove(memory.data_ptr())

    def make_pinned(self, count: int) -> torch.Tensor:
        return torch.full((count,), 88, dtype=torch.uint8)

    def _give(self, stream: Optional[Stream], kind: str, work: Callable[[], object], event: Optional[Event]) -> None:
        with self._lock:
            to = stream or self._program
            to.items.append((kind, work, event))
            while to is self._program and self._eager and to.items:
                assert self._advance(), "the program waits for ever"
            for _ in range(self._chance.randrange(3)):
                self._advance()

    def _advance(self) -> bool:
        """Do the first piece of work of a stream that may go on; False: none may."""
        ready = [one for one in self._streams if one.items and (one.items[0][0] != "wait" or one.items[0][2].done)]
        if not ready:
            return False
        stream = self._chance.choice(ready)
        kind, work, event = stream.items.popleft()
        if kind == "run":
            self._work(stream, work)
        if kind == "record":
            event.done, event.error = True, stream.error
        return True

    def _work(self, stream: Stream, work: Callable[[], object]) -> None:
        if self.fail_after is not None:
            self.fail_after -= 1
            if self.fail_after < 0 and stream is not self._program:
                stream.error = RuntimeError("the copy failed")
                return
        work()

    def run_until(self, event: Event) -> None:
        with self._lock:
            self.synchronised += 1
            while not event.done:
                assert self._advance(), "the host waits for ever"
