# SPDX-License-Identifier: Apache-2.0
"""Numbers of the program's own that travel with a step: prepare(metrics=(...)), tell() and told().

No step of their own, no wait: the sums of all members come with the averaged gradients. Decides nothing about when.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

from .._native import Dtype, Op
from ..errors import ArgumentError
from ..job import Job
from .buckets import Bucket

_MOST = 64


class Metrics:
    """What this member has told in the running step, and what all have told in the last one."""

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str) or len(set(names)) != len(names) or len(names) > _MOST:
            raise ArgumentError(f'metrics is a list of different names, at most {_MOST}: metrics=("loss",)')
        self.names = list(names)
        self._told: dict[str, list[Any]] = {name: [] for name in self.names}
        self._last = dict.fromkeys(self.names, math.nan)
        self._sums = array("d", bytes(16 * len(self.names)))  # of each: values by their weights, and weights

    def _check(self, name: str) -> None:
        if name not in self._last:
            known = ", ".join(self.names) or "none"
            raise ArgumentError(f"{name!r} is not among the metrics ({known}); say prepare(..., metrics=({name!r},))")

    def tell(self, name: str, value: object) -> None:
        """A value for the running step; several of them are averaged."""
        self._check(name)
        self._told[name].append(value.detach() if hasattr(value, "detach") else value)  # a graph is not kept alive

    def told(self, name: str) -> float:
        """The mean over the samples of the last step; NaN when no member told one."""
        self._check(name)
        return self._last[name]

    def send(self, job: Job, weight: int) -> None:
        """Let it travel, weighted; a weight of 0 says nothing."""
        if not self.names:
            return
        self._gather(weight)
        sums = self._sums
        job.allreduce_start(Bucket.METRICS, sums.buffer_info()[0], len(sums), Dtype.F64, Op.SUM, sums)

    def receive(self) -> None:
        """The step is committed: what all have told."""
        means = [total / weight if weight else math.nan for total, weight in zip(self._sums[::2], self._sums[1::2])]
        self._last = dict(zip(self.names, means))

    def keep(self, weight: int) -> None:
        """The same for a member that is alone."""
        self._gather(weight)
        self.receive()

    def _gather(self, weight: int) -> None:
        for number, name in enumerate(self.names):
            values, self._told[name] = self._told[name], []
            self._sums[2 * number] = self._sums[2 * number + 1] = 0
            if values and weight:
                mean = math.fsum(float(value) for value in values) / len(values)
                self._sums[2 * number], self._sums[2 * number + 1] = mean * weight, weight
