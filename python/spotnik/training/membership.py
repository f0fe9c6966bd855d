# SPDX-License-Identifier: Apache-2.0
"""This process as a member of its job, for all adapters: it joins, begins and commits steps, and leaves.

Decides what a notice, a difference between programs, and a step without this member mean to a loop. Knows nothing of
what the replica consists of.
"""

from __future__ import annotations

import signal
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from typing import NoReturn, Optional

from .._native import Dtype
from ..config import Config
from ..errors import EXIT_INTERRUPTED, LeavingError, MismatchError
from ..job import Job, Step, leave_on_sigterm
from ..watching import logger
from .buckets import GRADIENTS

_AWAY_S, _AWAY_MOST_S = 0.05, 2.0  # before a newcomer joins again; each time is twice as long
_MEMBERS_MAX = 256


class Membership:
    """`register` adds the parts of the replica to a job that was just joined.

    `on_notice` leaves the job after a notice, and :meth:`begin` then exits with 75; without it LeavingError passes.
    `explain` adds to the words of a MismatchError what the adapter knows. `make` makes the job, not joined yet.
    """

    def __init__(
        self,
        register: Callable[[Job], object],
        on_notice: Optional[Callable[[], object]] = None,
        explain: Callable[[MismatchError], MismatchError] = lambda error: error,
        make: Callable[[Config], Job] = Job,
    ) -> None:
        self._register, self._on_notice, self._explain, self._make = register, on_notice, explain, make
        self.job: Optional[Job] = None
        self.loads = 0  #: how often the state of others, or a checkpoint, had come when :meth:`received` was last asked
        self._retreats = 0  # in a row

    @property
    def open_job(self) -> Job:
        """The job, which this process has joined."""
        assert self.job is not None
        return self.job

    def join(self, config: Config) -> Job:
        """Join the job, or found it, and register the replica."""
        job = self._make(config)
        job.join()
        self._register(job)
        self.job, self.loads = job, job.loads
        return job

    # ---- steps ----

    @property
    def step(self) -> Optional[Step]:
        """The step that is begun and not committed."""
        return None if self.job is None else self.job.running

    def begin(self, strategy: bool = True) -> Step:
        """Begin the next step, or return the one that is running; `strategy` as in :meth:`spotnik.Job.step_begin`."""
        running = self.step
        if running is not None:
            return running
        try:
            return self.open_job.step_begin(strategy)
        except LeavingError:
            if self._on_notice is None:
                raise
            logger.info("leaving the job after a notice; exit status %d asks for a restart", EXIT_INTERRUPTED)
            self._on_notice()
            raise SystemExit(EXIT_INTERRUPTED) from None
        except MismatchError as error:
            self._raise(error)

    def commit(self, finish: Optional[Callable[[], bool]] = None) -> bool:
        """Finish the running step, by `finish` in place of the job's commit.

        False: the others went on without this member, and the next begin has their state.
        """
        try:
            return (finish or self.open_job.step_commit)()
        except MismatchError as error:
            self._raise(error)

    def _raise(self, error: MismatchError) -> NoReturn:
        explained = self._explain(error)
        raise explained from None if explained is error else error

    def gather(self, row: Sequence[int]) -> Optional[list[list[int]]]:
        """Finish the running step, without samples, as one in which each member gives a row of whole numbers.

        Returns the rows of the members that were in it, in order of rank; None: the others went on without this one.
        """
        job, width = self.open_job, len(row)
        mine, table = array("q", row), array("q", bytes(8 * width * _MEMBERS_MAX))
        job.samples_decline()
        arguments = (mine.buffer_info()[0], width, Dtype.I64, table.buffer_info()[0], _MEMBERS_MAX)
        job.collective_start("spotnik_allgather", (mine, table), GRADIENTS[0], *arguments)
        if not self.commit():
            return None
        return [table[width * i : width * (i + 1)].tolist() for i in range(job.contributor_count)]

    # ---- the state of others ----

    @property
    def has_newer(self) -> bool:
        """Is the registered memory newer than the program, which has not taken it over?"""
        return self.job is not None and self.job.loads != self.loads

    def received(self) -> bool:
        """Has the state of others, or a checkpoint, come since this was last asked?"""
        came = self.has_newer
        self.loads = self.open_job.loads
        return came

    # ---- the end ----

    def leave(self) -> None:
        """Leave the job after the last committed step."""
        try:
            if self.job is not None:
                self.job.leave()  # which asks for the state a last time
        finally:
            self.job = None

    def abandon(self) -> None:
        """Leave at once: to the others this member is lost."""
        job, self.job = self.job, None
        if job is not None:
            job.abandon()

    def retreat(self) -> None:
        """The others are where a newcomer cannot follow: leave, and wait a while before the next :meth:`join`."""
        self.abandon()
        # a backoff, not a wait for an event: joins in a row would cost the others a view change each
        time.sleep(min(_AWAY_MOST_S, _AWAY_S * 2**self._retreats))
        self._retreats = min(self._retreats + 1, 16)

    def settled(self) -> None:
        """This member has come in: the next :meth:`retreat` is short again."""
        self._retreats = 0


def heed_sigterm() -> None:
    """SIGTERM asks to leave after the running step, unless the program has a handler of its own."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        leave_on_sigterm()
