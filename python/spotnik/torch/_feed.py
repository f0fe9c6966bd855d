# SPDX-License-Identifier: Apache-2.0
"""Mini-batches for a framework that counts updates, epochs and batches itself: a Trainer of Hugging Face or Lightning.

An epoch of such a framework is a fixed number of updates. Where this member stands in it is a function of the steps
that the job has committed, so all members evaluate and save after the same step, and one that has joined late has a
short first epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import ArgumentError, DoneError, StateError
from ..job import Step
from ..training.shares import pairs
from ._loader import Shard
from ._sampler import pieces
from ._session import Session


class Feed:
    """Gives the framework the mini-batches of this member's shares, a step after the other.

    `updates` make an epoch, of `accumulate` mini-batches each. `last` updates are all; not positive: not known yet.
    """

    def __init__(self, session: Session, shard: Shard[Any], updates: int, accumulate: int, last: int) -> None:
        if session.options.start:
            raise ArgumentError('start= is for a loop of your own: a Trainer resumes by checkpoint="DIR"')
        session.pauses.plan(updates, last)
        self.session = session
        self.updates = updates
        self.accumulate = accumulate
        self._shard = shard

    def join(self) -> None:
        """Begin the first step, with the state of the others."""
        self.at(self.session.steps_done)

    def at(self, steps: int) -> None:
        """Tell the framework how many steps the job has committed."""

    def is_over(self, steps: int) -> bool:
        """Has the framework taken all its steps?"""
        return False

    def enter(self, epoch: int) -> None:
        """The framework is to know that this epoch begins, or goes on."""

    def count(self, update: int) -> int:
        """Return how many mini-batches the framework reads for this update, by its own count, of an epoch."""
        return self.accumulate

    def weigh(self, batch: Any, number: int) -> None:
        """Change what mini-batches weigh in a step where they do not weigh by their samples; the next has `number`."""

    def epoch(self) -> Iterator[Any]:
        """The rest of an epoch."""
        session, epoch, update = self.session, -1, 0
        while not self.is_over(session.steps_done):
            if epoch >= 0 and session.steps_done // self.updates != epoch:
                return
            try:
                step = session.begin()
            except DoneError:
                return
            done = step.number - 1  # more than before, where steps had nothing for this member
            if epoch >= 0 and done // self.updates != epoch:
                return  # the step goes on in the next epoch, after what the framework does at the end of this one
            if epoch < 0:
                epoch = done // self.updates
                self.enter(epoch)
            self.at(done)
            count, update = self.count(update), update + 1
            session.options.accumulate = session.gradients.accumulate = count
            yield from self._mini_batches(step, count)

    def _mini_batches(self, step: Step, count: int) -> Iterator[Any]:
        session = self.session
        share = pieces(session.position[0], pairs(step), count, self._shard.samples)
        session.gradients.weights.plan([piece.weight for piece in share])
        session.running.handed = step
        for number, piece in enumerate(share):
            batch = self._shard.load(session, step, piece)
            if step.sample_count or session.mode.is_sharded:  # the processes of a group weigh together
                self.weigh(batch, number)
            yield batch
        if session.running.step is step and session.gradients.passes < count:
            raise StateError("the Trainer came for another step without backward() on all mini-batches of the last one")
