# SPDX-License-Identifier: Apache-2.0
"""A replica that lives in a framework's memory, with a copy in host memory for the library.

The copy is brought up to date only for a joiner, a checkpoint or :attr:`Replica.digest`. What came
from others is :attr:`Replica.fresh` until the framework has taken it over.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from .. import arrays
from ..config import is_alone
from ..errors import MismatchError, StateError
from ..job import Config, Job, Step
from .buckets import Bucket
from .control import Control
from .membership import Membership, heed_sigterm
from .memory import Memory, size_of

if TYPE_CHECKING:
    from .memory import Array

_ANOTHER = (
    "If the program trains one model after another, the others may be at a later one: have it pass over a training "
    'whose result is saved ("Several trainings" in docs/guide/keras.md)'
)


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
        self._held = False
        self._totals = np.zeros(2, dtype=np.int64)
        self._declined = False
        self.control = Control()
        self.membership = Membership(self._register, self._notice, self._explained)
        self.last_step: Optional[Step] = None
        self._is_apart = True  # the others may have taken steps without it since its last one
        self.fresh = False  #: others' values came and the framework does not have them yet
        self.after_join: list[Callable[[Job], None]] = []  #: register more; the first step comes then
        self.before_copy: list[Callable[[Job], None]] = []  #: bring blobs up to date

    # ---- joining ----

    @property
    def job(self) -> Optional[Job]:
        """The job, between joining and the end."""
        return self.membership.job

    @property
    def step(self) -> Optional[Step]:
        """The step that is begun and not committed."""
        return self.membership.step

    def open(self) -> Job:
        """Join the job, or found it, and register all values. Does nothing when done before."""
        if self.job is not None:
            return self.job
        settings = self._settings
        seed = settings.seed if settings.seed is not None else int.from_bytes(os.urandom(4), "little")
        self.control.seed = seed & ((1 << 62) - 1)
        values = self._read()
        self._memory = Memory(values, self.room())
        self._memory.fill(values)
        job = self.membership.join(settings.complete())
        heed_sigterm()
        return job

    def _register(self, job: Job) -> None:
        arrays.register("spotnik.values", self.memory.bytes, job)
        self.control.register(job)
        job.refresh_set(self._refresh)
        for register in self.after_join:
            register(job)

    def _notice(self) -> None:
        self.leave()
        self._is_apart = True

    def _explained(self, error: MismatchError) -> MismatchError:
        return MismatchError(f"{error}. {_ANOTHER}") if self.last_step is None else error

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
        if not self.fresh and not self.membership.has_newer and not self._held:
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
            prepare(self.membership.open_job)

    # ---- steps ----

    def begin(self, strategy: bool = True) -> Step:
        """Begin the next step, or return the one that is running. After a notice: leave, and exit with 75.

        `strategy`: as of :meth:`spotnik.Job.step_begin`.
        """
        if self.step is None:
            self.open()
        step = self.membership.begin(strategy)
        self.begun(step, self.membership.received())
        return step

    def begun(self, step: Step, came: bool) -> None:
        """`step` has begun; has the state of others, or of a checkpoint, come with it?"""
        self.fresh = self.fresh or came
        self.last_step, self._is_apart = step, False

    def decline(self) -> None:
        """Have the running step consume no samples."""
        self.membership.open_job.samples_decline()
        self._declined = True

    def commit(self, finish: Optional[Callable[[], bool]] = None, totals: Bucket = Bucket.TOTALS) -> bool:
        """Finish the running step, by `finish` in place of the job's commit; `totals` tells kinds of steps apart.

        False: the others went on without this member; the next begin has their state.
        """
        step = self.step
        assert step is not None
        self._totals[:] = (0 if self._declined else step.sample_count, 1)
        self._declined = False
        arrays.start(self._totals, "sum", totals, self.job)
        committed = self.membership.commit(finish)
        self._is_apart = not committed
        if committed:
            self.control.consume(int(self._totals[0]), self._settings.samples)
        return committed

    # ---- looking ----

    @property
    def seed(self) -> int:
        """The job's seed: that of its founder."""
        return self.control.seed

    @property
    def epoch(self) -> int:
        """The epoch of data the job is in, from 0."""
        return self.control.epoch

    @property
    def late(self) -> bool:
        """Did this member begin with the state of others, or of a checkpoint?"""
        return self.membership.loads > 0

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
        self._refresh()
        return self.membership.open_job.digest

    def rejoin(self) -> None:
        """Leave the step that is running to the others; the next begin is that of a newcomer."""
        self.leave()
        self.fresh, self._is_apart = False, True
        self.control.extra = 0

    def leave(self) -> None:
        """Leave the job after the last committed step."""
        self.membership.leave()

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
