# SPDX-License-Identifier: Apache-2.0
"""One program in one job: what happens between two batches.

    begin   shard(), or the model's forward: take a share; as a joiner, repeat what was committed meanwhile
    travel  backward's hooks send buckets (``_gradients``)
    commit  at the end of backward: wait for the averages. Everything after it sees averages: clipping, unscaling
    apply   optimizer.step(), which does nothing where nothing was committed

Under a strategy other than "ssgd" some of this is otherwise: ``_strategic``.

With the gradients travel the numbers of optimisers and schedulers (``_exchange``), so that every replica takes a step
with the same ones.

Steps without samples for this member (a joiner's repeats, short tails) are taken in ``begin``, if the program did
nothing to averages or parameters that is not in registered state; else its loop runs on a few samples of weight zero.
So it does in short tails where the program keeps a log (``_writing``).
"""

from __future__ import annotations

import random
from typing import Any, Optional, Union

import torch
from torch.optim import Optimizer

from .._native import Op
from ..errors import ArgumentError, LeavingError, MismatchError, StateError
from ..job import Job, Step
from ._applying import Applying
from ._entry import Entry
from ._exchange import mix
from ._joining import EXIT_INTERRUPTED, log
from ._leaves import Stateful
from ._options import Options
from ._pauses import Wish
from ._replica import INSIDE, INSIDE_NO, INSIDE_UNKNOWN, INSIDE_YES


