# SPDX-License-Identifier: Apache-2.0
"""The job as libspotnik knows it: join, steps, leave. Pointers and counts; arrays are ``arrays``' business.

Decides how C results become Python ones and nothing of the protocol; lifetimes, threads and ends are ``_handle``'s.
Blocking calls release the interpreter lock, and signal handlers run while they wait.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Callable, Optional

from . import _native, errors, views
from ._handle import Alone, all_handles
from ._looking import Looking
from ._native import Dtype, Op
from .config import Config, fill, name_bytes, whole
from .errors import ArgumentError, DoneError, StateError
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
    "helper_shield",
    "leave_on_sigterm",
]

_PATIENCE_NS = 100_000_000  # between two looks at signals
_AGAIN, _EXCLUDED, _PARKED = errors.AgainError.number, errors.ExcludedError.number, errors.ParkedError.number


class Job(Looking):
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
        super().__init__(config)
        self._state_owners: list[object] = []  # memory the library reads and writes until the end
        self._refresh: object = None  # the callback, which the library holds
        self._refresh_error: Optional[BaseException] = None
        self._keeps_checkpoints = False
        self._is_refreshed = False  # for the last checkpoint, by leave()
        self._sync: Optional[int] = None  # the handle of a spotnik.Sync: steps are begun through it
        self._outside = True  # the next step_begin copies the state of others

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
        with Alone(self):
            self._handle = self._aside(lambda: self._join(native))
            self._members_max = native.members_max
            self._library.spotnik_patience_set(self._handle, _PATIENCE_NS)

    def state_add(self, name: str, pointer: int, count: int, dtype: Dtype, owner: object) -> None:
        """Register `count` elements at `pointer` as part of the replica: what a joiner receives.

        Before the first :meth:`step_begin`; the same names, counts and types on every member. The memory may only
        change between a commit and the next begin. `owner` is kept alive until the job ends.
        """
        with Alone(self):
            key = name_bytes("name", name)
            self.check(self._library.spotnik_state_add(self._job(), key, pointer, count, int(dtype)))
            self._state_owners.append(owner)

    def state_reach_set(
        self, read: Callable[[int, int, int], object], write: Callable[[int, int, int], object]
    ) -> None:
        """Say how the library copies state that is not in host memory: of :meth:`state_add_remote`.

        Both are called with an offset, which counts the bytes of all such state in order of registration, with an
        address in host memory, and with a size. `read` copies to the address, `write` from it. They are called on any
        thread, several at once. What they raise is raised by the next :meth:`step_begin`.
        """

        def guarded(call: Callable[[int, int, int], object]) -> object:
            def called(_context: object, offset: int, address: int, size: int) -> int:
                try:
                    call(offset, address, size)
                    return 0
                except BaseException as error:  # C cannot pass it on
                    self._refresh_error = error
                    return 1

            return _native.Reach(called)

        with Alone(self):
            calls = guarded(read), guarded(write)
            self.check(self._library.spotnik_state_reach_set(self._job(), *calls, None))
            self._state_owners.append(calls)

    def state_add_remote(self, name: str, count: int, dtype: Dtype) -> None:
        """As :meth:`state_add`, for state that the calls of :meth:`state_reach_set` copy."""
        with Alone(self):
            self.check(self._library.spotnik_state_add_remote(self._job(), name_bytes("name", name), count, int(dtype)))

    def state_changed(self) -> None:
        """Say that the program has changed registered state since :meth:`step_begin`, and may do so again.

        Copies for joiners and checkpoints that were begun in this step are void. From now on :meth:`step_begin` takes
        them, and the program waits.
        """
        with Alone(self):
            self.check(self._library.spotnik_state_changed(self._job()))

    def blob_set(self, name: str, data: bytes) -> None:
        """Keep `data` under `name` as part of the replica: for what lives in objects and changes its length.

        Outside of a step. At most 64 blobs of 32 MiB together; they may differ between members.
        """
        data = bytes(data)
        with Alone(self):
            self.check(self._library.spotnik_state_blob_set(self._job(), name_bytes("name", name), data, len(data)))

    def blob_get(self, name: str) -> bytes:
        """Return the blob `name` as it was set here, or as it came from others; empty when there is none."""
        length = ctypes.c_size_t()
        with Alone(self):
            get, job, key = self._library.spotnik_state_blob_get, self._job(), name_bytes("name", name)
            self.check(get(job, key, None, 0, ctypes.byref(length)))
            room = ctypes.create_string_buffer(length.value + 1)
            self.check(get(job, key, room, length.value, ctypes.byref(length)))
            return room.raw[: length.value]

    def refresh_set(self, refresh: Optional[Callable[[], object]]) -> None:
        """Have `refresh` called right before the state is copied for others or a checkpoint.

        That is inside :meth:`step_begin` or :meth:`leave`, or :attr:`digest`, which raise what it raises. Where it
        fails in :meth:`leave`, the member writes no last checkpoint, and is lost to the others. It brings registered
        memory and blobs up to date and may call :meth:`blob_set` and :meth:`blob_get`, nothing else.
        """

        def called(_context: object) -> None:
            self._refreshing = threading.get_ident()
            try:
                if refresh is not None and not self._is_refreshed:
                    refresh()
            except BaseException as error:  # C cannot pass it on
                self._refresh_error = error
            finally:
                self._refreshing = None

        with Alone(self):
            callback = _native.Refresh(called) if refresh is not None else _native.Refresh()
            self.check(self._library.spotnik_state_refresh_set(self._job(), callback, None))
            self._refresh = callback

    @property
    def loads(self) -> int:
        """How often registered memory and blobs were replaced: copied from members or loaded from a checkpoint."""
        with Alone(self):
            return int(self._library.spotnik_state_loads(self._job()))

    # ---- the step ----

    def step_begin(self, strategy: bool = True) -> Step:
        """Begin the next step: wait for ``members_min`` members, admit joiners, take this member's share.

        With `strategy` False the strategy of a :class:`spotnik.Sync` has no part in it: for collectives beside the
        training, on all members, and not as the first step.

        Raises DoneError at the end of the job, LeavingError after a notice, ParkedError, MismatchError, PeersError,
        CheckpointError.
        """
        native = _native.roomy(_native.NativeStep)
        with Alone(self):
            if self._outside:
                self._aside(lambda: self._begin(native, strategy))
            else:
                self._begin(native, strategy)
            self._outside = False
            self._begun = step = views.step_of(native)
        self._look(step)
        return step

    def observe(self, name: str, value: object) -> None:
        """Tell a number of the program's own, "loss" say: metrics, page, report and ``spotnik top`` show the latest.

        At most 16 names of letters, digits and underscores. Cheap: it may be called in every step. A tensor of one
        element will do.
        """
        if hasattr(value, "detach"):
            value = value.detach()
        with Alone(self):
            self.check(self._library.spotnik_observe(self._job(), name.encode(), float(value)))  # type: ignore[arg-type]

    def batch_continue(self) -> None:
        """Let the next step go on with the batch of the last one, as a GAN's second optimiser does. On every member.

        No checkpoint is taken between the two, where a program that is started again could not go on, and no notice
        ends the loop there. Call it before that :meth:`step_begin`.
        """
        with Alone(self):
            self.check(self._library.spotnik_batch_continue(self._job()))

    def samples_decline(self) -> None:
        """Let the running step consume no samples: for collectives beside the training. On every member or on none.

        Before the first :meth:`allreduce_start` of the step; the ``ranges`` it was begun with are void then.
        """
        with Alone(self):
            self.check(self._library.spotnik_samples_decline(self._job()))

    def weight_set(self, weight: int) -> None:
        """Weigh this member's contribution to MEAN in the running step, instead of by its sample count."""
        weight = whole("weight", weight, 64)
        with Alone(self):
            self.check(self._library.spotnik_weight_set(self._job(), weight))

    def alloc(self, size: int) -> int:
        """Return the address of `size` zeroed bytes for buckets. Members of a host reduce them where they lie.

        They end with the job: let nothing refer to them then. Raises NoMemoryError.
        """
        with Alone(self):
            address = self._library.spotnik_alloc(self._job(), size)
            if address is None:
                self.check(errors.NoMemoryError.number)
            return int(address)

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
        until the commit; leave the memory untouched until then. With `wire` (F16, BF16 or Q8) F32
        travels as that, and is rounded: see :func:`spotnik.start`. Raises ArgumentError for another `dtype` with it.
        """
        bucket = whole("bucket", bucket, 32)
        if wire is not None and dtype != Dtype.F32:
            raise ArgumentError(f"only float32 can travel as {wire.name}, not {dtype.name}")
        with Alone(self):
            job = self._job()
            if wire is None:
                code = self._library.spotnik_allreduce(job, bucket, pointer, count, int(dtype), int(op))
            else:
                memory = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))
                code = self._library.spotnik_allreduce_compressed(job, bucket, memory, count, int(wire), int(op))
            self.check(code)
            self._step_owners.append(owner)

    def collective_start(self, function: str, owner: object, *arguments: object) -> None:
        """Start another collective of the library in the running step. `owner` is kept alive until the commit."""
        with Alone(self):
            self.check(getattr(self._library, function)(self._job(), *arguments))
            self._step_owners.append(owner)

    @property
    def contributor_count(self) -> int:
        """How many members' data are in the broadcasts and all-gathers of the last committed step."""
        with Alone(self):
            return int(self._library.spotnik_contributors(self._job(), None, 0))

    def step_commit(self) -> bool:
        """Finish the step: wait until every bucket holds the result. Losses, recoveries and joins happen inside.

        Returns False when the others went on without this member: apply nothing, and begin the next step, which joins
        again. Raises MismatchError, ParkedError, StateError. When a signal handler raises meanwhile, the step is still
        to be committed: call again, or :meth:`abandon`.
        """
        return self.step_finish(lambda: int(self._library.spotnik_step_commit(self._job())))

    def step_finish(self, commit: Callable[[], int]) -> bool:
        """Finish the step by calling `commit` until it is through; :meth:`step_commit` says what is returned."""
        with Alone(self):
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

    # ---- inside ----

    def _join(self, native: _native.NativeConfig) -> int:
        handle = ctypes.c_void_p()
        self.check(self._library.spotnik_join(native, ctypes.byref(handle)))
        self._keeps_checkpoints = bool(native.checkpoint_dir)
        assert handle.value is not None
        if self._over:  # interrupted meanwhile: no call waits for it any more
            self._library.spotnik_abandon(handle)
        return handle.value

    def sync_open(
        self, config: _native.NativeSyncConfig, model: int, count: int, apply: object, owner: object
    ) -> int:
        """For :class:`spotnik.Sync`: put a model under a strategy; from now on steps are begun through that."""
        handle = ctypes.c_void_p()
        with Alone(self):
            open_sync = self._library.spotnik_sync_open
            self.check(open_sync(self._job(), config, model, count, apply, None, ctypes.byref(handle)))
            self._state_owners.append(owner)
            self._sync = handle.value
        assert handle.value is not None
        return handle.value

    def _begin(self, native: _native.NativeStep, strategy: bool) -> None:
        job = self._job()
        code = _AGAIN
        while code == _AGAIN and self._refresh_error is None:
            if self._sync is not None and strategy:
                code = self._library.spotnik_sync_begin(self._sync, native)
            else:
                code = self._library.spotnik_step_begin(job, native)
        self._raise_refresh_error()
        self.check(code)

    def _refreshed(self) -> bool:
        if self._keeps_checkpoints and callable(self._refresh):
            self._refresh(None)
            self._is_refreshed = True
        return self._refresh_error is None

    def _raise_refresh_error(self) -> None:
        error, self._refresh_error = self._refresh_error, None
        if error is not None:
            raise error

    def _ended(self) -> None:
        self._begun, self._sync = None, None


def all_jobs() -> list[Job]:
    """Return every job of this process, joined or not."""
    return [one for one in all_handles() if isinstance(one, Job)]


def leave_on_sigterm() -> None:
    """Take SIGTERM as a notice for every job of this process: step_begin raises LeavingError.

    Installs a signal handler, in place of the one before; to be called from the main thread. Without it SIGTERM ends
    the process, and the others go on without it.
    """
    signal.signal(signal.SIGTERM, _on_sigterm)


def helper_shield(_worker: int = 0) -> None:
    """Let SIGTERM end this process only if its parent sends it, and SIGUSR1 not at all.

    For processes that help a member, such as those of a loader:
    ``DataLoader(..., worker_init_fn=spotnik.helper_shield)``. Slurm and systemd signal every process; the member leaves
    after its step, and ends its helpers itself. Loaders that ``spotnik.torch.shard`` has got do this by themselves.
    """
    _native.load().spotnik_helper_shield()


def _on_sigterm(_number: int, _frame: Optional[FrameType]) -> None:
    for job in all_jobs():
        job.notice()
