# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on Spotnik: a process group that survives the loss of members.

    import spotnik.torch.distributed
    torch.distributed.init_process_group("spotnik")

When a member is lost, every survivor's call raises :class:`MemberLostError` at the same operation, and the group
refuses further calls. :func:`reconfigure` goes on with the survivors. docs/guide/process-group.md has recipes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional

import torch.distributed as dist

from ._dispatcher import Dispatcher, SoloDispatcher
from ._errors import (
    AbortedError,
    CallMismatchError,
    GroupError,
    MemberLostError,
    NotSupportedError,
    WaitError,
)
from ._group import SpotnikGroup
from ._meeting import dispatcher_of, register, regroup_of
from ._regroup import Unmade

__all__ = [
    "AbortedError",
    "CallMismatchError",
    "GroupError",
    "MemberLostError",
    "NotSupportedError",
    "SpotnikGroup",
    "WaitError",
    "reconfigure",
]


def reconfigure(
    group: Optional[dist.ProcessGroup] = None, size: int = 0, timeout: Optional[timedelta] = None
) -> dict[int, int]:
    """Go on with the survivors of `group` (the default group); :meth:`SpotnikGroup.reconfigure_survivors` says how."""
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, SpotnikGroup):
        raise NotSupportedError(f'{group!r} is no group of backend "spotnik"; only such a group can be reconfigured')
    return group.reconfigure_survivors(size, timeout)


def _make(asked: Any, _options: object) -> dist.ProcessGroup:
    """What torch.distributed calls for ``backend="spotnik"``."""
    rank, size, timeout = asked.group_rank, asked.group_size, asked.timeout
    if dist.is_initialized():
        return _make_another(dist.group.WORLD, list(asked.global_ranks_in_group), timeout)
    if getattr(asked, "enable_reconfigure", False):
        return SpotnikGroup(Unmade(rank, size), timeout, regroup=regroup_of(asked.store, rank))
    return SpotnikGroup(dispatcher_of(asked.store, rank, size, timeout), timeout)


def _make_another(world: object, ranks: list[int], timeout: timedelta) -> dist.ProcessGroup:
    """``new_group(ranks)``, on the members of the new group."""
    size = world.size() if isinstance(world, dist.ProcessGroup) else 0
    dispatcher = world._dispatcher if isinstance(world, SpotnikGroup) else None
    if isinstance(dispatcher, Dispatcher) and ranks == list(range(size)):
        return SpotnikGroup(dispatcher, timeout, owns=False)
    if len(ranks) == 1:
        return SpotnikGroup(SoloDispatcher(), timeout)
    raise NotSupportedError(
        f"a group of {len(ranks)} of {size} members is not there: a step belongs to all. Make it of another backend, "
        'dist.new_group(ranks, backend="gloo")'
    )


dist.Backend.register_backend("spotnik", _make, extended_api=True, devices=["cpu"])
register()
