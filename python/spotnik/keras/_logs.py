# SPDX-License-Identifier: Apache-2.0
"""Numbers of a train step and of an epoch: which are of metrics, and how those of an epoch are agreed on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arrays
from ..errors import ArgumentError
from ..training.buckets import GRADIENTS

if TYPE_CHECKING:
    from ..job import Job

_LOGS = 64  # numbers in the logs of an epoch that are agreed on


class Said:
    """The logs of an epoch as they travel. A member whose train step never ran knows no names: it says none."""

    def __init__(self, logs: dict[str, Any]) -> None:
        names = sorted(logs)[:_LOGS]
        self._numbers = np.full(_LOGS, -np.inf)
        self._numbers[: len(names)] = [_plain(logs[name]) for name in names]
        self._names = np.zeros(_LOGS * 128, np.uint8)
        spelled = json.dumps(names).encode() if names else b""
        if len(spelled) > self._names.size:
            raise ArgumentError(f"the names in an epoch's logs take {len(spelled)} bytes; shorten those of metrics")
        self._names[: len(spelled)] = np.frombuffer(spelled, np.uint8)

    def start(self, job: Job) -> None:
        """Send them."""
        for bucket, vector in zip(GRADIENTS, (self._numbers, self._names)):
            arrays.start(vector, "max", bucket, job)

    def agree(self, logs: dict[str, Any]) -> None:
        """Make `logs` what the members have agreed on, if one of them knew names."""
        spelled = self._names.tobytes().rstrip(b"\0")
        if not spelled:
            return
        names = json.loads(spelled)
        numbers = (np.nan if one == np.inf else float(one) for one in self._numbers)
        agreed = dict(zip(names, numbers))
        for name in set(sorted(logs)[:_LOGS]) - set(agreed):
            del logs[name]
        logs.update(agreed)


def of_no_metric(numbers: dict[str, float], results: dict[str, float]) -> frozenset[str]:
    """Names of numbers that the train step made itself: no metric, or one that it did not update, has this result."""
    of_metrics = {
        name
        for name in numbers.keys() & results.keys()
        if np.isclose(numbers[name], results[name], 1e-4, 1e-6, equal_nan=True)
    }
    return frozenset(numbers) - of_metrics


def numbers_of(logs: dict[str, Any]) -> dict[str, float]:
    """The numbers in what a train step returned, by name."""
    found: dict[str, float] = {}
    for name, value in logs.items():
        if isinstance(value, dict):  # a metric of several results
            found.update(numbers_of(value))
        elif np.ndim(value) == 0:
            found[name] = float(value)
    return found


def _plain(value: Any) -> float:
    number = float(value)
    return np.inf if np.isnan(number) else number
