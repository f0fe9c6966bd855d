# SPDX-License-Identifier: Apache-2.0
"""A session under a strategy other than "ssgd" (``_strategies``): gradients stay this member's own, to be clipped.

The step is committed inside optimizer.step(), by the strategy, which calls the optimisers where it wants them; the
program's own call then finds no gradients and does nothing. Where members run apart, what there is to say of a step is
said at its beginning, so that nobody waits for it.
"""

from __future__ import annotations

import time
from typing import Any, Optional

from torch.optim import Optimizer

from ..errors import MismatchError, StateError
from ..job import Job, Step
from ._exchange import pairs, share_hash
from ._replica import Replica
from ._session import Session
from ._strategies import Strategy


class StrategicSession(Session):
    """The life of a prepared model under a strategy."""

    strategy: Strategy
    _optimising = False  # the strategy runs the optimisers

    def _replicate(self, seed: int) -> Replica:
        replica = Replica(self.model, self.optimizers, self.extras, seed, under_strategy=True)
        if replica.scaled:
            raise StateError(
                f"sync={self.options.sync!r} does not take a gradient scaler, which may leave out steps; train in "
                "bfloat16, or with sync='ssgd'"
            )
        return replica

    def _joined(self, job: Job) -> None:
        trained = [slot.parameter for slot in self.gradients.slots]
        self.strategy = Strategy(job, trained, self.options.sync, self._optimise, self.optimizers)

    # ---- begin ----

    def begin(self, epoch: Optional[int] = None) -> Step:
        """As without a strategy."""
        if self.step is not None:
            self._settle()  # backward() was called: the step ends in optimizer.step()
        return super().begin(epoch)

    def _received(self) -> None:
        self.strategy.spread(self.strategy.model)

    def _armed(self, step: Step) -> None:
        super()._armed(step)
        if self.strategy.apart and not self.solo and self.job is not None:
            ones = [1] * len(self.gradients.slots)
            self._exchange.send(self.job, step, ones, self._is_idle(step), self._known, with_buffers=False)
            self.metrics.send(self.job, self._weight_of(step))

    # ---- commit ----

    def _commit(self) -> None:
        if self.step is None or self.job is None:
            return
        self._used = self.gradients.send_rest()
        self.gradients.finish(self._used)
        self._pending = set(range(len(self.optimizers)))

    def _finish_inside(self) -> None:
        self.gradients.drop(scaled=False)
        self._end_step()

    def _end_step(self) -> None:
        """Commit the step as the strategy wants it. Afterwards parameters are as they shall be, without gradients."""
        step, job = self.step, self.job
        assert step is not None and job is not None
        began = time.perf_counter()
        apart = self.strategy.apart
        if not self.solo and not apart:
            self._exchange.send(job, step, self._used, self._is_idle(step), self._known)
            self.metrics.send(job, self._weight_of(step))
        self._optimising = True
        try:
            committed = self.strategy.step()
        except MismatchError as error:
            raise self._mismatch(error) from error
        finally:
            self._optimising = False
        self.wait_s = time.perf_counter() - began
        self.step = None
        if not committed:
            self._exclude()
            return
        if apart or self.solo:
            self.replica.buffers.keep()
        if self.solo:
            self.metrics.keep(self._weight_of(step))
            self._adopt_totals(step.sample_count, 1, share_hash(step.number, pairs(step)))
        else:
            self._adopt_common()
        self.gradients.drop(scaled=False)
        self._pending = set(range(len(self.optimizers)))

    def _optimise(self) -> None:
        if self.strategy.sync.same_bits and not self.solo:
            self._adopt_settings()
        for optimizer in self.optimizers:
            optimizer.step()

    def _adopt_settings(self) -> None:
        """Take over what the step says of optimisers and schedulers, before it is applied.

        Models that are equal stay so with equal settings only: a joiner's copy may be a scheduler's tick older, and it
        does not know of how many members the step is.
        """
        common = self._exchange.receive()
        self._adopt_leaves(common.numbers)
        self._members = common.members

    # ---- apply ----

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._optimising:
            self._scale_lr(optimizer)
            return
        if callable(kwargs.get("closure") or (args[1] if len(args) > 1 else None)):
            raise StateError(f"sync={self.options.sync!r}: call backward() before optimizer.step(), not in a closure")
        super()._before_step(optimizer, args, kwargs)

    def _applying(self, optimizer: Optimizer, with_arguments: bool) -> None:
        """The strategy has taken the step; without gradients the optimiser does nothing."""

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        if self._optimising:
            self._unscale_lr()
            return
        super()._after_step(optimizer)
