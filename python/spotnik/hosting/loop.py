# SPDX-License-Identifier: Apache-2.0
"""Loops that a program writes itself: steps with this member's share of the data, and averages within a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Optional

import numpy as np

from .. import arrays
from ..errors import ArgumentError, DoneError, StateError
from ..job import Step
from .data import Batch, Source
from .memory import Bucket
from .replica import Replica, Settings

if TYPE_CHECKING:
    from .memory import Array

_AVERAGES_BUCKET = 0


class Loop:
    """The steps of one replica. `write` takes over values in the order in which `read` gives them."""

    def __init__(
        self, read: Callable[[], Sequence[Array]], write: Callable[[Sequence[Array]], object], settings: Settings
    ) -> None:
        self.settings = settings
        self.replica = Replica(read, settings)
        self._write = write
        self.settle: Callable[[], object] = lambda: None  #: wait for what the framework still has to run
        self._source: Optional[Source] = None

    def begin(self) -> Step:
        """Begin the next step; the framework has the others' state then."""
        step = self.replica.begin()
        if self.replica.fresh:
            self._write(self.replica.values)
            self.replica.taken()
        return step

    def steps(self, source: Source, epochs: int) -> Iterator[tuple[Step, Batch]]:
        """Go through `epochs` epochs of data from where the job is: each step, with what this member computes in it.

        A member without samples gets the first one of the data, whose results count nothing.
        """
        if self._source is not source:
            if self.replica.job is not None:
                raise StateError("a job consumes one data set, and steps were taken before this one was given")
            self._source = source
            self.settings.samples, self.settings.batch = source.samples, source.batch
        self.replica.open()
        while True:
            try:
                if self.replica.epoch >= epochs and not self._behind():
                    return
                step = self.begin()
            except DoneError:
                return
            if self.replica.epoch >= epochs:
                return
            ranges = step.ranges or [range(0, 1)]
            yield step, source.take(self.replica.seed, step.data_epoch if step.ranges else 0, ranges)
            self.settle()
            if self.replica.step is step:
                raise StateError(
                    "the loop came for another batch without averaging gradients in the last one; every step is "
                    "finished by exactly one average"
                )

    def _behind(self) -> bool:
        return self.replica.last_step is None  # what others have is not known yet

    def average(self, values: Sequence[Array], weight: Optional[int] = None) -> list[Array]:
        """Finish the running step, or take one without samples, with the mean of `values` over its samples.

        When the others went on without this member the values come back as they are: what the program does with them
        is overwritten when the next step begins.
        """
        replica, own = self.replica, self.replica.step is None
        step = self.begin()
        assert replica.job is not None
        if own:
            replica.decline()
        if weight is not None and not step.replay:
            replica.job.weight_set(weight)
        buckets = _by_type(values)
        for number, (bucket, _) in enumerate(buckets):
            if bucket.flat.size:
                arrays.start(bucket.flat, "mean", _AVERAGES_BUCKET + number, replica.job)
        if not replica.commit():
            return list(values)
        result: dict[int, Array] = {}
        for bucket, places in buckets:
            result.update({at: one.astype(values[at].dtype) for at, one in zip(places, bucket.views())})
        return [result[at] for at in range(len(values))]


def _by_type(values: Sequence[Array]) -> list[tuple[Bucket, list[int]]]:
    wide = [at for at, one in enumerate(values) if one.dtype == np.float64]
    rest = [at for at in range(len(values)) if at not in wide]
    for at in rest:
        if values[at].dtype.kind not in "fV" and "float" not in values[at].dtype.name:
            raise ArgumentError(f"means are of floats, not of {values[at].dtype}")
    made = []
    for places, dtype in ((rest, np.float32), (wide, np.float64)):
        bucket = Bucket([values[at] for at in places], dtype)
        bucket.fill([values[at] for at in places])
        made.append((bucket, places))
    return made
