# SPDX-License-Identifier: Apache-2.0
"""The step of the training in which a program is, and what the last one was."""

from __future__ import annotations

import dataclasses
from typing import Optional

from ..job import Step


@dataclasses.dataclass
class Running:
    """One for each prepared model; the parts of its session share it."""

    step: Optional[Step] = None  #: of the training; begun and not committed
    last_step: Optional[Step] = None  #: of the training; begun last
    handed: Optional[Step] = None  #: the last one whose batch the loop was given
    used: list[int] = dataclasses.field(default_factory=list)  #: for each parameter: has it a gradient here?
    pending: set[int] = dataclasses.field(default_factory=set)  #: optimisers that have not applied the committed step
    excluded: bool = False  #: the others took the step without this member
    inside: bool = False  #: the step is taken here, without the program's loop
    optimising: bool = False  #: a strategy runs the optimisers
    # of the last committed step
    wait_s: float = 0.0
    samples: int = 0
    members: int = 1
    contributors: int = 0
