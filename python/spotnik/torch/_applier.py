# SPDX-License-Identifier: Apache-2.0
"""The program applies a committed step: the hooks of optimizer.step()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from torch.optim import Optimizer

from ..errors import StateError
from ..training.repeats import Repeats
from ..training.running import Running
from ..training.shares import pairs
from ._mode import AtBackward
from ._options import StepReport
from ._rates import Rates


class Applier:
    """Sees to it that each optimiser applies a committed step once, with the rates of that step."""

    def __init__(
        self,
        optimizers: list[Optimizer],
        mode: AtBackward,
        running: Running,
        repeats: Repeats,
        rates: Rates,
        on_step: Optional[Callable[[StepReport], None]],
    ) -> None:
        self._optimizers, self._mode, self._running = optimizers, mode, running
        self._repeats, self._rates, self._on_step = repeats, rates, on_step
        self._in_closure: Optional[Optimizer] = None  # the optimiser that computes its own gradients
        self._hooks: list[Any] = []
        for optimizer in optimizers:
            if not getattr(type(optimizer).step, "hooked", False):  # it wraps another, and did not initialise itself
                optimizer._patch_step_function()
            self._hooks.append(optimizer.register_step_pre_hook(self._before))
            self._hooks.append(optimizer.register_step_post_hook(self._after))

    def close(self) -> None:
        """Take the hooks away."""
        for handle in self._hooks:
            handle.remove()

    def committed(self) -> None:
        """The step was committed in the midst of an optimiser's step(): its rates are those of the step."""
        if self._in_closure is not None:
            self._rates.scale(self._in_closure)

    def _before(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running = self._running
        if running.optimising:
            self._rates.scale(optimizer)
            return
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if not running.inside and not self._mode.admits(self._optimizers.index(optimizer), callable(closure)):
            return
        gradients = self._mode.gradients
        if callable(closure) and running.step is not None and gradients.passes < gradients.accumulate:
            self._in_closure = optimizer  # it calls backward(), for the last time in this step, which commits
            return
        if running.step is not None and not running.inside:
            if not gradients.arrived:
                raise StateError(
                    "optimizer.step() without backward(): no parameter has a gradient in this step. Call "
                    "loss.backward() first, on a loss that depends on the prepared model"
                )
            self._mode.end_step()
        if running.excluded:
            return
        if self._optimizers.index(optimizer) not in running.pending:
            raise StateError(
                "optimizer.step() was called twice for one backward(), or before the first; call it once after each "
                "backward(). Losses with a backward() each, or optimizers that step in turn: say "
                'prepare(..., commit="step")'
            )
        if self._mode.averages:
            self._look(len(args) > 1 or bool(kwargs))
            self._rates.scale(optimizer)

    def _look(self, with_arguments: bool) -> None:
        """A gradient scaler divides the averages in optimizer.step(), and no version tells of that."""
        if not self._running.inside:
            self._repeats.look(self._mode.gradients.touched or with_arguments or self._mode.scaled)

    def _after(self, optimizer: Optimizer, *_: Any) -> None:
        self._rates.restore()
        if self._running.optimising:
            return
        in_closure, self._in_closure = self._in_closure, None
        if self._running.excluded:
            return
        if in_closure is not None:
            self._settle_closure()
        number = next(i for i, one in enumerate(self._optimizers) if one is optimizer)
        due = number in self._running.pending
        self._running.pending.discard(number)
        if not self._running.pending:
            self._applied()
        if due:
            self._mode.applied()

    def _applied(self) -> None:
        if not self._running.inside:
            self._repeats.applied()
        self._report()

    def _settle_closure(self) -> None:
        if self._running.step is not None:
            raise StateError(
                "the closure given to optimizer.step() did not call backward(); let it compute the loss, call "
                "loss.backward() and return the loss"
            )
        self._repeats.touched |= self._mode.gradients.touched

    def _report(self) -> None:
        running = self._running
        step = running.last_step
        if self._on_step is None or step is None:
            return
        self._on_step(
            StepReport(
                number=step.number,
                data_epoch=step.data_epoch,
                samples=running.samples,
                members=running.members,
                contributors=running.contributors,
                replay=step.replay,
                share=pairs(step),
                wait_s=running.wait_s,
            )
        )
