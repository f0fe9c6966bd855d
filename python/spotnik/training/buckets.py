# SPDX-License-Identifier: Apache-2.0
"""The buckets of a step, in one table.

What a step is for has the numbers of GRADIENTS, from 0. What the package adds to a step has a number of its own, so
that two members in different kinds of steps find out. The strategies of the library have 230 to 250 (src/api/sync.h).
"""

from __future__ import annotations

import enum

__all__ = ["GRADIENTS", "Bucket"]

GRADIENTS = range(224)  #: gradients, or the values of a reduction


@enum.unique
class Bucket(enum.IntEnum):
    """What the package adds."""

    ROLL = 224  #: who contributed to an operation of a process group
    CHECK = 225  #: a number for each value of the replica
    EXTRA_TOTALS = 226  #: samples and members of an extra step
    BYTES = 227  #: a broadcast or an all-gather of arrays
    METRICS = 229  #: sums of the program's own numbers
    MEANS = 251  #: means of a model's buffers
    TOTALS = 252  #: samples and members of a step
    COMMON = 253  #: numbers on which the members agree by their maximum
    COLLECTIVE = 255  #: an all-reduce of arrays that is a step of its own
