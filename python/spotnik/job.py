# SPDX-License-Identifier: Apache-2.0
"""The job as libspotnik knows it: join, steps, leave. Pointers and counts; arrays are ``collectives``' business.

Decides how C results become Python ones (exceptions, lifetimes, threads, forks) and nothing of the protocol.
Blocking calls release the interpreter lock.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import threading
import weakref
from types import TracebackType
from typing import Any, Optional

from . import _native, errors
from ._native import Dtype, Op
from .errors import ArgumentError, ClosedError, ForkError, StateError

__all__ = ["Config", "Dtype", "Job", "Op", "Recovery", "Status", "Step"]

_NS = 1_000_000_000
_DONE, _EXCLUDED = errors.DoneError.code, errors.ExcludedError.code


@dataclasses.dataclass
class Config:
    """Settings of a job. What is None is taken from the environment, then from the library's default.

    Every member must give the same ``samples``, ``batch`` and ``steps_max``.
    """

    #: Name of the job (SPOTNIK_JOB): members of other jobs are refused. Default "spotnik".
    job_name: Optional[str] = None
    #: File with the 256-bit job key in hex, mode 0600 (SPOTNIK_KEY_FILE). Not needed by a job of one.
    key_file: Optional[str] = None
    #: "host:port,..." or "file:DIR" (SPOTNIK_PEERS). None and no such variable: a job of one.
    peers: Optional[str] = None
    #: "address[:port]" to listen on (SPOTNIK_BIND). Default 127.0.0.1, any port.
    bind: Optional[str] = None
    #: Steps wait until the view has so many members (SPOTNIK_MIN). Default 1.
    members_min: Optional[int] = None
    #: Joiners wait while the view has so many members (SPOTNIK_MAX). Default 256.
    members_max: Optional[int] = None
    #: Samples in one epoch of data; 0: no ledger, steps have no samples.
    samples: Optional[int] = None
    #: Samples a step consumes, over all members together.
    batch: Optional[int] = None
    #: The job is done after so many committed steps; 0: never.
    steps_max: Optional[int] = None
    #: Least silence, in seconds, that counts as loss (SPOTNIK_SILENCE_MS). Default 0.25.
    silence_floor_s: Optional[float] = None
    #: Limit, in seconds, of its adaptation to jitter. Default 2.
    silence_ceiling_s: Optional[float] = None
    #: "wait", "continue" or "stop" (SPOTNIK_ON_MINORITY): what a member does that is cut off from the majority.
    on_minority: Optional[str] = None
    #: Patience of "stop", in seconds. Default 60.
    minority_wait_s: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Step:
    """One step as this member sees it."""

    #: From 1; committed at most once in the life of the job.
    number: int
    #: Epoch of the view in which the step was begun.
    view_epoch: int
    #: Place in that view, from 0, and its length. Both may be others in the next step.
    rank: int
    size: int
    #: Which pass over the data, from 0: seed the shuffle with it.
    data_epoch: int
    #: Samples in this member's share; may be 0.
    sample_count: int
    #: The share: indices into the (shuffled) epoch of data.
    ranges: list[range]
    #: A joiner repeating a committed step: the share is empty, the result is the committed one.
    replay: bool


@dataclasses.dataclass(frozen=True)
class Recovery:
    """One recovery as this member saw it. Instants are CLOCK_MONOTONIC nanoseconds, 0 where not reached."""

    epoch: int
    lost: int
    joined: int
    left: int
    detected_ns: int
    reconciled_ns: int
    accepted_ns: int
    restarted_ns: int
    committed_ns: int


@dataclasses.dataclass(frozen=True)
class Status:
    """A snapshot of the job."""

    #: Our member id, 32 hex digits.
    member: str
    view_epoch: int
    rank: int
    size: int
    step_committed: int
    step_stable: int
    #: Cut off from the majority, waiting.
    parked: bool
    #: Copying state or replaying steps.
    joining: bool
    bytes_sent: int
    bytes_received: int
    control_messages: int
    losses: int
    joins: int
    leaves: int
    #: The last 16 at most, newest last.
    recoveries: list[Recovery]


def _encode(field: str, value: str) -> bytes:
    if not isinstance(value, (str, os.PathLike)):
        raise ArgumentError(f"{field} must be a string, not {type(value).__name__}")
    return os.fsencode(value)


def _whole(field: str, value: int, bits: int) -> int:
    number = int(value)
    if number != value or not 0 <= number < 1 << bits:
        raise ArgumentError(f"{field} must be a whole number from 0 to 2**{bits}-1, not {value!r}")
    return number


def _nanoseconds(field: str, seconds: float) -> int:
    return _whole(field, round(seconds * _NS), 64)


def _minority(value: str) -> int:
    try:
        return int(_native.Minority[value.upper()])
    except (KeyError, AttributeError):
        raise ArgumentError(f'on_minority must be "wait", "continue" or "stop", not {value!r}') from None


def _fill(native: _native.NativeConfig, config: Config) -> None:
    """Write what `config` says over what the environment said."""
    for field in ("job_name", "key_file", "peers", "bind"):
        if getattr(config, field) is not None:
            setattr(native, field, _encode(field, getattr(config, field)))
    for field, bits in (("members_min", 32), ("members_max", 32), ("samples", 64), ("batch", 64), ("steps_max", 64)):
        if getattr(config, field) is not None:
            setattr(native, field, _whole(field, getattr(config, field), bits))
    for field in ("silence_floor", "silence_ceiling", "minority_wait"):
        seconds = getattr(config, field + "_s")
        if seconds is not None:
            setattr(native, field + "_ns", _nanoseconds(field + "_s", seconds))
    if config.on_minority is not None:
        native.on_minority = _minority(config.on_minority)


def _step(native: _native.NativeStep) -> Step:
    return Step(
        number=native.number,
        view_epoch=native.view_epoch,
        rank=native.rank,
        size=native.size,
        data_epoch=native.data_epoch,
        sample_count=native.sample_count,
        ranges=[range(part.begin, part.end) for part in native.samples[: native.range_count]],
        replay=bool(native.replay),
    )


def _status(native: _native.NativeStatus) -> Status:
    return Status(
        member=native.member.decode(),
        view_epoch=native.view_epoch,
        rank=native.rank,
        size=native.size,
        step_committed=native.step_committed,
        step_stable=native.step_stable,
        parked=bool(native.parked),
        joining=bool(native.joining),
        bytes_sent=native.bytes_sent,
        bytes_received=native.bytes_received,
        control_messages=native.control_messages,
        losses=native.losses,
        joins=native.joins,
        leaves=native.leaves,
        recoveries=[
            Recovery(**{field.name: getattr(one, field.name) for field in dataclasses.fields(Recovery)})
            for one in native.recovery[: native.recovery_count]
        ],
    )


_jobs: weakref.WeakSet[Job] = weakref.WeakSet()


class Job:
    """A job this process is, or will be, a member of.

    All calls come from one thread at a time, but for :meth:`notice` and :meth:`status`, which any thread may make.
    As a context manager it joins on entry, and leaves at the end, or abandons the job when an exception ends it.
    """

    def __init__(self, config: Optional[Config] = None) -> None:
        self.config = config if config is not None else Config()
        self._library = _native.load()
        self._handle: Optional[int] = None
        self._over = ""  # why there is no job any more
        self._forked = False
        self._life = threading.RLock()  # guards _handle against the end of the job
        self._busy = threading.Lock()  # one call at a time
        self._state_owners: list[object] = []  # memory the library reads and writes until the end
        self._step_owners: list[object] = []  # ... until the commit
        self._begun: Optional[Step] = None
        _jobs.add(self)

    # ---- joining ----

    def join(self) -> None:
        """Find the job and get ready to join it, or found it. Does nothing when that was done before.

        The state of the others is copied by the first :meth:`step_begin`.
        """
        if self._handle is not None and not self._forked:
            return
        self._check_usable()
        native = _native.roomy(_native.NativeConfig)
        self._library.spotnik_config_init(native)
        _fill(native, self.config)
        handle = ctypes.c_void_p()
        with self._alone():
            self._check(self._library.spotnik_join(native, ctypes.byref(handle)))
            self._handle = handle.value

    def state_add(self, name: str, pointer: int, count: int, dtype: Dtype, owner: object) -> None:
        """Register `count` elements at `pointer` as part of the replica: what a joiner receives.

        Before the first :meth:`step_begin`; the same names, counts and types on every member. The memory may only
        change between a commit and the next begin. `owner` is kept alive until the job ends.
        """
        with self._alone():
            self._check(self._library.spotnik_state_add(self._job(), name.encode(), pointer, count, int(dtype)))
            self._state_owners.append(owner)

    # ---- the step ----

    def step_begin(self) -> Step:
        """Begin the next step: wait for ``members_min`` members, admit joiners, take this member's share.

        Raises DoneError at the end of the job, LeavingError after a notice, ParkedError, MismatchError, PeersError.
        """
        native = _native.roomy(_native.NativeStep)
        with self._alone():
            self._check(self._library.spotnik_step_begin(self._job(), native))
            self._begun = _step(native)
            return self._begun

    def weight_set(self, weight: int) -> None:
        """Weigh this member's contribution to MEAN in the running step, instead of by its sample count."""
        with self._alone():
            self._check(self._library.spotnik_weight_set(self._job(), _whole("weight", weight, 64)))

    def allreduce_start(self, bucket: int, pointer: int, count: int, dtype: Dtype, op: Op, owner: object) -> None:
        """Start to all-reduce `count` elements at `pointer` in place; :meth:`step_commit` waits for the result.

        The same buckets with the same sizes on every member. `owner` is kept alive until the commit; leave the
        memory untouched until then.
        """
        bucket = _whole("bucket", bucket, 32)
        with self._alone():
            self._check(self._library.spotnik_allreduce(self._job(), bucket, pointer, count, int(dtype), int(op)))
            self._step_owners.append(owner)

    def step_commit(self) -> bool:
        """Finish the step: wait until every bucket holds the result. Losses, recoveries and joins happen inside.

        Returns False when the others went on without this member: apply nothing, and begin the next step, which joins
        again. Raises MismatchError, ParkedError, StateError.
        """
        with self._alone():
            code = self._library.spotnik_step_commit(self._job())
            if code != errors.ParkedError.code:
                self._begun = None
                self._step_owners.clear()
            if code == _EXCLUDED:
                return False
            self._check(code)
            return True

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
        with self._alone():
            self._check(self._library.spotnik_leave(self._end("this member has left the job")))

    def abandon(self) -> None:
        """End the membership at once, without goodbye: to the others this member is lost. For error paths."""
        if self._forked or self._handle is None:
            return
        with self._alone():
            self._library.spotnik_abandon(self._end("this member has abandoned the job"))

    def __enter__(self) -> Job:
        self.join()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None:
            self.leave()
        else:
            self.abandon()

    # ---- looking ----

    def status(self) -> Status:
        """Return a consistent snapshot. Any thread."""
        native = _native.roomy(_native.NativeStatus)
        with self._life:
            self._library.spotnik_status(self._job(), native)
        return _status(native)

    @property
    def digest(self) -> int:
        """XXH3-64 of all registered state: equal on all members between applying a step and the next commit."""
        with self._alone():
            return int(self._library.spotnik_state_digest(self._job()))

    @property
    def rank(self) -> int:
        """Place in the view, from 0. Another after members came or went; within a step, that of the step."""
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

    # ---- inside ----

    def _alone(self) -> _Alone:
        return _Alone(self)

    def _check_usable(self) -> None:
        if self._forked:
            raise ForkError(
                "this job belongs to the parent process and cannot be used after a fork; join a job in the child "
                "itself, or keep spotnik out of it (DataLoader workers need none)"
            )
        if self._over:
            raise ClosedError(f"{self._over}; make a new spotnik.Job to take part again")

    def _job(self) -> int:
        self._check_usable()
        if self._handle is None:
            raise StateError("not a member yet; call join() first")
        return self._handle

    def _end(self, why: str) -> int:
        with self._life:
            handle = self._job()
            self._handle, self._over, self._begun = None, why, None
            return handle

    def _check(self, code: int) -> None:
        """Raise what `code` means, unless it is 0. On the thread that made the call."""
        if code:
            meaning = self._library.spotnik_strerror(code).decode()
            raise errors.from_code(code, meaning, self._library.spotnik_last_error().decode(errors="replace"))

    def _forget(self) -> None:
        """In a forked child: threads and connections stayed with the parent."""
        self._forked = True
        self._life = threading.RLock()
        self._busy = threading.Lock()

    def __repr__(self) -> str:
        if self._forked:
            return "<spotnik.Job of the parent process>"
        if self._handle is None:
            return f"<spotnik.Job: {self._over or 'not joined'}>"
        return f"<spotnik.Job rank {self.rank} of {self.size}, step {self.step}>"


class _Alone:
    """One call at a time: a second thread is told so instead of breaking the job."""

    def __init__(self, job: Job) -> None:
        self._busy = job._busy

    def __enter__(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise StateError("another thread is in a call on this job; make all calls from one thread at a time")

    def __exit__(self, *_: Any) -> None:
        self._busy.release()


def _after_fork() -> None:
    for job in list(_jobs):
        job._forget()


os.register_at_fork(after_in_child=_after_fork)
