# SPDX-License-Identifier: Apache-2.0
"""Learning rates of a step with other than the planned samples: prepare(lr_rule=...). Schedulers do not see them."""

from __future__ import annotations

from typing import Any, Optional

from torch.optim import Optimizer

from ..training.running import Running
from ._options import Data, Options


class Rates:
    """Scales the learning rates of an optimiser while it runs."""

    def __init__(self, options: Options, running: Running) -> None:
        self._options, self._running = options, running
        self.data: Optional[Data] = None
        self._before: list[tuple[dict[str, Any], Any]] = []

    @property
    def factor(self) -> float:
        """By how much the learning rates of the last committed step were scaled."""
        options, data, members = self._options, self.data, self._running.members
        if options.lr_rule == "none" or data is None or not members:
            return 1.0
        batch = data.batch * (members if data.per_member else 1)
        ratio = batch / (options.lr_batch or data.batch)
        return ratio if options.lr_rule == "linear" else ratio**0.5

    def scale(self, optimizer: Optimizer) -> None:
        """For the step that `optimizer` applies next."""
        factor = self.factor
        if factor == 1.0:
            return
        for group in optimizer.param_groups:
            self._before.append((group, group["lr"]))
            group["lr"] = group["lr"] * factor

    def restore(self) -> None:
        """Put the program's rates back."""
        for group, rate in self._before:
            group["lr"] = rate
        self._before.clear()
