# SPDX-License-Identifier: Apache-2.0
"""Calls under way: one thread makes them in their order, and each has a Work to wait for."""

from __future__ import annotations

import queue
import threading
from datetime import timedelta
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist

from ._errors import AbortedError, GroupError, WaitError

__all__ = ["CallThread", "GroupWork"]


class GroupWork(dist._Work):
    """One call. ``wait`` raises what the call raised; so does the future, as RuntimeError where C++ waits for it."""

    def __init__(self, what: str, result: Any, limit_s: float) -> None:
        super().__init__()
        self.what = what
        self._limit_s = limit_s
        self._result = result
        self._done = threading.Event()
        self._error: Optional[BaseException] = None
        self._lock = threading.Lock()
        self._start: torch.futures.Future[None] = torch.futures.Future()
        self._future = self._start.then(self._outcome)

    def _outcome(self, _future: object) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def finish(self, error: Optional[BaseException] = None) -> None:
        """The call has ended. Only the first end counts."""
        with self._lock:
            if self._done.is_set():
                return
            self._error = error
            self._done.set()
        self._start.set_result(None)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Wait for the end of the call. WaitError: it has not ended in time, and may yet."""
        limit_s = timeout.total_seconds() if timeout is not None and timeout > timedelta(0) else self._limit_s
        if not self._done.wait(limit_s):
            raise WaitError(f"{self.what} has not ended after {limit_s:g} s; a rank may not have made the call")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        return self._done.is_set()

    def is_success(self) -> bool:
        return self._done.is_set() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> Any:
        """The tensors of the call, once it has ended."""
        self.wait()
        return self._result

    def get_future(self) -> torch.futures.Future[Any]:
        return self._future


class CallThread:
    """A thread that makes calls in the order in which they were handed over."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[Optional[tuple[GroupWork, Callable[[], None]]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pending: set[GroupWork] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, work: GroupWork, call: Callable[[], None]) -> GroupWork:
        """Make `call` when those before it have ended; `work` ends with it."""
        with self._lock:
            if self._closed:
                raise AbortedError(f"{work.what}: the group was shut down; call init_process_group() again")
            self._pending.add(work)
            self._queue.put((work, call))
        return work

    def abort(self, error: GroupError) -> None:
        """End what is under way or waits, for those who wait for it."""
        with self._lock:
            pending = list(self._pending)
        for work in pending:
            work.finish(error)

    def close(self) -> None:
        """Take no more calls, and end when those handed over have ended."""
        with self._lock:
            self._closed = True
            self._queue.put(None)

    def join(self, limit_s: float) -> bool:
        """Wait for the end of the thread. True: it has ended."""
        if self._thread is not threading.current_thread():
            self._thread.join(limit_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            work, call = entry
            error: Optional[BaseException] = None
            try:
                if not work.is_completed():
                    call()
            except BaseException as caught:
                error = caught
            with self._lock:
                self._pending.discard(work)
            work.finish(error)
            del work, call, entry
