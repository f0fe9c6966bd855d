# SPDX-License-Identifier: Apache-2.0
"""A replica that lives in a framework's memory, with a copy in host memory for the library.

The copy is brought up to date only when somebody wants it: a joiner, a checkpoint, :attr:`Replica.digest`. What came
from others is :attr:`Replica.fresh` until the framework has taken it over.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from .. import arrays
from ..config import is_alone
from ..errors import EXIT_INTERRUPTED, LeavingError, MismatchError, StateError
from ..job import Config, Job, Step, leave_on_sigterm
from ..watching import logger
from .buckets import Bucket
from .memory import Memory, size_of

if TYPE_CHECKING:
    from .memory import Array

#: Places in the whole numbers of a replica: seed, epoch of data, samples of it consumed, closed epochs of the program's
#: loop, steps taken in the present one, 1 when that is over; further steps in a turn of it, and in that before
#: (training/extra_steps.py).
SEED, DATA_EPOCH, CONSUMED, CLOSED, TAKEN, OVER, EXTRA, LAST = range(8)

_ANOTHER = (
    "If the program trains one model after another, the others may be at a later one: have it pass over a training "
    'whose result is saved ("Several trainings" in docs/guide/keras.md)'
)
_CONTROL = 8


@dataclasses.dataclass
class Settings:
    """What the faces pass on to a job."""

    samples: int = 0
    batch: int = 0
    per_member: bool = False
    seed: Optional[int] = None
    checkpoint: Union[str, os.PathLike[str], None] = None
    config: Optional[Config] = None

    def complete(self) -> Config:
        """The settings as a Config."""
        config = dataclasses.replace(self.config) if self.config is not None else Config()
        if self.samples:
            config.samples = self.samples
            setattr(config, "batch_per_member" if self.per_member else "batch", self.batch)
        if self.checkpoint is not None:
            config.checkpoint_dir = self.checkpoint
        return config


class Replica:
    """The values of a framework as part of a job. `read` returns them, in an order that never changes.

    After :meth:`begin`, while :attr:`fresh`, the caller takes :attr:`values` over and calls :meth:`taken`.
    """

    def __init__(self, read: Callable[[], Sequence[Array]], settings: Settings) -> None:
        self._read = read
        self._settings = settings
        self.room: Callable[[], int] = lambda: 0  #: bytes for values of later, asked for when the job is joined
        self._memory: Optional[Memory] = None
        self._loads = 0
        self._held = False
        self._totals = np.zeros(2, dtype=np.int64)
        self._declined = False
        self.control = np.zeros(_CONTROL, dtype=np.int64)
        self.job: Optional[Job] = None
        self.step: Optional[Step] = None  #: begun and not committed
        self.last_step: Optional[Step] = None
        self._is_apart = True  # the others may have taken steps without it since its last one
        self.fresh = False  #: others' values came and the framework does not have them yet
        self.after_join: list[Callable[[Job], None]] = []  #: register more; the first step comes then
        self.before_copy: list[Callable[[Job], None]] = []  #: bring blobs up to date

    # ---- joining ----

    def open(self) -> Job:
        """Join the job, or found it, and register all values. Does nothing when done before."""
        if self.job is not None:
            return self.job
        settings = self._settings
        seed = settings.seed if settings.seed is not None else int.from_bytes(os.urandom(4), "little")
        self.control[SEED] = seed & ((1 << 62) - 1)
        values = self._read()
        self._memory = Memory(values, self.room())
        self._memory.fill(values)
        job = Job(settings.complete())
        job.join()
        arrays.register("spotnik.values", self._memory.bytes, job)
        arrays.register("spotnik.control", self.control, job)
        job.refresh_set(self._refresh)
        self.job = job
        for register in self.after_join:
            register(job)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            leave_on_sigterm()
        return job

    @property
    def memory(self) -> Memory:
        """The registered copy."""
        if self._memory is None:
            raise StateError("the job was not joined yet; take a step first")
        return self._memory

    @property
    def values(self) -> list[Array]:
        """The registered copy of each value, to be read only."""
        return self.memory.views

    def hold(self) -> None:
        """The program may make the values others: keep the copy of now until :meth:`lay_out`."""
        if self.job is not None:
            self._refresh()
            self._held = True

    def lay_out(self) -> bool:
        """Take the values as they are now. False: they need more memory than was registered."""
        self._held = False
        values = self._read()
        if not self.memory.fits(values):
            if size_of(values) > self.memory.bytes.nbytes:
                return False
            self.memory.lay_out(values)
        return True

    def taken(self) -> None:
        """The framework has the values now."""
        self.fresh = False

    def _refresh(self) -> None:
        # Inside step_begin, when a checkpoint was just loaded, what the framework holds is older.
        loaded = self.job is not None and self.job.loads != self._loads
        if not self.fresh and not loaded and not self._held:
            self._copy()

    def _copy(self) -> None:
        values = self._read()
        if not self.memory.fits(values):
            raise StateError(
                "the values of the replica changed their number, shapes or types after the first step; build model and "
                "optimizer completely before it"
            )
        self.memory.fill(values)
        for prepare in self.before_copy:
            assert self.job is not None
            prepare(self.job)

    # ---- steps ----

    def begin(self, strategy: bool = True) -> Step:
        """Begin the next step, or return the one that is running. After a notice: leave, and exit with 75.

        `strategy`: as of :meth:`spotnik.Job.step_begin`.
        """
        if self.step is not None:
            return self.step
        job = self.open()
        try:
            step = job.step_begin(strategy)
        except LeavingError:
            logger.info("leaving the job after a notice; exit status %d asks for a restart", EXIT_INTERRUPTED)
            self.leave()
            self._is_apart = True
            raise SystemExit(EXIT_INTERRUPTED) from None
        except MismatchError as error:
            if self.last_step is None:
                raise MismatchError(f"{error}. {_ANOTHER}") from error
            raise
        if job.loads != self._loads:
            self._loads = job.loads
            self.fresh = True
        self.step = self.last_step = step
        self._is_apart = False
        return step

    def decline(self) -> None:
        """Have the running step consume no samples."""
        assert self.job is not None
        self.job.samples_decline()
        self._declined = True

    def commit(self, finish: Optional[Callable[[], bool]] = None, totals: Bucket = Bucket.TOTALS) -> bool:
        """Finish the running step, by `finish` in place of the job's commit; `totals` tells kinds of steps apart.

        False: the others went on without this member; the next begin has their state.
        """
        assert self.job is not None and self.step is not None
        self._totals[:] = (0 if self._declined else self.step.sample_count, 1)
        self._declined = False
        arrays.start(self._totals, "sum", totals, self.job)
        committed = (finish or self.job.step_commit)()
        self.step, self._is_apart = None, not committed
        if committed:
            self._account(int(self._totals[0]))
        return committed

    def _account(self, samples: int) -> None:
        control = self.control
        control[CONSUMED] += samples
        if self._settings.samples and control[CONSUMED] >= self._settings.samples:
            control[DATA_EPOCH] += 1
            control[CONSUMED] = 0

    # ---- looking ----

    @property
    def seed(self) -> int:
        """The job's seed: that of its founder."""
        return int(self.control[SEED])

    @property
    def epoch(self) -> int:
        """The epoch of data the job is in, from 0."""
        return int(self.control[DATA_EPOCH])

    @property
    def late(self) -> bool:
        """Did this member begin with the state of others, or of a checkpoint?"""
        return self._loads > 0

    @property
    def rank(self) -> int:
        """This member's place in the last step it has begun. -1: the others may have taken steps without it since."""
        if is_alone(self._settings.config):
            return 0
        return -1 if self.last_step is None or self._is_apart else self.last_step.rank

    @property
    def size(self) -> int:
        """Members of that view; 1 before the first step."""
        return self.last_step.size if self.last_step else 1

    @property
    def digest(self) -> int:
        """A hash of the whole replica: equal on all members after each step."""
        assert self.job is not None
        self._refresh()
        return self.job.digest

    def rejoin(self) -> None:
        """Leave the step that is running to the others; the next begin is that of a newcomer."""
        self.leave()
        self.step, self.fresh, self._loads, self._is_apart = None, False, 0, True
        self.control[EXTRA] = 0

    def leave(self) -> None:
        """Leave the job after the last committed step."""
        if self.job is None:
            return
        try:
            self.job.leave()  # which asks for a copy of the values
        finally:
            self.job = None

    def random(self, *more: int) -> Any:
        """A generator of numbers that follows from the job's seed, the running step and this member's share."""
        step = self.step or self.last_step
        assert step is not None
        first = step.ranges[0].start if step.ranges else (1 << 40) + step.rank
        return np.random.default_rng([self.seed, step.number, first, *more])

    def stirred(self, place: int, seed: Array) -> Array:
        """Numbers of the running step and this member's share for the seed generator `place`, whose state is `seed`."""
        most = np.iinfo(np.uint32 if seed.dtype == np.uint32 else np.int32).max
        drawn: Array = self.random(place, *map(int, seed)).integers(0, most, 2, endpoint=True)
        return drawn.astype(seed.dtype)
