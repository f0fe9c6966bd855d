# SPDX-License-Identifier: Apache-2.0
"""What a step carries beside its gradients, and how the replica takes over what all members said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional

from ..errors import StateError
from ..job import Job, Step
from ..training.control import Control
from ..training.metrics import Metrics
from ..training.pauses import Pauses
from ..training.repeats import Repeats
from ..training.running import Running
from ..training.shares import pairs, share_hash
from ._exchange import Common, Exchange
from ._leaves import UNKNOWN
from ._log import log
from ._replica import Replica

_LATE = (
    "the program sets {names} between backward() and optimizer.step(), and this member set other values than the one "
    "that has been here longest: their parameters have parted. Set them before backward(), and all use those of the "
    'oldest member; or say prepare(..., commit="step"). Count by spotnik.step()'
)


class Agreement:
    """The agreement of one job's members. `samples` make an epoch of data, 0 where there are none."""

    def __init__(
        self,
        replica: Replica,
        running: Running,
        repeats: Repeats,
        metrics: Metrics,
        pauses: Pauses,
        control: Control,
        samples: int,
        start_again: Callable[[str], object],
    ) -> None:
        self._replica, self._running, self._repeats = replica, running, repeats
        self._metrics, self._pauses, self._control = metrics, pauses, control
        self._samples, self._start_again = samples, start_again
        self.exchange: Exchange  #: what travels in the running step
        self._told_of_numbers = False

    def send(
        self,
        job: Job,
        step: Step,
        idle: bool,
        weight: int,
        used: list[int],
        with_buffers: bool = True,
        marks: Sequence[Optional[int]] = (0,) * Exchange.MARKS,
        pace: int = 0,
    ) -> None:
        """Send what this member has to say."""
        self.exchange.send(job, step, used, idle, self._repeats.known, with_buffers, marks, pace)
        self._metrics.send(job, weight)

    def keep(self, step: Step, weight: int) -> None:
        """A job of one has committed `step`: what this member has is agreed."""
        self._replica.buffers.keep()
        self._metrics.keep(weight)
        self._account(step.sample_count, 1, share_hash(step.number, pairs(step)))

    def take_over(self) -> Common:
        """A step was committed: take over what it says, but for gradients."""
        common = self.exchange.receive()
        self._metrics.receive()
        self.adopt_numbers(common.numbers)
        self._replica.buffers.adopt(common.wholes, common.buffers_changed)
        if not self._repeats.learn(common.inside):
            self._start_again("the program began to change gradients or parameters while this member joined")
        self._account(common.samples, common.members, common.contributors)
        return common

    def adopt_numbers(self, codes: list[int]) -> None:
        """Take over the numbers of optimisers and schedulers."""
        own = self._replica.leaves.read()
        codes = [mine if code == UNKNOWN else code for code, mine in zip(codes, own)]
        self._replica.note(codes)
        if codes == own:
            return
        changed = self._replica.leaves.write(codes)
        if self._repeats.has_parted:
            raise StateError(_LATE.format(names=", ".join(changed[:4])))
        last = self._running.last_step
        repeated = last is not None and last.replay  # its copy may be a scheduler's tick older
        if self._repeats.known and not repeated and not self._told_of_numbers:
            self._told_of_numbers = True
            log.warning(
                "the member that has been here longest had other values for %s; its values are used, in this step and "
                "in all others. A loop that counts its iterations itself counts from 0 in a member that joins: count "
                "by spotnik.step()",
                ", ".join(changed[:4]),
            )

    def _account(self, samples: int, members: int, contributors: int) -> None:
        running, control = self._running, self._control
        running.samples, running.members, running.contributors = samples, members, contributors
        before = control.epoch
        if self._samples:
            control.consume(samples, self._samples)
        self._pauses.step_trained(not running.inside, control.epoch != before)
