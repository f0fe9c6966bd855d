# SPDX-License-Identifier: Apache-2.0
"""A session under a strategy other than "ssgd" (``_strategies``): gradients stay this member's own, to be clipped.

The step is committed inside optimizer.step(), by the strategy, which calls the optimisers where it wants them; the
program's own call then finds no gradients and does nothing. Where members run apart, what there is to say of a step is
said at its beginning, so that no member waits for it.
"""

from __future__ import annotations

import time

from ..errors import StateError
from ..job import Job, Step
from ._exchange import Exchange
from ._mode import AtBackward
from ._replica import Replica
from ._strategies import Strategy


class ByStrategy(AtBackward):
    """A mode: the strategy commits, in optimizer.step()."""

    averages = False
    strategy: Strategy  # there is one once the job is joined

    def check(self, replica: Replica) -> None:
        """No gradient scaler."""
        if replica.scaled:
            raise StateError(
                f"sync={self._session.options.sync!r} does not take a gradient scaler, which may leave out steps; "
                "train in bfloat16, or with sync='ssgd'"
            )

    def joined(self, job: Job) -> None:
        """Give the parameters to the strategy."""
        session = self._session
        trained = [slot.parameter for slot in self.gradients.slots]
        self.strategy = Strategy(job, trained, session.options.sync, self._optimise, session.optimizers)
        session.agreement.exchange = Exchange(session.replica, session.control, len(self.gradients.slots))

    def received(self) -> None:
        """Parameters are the strategy's model."""
        self.strategy.received()

    # ---- begin ----

    def before_begin(self) -> None:
        """After backward() the step ends in optimizer.step()."""
        if self._session.running.step is not None:
            self._session.settle()

    def ready(self) -> None:
        """The strategy may look at its model in the next step."""
        last = self._session.running.last_step
        if last is not None:
            self.strategy.ready(last.number + 1)

    def armed(self, step: Step) -> None:
        """Say at once what there is to say, where members run apart."""
        if self.strategy.apart and not self._session.solo:
            self._send(step, [1] * len(self.gradients.slots), with_buffers=False)

    # ---- commit ----

    def _send(self, step: Step, used: list[int], with_buffers: bool = True) -> None:
        session = self._session
        assert session.job is not None
        session.agreement.send(session.job, step, self.is_idle(step), self.weight_of(step), used, with_buffers)

    def commit(self) -> None:
        """Backward has ended: gradients are this member's own."""
        session, running = self._session, self._session.running
        if running.step is None or session.job is None:
            return
        running.used = self.gradients.send_rest()
        self.gradients.finish(running.used)
        running.pending = set(range(len(session.optimizers)))

    def finish_inside(self) -> None:
        """Commit without gradients."""
        self.gradients.drop(scaled=False)
        self.end_step()

    def end_step(self) -> None:
        """Commit the step as the strategy wants it. Afterwards parameters are as they shall be, without gradients."""
        session, running, strategy = self._session, self._session.running, self.strategy
        step = running.step
        assert step is not None
        began = time.perf_counter()
        apart = strategy.apart
        if not session.solo and not apart:
            self._send(step, running.used)
        running.optimising = True
        try:
            committed = session.membership.commit(lambda: strategy.step(step))
        finally:
            running.optimising = False
        running.wait_s = time.perf_counter() - began
        running.step = None
        if not committed:
            session.exclude()
            return
        if session.solo:
            session.agreement.keep(step, self.weight_of(step))
        else:
            if apart:
                session.replica.buffers.keep()
            session.agreement.take_over()
        self.gradients.drop(scaled=False)
        running.pending = set(range(len(session.optimizers)))

    def _optimise(self) -> None:
        session = self._session
        if self.strategy.sync.same_bits and not session.solo:
            self._adopt_settings()
        for optimizer in session.optimizers:
            optimizer.step()

    def _adopt_settings(self) -> None:
        """Take over what the step says of optimisers and schedulers, before it is applied.

        Models that are equal stay so with equal settings only: a joiner's copy may be a scheduler's tick older, and it
        does not know of how many members the step is.
        """
        agreement = self._session.agreement
        common = agreement.exchange.receive()
        agreement.adopt_numbers(common.numbers)
        self._session.running.members = common.members

    def deal(self, samples: int) -> None:
        """Models that members train by themselves do not weigh."""

    def _check_loss(self, what: str) -> None:
        raise StateError(f'{what}() says what a gradient weighs in an average, and goes with sync="ssgd"')

    # ---- apply ----

    def admits(self, number: int, with_closure: bool) -> bool:
        """All optimisers step in each step, without closures."""
        if with_closure:
            sync = self._session.options.sync
            raise StateError(f"sync={sync!r}: call backward() before optimizer.step(), not in a closure")
        return True
