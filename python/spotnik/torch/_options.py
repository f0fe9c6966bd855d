# SPDX-License-Identifier: Apache-2.0
"""What the program says to prepare() and shard(), and the report it gets of each step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Optional, Union

from ..job import Config
from ..sync import Rule


@dataclasses.dataclass(frozen=True)
class StepReport:
    """A step that was committed and applied here."""

    #: Number of the step, from 1.
    number: int
    #: Pass over the data, from 0.
    data_epoch: int
    #: Samples and members whose gradients are in the average.
    samples: int
    members: int
    #: Sum over these members of a hash of their shares: tells who they were (see :func:`share_hash`).
    contributors: int
    #: This member repeated the step as a joiner.
    replay: bool
    #: Samples this member computed in it: half-open ranges of places in the epoch of data.
    share: tuple[tuple[int, int], ...]
    #: Seconds between the end of backward and the commit: what was not hidden behind backward.
    wait_s: float


@dataclasses.dataclass
class Options:
    """Settings of prepare(); see there."""

    sync: Union[str, Rule]
    bucket_mb: float
    wire: str
    accumulate: int
    commit: str
    batch: str
    lr_rule: str
    lr_batch: Optional[int]
    sparse: str
    seed: Optional[int]
    rng: bool
    metrics: Sequence[str]
    pauses: Union[str, int, None]
    checkpoint: Optional[str]
    start: int
    config: Optional[Config]
    on_step: Optional[Callable[[StepReport], None]]


@dataclasses.dataclass
class Data:
    """What the job consumes: samples in an epoch of data, and in a step (of one member, where `per_member`)."""

    samples: int
    batch: int
    per_member: bool
