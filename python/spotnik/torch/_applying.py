# SPDX-License-Identifier: Apache-2.0
"""The program applies a committed step: the hooks of optimizer.step()."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from ..errors import StateError
from ._committing import Committing
from ._exchange import pairs
from ._leaves import Stateful
from ._options import Options, StepReport


class Applying(Committing):
    """The part of a session inside optimizer.step()."""

    def __init__(
        self, model: torch.nn.Module, optimizers: list[Optimizer], extras: list[Stateful], options: Options
    ) -> None:
        super().__init__(model, optimizers, extras, options)
        for optimizer in optimizers:
            if not getattr(type(optimizer).step, "hooked", False):  # it wraps another, and did not initialise itself
                optimizer._patch_step_function()
            self._hooks.append(optimizer.register_step_pre_hook(self._before_step))
            self._hooks.append(optimizer.register_step_post_hook(self._after_step))

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if callable(closure) and self.step is not None and self.gradients.passes < self.gradients.accumulate:
            self._in_closure = optimizer  # it calls backward(), for the last time in this step, which commits
            return
        if self.step is not None and not self._inside:
            if not self.gradients.arrived:
                raise StateError(
                    "optimizer.step() without backward(): no parameter has a gradient in this step. Call "
                    "loss.backward() first, on a loss that depends on the prepared model"
                )
            self._end_step()
        if self._excluded:
            return
        self._check_pending(optimizer)
        self._applying(optimizer, len(args) > 1 or bool(kwargs))

    def _end_step(self) -> None:
        """The program calls optimizer.step() for a step that is not committed yet."""
        self._commit()

    def _check_pending(self, optimizer: Optimizer) -> None:
        if self.optimizers.index(optimizer) not in self._pending:
            raise StateError(
                "optimizer.step() was called twice for one backward(), or before the first; call it once after each "
                "backward(). Losses with a backward() each, or optimizers that step in turn: say "
                'prepare(..., commit="step")'
            )

    def _applying(self, optimizer: Optimizer, with_arguments: bool) -> None:
        """An optimiser is about to apply the committed step."""
        if not self._inside:
            settings = self._settings()
            if settings != self._settings_committed:  # between backward() and step(): no joiner can repeat that alone
                self._settings_late = settings
            late = self._settings_late is not None
            # A gradient scaler divides the averages in optimizer.step(), and no version tells of that.
            if self.gradients.touched or with_arguments or late or self.replica.scaled:
                self._touched = True
        self._scale_lr(optimizer)

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        self._unscale_lr()
        in_closure, self._in_closure = self._in_closure, None
        if self._excluded:
            return
        if in_closure is not None:
            self._settle_closure()
        self._pending.discard(next(i for i, one in enumerate(self.optimizers) if one is optimizer))
        if self._pending:
            return
        if not self._inside:
            self._known = True
            self._versions = self.watch.versions()
        self._report()

    def _settle_closure(self) -> None:
        if self.step is not None:
            raise StateError(
                "the closure given to optimizer.step() did not call backward(); let it compute the loss, call "
                "loss.backward() and return the loss"
            )
        self._touched |= self.gradients.touched

    def _report(self) -> None:
        step = self.last_step
        if self.options.on_step is None or step is None:
            return
        self.options.on_step(
            StepReport(
                number=step.number,
                data_epoch=step.data_epoch,
                samples=self._samples,
                members=self._members,
                contributors=self._contributors,
                replay=step.replay,
                share=pairs(step),
                wait_s=self.wait_s,
            )
        )