class Session(Applying):
    """The life of a prepared model. One per process at a time."""

    def __init__(
        self, model: torch.nn.Module, optimizers: list[Optimizer], extras: list[Stateful], options: Options
    ) -> None:
        super().__init__(model, optimizers, extras, options)
        self._entry = Entry(model, self._before_forward)
        self._hooks.append(self._entry)

    def begin(self, epoch: Optional[int] = None) -> Step:
        """Begin the next step that the program's loop has to take; takes those before it by itself.

        With pauses, and where steps taken here end `epoch`, in which the loop is, no step is begun: the program may
        have something to call before the next one. Raises DoneError at the end of the job; leaves and exits with 75
        after a notice.
        """
        if self.step is not None:
            return self.step
        if self.over:
            raise StateError("the job was left; call prepare() again to take part in another")
        job = self.open()
        self._settle()
        while True:
            step = self._begin_step(job)
            if step.number < self.left_at:
                self._end_without_job()
            if self.replica.after_begin(job):
                self._known, self._settings_late = True, None
                self.pauses.received()
                self._received()
                log.info("state received at step %d", step.number - 1)
            if self.pauses.is_open:
                if self.pauses.take(job, step, None) is None:
                    self._exclude()
                continue
            step = self.pauses.number(step)
            self._armed(step)
            if not self._repeats(step):
                return step
            self._take_inside()
            if epoch == self.position[0] - 1 and self.pauses.is_open:  # a loop in an earlier one is late
                return step

    def _repeats(self, step: Step) -> bool:
        """Can the step be taken here, without the program's loop?

        A log needs each step of the job from a loop that was there: the senior member's, which may be without samples.
        """
        if self.every_step_shown and not step.replay:
            return False
        return self._is_idle(step) and bool(self.replica.control[INSIDE] == INSIDE_YES)

    def _end_without_job(self) -> None:
        """This member stood aside, and comes back to a job that begins anew: all others were lost meanwhile."""
        log.error(
            "all other members were lost while this one had left the job to catch up with its loop, and their state "
            "with them; exit status %d asks for a restart, which goes on from the newest checkpoint, if there is one",
            EXIT_INTERRUPTED,
        )
        self.close(abandon=True)
        raise SystemExit(EXIT_INTERRUPTED)

    def _received(self) -> None:
        """This member has another's state now."""

    def _begin_step(self, job: Job) -> Step:
        self.watch.check()
        self._mark()
        return self._begin_or_leave(job)

    def _begin_or_leave(self, job: Job) -> Step:
        try:
            return job.step_begin()
        except LeavingError:
            log.info("leaving the job after a notice; exit status %d asks for a restart", EXIT_INTERRUPTED)
            self.close()
            self.last_step = None
            raise SystemExit(EXIT_INTERRUPTED) from None
        except MismatchError as error:
            raise self._mismatch(error) from error

    def _armed(self, step: Step) -> None:
        self.step = self.last_step = step
        self._excluded = False
        self.gradients.arm()
        self._used = []
        if self.options.rng:
            first = step.ranges[0].start if step.ranges else step.rank + (1 << 40)
            _seed_generators(mix(self.seed, step.number, first))

    def _settle(self) -> None:
        """The program comes for another step: has it dealt with the last one?"""
        if self._pending and not self._excluded:
            if self._members and not self._skipped:
                raise StateError(
                    "backward() was called, but not optimizer.step(): the averaged gradient was not applied. Call "
                    "step() of every prepared optimizer once for each backward(), or say prepare(..., accumulate=k) "
                    "to accumulate gradients over k of them"
                )
            self._touched = True  # skipped on purpose, as a gradient scaler does
        self._pending.clear()

    @property
    def _skipped(self) -> bool:
        """Was the committed step left out on purpose? A gradient scaler does so; and zero_grad() may have followed."""
        return not self.gradients.finite or (self.replica.scaled and not self.gradients.present)

    def _mark(self) -> None:
        """Write down whether a joiner may repeat steps without the program's loop."""
        if self._versions is None:
            return  # the last step, if any, was not taken by the loop
        control = self.replica.control
        if self._touched or self.watch.versions() != self._versions:
            if control[INSIDE] == INSIDE_YES:
                log.warning(
                    "the program changes gradients or parameters in a step for the first time in step %d; members "
                    "that join in this moment have to start again",
                    self.last_step.number if self.last_step else 0,
                )
            control[INSIDE] = INSIDE_NO
        elif control[INSIDE] == INSIDE_UNKNOWN:
            control[INSIDE] = INSIDE_YES
        self._touched, self._versions = False, None

    def _before_forward(self, module: torch.nn.Module, _: Any) -> None:
        if not module.training or not torch.is_grad_enabled():
            return
        if not self._pending or self._skipped:
            self.begin()

    def _take_inside(self) -> None:
        assert self.step is not None
        self._inside = True
        try:
            self._used = self.gradients.send_nothing()
            self._finish_inside()
            self._repeat()
        finally:
            self._inside = False
        self._known = self._excluded or not self.replica.leaves

    def _repeat(self) -> None:
        """Apply a step that the loop does not see."""
        for optimizer in self.optimizers:
            if not self._excluded:
                optimizer.step()
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def _finish_inside(self) -> None:
        self._commit()

    # ---- between two steps of the training ----

    def allreduce(self, value: Union[torch.Tensor, float, int], op: Union[str, Op]) -> Union[torch.Tensor, float, int]:
        """Reduce `value` over the members, in an open pause."""
        wish = Wish(value, op)
        job = self._in_pause()
        self._settle()
        watched = self._versions is not None
        done: Optional[bool] = False
        while not done:
            step = self._begin_step(job)
            done = None if self.replica.after_begin(job) else self.pauses.take(job, step, wish)
            if done is None:
                self._end_late()
        if watched:
            self._versions = self.watch.versions()
        return wish.result()

    def _in_pause(self) -> Job:
        """The job, where allreduce() may be called now."""
        if not self.pauses.on:
            raise ArgumentError(
                'allreduce() needs a place between two steps; say prepare(..., pauses="epoch") to call it after each '
                "epoch of data, or pauses=k after every k-th step"
            )
        if self._excluded:
            self._end_late()
        if self.step is not None and self.step is not self.handed and self.data is not None:
            if self.handed is not None:
                self._end_late()
            raise StateError(
                "allreduce() was called for an epoch that was over when this member came; write "
                "for epoch in spotnik.epochs(count), which begins with the epoch that the job is in"
            )
        if self.step is not None:
            raise StateError(
                "allreduce() was called in the midst of a step; call it after optimizer.step(), or give the running "
                "step a number by spotnik.tell()"
            )
        if self.job is None or self.over or not self.pauses.is_open:
            when = "of an epoch of data" if self.pauses.when == "epoch" else f"of every {self.pauses.when} steps"
            raise StateError(
                f"allreduce() was called where pauses={self.pauses.when!r} leaves no place for it; call it after the "
                f"last step {when}, or give prepare() other pauses"
            )
        return self.job

    def _end_late(self) -> None:
        """The others went on while this member was stopped; nobody repeats for it what it missed."""
        log.error(
            "the others went on without this member, and what it asked for by allreduce() is over; exit status %d "
            "asks for a restart",
            EXIT_INTERRUPTED,
        )
        self.close(abandon=True)
        raise SystemExit(EXIT_INTERRUPTED)

    def unsure(self) -> None:
        """The program did something to its schedulers that it should not have: its numbers do not count."""
        self._known = False

    def close(self, abandon: bool = False) -> None:
        """Leave the job and take the hooks away; the model is an ordinary one again."""
        global _current
        if _current is self:
            _current = None
        super().close(abandon)


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
