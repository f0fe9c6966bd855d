# SPDX-License-Identifier: Apache-2.0
"""What a job tells about itself: rank, members, status, digest. Changes nothing."""

from __future__ import annotations

import ctypes
from typing import Callable, Optional

from . import _native, views
from ._handle import Alone, Handle
from .config import Config
from .views import BatchStatus, Change, CheckpointStatus, Member, Status, Step
from .watching import tell_log

_MEMBERS_MAX = 1024


class Looking(Handle):
    """The part of a :class:`spotnik.Job` that only looks."""

    def __init__(self, config: Optional[Config] = None) -> None:
        super().__init__(config)
        self._begun: Optional[Step] = None
        self._members_max = 0
        self._step_owners: list[object] = []  # memory the library reads and writes until the commit
        self._seen = (0, 0)  # epoch and size of the view of the last step
        self._watchers: list[Callable[[Change], object]] = []

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
        """XXH3-64 of all registered state: equal on all members between applying a step and the next commit.

        Between two steps the refresh of :meth:`refresh_set` runs first, and what it raises is raised here.
        """
        with Alone(self):
            digest = int(self._library.spotnik_state_digest(self._job()))
        self._raise_refresh_error()
        return digest

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

        -1 while this member has no place: before its first step, and while it repeats steps of the others.
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

    @property
    def _in_step(self) -> bool:
        return self._begun is not None

    def _look(self, step: Step) -> None:
        """Pass on what the library has to say, and tell the watchers of a new view."""
        tell_log(self._library, self._job())
        epoch, size = self._seen
        self._seen = (step.view_epoch, step.size)
        if epoch in (0, step.view_epoch) or not self._watchers:
            return
        change = Change(step.view_epoch, step.rank, step.size, size, self.members)
        for watcher in list(self._watchers):
            watcher(change)
