# SPDX-License-Identifier: Apache-2.0
"""Loops that a program writes itself: steps with this member's share of the data, and averages within a step."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Optional

import numpy as np

from .. import arrays
from ..errors import ArgumentError, DoneError, StateError
from ..job import Job, Step
from .data import Batch, Source
from .extra_steps import ExtraSteps
from .flat_buffers import ALONE_MAX, FlatBuffers
from .replica import Replica, Settings
from .replica_check import DATA, ReplicaCheck, is_due
from .residuals import Residuals
from .steps import Steps

if TYPE_CHECKING:
    from .memory import Array


class ProgramLoop:
    """The steps of one replica. `write` takes over values in the order in which `read` gives them."""

    def __init__(
        self, read: Callable[[], Sequence[Array]], write: Callable[[Sequence[Array]], object], settings: Settings
    ) -> None:
        self.settings = settings
        self.replica = Replica(read, settings)
        self._write = write
        self.settle: Callable[[], object] = lambda: None  #: wait for what the framework still has to run
        self.names: Callable[[], Sequence[str]] = lambda: ()  #: of what `read` gives
        self.advice = ""  #: for a value that differs among members
        self.begun: Callable[[], object] = lambda: None  #: an iteration begins, and the framework has the others' state
        self._read, self._check = read, ReplicaCheck([])
        self._source: Optional[Source] = None
        self._epochs = 0  # of data, of all calls of steps()
        #: How often the program has assigned new values; None: it changes them where they lie.
        self.assigned: Optional[int] = None
        self._iteration: Optional[tuple[Step, Optional[int]]] = None  # of the program's loop, and `assigned` before it
        self._extra = ExtraSteps(self.replica)
        self._steps = Steps(self.replica.membership, self.replica.open, self._begun, [self._extra])
        self._residuals = Residuals()
        self._elsewhere = False  # are the others elsewhere in the iteration?
        self._assigned_before: Optional[int] = None  # `assigned` when the last extra step of the iteration began
        check_strategy()

    def begin(self) -> Step:
        """Begin the next step, of whatever kind; the framework has the others' state then."""
        return self._steps.begin_any()[0]

    def _begun(self, step: Step, came: bool) -> None:
        self.replica.begun(step, came)
        if self.replica.fresh:
            self._write(self.replica.values)
            self.replica.taken()

    def _begin_iteration(self) -> Step:
        """Begin the step that an iteration is for."""
        replica, self._elsewhere = self.replica, False
        if replica.step is None:
            self._extra.next()
        step = self._steps.begin()
        self._check = ReplicaCheck(self._compared() if is_due(replica.control.taken) else [])
        self.begun()
        return step

    def _compared(self) -> list[Array]:
        assert self._source is not None
        return [np.array(self._source.mark), *self._read()]

    def steps(self, source: Source, epochs: int) -> Iterator[tuple[Step, Batch]]:
        """Go through `epochs` epochs of data from where the job is: each step, with what this member computes in it.

        A member without samples gets the first one of the data, whose results count nothing. Another call goes on with
        further epochs; a late member passes over those that the others have ended.
        """
        self._bind(source)
        self._epochs += epochs
        epochs = self._epochs
        self.replica.open()
        while True:
            try:
                if self.replica.epoch >= epochs and not self._behind():
                    return
                step = self._begin_iteration()
            except DoneError:
                return
            if self.replica.epoch >= epochs:
                return
            ranges = step.ranges or [range(0, 1)]
            batch = source.take(self.replica.seed, step.data_epoch if step.ranges else 0, ranges)
            self._iteration, self._assigned_before = (step, self.assigned), None
            try:
                yield step, batch
                self.settle()
                self._check_assigned()
                self._check.check(lambda: [DATA, *self.names()], self.advice)
            finally:
                self._iteration = None
            if self.replica.step is step:
                raise StateError(
                    "the loop came for another batch without averaging gradients in the last one; every step is "
                    "finished by exactly one average. To apply every n-th one, accumulate behind it: "
                    "distributed(optax.MultiSteps(tx, n)), or gradient_accumulation_steps of a Keras optimizer"
                )

    def _bind(self, source: Source) -> None:
        settings = self.settings
        is_same = self._source is not None and (settings.samples, settings.batch) == (source.samples, source.batch)
        if self.replica.job is not None and not is_same:
            raise StateError(
                "a job consumes one data set, and steps were taken before this one was given; give shard() the same "
                "samples and batch_size again, or train on this one in a program of its own"
            )
        self._source = source
        settings.samples, settings.batch = source.samples, source.batch

    def _behind(self) -> bool:
        return self.replica.last_step is None  # what others have is not known yet

    @property
    def _is_passing(self) -> bool:
        """Is the program between two calls of :meth:`steps`, and the others in a later one?"""
        return self._iteration is None and self.replica.step is not None

    def _check_assigned(self) -> None:
        """A newcomer that took extra steps of the iteration without the program does not have what was made of them."""
        if self._assigned_before is not None and self._assigned_before != self.assigned:
            raise StateError(
                "replica.value was assigned after another average in the same iteration of the loop, which a newcomer "
                "to the middle of the iteration would miss; average what the replica needs in one call: "
                "allreduce((gradients, more))"
            )

    def _check_iteration(self, once: bool) -> None:
        """In an iteration whose step is finished another step begins, with a copy for newcomers."""
        if self._iteration is None or self.replica.step is not None:
            return
        if once:
            raise StateError(
                "gradients were averaged already in this iteration of the loop, which is one step; average those of "
                "several losses or optimizers in one call (one tape.gradient, one tx.update, one allreduce in jit). "
                "Steps in lax.scan are iterations of their own; several devices of a member (pmap, shard_map) average "
                "among themselves first (lax.pmean), and the member what they return"
            )
        if self.assigned is not None and self.assigned == self._iteration[1]:
            raise StateError(
                "this iteration of the loop has averaged already, and replica.value is still the old one, which a "
                "newcomer would copy; assign replica.value = the new tree first, or average all in one call: "
                "allreduce((gradients, more))"
            )
        self._assigned_before = self.assigned

    def average(
        self,
        values: Sequence[Array],
        weight: Optional[int] = None,
        in_place: bool = False,
        once: bool = False,
        wire: str = "auto",
        gradients: Optional[int] = None,
    ) -> list[Array]:
        """Finish the running step, or take one without samples, with the mean of `values` over its samples.

        Whole numbers and booleans among them become the greatest that a member with samples has. With `once` the second
        one in an iteration of the loop is refused.

        When the others went on without this member the values come back as they are: what the program does with them
        is overwritten when the next step begins. With `in_place` the results are written to `values`, and large ones
        travel from where they lie. The first `gradients` values (None: all) travel as `wire` (:func:`spotnik.start`);
        those of an extra step of an iteration do not. With "q8" what was rounded away is added to the next ones.
        """
        arrays.check_wire(wire)
        if self._elsewhere or self._is_passing:
            return list(values)
        self._check_iteration(once)
        is_idle = self.replica.step is not None and not self.replica.step.ranges and weight is None
        buffers = FlatBuffers(values, in_place, is_idle, wire, len(values) if gradients is None else gradients)
        if not self._take(buffers, weight, is_idle or weight == 0):
            return list(values)
        results = buffers.results()
        if in_place:
            for value, one in zip(values, results):
                value[...] = one
        return results

    def _take(self, buffers: FlatBuffers, weight: Optional[int], is_idle: bool) -> bool:
        """Finish the running step, or take one without samples, with the reductions of the vectors in place."""
        replica, own = self.replica, self.replica.step is None
        if own and self._iteration is not None:
            return self._take_extra(buffers.vectors)
        step = self.begin()
        assert replica.job is not None
        if own:
            replica.decline()
        if weight is not None and not step.replay:
            replica.job.weight_set(weight)
        for number, ((flat, op), wire) in enumerate(zip(buffers.vectors, buffers.wires)):
            if wire == "q8" and not is_idle:
                self._residuals.add(number, flat)
            arrays.start(flat, op, number, replica.job, wire)
        if own:
            return replica.commit()
        self._check.start(replica.job)
        committed = replica.commit()
        replica.control.taken += committed
        return committed

    def _take_extra(self, vectors: Sequence[tuple[Array, str]]) -> bool:
        """Take an extra step. False: the others are elsewhere; the rest of the iteration averages nothing."""
        number = self._extra.note(vectors)
        self.replica.begin()
        if self.replica.control.extra != number:
            self._elsewhere = True
            return False
        self.begin()
        return self._extra.finish(vectors)

    def reduce(self, values: Sequence[Array], op: str, once: bool = False) -> None:
        """Reduce `values` over the members, in place, in steps of their own without samples; `once` as above."""
        if self._elsewhere or self._is_passing:
            return
        if self.replica.step is not None:
            raise StateError(f"op={op!r} is a step of its own; call it before or after the step, or say op='mean'")
        self._check_iteration(once)
        job = self.replica.open()
        for first in range(0, max(1, len(values)), ALONE_MAX):
            some = [one for one in values[first : first + ALONE_MAX] if one.size]
            if self._iteration is not None:
                self._take_extra([(one, op) for one in some])
            else:
                arrays.collect(job, functools.partial(_start_all, job, op, some))


def check_strategy() -> None:
    """Refuse strategies in which the update is not the program's: it is, in a loop of its own."""
    name = os.environ.get("SPOTNIK_SYNC") or "ssgd"
    if name != "ssgd":
        raise ArgumentError(
            f"SPOTNIK_SYNC={name!r}: a loop that applies gradients itself averages them in every step (ssgd); other "
            "strategies are for Keras, PyTorch and spotnik.Sync"
        )


def _start_all(job: Job, op: str, values: Sequence[Array], _step: Step) -> None:
    for number, one in enumerate(values):
        arrays.start(one, op, number, job)
