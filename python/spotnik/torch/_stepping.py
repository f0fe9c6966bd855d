# SPDX-License-Identifier: Apache-2.0
"""A session whose gradients are averaged in optimizer.step(), after any number of backward passes: commit="step".

With several optimisers each step() is a step of the job, in the order in which they were given: a GAN's discriminator,
then its generator. The first one consumes the samples of the batch; the others consume none and weigh the same. Whose
turn it is is part of the replica, so that a joiner that comes in between knows what the next step is about. So every
batch has a step for each optimiser: one that does not step in a batch is passed over, in a step without gradients.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import torch
from torch.optim import Optimizer

from ..errors import StateError
from ..job import Job, Step
from ._exchange import Exchange
from ._gradients import Gradients
from ._joining import log
from ._leaves import Stateful
from ._options import Options
from ._replica import INSIDE, INSIDE_NO, TURN
from ._session import Session


class SteppingSession(Session):
    """The life of a prepared model that is averaged optimiser by optimiser."""

    def __init__(
        self, model: torch.nn.Module, optimizers: list[Optimizer], extras: list[Stateful], options: Options
    ) -> None:
        super().__init__(model, optimizers, extras, options)
        self.gradients.close()
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._turns = []
        for optimizer in optimizers:
            own = [one for group in optimizer.param_groups for one in group["params"] if one.requires_grad]
            named = [(names[id(one)], one) for one in own]
            self._turns.append(Gradients(named, options.bucket_mb, 1, options.sparse, self._commit, passive=True))
        self.gradients = self._turns[0]
        self._exchanges: list[Exchange] = []
        self._weight = 0  # samples of this member's share of the batch
        self._told_of_pass = False
        self._watches = False  # the running step is another's turn: this member only takes part

    @property
    def turn(self) -> int:
        """Which optimiser is to step next."""
        return int(self.replica.control[TURN])

    def open(self) -> Job:
        """Join the job, or found it."""
        fresh = self.job is None
        job = super().open()
        if fresh:
            if self.replica.scaled:
                raise StateError('commit="step" does not take a gradient scaler: each member would skip by itself')
            self._exchanges = [Exchange(self.replica, len(one.slots)) for one in self._turns]
            for one in self._turns:
                one.job = self.gradients.job
            self._select()
        return job

    def _select(self) -> None:
        self.gradients, self._exchange = self._turns[self.turn], self._exchanges[self.turn]

    # ---- begin ----

    def begin(self, epoch: Optional[int] = None) -> Step:
        """Begin the next batch."""
        while self._owes(len(self.optimizers)):
            self._pass_over()
        return super().begin(epoch)

    def _owes(self, until: int) -> bool:
        """Has an optimiser before number `until`, but not the first, not stepped in this batch?"""
        return self.step is None and self.job is not None and not self._excluded and 0 < self.turn < until

    def _pass_over(self) -> None:
        if not self._told_of_pass:
            self._told_of_pass = True
            log.warning(
                "optimizer %d of %d did not step in a batch: it is passed over, and gradients that it has are dropped. "
                "Where it steps in every k-th batch, count by spotnik.step() // %d: all members then do the same",
                self.turn,
                len(self.optimizers),
                len(self.optimizers),
            )
        self.optimizers[self.turn].zero_grad(set_to_none=True)
        self._begin_turn()
        if self.step is not None:
            self._watch(self.open(), self.step)
            self._take_inside()

    def _before_forward(self, module: torch.nn.Module, _: Any) -> None:
        if module.training and torch.is_grad_enabled() and (self.job is None or self.turn == 0):
            self.begin()

    def _armed(self, step: Step) -> None:
        self._select()
        if self.turn:
            assert self.job is not None
            self.job.samples_decline()
            step = dataclasses.replace(step, sample_count=0, ranges=[])
        if self.data is None:
            self._weight = 1
        elif self.turn == 0:
            self._weight = step.sample_count
        super()._armed(step)

    def _repeats(self, step: Step) -> bool:
        if self.turn == 0:
            self._watches = False
            return super()._repeats(step)
        self._watches = True
        if self.replica.control[INSIDE] == INSIDE_NO:
            raise StateError(
                "this member came between the steps of two optimizers, and the program changes parameters or averages "
                'beside optimizer.step(), which a joiner cannot repeat with commit="step"; start it again'
            )
        assert self.job is not None
        if not step.replay:
            self.job.weight_set(0)
        return True

    def _is_idle(self, step: Step) -> bool:
        if self.turn == 0 and not self._watches:
            return super()._is_idle(step)
        return step.replay or self._watches

    def _weight_of(self, step: Step) -> int:
        return 0 if self._is_idle(step) else self._weight or 1

    def _repeat(self) -> None:
        own = self.optimizers[self.turn]
        if not self._excluded:
            own.step()
        own.zero_grad(set_to_none=True)

    def _begin_turn(self) -> None:
        """The step of an optimiser whose gradients are there: not the first of its batch, where a loader begins it."""
        job = self.open()
        self.watch.check()
        self._mark()
        step = self._begin_or_leave(job)
        if self.replica.after_begin(job) or step.replay:
            log.info("the others went on without this member; it leaves the rest of the batch out")
            self._known = True
            self._watch(job, step)
            self._take_inside()
            self._excluded = True
            self._clear()
            return
        self._watches = self._weight == 0
        self._armed(step)
        job.weight_set(self._weight)

    def _watch(self, job: Job, step: Step) -> None:
        """Take part without a gradient. It may be the first step of a batch, with samples the loop has not come for."""
        job.samples_decline()
        self._armed(dataclasses.replace(step, sample_count=0, ranges=[]))
        self._watches = True
        if not step.replay:
            job.weight_set(0)

    def _clear(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    # ---- apply ----

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._inside:
            super()._before_step(optimizer, args, kwargs)
            return
        if callable(kwargs.get("closure") or (args[1] if len(args) > 1 else None)):
            raise StateError('commit="step": call backward() before optimizer.step(), not in a closure')
        if self._excluded:
            self._clear()
            return
        number = self.optimizers.index(optimizer)
        another = self.data is None and number < self.turn  # batch of the program's own, which no loader begins
        while self._owes(len(self.optimizers) if another else number):
            self._pass_over()
        if self._excluded:
            self._clear()
            return
        if self.job is not None and number != self.turn:
            raise StateError(
                f"optimizer {number} stepped, and it is the turn of {self.turn}; give "
                "prepare() the optimizers in the order in which they step, each once in every batch"
            )
        if self.job is not None and self.step is None and (self.turn or another):
            self._begin_turn()
            if self._excluded:
                return
        super()._before_step(optimizer, args, kwargs)

    def _adopt_own(self, step: Step, used: list[int]) -> None:
        super()._adopt_own(step, used)
        self._pending = {self.turn}

    def _adopt(self) -> None:
        super()._adopt()
        self._pending = {self.turn}

    def _exclude(self) -> None:
        super()._exclude()
        self._clear()

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        applied = not self._excluded and self.turn in self._pending
        super()._after_step(optimizer)
        if applied:
            self.replica.control[TURN] = (self.turn + 1) % len(self.optimizers)

    def close(self, abandon: bool = False) -> None:
        """Leave the job."""
        for one in self._turns:
            one.close()
        super().close(abandon)
