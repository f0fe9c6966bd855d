# SPDX-License-Identifier: Apache-2.0
"""A session joins its job and leaves it: what is registered, what the job is told of the data, where it stands."""

from __future__ import annotations

import dataclasses
import logging
import signal
import threading
from collections.abc import Callable
from typing import Any, Optional

import torch
from torch.optim import Optimizer

from ..config import is_alone
from ..errors import MismatchError, StateError
from ..job import Config, Job, Step, leave_on_sigterm
from ._checks import check_launcher
from ._exchange import Exchange
from ._ghost import bear_lone_samples, depends_on_share
from ._gradients import Gradients
from ._leaves import Stateful
from ._metrics import Metrics
from ._options import Data, Options
from ._pauses import Pauses
from ._replica import CONSUMED, DATA_EPOCH, SEED, Replica, Watch
from ._schedules import hold_at_end
from ._strategies import Strategy

log = logging.getLogger("spotnik.torch")

EXIT_INTERRUPTED = 75


class Joining:
    """The part of a session that is about the job as a whole."""

    def __init__(
        self, model: torch.nn.Module, optimizers: list[Optimizer], extras: list[Stateful], options: Options
    ) -> None:
        self.model = model
        self.optimizers = optimizers
        self.extras = extras
        self.options = options
        self.watch = Watch(model, optimizers)
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.gradients = Gradients(trained, options.bucket_mb, options.accumulate, options.sparse, self._commit)
        self.metrics = Metrics(options.metrics)
        self.pauses = Pauses(options.pauses)
        self.data: Optional[Data] = None
        self.job: Optional[Job] = None
        self.solo = False
        self.step: Optional[Step] = None  #: begun and not committed
        self.over = False
        self._behind = 1 << 40  # epochs, when it last stood aside
        self.left_at = 0  #: the step in which it did so
        self.aside_until = 0  #: the epoch of data in which this member joins again
        self.epoch_floor = 0  #: epochs of data before this one are not asked for
        self.before_open: list[Callable[[], None]] = []
        self.last_step: Optional[Step] = None
        self.wait_s = 0.0
        self.strategy: Optional[Strategy] = None  #: other than averaging the gradients of every step
        self._used: list[int] = []
        self._replica: Optional[Replica] = None
        self._exchange: Exchange
        self._pending: set[int] = set()  # optimisers that have not applied the committed step
        self._excluded = False
        self._inside = False
        # To the program's loop, also those without samples for this member: a log's wish, and that of pauses.
        self.every_step_shown = self.pauses.on
        self._touched = False
        self._known = True  # do we know what the program did after the last step?
        self._members = 1
        self._samples = 0
        self._in_closure: Optional[Optimizer] = None  # the optimiser that computes its own gradients
        self._contributors = 0
        self._told_of_numbers = False
        self._settings_committed: list[object] = []  # of the optimisers
        self._settings_late: Optional[list[object]] = None  # set after the commit, before the step was applied
        self.told_of_end = False
        self._lr_before: list[tuple[dict[str, Any], Any]] = []
        self._versions: Optional[int] = None
        self._hooks: list[Any] = []  # of the model and the optimisers
        self.handed: Optional[Step] = None  #: the last one whose batch the loop was given
        self._entry: Any = None  # begins the steps, where no loader does

    # ---- joining ----

    def attach(self, data: Data) -> None:
        """Let the job hand out `data`: before the first step."""
        if self.data is not None and data != self.data:
            raise StateError(
                "a job consumes one data set, and another loader was sharded before; shard() the training loader only "
                "and iterate over validation loaders as they are"
            )
        if self.job is not None and self.data is None:
            raise StateError(
                "steps were taken, or rank() was called, before shard(); shard the loader before either of them"
            )
        self.data = data
        self._entry.remove()  # the loader begins the steps

    def open(self) -> Job:
        """Join the job, or found it; registers the replica. Does nothing when done before."""
        if self.job is not None:
            return self.job
        config = dataclasses.replace(self.options.config) if self.options.config is not None else Config()
        self.solo = is_alone(config)
        check_launcher(self.solo)
        if self.data is not None:
            config.samples = self.data.samples
            setattr(config, "batch_per_member" if self.data.per_member else "batch", self.data.batch)
        if self.options.checkpoint is not None:
            config.checkpoint_dir = self.options.checkpoint
        seed = self.options.seed if self.options.seed is not None else torch.initial_seed()
        self._replica = self._replicate(seed & ((1 << 63) - 1))
        for one in self._replica.objects:
            hold_at_end(one, self._has_losses)
        for start in self.before_open:
            start()
        self.watch.seal()
        job = Job(config)
        job.join()
        self._replica.register(job)
        self.pauses.register(job)
        self._joined(job)
        self._exchange = Exchange(self._replica, len(self.gradients.slots))
        self.job = job
        _heed_sigterm()
        self._say_hello()
        return job

    def _has_losses(self) -> bool:
        return self.job is not None and self.job.status().losses > 0

    def _replicate(self, seed: int) -> Replica:
        return Replica(self.model, self.optimizers, self.extras, seed)

    def _joined(self, job: Job) -> None:
        self.gradients.job = None if self.solo else job

    def _say_hello(self) -> None:
        for one in self.replica.objects[len(self.extras) :]:
            log.info("found %s: its state is part of the replica", type(one).__name__)
        if self.data is not None:
            log.info(
                "%d samples an epoch; batch=%r: %d samples a step %s; lr_rule=%r",
                self.data.samples,
                "per_member" if self.data.per_member else "global",
                self.data.batch,
                "for each member" if self.data.per_member else "over all members together",
                self.options.lr_rule,
            )
        self._look_at_norms()

    def _look_at_norms(self) -> None:
        """Say it where the statistics of a BatchNorm are those of few samples, and change with the members."""
        if self.solo or self.data is None or self.data.per_member:
            return
        bear_lone_samples(self.model)
        if any(depends_on_share(one) for one in self.model.modules()):
            log.warning(
                "the model has BatchNorm, which normalises over this member's share of the %d samples of a step, so "
                "the training depends on how many members there are. With layers of GroupNorm or LayerNorm, "
                'spotnik.ghost_batchnorm(model, samples) or prepare(..., batch="per_member") it does not',
                self.data.batch,
            )

    @property
    def replica(self) -> Replica:
        """The registered state; there is one once the job is open."""
        assert self._replica is not None
        return self._replica

    @property
    def position(self) -> tuple[int, int]:
        """(epoch of data, samples of it that committed steps have consumed)."""
        control = self.replica.control
        return int(control[DATA_EPOCH]), int(control[CONSUMED])

    @property
    def steps_done(self) -> int:
        """Steps that the job has committed, as far as this member has come. Joins the job."""
        if self.last_step is None:
            self.begin()
        if self.step is not None:
            return self.step.number - 1
        assert self.last_step is not None
        return self.last_step.number

    @property
    def rank(self) -> int:
        """This member's place in the last step it has begun. -1: the others may have taken steps without it since."""
        if self.solo:
            return 0
        return -1 if self.last_step is None or self._excluded else self.last_step.rank

    @property
    def is_aside(self) -> bool:
        """Has it left the job to catch up with its loop?"""
        return self.job is None and self.left_at > 0

    @property
    def seed(self) -> int:
        """The job's seed: that of its founder."""
        return int(self.replica.control[SEED])

    def _mismatch(self, error: MismatchError) -> MismatchError:
        slots = self.gradients.slots
        return MismatchError(
            f"{error}. Here the model has {sum(slot.parameter.numel() for slot in slots)} trained elements in "
            f"{len(slots)} parameters and bucket_mb={self.options.bucket_mb}: start the same program with the same "
            "arguments on all members. If it trains one model after another, the others may be at a later one: have it "
            "pass over a training whose result is saved"
        )

    def stand_aside(self, wanted: int) -> None:
        """The loop is in an epoch of data that is over: be no member until it has caught up, so that nobody waits.

        What the program does after each epoch, validation say, it does for those that are over, too.
        """
        behind = self.position[0] - wanted
        if self.job is None or self.solo or self.strategy is not None or behind < 2 or 2 * behind > self._behind:
            return  # also where catching up takes about as long as the others' epochs do
        if self.step is None or self.step.size < 3:
            return  # the one that stays would be the only one with the state: rather have it wait
        self.left_at = self.step.number
        self._behind = behind
        self.aside_until = self.position[0]
        log.warning(
            "the job is in epoch %d and the loop in epoch %d: this member leaves until its loop has caught up, and "
            "what follows each epoch in the loop (validation, saving) runs for epochs that are over. To skip them "
            "write: for epoch in spotnik.epochs(count)",
            self.aside_until,
            wanted,
        )
        job, self.job = self.job, None
        self.step = self.last_step = None
        self._pending.clear()
        self._versions = None
        self.gradients.job = None
        job.abandon()

    # ---- the end ----

    def close(self, abandon: bool = False) -> None:
        """Leave the job and take the hooks away; the model is an ordinary one again."""
        self.over = True
        self.gradients.close()
        for handle in self._hooks:
            handle.remove()
        job, self.job = self.job, None
        if job is None:
            return
        if abandon:
            self.last_step = None
            job.abandon()
        else:
            job.leave()

    def begin(self, epoch: Optional[int] = None) -> Step:
        """Begin the next step that the program's loop has to take."""
        raise NotImplementedError

    def _commit(self) -> None:
        """All gradients of this member are there: finish the step."""
        raise NotImplementedError


def _heed_sigterm() -> None:
    """SIGTERM asks to leave after the running step, unless the program has its own handler."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        leave_on_sigterm()
