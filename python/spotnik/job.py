# SPDX-License-Identifier: Apache-2.0
"""The job as libspotnik knows it: join, steps, leave. Pointers and counts; arrays are ``arrays``' business.

Decides how C results become Python ones (exceptions, lifetimes, threads, signals, forks, the end of the interpreter)
and nothing of the protocol. Blocking calls release the interpreter lock, and signal handlers run while they wait.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Callable, Generic, Optional, Protocol, TypeVar

from . import _native, errors, views
from ._native import Dtype, Op
from .config import Config, fill, name_bytes, whole
from .errors import ArgumentError, ClosedError, DoneError, ForkError, StateError
from .views import BatchStatus, Change, CheckpointStatus, Member, Recovery, Status, Step

__all__ = [
    "BatchStatus",
    "Change",
    "CheckpointStatus",
    "Config",
    "Dtype",
    "Job",
    "Member",
    "Op",
    "Recovery",
    "Status",
    "Step",
    "leave_on_sigterm",
]

_MEMBERS_MAX = 1024
_PATIENCE_NS = 100_000_000  # between two looks at signals
_INTERRUPT_S = 5.0  # how long an interrupted call may take to come back
_AGAIN, _EXCLUDED, _PARKED = errors.AgainError.number, errors.ExcludedError.number, errors.ParkedError.number

_Result = TypeVar("_Result")


class Closable(Protocol):
    """What lives no longer than its job."""

    def close(self) -> None:
        """Let go of everything."""


_jobs: weakref.WeakSet[Job] = weakref.WeakSet()


class Job:
    """A job this process is, or will be, a member of.

    All calls come from one thread at a time, but for :meth:`notice`, :meth:`status` and `members`, which any thread may
    make. As a context manager it joins on entry, and leaves at the end, or abandons the job when an exception ends it.
    Iterating begins steps until the job is done::

        with spotnik.Job(config) as job:
            job.state_add("w", ...)
            for step in job:
                job.allreduce_start(...)
                if job.step_commit():
                    ...  # apply the result
    """

    def __init__(self, config: Optional[Config] = None) -> None:
        self.config = config if config is not None else Config()
        self._handle: Optional[int] = None
        self._over = ""  # why there is no job any more
        self._forked = False
        self._life = threading.RLock()  # guards _handle against the end of the job
        self._busy = threading.Lock()  # one call at a time
        self._state_owners: list[object] = []  # memory the library reads and writes until the end
        self._step_owners: list[object] = []  # ... until the commit
        self._refresh: object = None  # the callback, which the library holds
        self._refreshing: Optional[int] = None  # thread in which it runs
        self._refresh_error: Optional[BaseException] = None
        self._begun: Optional[Step] = None
        self._sync: Optional[int] = None  # the handle of a spotnik.Sync: steps are begun through it
        self._members_max = 0
        self._outside = True  # the next step_begin copies the state of others
        self._seen = (0, 0)  # epoch and size of the view of the last step
        self._watchers: list[Callable[[Change], object]] = []
        self._closables: weakref.WeakSet[Closable] = weakref.WeakSet()
        self._library = _native.load()
        _jobs.add(self)

    # ---- joining ----

    def join(self) -> None:
        """Find the job and get ready to join it, or found it. Does nothing when that was done before.

        The state of the others is copied by the first :meth:`step_begin`. Raises ArgumentError, PeersError,
        KeyFileError, JobNameError, VersionError, SystemCallError, LeavingError.
        """
        self.check_usable()
        if self._handle is not None:
            return
        native = _native.config_new(self._library)
        fill(native, self.config)
        with _Alone(self):
            self._handle = self._aside(lambda: self._join(native))
            self._members_max = native.members_max
            self._library.spotnik_patience_set(self._handle, _PATIENCE_NS)

    def state_add(self, name: str, pointer: int, count: int, dtype: Dtype, owner: object) -> None:
        """Register `count` elements at `pointer` as part of the replica: what a joiner receives.

        Before the first :meth:`step_begin`; the same names, counts and types on every member. The memory may only
        change between a commit and the next begin. `owner` is kept alive until the job ends.
        """
        with _Alone(self):
            key = name_bytes("name", name)
            self.check(self._library.spotnik_state_add(self._job(), key, pointer, count, int(dtype)))
            self._state_owners.append(owner)

    def blob_set(self, name: str, data: bytes) -> None:
        """Keep `data` under `name` as part of the replica: for what lives in objects and changes its length.

        Outside of a step. At most 64 blobs of 32 MiB together; they may differ between members.
        """
        data = bytes(data)
        with _Alone(self):
            self.check(self._library.spotnik_state_blob_set(self._job(), name_bytes("name", name), data, len(data)))

    def blob_get(self, name: str) -> bytes:
        """Return the blob `name` as it was set here, or as it came from others; empty when there is none."""
        length = ctypes.c_size_t()
        with _Alone(self):
            get, job, key = self._library.spotnik_state_blob_get, self._job(), name_bytes("name", name)
            self.check(get(job, key, None, 0, ctypes.byref(length)))
            room = ctypes.create_string_buffer(length.value + 1)
            self.check(get(job, key, room, length.value, ctypes.byref(length)))
            return room.raw[: length.value]

    def refresh_set(self, refresh: Optional[Callable[[], object]]) -> None:
        """Have `refresh` called inside :meth:`step_begin`, right before the state is copied for others or a checkpoint.

        It brings registered memory and blobs up to date and may call :meth:`blob_set` and :meth:`blob_get`, nothing
        else. What it raises is raised by that step_begin.
        """

        def called(_context: object) -> None:
            self._refreshing = threading.get_ident()
            try:
                if refresh is not None:
                    refresh()
            except BaseException as error:  # C cannot pass it on
                self._refresh_error = error
            finally:
                self._refreshing = None

        with _Alone(self):
            callback = _native.Refresh(called) if refresh is not None else _native.Refresh()
            self.check(self._library.spotnik_state_refresh_set(self._job(), callback, None))
            self._refresh = callback

    @property
    def loads(self) -> int:
        """How often registered memory and blobs were replaced: copied from members or loaded from a checkpoint."""
        with _Alone(self):
            return int(self._library.spotnik_state_loads(self._job()))

    # ---- the step ----

    def step_begin(self) -> Step:
        """Begin the next step: wait for ``members_min`` members, admit joiners, take this member's share.

        Raises DoneError at the end of the job, LeavingError after a notice, ParkedError, MismatchError, PeersError,
        CheckpointError.
        """
        native = _native.roomy(_native.NativeStep)
        with _Alone(self):
            if self._outside:
                self._aside(lambda: self._begin(native))
            else:
                self._begin(native)
            self._outside = False
            self._begun = step = views.step_of(native)
        self._look(step)
        return step

    def samples_decline(self) -> None:
        """Let the running step consume no samples: for collectives beside the training. On every member or on none.

        Before the first :meth:`allreduce_start` of the step; the ``ranges`` it was begun with are void then.
        """
        with _Alone(self):
            self.check(self._library.spotnik_samples_decline(self._job()))

    def weight_set(self, weight: int) -> None:
        """Weigh this member's contribution to MEAN in the running step, instead of by its sample count."""
        weight = whole("weight", weight, 64)
        with _Alone(self):
            self.check(self._library.spotnik_weight_set(self._job(), weight))

    def allreduce_start(
        self,
        bucket: int,
        pointer: int,
        count: int,
        dtype: Dtype,
        op: Op,
        owner: object,
        wire: Optional[Dtype] = None,
    ) -> None:
        """Start to all-reduce `count` elements at `pointer` in place; :meth:`step_commit` waits for the result.

        `bucket` is 0 to 255; the same buckets with the same sizes on every member in every step. `owner` is kept alive
        until the commit; leave the memory untouched until then. With `wire` (F16, BF16 or Q8; `bucket` up to 254) F32
        travels as that, and is rounded: see :func:`spotnik.start`. Raises ArgumentError for another `dtype` with it.
        """
        bucket = whole("bucket", bucket, 32)
        if wire is not None and dtype != Dtype.F32:
            raise ArgumentError(f"only float32 can travel as {wire.name}, not {dtype.name}")
        with _Alone(self):
            job = self._job()
            if wire is None:
                code = self._library.spotnik_allreduce(job, bucket, pointer, count, int(dtype), int(op))
            else:
                memory = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))
                code = self._library.spotnik_allreduce_compressed(job, bucket, memory, count, int(wire), int(op))
            self.check(code)
            self._step_owners.append(owner)

    def step_commit(self) -> bool:
        """Finish the step: wait until every bucket holds the result. Losses, recoveries and joins happen inside.

        Returns False when the others went on without this member: apply nothing, and begin the next step, which joins
        again. Raises MismatchError, ParkedError, StateError. When a signal handler raises meanwhile, the step is still
        to be committed: call again, or :meth:`abandon`.
        """
        return self.step_finish(lambda: int(self._library.spotnik_step_commit(self._job())))

    def step_finish(self, commit: Callable[[], int]) -> bool:
        """Finish the step by calling `commit` until it is through; :meth:`step_commit` says what is returned."""
        with _Alone(self):
            code = commit()
            while code == _AGAIN:
                code = commit()
            if code not in (_PARKED, StateError.number):
                self._begun = None
                self._step_owners.clear()
            if code == _EXCLUDED:
                self._outside = True
                return False
            self.check(code)
            return True

    def __iter__(self) -> Iterator[Step]:
        while True:
            try:
                step = self.step_begin()
            except DoneError:
                return
            yield step

    # ---- the end ----

    def notice(self) -> None:
        """Ask to leave: the next :meth:`step_begin` raises LeavingError. Any thread, signal handlers too."""
        with self._life:
            if self._handle is not None and not self._forked:
                self._library.spotnik_notice(self._handle)

    def leave(self) -> None:
        """Leave the job: wait until the last committed step is known to all who need it, say goodbye.

        Does nothing when the job has ended before. Raises ParkedError when it had to go without agreement.
        """
        if self._forked or self._handle is None:
            return
        with _Alone(self):
            self.check(self._library.spotnik_leave(self._end("this member has left the job")))

    def abandon(self) -> None:
        """End the membership at once, without goodbye: to the others this member is lost. For error paths."""
        if self._forked or self._handle is None:
            return
        with _Alone(self):
            self._library.spotnik_abandon(self._end("this member has abandoned the job"))

    def __enter__(self) -> Job:
        self.join()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None or issubclass(kind, errors.LeavingError):
            self.leave()
        else:
            self.abandon()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not self._forked:
            self._handle = None
            self._library.spotnik_abandon(handle)

    # ---- for the modules of this package ----

    def call(self, function: str, *arguments: object) -> None:
        """Call a function of the library whose first argument is the job. Raises what its result means."""
        with _Alone(self):
            self.check(getattr(self._library, function)(self._job(), *arguments))

    def check(self, code: int) -> None:
        """Raise what `code` means, unless it is 0. On the thread that made the call."""
        if code:
            meaning = self._library.spotnik_strerror(code).decode()
            raise errors.from_code(code, meaning, self._library.spotnik_last_error().decode(errors="replace"))

    def at_end(self, closable: Closable) -> None:
        """Have `closable` closed before the membership ends, unless it is gone by then."""
        self._closables.add(closable)

    # ---- looking ----

    def status(self) -> Status:
        """Return a consistent snapshot. Any thread."""
        native = _native.roomy(_native.NativeStatus)
        with self._life:
            self._library.spotnik_status(self._job(), native)
        return views.status_of(native)

    @property
    def members(self) -> list[Member]:
        """The members of the view, in order of rank. Any thread."""
        array = (_native.NativeMember * _MEMBERS_MAX)()
        with self._life:
            count = self._library.spotnik_members(self._job(), array, _MEMBERS_MAX)
        return [Member(one.member.decode(), one.address.decode()) for one in array[:count]]

    @property
    def checkpoint(self) -> CheckpointStatus:
        """How the checkpoints of this member are doing. Any thread."""
        native = _native.NativeCheckpointInfo(size=ctypes.sizeof(_native.NativeCheckpointInfo))
        with self._life:
            self._library.spotnik_checkpoint_status(self._job(), native)
        return views.checkpoint_of(native)

    @property
    def batch_status(self) -> BatchStatus:
        """How samples are shared, and how noisy gradients are. Any thread."""
        native = _native.NativeBatchInfo(size=ctypes.sizeof(_native.NativeBatchInfo))
        with self._life:
            self._library.spotnik_batch_status(self._job(), native)
        return views.batch_of(native)

    @property
    def digest(self) -> int:
        """XXH3-64 of all registered state: equal on all members between applying a step and the next commit."""
        with _Alone(self):
            return int(self._library.spotnik_state_digest(self._job()))

    @property
    def joined(self) -> bool:
        """Between :meth:`join` and the end of the membership, in the process that joined."""
        return self._handle is not None and not self._forked

    @property
    def members_max(self) -> int:
        """How many members the job may have: the setting as it came out of program, environment and default."""
        self._job()
        return self._members_max

    @property
    def buckets_started(self) -> int:
        """How many all-reduces of the running step have been started here."""
        return len(self._step_owners)

    @property
    def running(self) -> Optional[Step]:
        """The step that was begun and not committed yet; None outside of a step."""
        return self._begun

    @property
    def rank(self) -> int:
        """Place in the view, from 0. Another after members came or went; within a step, that of the step.

        -1 while this member is in no view yet: before its first step.
        """
        return self._begun.rank if self._begun else self.status().rank

    @property
    def size(self) -> int:
        """How many members the view has; within a step, when the step was begun."""
        return self._begun.size if self._begun else self.status().size

    @property
    def epoch(self) -> int:
        """Number of the view; grows whenever members come or go."""
        return self._begun.view_epoch if self._begun else self.status().view_epoch

    @property
    def step(self) -> int:
        """The running step; outside a step, the last one committed."""
        return self._begun.number if self._begun else self.status().step_committed

    def on_change(self, callback: Callable[[Change], object]) -> None:
        """Call `callback` from :meth:`step_begin` whenever the view is not that of the step before."""
        self._watchers.append(callback)

    def __repr__(self) -> str:
        if self._forked:
            return "<spotnik.Job of the parent process>"
        if self._handle is None:
            return f"<spotnik.Job: {self._over or 'not joined'}>"
        return f"<spotnik.Job: rank {self.rank} of {self.size}, step {self.step}>"

    # ---- inside ----

    def _join(self, native: _native.NativeConfig) -> int:
        handle = ctypes.c_void_p()
        self.check(self._library.spotnik_join(native, ctypes.byref(handle)))
        assert handle.value is not None
        if self._over:  # interrupted meanwhile: nobody waits for it any more
            self._library.spotnik_abandon(handle)
        return handle.value

    def sync_open(
        self, config: _native.NativeSyncConfig, model: int, count: int, apply: object, owner: object
    ) -> int:
        """For :class:`spotnik.Sync`: put a model under a strategy; from now on steps are begun through that."""
        handle = ctypes.c_void_p()
        with _Alone(self):
            open_sync = self._library.spotnik_sync_open
            self.check(open_sync(self._job(), config, model, count, apply, None, ctypes.byref(handle)))
            self._state_owners.append(owner)
            self._sync = handle.value
        assert handle.value is not None
        return handle.value

    def _begin(self, native: _native.NativeStep) -> None:
        job = self._job()
        code = _AGAIN
        while code == _AGAIN and self._refresh_error is None:
            if self._sync is not None:
                code = self._library.spotnik_sync_begin(self._sync, native)
            else:
                code = self._library.spotnik_step_begin(job, native)
        refresh_error, self._refresh_error = self._refresh_error, None
        if refresh_error is not None:
            raise refresh_error
        self.check(code)

    def _aside(self, call: Callable[[], _Result]) -> _Result:
        """Make a call that the library does not cut short on a thread of its own, so that signals are seen meanwhile.

        An interrupt asks the library to come back, and ends the job if it was not joined yet.
        """
        if threading.current_thread() is not threading.main_thread():
            return call()
        errand = _Errand(call)
        try:
            errand.done.wait()
        except BaseException:
            if self._handle is None:
                self._over = "joining was interrupted"
            self.notice()
            errand.done.wait(_INTERRUPT_S)
            raise
        return errand.value()

    def _look(self, step: Step) -> None:
        """Tell the watchers of a new view."""
        epoch, size = self._seen
        self._seen = (step.view_epoch, step.size)
        if epoch in (0, step.view_epoch) or not self._watchers:
            return
        change = Change(step.view_epoch, step.rank, step.size, size, self.members)
        for watcher in list(self._watchers):
            watcher(change)

    def check_usable(self) -> None:
        """Raise ForkError or ClosedError where this job has ended for this process."""
        if self._forked:
            raise ForkError(
                "this job belongs to the parent process and cannot be used after a fork; join a job in the child "
                "itself, or keep spotnik out of it (data loaders' workers need none)"
            )
        if self._over:
            raise ClosedError(f"{self._over}; make a new spotnik.Job to take part again")

    def _job(self) -> int:
        self.check_usable()
        if self._handle is None:
            raise StateError("not a member yet; call join() first")
        return self._handle

    def _end(self, why: str) -> int:
        for closable in list(self._closables):
            closable.close()
        with self._life:
            handle = self._job()
            self._handle, self._over, self._begun, self._sync = None, why, None, None
            return handle

    def _forget(self) -> None:
        """In a forked child: threads and connections stayed with the parent."""
        self._forked = True
        self._life = threading.RLock()
        self._busy = threading.Lock()

    def _finish(self) -> None:
        """At the end of the interpreter: goodbye between steps; in the middle of one the others must do without us."""
        if self._handle is None or self._forked or not self._busy.acquire(blocking=False):
            return
        end = self._library.spotnik_abandon if self._begun else self._library.spotnik_leave
        end(self._end("the interpreter is ending"))


