# SPDX-License-Identifier: Apache-2.0
"""The membership of this process in a job: the handle of the library, its rules of use, and its end.

Decides about lifetimes, threads, signals, forks and the end of the interpreter. Steps and state are those of ``job``.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Callable, Generic, Optional, Protocol, TypeVar

from . import _native, errors
from .config import Config
from .errors import ClosedError, ForkError, StateError

_INTERRUPT_S = 5.0  # how long an interrupted call may take to come back

Result = TypeVar("Result")


class Closable(Protocol):
    """What lives no longer than its job."""

    def close(self) -> None:
        """Let go of everything."""


_handles: weakref.WeakSet[Handle] = weakref.WeakSet()


class Handle:
    """The part of a :class:`spotnik.Job` that holds the handle."""

    def __init__(self, config: Optional[Config] = None) -> None:
        self.config = config if config is not None else Config()
        self._handle: Optional[int] = None
        self._leaving: Optional[int] = None  # the handle within leave(), which asks for the state a last time
        self._over = ""  # why there is no job any more
        self._forked = False
        self._life = threading.RLock()  # guards _handle against the end of the job
        self._busy = threading.Lock()  # one call at a time
        self._refreshing: Optional[int] = None  # thread in which the refresh callback runs
        self._closables: weakref.WeakSet[Closable] = weakref.WeakSet()
        self._library = _native.load()
        _handles.add(self)

    # ---- the end ----

    def notice(self) -> None:
        """Ask to leave: the next :meth:`step_begin` raises LeavingError. Any thread, signal handlers too."""
        with self._life:
            if self._handle is not None and not self._forked:
                self._library.spotnik_notice(self._handle)

    def leave(self) -> None:
        """Leave the job: wait until all members that need the last committed step have it, say goodbye.

        Does nothing when the job has ended before. Raises ParkedError when it had to go without agreement, and
        LeavingError when so after a notice: uncaught, that ends the program with 75, as a notice does.
        """
        if self._forked or self._handle is None:
            return
        with Alone(self):
            code = self._part("this member has left the job")
            self._raise_refresh_error()
            self.check(code)

    def abandon(self) -> None:
        """End the membership at once, without goodbye: to the others this member is lost. For error paths."""
        if self._forked or self._handle is None:
            return
        with Alone(self):
            self._library.spotnik_abandon(self._end("this member has abandoned the job"))

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not self._forked:
            self._handle = None
            self._library.spotnik_abandon(handle)

    # ---- for the modules of this package ----

    def call(self, function: str, *arguments: object) -> None:
        """Call a function of the library whose first argument is the job. Raises what its result means."""
        with Alone(self):
            self.check(getattr(self._library, function)(self._job(), *arguments))

    def check(self, code: int) -> None:
        """Raise what `code` means, unless it is 0. On the thread that made the call."""
        if code:
            meaning = self._library.spotnik_strerror(code).decode()
            raise errors.from_code(code, meaning, self._library.spotnik_last_error().decode(errors="replace"))

    def at_end(self, closable: Closable) -> None:
        """Have `closable` closed before the membership ends, unless it is gone by then."""
        self._closables.add(closable)

    def check_usable(self) -> None:
        """Raise ForkError or ClosedError where this job has ended for this process."""
        if self._forked:
            raise ForkError(
                "this job belongs to the parent process and cannot be used after a fork; join a job in the child "
                "itself, or keep spotnik out of it (data loaders' workers need none)"
            )
        if self._over:
            raise ClosedError(f"{self._over}; make a new spotnik.Job to take part again")

    @property
    def joined(self) -> bool:
        """Between :meth:`join` and the end of the membership, in the process that joined."""
        return self._handle is not None and not self._forked

    # ---- inside ----

    def _job(self) -> int:
        if self._leaving is not None and self._refreshing == threading.get_ident():
            return self._leaving
        self.check_usable()
        if self._handle is None:
            raise StateError("not a member yet; call join() first")
        return self._handle

    def _aside(self, call: Callable[[], Result]) -> Result:
        """Make a call that the library does not cut short on a thread of its own, so that signals are seen meanwhile.

        An interrupt asks the library to come back, and ends the job if it was not joined yet.
        """
        if threading.current_thread() is not threading.main_thread():
            return call()
        aside = CallAside(call)
        try:
            aside.done.wait()
        except BaseException:
            if self._handle is None:
                self._over = "joining was interrupted"
            self.notice()
            aside.done.wait(_INTERRUPT_S)
            raise
        return aside.value()

    def _ended(self) -> None:
        """There is no handle any more."""

    def _refreshed(self) -> bool:
        """Is the state that the last checkpoint copies up to date?"""
        return True

    def _raise_refresh_error(self) -> None:
        """Raise what the refresh callback has raised."""

    @property
    def _in_step(self) -> bool:
        """Has a step begun that is not committed yet?"""
        return False

    def _end(self, why: str) -> int:
        for closable in list(self._closables):
            closable.close()
        with self._life:
            handle = self._job()
            self._handle, self._over = None, why
            self._ended()
            return handle

    def _part(self, why: str) -> int:
        """Leave. The handle is gone for all but the refresh callback, whose copy goes into the last checkpoint."""
        between = not self._in_step
        self._leaving = self._end(why)
        try:
            if between and not self._refreshed():  # no checkpoint is better than one of older numbers
                self._library.spotnik_abandon(self._leaving)
                return 0
            return int(self._library.spotnik_leave(self._leaving))
        finally:
            self._leaving = None

    def _forget(self) -> None:
        """In a forked child: threads and connections stayed with the parent."""
        self._forked = True
        self._life = threading.RLock()
        self._busy = threading.Lock()

    def _finish(self) -> None:
        """At the end of the interpreter: goodbye between steps; in the middle of one the others must do without us."""
        if self._handle is None or self._forked or not self._busy.acquire(blocking=False):
            return
        why = "the interpreter is ending"
        if self._in_step:
            self._library.spotnik_abandon(self._end(why))
        else:
            self._part(why)


class Alone:
    """One call at a time: a second thread gets an error instead of breaking the job. A refresh is part of its call."""

    def __init__(self, job: Handle) -> None:
        self._busy = job._busy
        self._inside = job._refreshing == threading.get_ident()

    def __enter__(self) -> None:
        if not self._inside and not self._busy.acquire(blocking=False):
            raise StateError("another call on this job is under way; make all calls from one thread at a time")

    def __exit__(self, *_: object) -> None:
        if not self._inside:
            self._busy.release()


class CallAside(Generic[Result]):
    """A call on a thread of its own, with its result."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._result: list[Result] = []
        self._error: Optional[BaseException] = None
        self.done = threading.Event()
        threading.Thread(target=self._run, name="spotnik", daemon=True).start()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:
            self._error = error
        finally:
            self.done.set()

    def value(self) -> Result:
        """What the call returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._result[0]


def all_handles() -> list[Handle]:
    """Return every membership of this process, joined or not."""
    return list(_handles)


def _after_fork() -> None:
    for job in list(_handles):
        job._forget()


def _at_exit() -> None:
    for job in list(_handles):
        job._finish()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
