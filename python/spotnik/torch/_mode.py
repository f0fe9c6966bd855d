# SPDX-License-Identifier: Apache-2.0
"""How a prepared model commits its steps: at the end of backward, where ``AtBackward`` averages the gradients.

``InTurns`` averages in each optimiser's step(), and ``ByStrategy`` leaves the commit to a strategy. A session asks its
mode wherever the three differ; what they do alike stands in the session.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Optional

from ..errors import StateError
from ..job import Job, Step
from . import _means as means
from . import _twins as twins
from ._exchange import Exchange
from ._gradients import gradients_of
from ._leaves import UNKNOWN
from ._places import place_here
from ._replica import Replica

if TYPE_CHECKING:
    from ._session import Session
    from ._strategies import Strategy


class AtBackward:
    """The last hook of backward commits: sync="ssgd", commit="backward"."""

    strategy: Optional[Strategy] = None
    _came = ""  # samples of a mini-batch that are fewer than were dealt, as words
    _padded = False  # has a batch, before the first look, targets that a criterion leaves out?
    _tells_of_dropped = True
    _rows = 0  # samples of the last mini-batch; 0: unknown, or its tensors have another number of rows
    averages = True  #: does optimizer.step() of the program apply an average?
    is_sharded = False  #: has this process a part of the model?

    def __init__(self, session: Session) -> None:
        self._session = session
        self._has_looked = False  # at what the loss is divided by
        self.gradients = gradients_of(session.model, session.options, self.commit)

    def replicate(self) -> Replica:
        """The state of the program."""
        session = self._session
        return Replica(session.model, session.optimizers, session.extras, not self.averages)

    @property
    def scaled(self) -> bool:
        """Does a gradient scaler look at the averages before they are applied?"""
        return self._session.replica.scaled

    def check(self, replica: Replica) -> None:
        """Raise StateError where the replica has what this mode cannot keep equal: nothing."""

    def joined(self, job: Job) -> None:
        """Gradients travel with the steps of `job`."""
        session = self._session
        self.gradients.travel_in(None if session.solo else job)
        session.agreement.exchange = Exchange(session.replica, session.control, len(self.gradients.slots))

    def received(self) -> None:
        """The state of others is in the registered memory: parameters were registered where they lie."""

    # ---- begin ----

    def before_begin(self) -> None:
        """The program wants another step: nothing is left of the one before."""

    def ready(self) -> None:
        """A step is about to begin, of whatever kind."""

    @property
    def begins_at_forward(self) -> bool:
        """Does a forward pass in training begin a step now? None between backward() and optimizer.step()."""
        return not self._session.running.pending or self._session.is_skipped

    def arm(self, step: Step) -> Step:
        """A step of the training has begun. Returns it as the program is to see it."""
        return step

    def armed(self, step: Step) -> None:
        """The gradients of `step` may arrive: nothing is sent before."""

    def is_repeated(self, step: Step) -> bool:
        """Can the step be taken here, without the program's loop?

        A log needs each step of the job from a loop that was there: the senior member's, which may be without samples.
        """
        session = self._session
        if not step.replay and (session.every_step_shown or place_here() is not None):
            return False  # the others of a group may have samples, and collectives of theirs need all processes
        return self.is_idle(step) and session.repeats.allowed

    # ---- commit ----

    def is_idle(self, step: Step) -> bool:
        """Does this member contribute nothing to the step?"""
        no_samples = self._session.data is not None and step.sample_count == 0
        return step.replay or step.share >= step.shares or no_samples

    def weight_of(self, step: Step) -> int:
        """What this member's word weighs in the step: what its losses count, or its samples."""
        if self.is_idle(step):
            return 0
        count = self.gradients.weights.count
        return (step.sample_count or 1) if count is None else count

    def weigh(self, weight: int) -> None:
        """The loss whose backward pass comes next was divided by `weight`."""
        self._check_loss("weigh")
        self.gradients.weights.weigh(self.gradients.passes, weight)

    def deal(self, samples: int) -> None:
        """A batch of the program's own was cut: this member's part of it has `samples`; with 0 it only fills the step.

        After the backward pass of the mini-batch nothing is left to weigh: the part is one to look at.
        """
        if self._session.running.step is not None and self.gradients.passes < self.gradients.accumulate:
            self._rows = samples
            self.gradients.weights.deal(self.gradients.passes, samples)

    def dealt(self, batch: Any, samples: int, came: Optional[int]) -> None:
        """The loader hands out a mini-batch of `samples`, of which its collate function has left `came`."""
        self._padded |= not self._has_looked and means.is_padded(batch)
        self._rows = samples if samples == came else 0
        if came is not None and came < samples:
            self._came = f"{came} of {samples}"

    def skip(self) -> None:
        """The mini-batch has no backward pass."""
        self._check_loss("skip")
        gradients = self.gradients
        gradients.weights.skip(gradients.passes)
        gradients.passes += 1
        if gradients.passes == gradients.accumulate:
            self.commit()

    def _check_loss(self, what: str) -> None:
        if self._session.running.step is None or self.gradients.passes >= self.gradients.accumulate:
            raise StateError(
                f"{what}() was called where no backward() can follow; call it between the model's forward pass and "
                "backward() of the same mini-batch"
            )

    def commit(self) -> None:
        """The last backward pass of the step has ended: average."""
        self._average(set(range(len(self._session.optimizers))))

    def finish_inside(self) -> None:
        """Commit a step that is taken without the program's loop."""
        self.commit()

    def end_step(self) -> None:
        """The program calls optimizer.step() for a step that is not committed yet."""
        self.commit()

    def _average(self, due: set[int]) -> None:
        """Finish the running step with the averages of the gradients; the optimisers `due` are to apply them."""
        session, gradients, running = self._session, self.gradients, self._session.running
        step, job = running.step, session.job
        if step is None or job is None:
            return
        ended = time.perf_counter()
        if not (self._has_looked or session.solo or self.is_idle(step)):
            self._has_looked = True
            if not gradients.weights.is_explained:
                means.look(self._padded, 0 if session.options.batch == "per_member" else self._rows)
        if self._came and self._tells_of_dropped and gradients.weights.count is None and not session.solo:
            means.tell_of_dropped(self._came)
            self._tells_of_dropped = False
        self._came = ""
        used, weight = gradients.send_rest(), self.weight_of(step)
        compares = session.data is None and not session.solo and session.twins.is_due(step)
        checks = not session.solo and session.parting.is_due(step)
        if not session.solo:
            own = session.twins.numbers(step, gradients.raw()) if compares else [0] * twins.COUNT
            compared = session.parting.number() if checks and (weight or self.is_sharded) else 0
            order = session.order_mark() if session.data is not None else 0
            compares_order = weight > 0 and not session.is_new
            marks = [int(gradients.weights.is_said), order if compares_order else None, compared, *own]
            session.agreement.send(
                job, self._counted(step), not weight, weight, used, marks=marks, pace=session.parting.pace
            )
        session.look_at_copied()
        committed = session.membership.commit()
        running.wait_s = time.perf_counter() - ended
        running.step = None
        if not committed:
            session.exclude()
        elif session.solo:
            session.agreement.keep(step, weight)
            if weight:
                gradients.finish(used)
            else:
                gradients.drop(self.scaled)
            running.pending = due
        else:
            common = session.agreement.take_over()
            self._check_weights(common.marks[0] or not common.members)
            if common.marked[1] != UNKNOWN:
                self._check_order(order == common.marked[1], compares_order, common.marks[1])
            session.is_new = False
            if checks:
                session.parting.heard(step, common.marks[2] or not common.members, common.pace)
            if compares:
                session.twins.heard(common.marks[3:], common.members)
            if common.members:
                gradients.finish(common.used)
            else:
                gradients.drop(self.scaled)  # all with samples were lost, or nothing counts: there is no gradient
            running.pending = due
        session.repeats.committed()
        if committed:
            session.applier.committed()

    def _counted(self, step: Step) -> Step:
        """The step as this process accounts for it."""
        return step

    @staticmethod
    def _check_weights(are_same: bool) -> None:
        if not are_same:
            raise StateError(
                "some members called weigh() in this step and others did not, so what their losses were divided by "
                "cannot be compared; call it in every mini-batch, with 0 where there is nothing to count"
            )

    @staticmethod
    def _check_order(is_same: bool, compares: bool, are_same: bool) -> None:
        """Is this member's order of samples that of the others? A newcomer's alone may be another: it alone ends."""
        if not (are_same if compares else is_same):
            who = "members deal different samples" if compares else "this member deals other samples than the job has"
            raise StateError(
                f"{who} under the same numbers, so some would be computed twice and others never: the loader's sampler "
                "gives each member another order, a Subset has other indices, or a folder lists its files in another "
                "order. Let the sampler draw by torch's global generator, which has the same seed everywhere, and not "
                "by NumPy or random; split the data by a fixed seed; sort what a folder lists"
            )

    # ---- apply ----

    def admits(self, number: int, with_closure: bool) -> bool:
        """The program calls step() of an optimiser. False: it is to do nothing."""
        return True

    def repeat(self) -> None:
        """Apply a step that was taken without the program's loop."""
        session = self._session
        for optimizer in session.optimizers:
            if not session.running.excluded:
                optimizer.step()
        for optimizer in session.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def applied(self) -> None:
        """An optimiser has applied the committed step: nothing follows."""

    def excluded(self) -> None:
        """The others took the running step without this member: nothing is left to do."""

    def close(self) -> None:
        """Take the hooks of backward away."""
        self.gradients.close()