class _Alone:
    """One call at a time: a second thread is told so instead of breaking the job. A refresh is part of its call."""

    def __init__(self, job: Job) -> None:
        self._busy = job._busy
        self._inside = job._refreshing == threading.get_ident()

    def __enter__(self) -> None:
        if not self._inside and not self._busy.acquire(blocking=False):
            raise StateError("another call on this job is under way; make all calls from one thread at a time")

    def __exit__(self, *_: object) -> None:
        if not self._inside:
            self._busy.release()


class _Errand(Generic[_Result]):
    """A call on a thread of its own, with its result."""

    def __init__(self, call: Callable[[], _Result]) -> None:
        self._call = call
        self._result: list[_Result] = []
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

    def value(self) -> _Result:
        """What the call returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._result[0]


def all_jobs() -> list[Job]:
    """Return every job of this process, joined or not."""
    return list(_jobs)


def leave_on_sigterm() -> None:
    """Take SIGTERM as a notice for every job of this process: step_begin raises LeavingError.

    Installs a signal handler, in place of the one before; to be called from the main thread. Without it SIGTERM ends
    the process, and the others go on without it.
    """
    signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(_number: int, _frame: Optional[FrameType]) -> None:
    for job in list(_jobs):
        job.notice()


def _after_fork() -> None:
    for job in list(_jobs):
        job._forget()


def _at_exit() -> None:
    for job in list(_jobs):
        job._finish()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
