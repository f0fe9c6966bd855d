# SPDX-License-Identifier: Apache-2.0
"""One program in one job: what happens between two batches.

    begin   shard(), or the model's forward: take a share; as a joiner, repeat what was committed meanwhile
    travel  backward's hooks send buckets (``_gradients``)
    commit  at the end of backward: wait for the averages. Everything after it sees averages: clipping, unscaling
    apply   optimizer.step(), which does nothing where nothing was committed (``_applier``)

A mode (``_mode``) says when a step is committed. With the gradients travel the numbers of optimisers and schedulers
(``_agreement``), so that every replica takes a step with the same ones.

Steps without samples for this member (a joiner's repeats, short tails) are taken in ``begin``, if the program did
nothing to averages or parameters that is not in registered state (``_repeats``); else its loop runs on a few samples
of weight zero. So it does in short tails where the program keeps a log (``_writing``).
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any, NoReturn, Optional, Union

import torch
from torch.optim import Optimizer

from .._native import Op
from ..config import is_alone
from ..errors import EXIT_INTERRUPTED, ArgumentError, MismatchError, StateError
from ..job import Config, Job, Step
from ..training.control import Control
from ..training.membership import Membership, heed_sigterm
from ..training.metrics import Metrics
from ..training.pauses import Pauses
from ..training.repeats import NO, Repeats
from ..training.running import Running
from ..training.shares import mix
from ..training.steps import Steps
from ._agreement import Agreement
from ._applier import Applier
from ._checks import check_launcher
from ._entry import Entry
from ._ghost import bear_lone_samples, depends_on_share
from ._gradients import Gradients
from ._leavers import Leavers
from ._leaves import Stateful
from ._log import log
from ._mode import AtBackward
from ._options import Data, Options
from ._outside import Outside
from ._parting import Parting
from ._places import make_job, place_here
from ._rates import Rates
from ._replica import Replica, Watch
from ._schedules import hold_at_end
from ._strategies import Strategy
from ._twins import Twins
from ._wish import Wish


class Session:
    """The life of a prepared model. One per process at a time."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizers: list[Optimizer],
        extras: list[Stateful],
        options: Options,
        mode: Callable[[Session], AtBackward],
    ) -> None:
        self.model, self.optimizers, self.extras, self.options = model, optimizers, extras, options
        self.data: Optional[Data] = None
        self.solo = False
        self.over = False
        self.control = Control()
        self.running = Running()
        self.watch = Watch(model, optimizers)
        self.repeats = Repeats(self.control, self.watch.settings, self.watch.versions)
        self.rates = Rates(options, self.running)
        self.metrics = Metrics(options.metrics)
        self.twins = Twins()
        self._leavers = Leavers()
        self.membership = Membership(self._register, self._notice, self._explained, self._make_job)
        self.pauses = Pauses(options.pauses, self.control, self.membership, self.exclude)
        self.parting = Parting(self.control, self.membership)
        self._steps = Steps(self.membership, self._ready, self._begun, [self.parting, self.pauses])
        self.mode = mode(self)
        self.applier = Applier(optimizers, self.mode, self.running, self.repeats, self.rates, options.on_step)
        self._entry = Entry(model, self._before_forward)  # begins the steps, where no loader does
        self._replica: Optional[Replica] = None
        self._outside: Optional[Outside] = None
        self.agreement: Agreement  #: of the members; there is one once the job is open
        # To the program's loop, also those without samples for this member: a log's wish, and that of pauses.
        self.every_step_shown = self.pauses.on
        self._behind = 1 << 40  # epochs, when it last stood aside
        self.left_at = 0  #: the step in which it did so
        self.aside_until = 0  #: the epoch of data in which this member joins again
        self.epoch_floor = 0  #: epochs of data before this one are not asked for
        self.epoch_asked = False  #: did the program ask which epoch it is, before it had a batch?
        self.order_mark: Callable[[], int] = int  #: of the order of samples, which must be the same on all members
        self.is_new = False  #: has it taken no step with the state that it has received?
        self.before_open: list[Callable[[], None]] = []
        self.told_of_end = False
        self._copied_at: Optional[tuple[int, torch.Tensor]] = None

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
        self.data = self.rates.data = data
        self._entry.remove()  # the loader begins the steps

    def open(self) -> Job:
        """Join the job, or found it; registers the replica. Does nothing when done before."""
        if self.job is not None:
            return self.job
        options = self.options
        config = dataclasses.replace(options.config) if options.config is not None else Config()
        self.solo = is_alone(config) and place_here() is None and not self.mode.is_sharded
        check_launcher(self.solo)
        if self.data is not None:
            config.samples = self.data.samples
            setattr(config, "batch_per_member" if self.data.per_member else "batch", self.data.batch)
        if options.checkpoint is not None:
            config.checkpoint_dir = options.checkpoint
        self._replica = self._replicate()
        for one in self._replica.objects:
            hold_at_end(one, self._has_losses)
        for start in self.before_open:
            start()
        self.watch.seal()
        self._outside = None if self.solo else Outside([*self.model.parameters(), *self._replica.tensors])
        job = self.membership.join(config)
        heed_sigterm()
        self._say_hello()
        return job

    def _replicate(self) -> Replica:
        with self.watch.thawed():
            replica = self.mode.replicate()
        self.mode.check(replica)
        self.parting.names, self.parting.sums = [name for name, _ in replica.compared], replica.sums
        seed = self.options.seed if self.options.seed is not None else torch.initial_seed()
        self.control.reset()
        self.control.seed = seed & ((1 << 63) - 1)
        self.control.epoch = self.options.start
        if replica.changes_itself:
            self.control.repeats = NO
        return replica

    def _make_job(self, config: Config) -> Job:
        return make_job(config, self.mode.is_sharded)

    def _register(self, job: Job) -> None:
        self.replica.register(job, self.membership)
        self.control.register(job)
        parts = self.running, self.repeats, self.metrics, self.pauses, self.control
        samples = self.data.samples if self.data is not None else 0
        self.agreement = Agreement(self.replica, *parts, samples, self._start_again)
        self.mode.joined(job)

    def _has_losses(self) -> bool:
        return self.job is not None and self.job.status().losses > 0

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

    def _explained(self, error: MismatchError) -> MismatchError:
        slots = self.gradients.slots
        return MismatchError(
            f"{error}. Here the model has {sum(slot.parameter.numel() for slot in slots)} trained elements in "
            f"{len(slots)} parameters, bucket_mb={self.options.bucket_mb} and wire={self.options.wire!r}: start the "
            "same program with the same arguments on all members. If it trains one model after another, the others "
            "may be at a later one: have it pass over a training whose result is saved"
        )

    # ---- where it stands ----

    @property
    def job(self) -> Optional[Job]:
        """The job, between joining and the end."""
        return self.membership.job

    @property
    def replica(self) -> Replica:
        """The registered state; there is one once the job is open."""
        assert self._replica is not None
        return self._replica

    @property
    def gradients(self) -> Gradients:
        """Those of the running step."""
        return self.mode.gradients

    @property
    def strategy(self) -> Optional[Strategy]:
        """Other than averaging the gradients of every step."""
        return self.mode.strategy

    @property
    def position(self) -> tuple[int, int]:
        """(epoch of data, samples of it that committed steps have consumed)."""
        return self.control.epoch, self.control.consumed

    @property
    def steps_done(self) -> int:
        """Steps that the job has committed, as far as this member has come. Joins the job."""
        running = self.running
        if running.last_step is None:
            self.begin()
        if running.step is not None:
            return running.step.number - 1
        assert running.last_step is not None
        return running.last_step.number

    @property
    def rank(self) -> int:
        """This member's place in the last step it has begun. -1: the others may have taken steps without it since."""
        last = self.running.last_step
        if self.solo:
            return 0
        return -1 if last is None or self.running.excluded else last.rank

    @property
    def is_aside(self) -> bool:
        """Has it left the job to catch up with its loop?"""
        return self.job is None and self.left_at > 0

    # ---- begin ----

    def begin(self, epoch: Optional[int] = None) -> Step:
        """Begin the next step that the program's loop has to take; takes those before it by itself.

        With pauses, and where steps taken here end `epoch`, in which the loop is, no step is begun: the program may
        have something to call before the next one. Raises DoneError at the end of the job; leaves and exits with 75
        after a notice.
        """
        self.mode.before_begin()
        if self.running.step is not None:
            return self.running.step
        if self.over:
            raise StateError("the job was left; call prepare() again to take part in another")
        self.open()
        self.settle()
        while True:
            step = self.pauses.number(self._steps.begin())
            self.arm(step)
            if not self.mode.is_repeated(step):
                return step
            self.take_inside()
            if epoch == self.control.epoch - 1 and self.pauses.is_next:  # a loop in an earlier one is late
                return step

    def begin_any(self) -> tuple[Step, bool]:
        """Begin the next step, of whatever kind. Returns it, and whether the state of others has come with it."""
        return self._steps.begin_any()

    def _ready(self) -> None:
        last = self.running.last_step
        self.replica.mark()
        self.watch.check()
        if self._outside is not None:
            self._outside.look()
        self.repeats.mark(last.number if last else 0)
        self.mode.ready()

    def _begun(self, step: Step, came: bool) -> None:
        if step.number < self.left_at:
            self._end(
                "all other members were lost while this one had left the job to catch up with its loop, and their "
                "state with them; exit status %d asks for a restart, which goes on from the newest checkpoint, if "
                "there is one"
            )
        if came:
            self.replica.unpack()
            self.repeats.received()
            self.pauses.received()
            self.mode.received()
            self.is_new = True
            log.info("state received at step %d", step.number - 1)

    def arm(self, step: Step) -> None:
        """A step of the training has begun: gradients may arrive."""
        running = self.running
        if not self.solo and self.job is not None:
            self._leavers.look(self.job, step)
        running.step = running.last_step = step = self.mode.arm(step)
        running.excluded, running.used = False, []
        self._copied_at = (self.watch.versions(), self.watch.bits()) if self.replica.is_copied else None
        self.gradients.arm(self.mode.weight_of(step) > 0)
        if self.options.rng:
            first = step.ranges[0].start if step.ranges else step.share + (1 << 40)
            _seed_generators(mix(self.control.seed, step.number, first))
        self.mode.armed(step)

    def look_at_copied(self) -> None:
        """The state is being copied since the step began: has the program changed it meanwhile?"""
        before, self._copied_at = self._copied_at, None
        if before is None or self.job is None:
            return
        if self.watch.versions() != before[0] or not torch.equal(self.watch.bits(), before[1]):
            self.replica.changed(self.job)
            log.info("the program changes parameters before optimizer.step(): copies of the state hold it up")

    def settle(self) -> None:
        """The program comes for another step: has it dealt with the last one?"""
        running = self.running
        if running.pending and not running.excluded:
            if running.members and not self.is_skipped:
                raise StateError(
                    "backward() was called, but not optimizer.step(): the averaged gradient was not applied. Call "
                    "step() of every prepared optimizer once for each backward(), and for each skip(), which leaves "
                    "the average of the others; or say prepare(..., accumulate=k) to accumulate gradients over k of "
                    "them"
                )
            self.repeats.touched = True  # skipped on purpose, as a gradient scaler does
        running.pending.clear()

    @property
    def is_skipped(self) -> bool:
        """Was the committed step left out on purpose? A gradient scaler does so; and zero_grad() may have followed."""
        return not self.gradients.finite or (self.replica.scaled and not self.gradients.present)

    def _before_forward(self, module: torch.nn.Module, arguments: Any) -> None:
        if not (module.training and torch.is_grad_enabled()):
            return
        if self.mode.begins_at_forward:
            self.begin()
        if self.running.step is not None and not self.solo and self.twins.is_due(self.running.step):
            self.twins.saw(arguments)

    def take_inside(self) -> None:
        """Take the step that has begun without the program's loop."""
        running = self.running
        running.inside = True
        try:
            running.used = self.gradients.send_nothing()
            self.mode.finish_inside()
            self.mode.repeat()
        finally:
            running.inside = False
        self.repeats.known = running.excluded or not self.replica.leaves

    def begin_own(self) -> None:
        """A loop with batches of its own asks about a step: begin it, as the model's forward pass does."""
        if self.running.step is None and self.data is None and self.mode.begins_at_forward:
            self.begin()

    # ---- commit ----

    def commit_for_ddp(self) -> None:
        """All gradients of a backward pass have come by the communication hook."""
        self.gradients.passes += 1
        self.mode.commit()

    def exclude(self) -> None:
        """The others took the step without this member."""
        log.info("the others went on without this member; it joins again")
        self.running.excluded, self.running.pending = True, set()
        self.repeats.known = True
        self.repeats.forget()
        self.gradients.drop(self.replica.scaled)
        self.replica.buffers.restore()
        self.mode.excluded()

    # ---- between two steps of the training ----

    def allreduce(self, value: Union[torch.Tensor, float, int], op: Union[str, Op]) -> Union[torch.Tensor, float, int]:
        """Reduce `value` over the members, in an open pause."""
        wish = Wish(value, op)
        self._check_pause()
        self.settle()
        watched = self.repeats.watches
        done: Optional[bool] = False
        while not done:
            step, came = self.begin_any()
            done = None if came else self.pauses.answer(step, wish)
            if done is None:
                self._end_late()
        if watched:
            self.repeats.watch()
        return wish.result()

    def _check_pause(self) -> None:
        """May allreduce() be called now?"""
        running = self.running
        if not self.pauses.on:
            raise ArgumentError(
                'allreduce() needs a place between two steps; say prepare(..., pauses="epoch") to call it after each '
                "epoch of data, or pauses=k after every k-th step"
            )
        if running.excluded:
            self._end_late()
        if running.step is not None and running.step is not running.handed and self.data is not None:
            if running.handed is not None:
                self._end_late()
            raise StateError(
                "allreduce() was called for an epoch that was over when this member came; write "
                "for epoch in spotnik.epochs(count), which begins with the epoch that the job is in"
            )
        if running.step is not None:
            raise StateError(
                "allreduce() was called in the midst of a step; call it after optimizer.step(), or give the running "
                "step a number by spotnik.tell()"
            )
        if self.job is None or self.over or not self.pauses.is_next:
            when = "of an epoch of data" if self.pauses.when == "epoch" else f"of every {self.pauses.when} steps"
            raise StateError(
                f"allreduce() was called where pauses={self.pauses.when!r} leaves no place for it; call it after the "
                f"last step {when}, or give prepare() other pauses"
            )

    # ---- the end ----

    def stand_aside(self, wanted: int) -> None:
        """The loop is in an epoch of data that is over: be no member until it has caught up, so that no member waits.

        What the program does after each epoch, validation say, it does for those that are over, too.
        """
        if self.epoch_asked:
            self.epoch_asked = False
            log.warning(
                "the loop is in epoch %d, which is over, so it gets no batch in it. If it counts from spotnik.epoch(), "
                "%d here, it will end too early: write: for epoch in spotnik.epochs(count); and "
                "next(spotnik.epochs(count), count) for an engine that is given where to begin",
                wanted,
                self.control.epoch,
            )
        running, behind = self.running, self.control.epoch - wanted
        if self.job is None or self.solo or self.strategy is not None or behind < 2 or 2 * behind > self._behind:
            return  # also where catching up takes about as long as the others' epochs do
        if running.step is None or running.step.size < 3:
            return  # the one that stays would be the only one with the state: rather have it wait
        self.left_at = running.step.number
        self._behind = behind
        self.aside_until = self.control.epoch
        log.warning(
            "the job is in epoch %d and the loop in epoch %d: this member leaves until its loop has caught up, and "
            "what follows each epoch in the loop (validation, saving) runs for epochs that are over. To skip them "
            "write: for epoch in spotnik.epochs(count)",
            self.aside_until,
            wanted,
        )
        running.step = running.last_step = None
        running.pending.clear()
        self.repeats.forget()
        self.gradients.travel_in(None)
        self.membership.abandon()

    def unsure(self) -> None:
        """The program did something to its schedulers that it should not have: its numbers do not count."""
        self.repeats.known = False

    def _notice(self) -> None:
        self.close()
        self.running.last_step = None

    def _end_late(self) -> NoReturn:
        """The others went on while this member was stopped; it cannot repeat what it missed."""
        self._end(
            "the others went on without this member, and what it asked for by allreduce() is over; exit status %d "
            "asks for a restart"
        )

    def _start_again(self, why: str) -> NoReturn:
        self._end(f"{why}; it starts again with exit status %d")

    def _end(self, why: str) -> NoReturn:
        """Leave the job at once, and exit with the status that asks for a restart; `why` has a place for that."""
        log.error(why, EXIT_INTERRUPTED)
        self.close(abandon=True)
        raise SystemExit(EXIT_INTERRUPTED)

    def close(self, abandon: bool = False) -> None:
        """Leave the job and take the hooks away; the model is an ordinary one again."""
        global _current
        if _current is self:
            _current = None
        self.over = True
        self.mode.close()
        self.applier.close()
        self._entry.remove()
        if abandon and self.job is not None:
            self.running.last_step = None
            self.membership.abandon()
        else:
            self.membership.leave()


_current: Optional[Session] = None
_last: Optional[Session] = None


def install(session: Session) -> None:
    """Make `session` the one that shard() and the other functions use."""
    global _current, _last
    if _current is not None and not _current.over:
        raise StateError("a model is prepared already; call spotnik.leave() before preparing another in this process")
    _current = _last = session


def current() -> Session:
    """The session that prepare() made."""
    if _current is None:
        raise StateError("no model is prepared; call model, optimizer = spotnik.prepare(model, optimizer) first")
    return _current


def find() -> Optional[Session]:
    """The session, if there is one."""
    return _current


def last() -> Optional[Session]:
    """The session, or the last one, which was left."""
    return _last


def _seed_generators(seed: int) -> None:
    """As torch.manual_seed() does, but without its record of the caller for accelerators that are not in use."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)


def seeded(*parts: int) -> None:
    """Seed Python's and PyTorch's generators: in workers that load data."""
    seed = mix(*parts)
    random.seed(seed)
    torch.manual_seed(seed)
