# SPDX-License-Identifier: Apache-2.0
"""A session whose gradients are averaged in optimizer.step(), after any number of backward passes: commit="step".

With several optimisers each step() is a step of the job, in the order in which they were given: a GAN's discriminator,
then its generator. The first one consumes the samples of the batch; the others consume none and weigh the same. Whose
turn it is is part of the replica, so that a joiner that comes in between knows what the next step is about. So every
batch has a step for each optimiser: one that does not step in a batch is passed over, in a step without gradients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Optional

import torch

from ..errors import StateError
from ..job import Job, Step
from ._exchange import Exchange
from ._gradients import Gradients
from ._log import log
from ._mode import AtBackward
from ._replica import Replica

if TYPE_CHECKING:
    from ._session import Session


class InTurns(AtBackward):
    """A mode: each optimiser's step() commits a step of its own."""

    _tells_of_dropped = False  # weights are those of optimisers, not of batches

    def __init__(self, session: Session) -> None:  # without hooks of backward
        self._session = session
        self._has_looked = True  # step() is outside of backward()
        self._all = [_passive(session, number, self.commit) for number in range(len(session.optimizers))]
        self._exchanges: list[Exchange] = []
        self._weight = 0  # samples of this member's share of the batch
        self._said: Optional[int] = None  # what the losses of the optimiser that steps next were divided by
        self._weighed = False  # by weigh(), which a later part_of() leaves
        self._told_of_pass = False
        self._watches = False  # the running step is another's turn: this member only takes part
        self.gradients = self._all[0]

    @property
    def turn(self) -> int:
        """Which optimiser is to step next."""
        return self._session.control.turn

    def check(self, replica: Replica) -> None:
        """No gradient scaler."""
        if replica.scaled:
            raise StateError('commit="step" does not take a gradient scaler: each member would skip by itself')

    def joined(self, job: Job) -> None:
        """Gradients travel with the steps of `job`."""
        session = self._session
        self._exchanges = [Exchange(session.replica, session.control, len(one.slots)) for one in self._all]
        for one in self._all:
            one.travel_in(None if session.solo else job)
        self._select()

    def _select(self) -> None:
        self.gradients, self._session.agreement.exchange = self._all[self.turn], self._exchanges[self.turn]

    # ---- begin ----

    def before_begin(self) -> None:
        """A batch begins: pass over optimisers that did not step in the one before."""
        while self._owes(len(self._all)):
            self._pass_over()

    def ready(self) -> None:
        """Nothing comes between the optimisers of a batch: a program that starts again has no batch to go on with."""
        if self.turn:
            self._session.membership.open_job.batch_continue()

    @property
    def begins_at_forward(self) -> bool:
        """The first optimiser's forward pass begins the batch."""
        return self._session.job is None or self.turn == 0

    def _owes(self, until: int) -> bool:
        """Has an optimiser before number `until`, but not the first, not stepped in this batch?"""
        session = self._session
        is_between = session.running.step is None and session.job is not None
        return is_between and not session.running.excluded and 0 < self.turn < until

    def _pass_over(self) -> None:
        session = self._session
        if not self._told_of_pass:
            self._told_of_pass = True
            log.warning(
                "optimizer %d of %d did not step in a batch: it is passed over, and gradients that it has are dropped. "
                "Where it steps in every k-th batch, count by spotnik.step() // %d: all members then do the same",
                self.turn,
                len(self._all),
                len(self._all),
            )
        session.optimizers[self.turn].zero_grad(set_to_none=True)
        self._begin_turn()
        if session.running.step is not None:
            self._watch(session.running.step)
            session.take_inside()

    def arm(self, step: Step) -> Step:
        """A later optimiser's step has no samples of its own."""
        session = self._session
        self._select()
        if self.turn:
            session.membership.open_job.samples_decline()
            step = dataclasses.replace(step, sample_count=0, ranges=[])
        if session.data is None:
            self._weight = 1
        elif self.turn == 0:
            self._weight = step.sample_count
        return step

    def is_repeated(self, step: Step) -> bool:
        """A later optimiser's step is repeated by a newcomer between the two."""
        session = self._session
        if self.turn == 0:
            self._watches = False
            return super().is_repeated(step)
        self._watches = True
        if session.repeats.refused:
            raise StateError(
                "this member came between the steps of two optimizers, and the program changes parameters or averages "
                'beside optimizer.step(), which a joiner cannot repeat with commit="step"; start it again'
            )
        if not step.replay:
            session.membership.open_job.weight_set(0)
        return True

    def is_idle(self, step: Step) -> bool:
        """A later optimiser's step has no samples, and this member contributes to it all the same."""
        if self.turn == 0 and not self._watches:
            return super().is_idle(step)
        return step.replay or self._watches

    def weight_of(self, step: Step) -> int:
        """That of the batch, where the program does not say another."""
        if self.is_idle(step):
            return 0
        return (self._weight or 1) if self._said is None else self._said

    def weigh(self, weight: int) -> None:
        """The losses of the optimiser that steps next were divided by `weight`."""
        self._said, self._weighed = weight, True

    def deal(self, samples: int) -> None:
        """The batch has this number of samples on this member."""
        session = self._session
        if session.running.step is not None and self.turn == 0:
            self._weight = samples
            self._said = self._said if self._weighed and samples else samples

    def skip(self) -> None:
        """They have no backward pass."""
        self._said = 0
        for slot in self.gradients.slots:
            if slot.parameter.grad is None:
                slot.parameter.grad = torch.zeros_like(slot.parameter)

    def _begin_turn(self) -> None:
        """The step of an optimiser whose gradients are there: not the first of its batch, where a loader begins it."""
        session = self._session
        session.open()
        step, came = session.begin_any()
        if came or step.replay:
            log.info("the others went on without this member; it leaves the rest of the batch out")
            session.repeats.known = True
            self._watch(step)
            session.take_inside()
            session.running.excluded = True
            self._clear()
            return
        self._watches = self._weight == 0
        session.arm(step)
        session.membership.open_job.weight_set(self._weight)

    def _watch(self, step: Step) -> None:
        """Take part without a gradient. It may be the first step of a batch, with samples the loop has not come for."""
        session = self._session
        job = session.membership.open_job
        job.samples_decline()
        session.arm(dataclasses.replace(step, sample_count=0, ranges=[]))
        self._watches = True
        if not step.replay:
            job.weight_set(0)

    def _clear(self) -> None:
        self._said, self._weighed = None, False
        for optimizer in self._session.optimizers:
            optimizer.zero_grad(set_to_none=True)

    # ---- commit ----

    def commit(self) -> None:
        """Average the gradients of the optimiser whose turn it is."""
        step = self._session.running.step
        if self._said is not None and step is not None:
            self._session.membership.open_job.weight_set(self.weight_of(step))
        self._average({self.turn})
        self._said, self._weighed = None, False

    # ---- apply ----

    def admits(self, number: int, with_closure: bool) -> bool:
        """Begin the step of optimiser `number`, where no loader did. False: the others went on without this member."""
        session = self._session
        if with_closure:
            raise StateError('commit="step": call backward() before optimizer.step(), not in a closure')
        if session.running.excluded:
            self._clear()
            return False
        another = session.data is None and number < self.turn  # batch of the program's own
        while self._owes(len(self._all) if another else number):
            self._pass_over()
        if session.running.excluded:
            self._clear()
            return False
        if session.job is not None and number != self.turn:
            raise StateError(
                f"optimizer {number} stepped, and it is the turn of {self.turn}; give "
                "prepare() the optimizers in the order in which they step, each once in every batch"
            )
        if session.job is not None and session.running.step is None and (self.turn or another):
            self._begin_turn()
        return not session.running.excluded

    def repeat(self) -> None:
        """The optimiser whose turn it is steps."""
        own = self._session.optimizers[self.turn]
        if not self._session.running.excluded:
            own.step()
        own.zero_grad(set_to_none=True)

    def applied(self) -> None:
        """It is the next one's turn."""
        self._session.control.turn = (self.turn + 1) % len(self._all)

    def excluded(self) -> None:
        """Gradients of the batch are void."""
        self._clear()

    def close(self) -> None:
        """Nothing is hooked."""


def _passive(session: Session, number: int, done: Callable[[], None]) -> Gradients:
    """The gradients of one optimiser, which are fetched in its step()."""
    names = {id(parameter): name for name, parameter in session.model.named_parameters()}
    groups = session.optimizers[number].param_groups
    own = [one for group in groups for one in group["params"] if one.requires_grad]
    named = [(names[id(one)], one) for one in own]
    return Gradients(named, session.options, 1, done, passive=True)
