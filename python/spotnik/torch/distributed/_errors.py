# SPDX-License-Identifier: Apache-2.0
"""What a process group raises. ``except torch.distributed.DistError`` catches each of them, too."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from ...errors import SpotnikError

__all__ = [
    "AbortedError",
    "CallMismatchError",
    "GroupError",
    "MemberLostError",
    "NotSupportedError",
    "WaitError",
    "lost_text",
]


class GroupError(SpotnikError, dist.DistBackendError):
    """The call has no result. The group refuses further calls until ``reconfigure``."""


class MemberLostError(GroupError):
    """A member of the group was lost. Every survivor raises this at the same call. ``lost`` holds the lost ranks."""

    def __init__(self, message: str, lost: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.lost = tuple(lost)


class CallMismatchError(GroupError):
    """The members made different calls, or the same ones in another order. Correct the program."""


class AbortedError(GroupError):
    """``abort`` or ``shutdown`` ended the call."""


class WaitError(GroupError):
    """The members asked for are not all here, or a call took longer than its timeout."""


class NotSupportedError(SpotnikError, NotImplementedError):
    """This group has no such call. Nothing happened; the message names what to use instead."""


def lost_text(lost: Sequence[int], size: int) -> str:
    """Who was lost, and what to do next."""
    ranks = ", ".join(map(str, lost))
    what = f"rank {ranks} was lost" if len(lost) == 1 else f"ranks {ranks} were lost"
    return f"{what} of {size} members. Call reconfigure() to go on with the survivors, and repeat the call"
