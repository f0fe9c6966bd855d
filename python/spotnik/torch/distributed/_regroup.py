# SPDX-License-Identifier: Apache-2.0
"""PyTorch's reconfigure interface (2.14): a group made anew from handles that the program has exchanged.

Survivors of one group that agree on the lost go on in the job that they have. Every other choice of handles, newcomers
and parts of a group among them, becomes a job of its own, named by the uuid. Handles alone decide which, so that all
decide alike.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from typing import Optional, Union

from ...config import Config
from ._dispatcher import Dispatcher, SoloDispatcher
from ._errors import AbortedError, GroupError, MemberLostError, NotSupportedError
from ._work import GroupWork

__all__ = ["AnyDispatcher", "Regroup", "Unmade"]


class Unmade(SoloDispatcher):
    """The members of a group that was never reconfigured: none yet."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.rank, self.size = rank, size
        self.error: Optional[GroupError] = AbortedError("this group has no members yet; call reconfigure() first")

    def call(self, work: GroupWork, *_: object) -> GroupWork:
        """Refuse."""
        assert self.error is not None
        raise self.error


AnyDispatcher = Union[Dispatcher, SoloDispatcher]


@dataclass(frozen=True)
class Handle:
    """What the others must know of a member."""

    address: str  # where it listens in the next job
    communicator: str = ""  # the group it is in; "": one that cannot go on
    rank: int = 0  # its place there
    size: int = 0
    lost: tuple[int, ...] = ()  # ranks that it knows to be lost

    @staticmethod
    def of(text: str) -> Handle:
        """Raises NotSupportedError for what is no handle."""
        try:
            fields = json.loads(text)
            return Handle(**{**fields, "lost": tuple(fields["lost"])})
        except (ValueError, TypeError, KeyError):
            raise NotSupportedError(f"{text!r} is no handle of this backend; use get_reconfigure_handle()") from None


def _go_on(handles: Collection[Handle]) -> bool:
    """Are these the survivors of one group, in their order? Then they need no new job."""
    first = next(iter(handles))
    ranks = [handle.rank for handle in handles]
    alike = all(replace(handle, address="", rank=0) == replace(first, address="", rank=0) for handle in handles)
    left = [rank for rank in range(first.size) if rank not in first.lost]
    return bool(first.communicator) and alike and ranks == left


class Regroup:
    """How one group finds its next members. `key_file` is what the config needs to find the key."""

    def __init__(self, free_address: Callable[[], str], key_file: Optional[str], kept: object = None) -> None:
        self._free_address = free_address
        self._key_file, self._kept = key_file, kept
        self._name = os.environ.get("SPOTNIK_JOB", "spotnik")
        self._address = ""
        self._used: set[int] = set()

    def handle(self, dispatcher: AnyDispatcher) -> str:
        """What the others need, to be exchanged by the program. The same until the next reconfiguration."""
        self._address = self._address or self._free_address()
        handle = Handle(self._address)
        if isinstance(dispatcher, Dispatcher) and dispatcher.can_go_on:
            place = dispatcher.communicator, dispatcher.rank, dispatcher.size
            handle = Handle(self._address, *place, _lost(dispatcher.error))
        return json.dumps(asdict(handle), sort_keys=True)

    def next(self, dispatcher: AnyDispatcher, uuid: int, texts: Collection[str], limit_s: float) -> AnyDispatcher:
        """The dispatcher of the members that `texts` name. Raises GroupError, WaitError."""
        if uuid in self._used:
            raise GroupError(f"uuid {uuid} was already used; pass another one each time, the same on every member")
        listed = texts if isinstance(texts, list) else sorted(texts)
        handles = [Handle.of(text) for text in listed]
        mine, self._address = self._address, ""
        addresses = [handle.address for handle in handles]
        if mine not in addresses:
            raise GroupError("the handles do not include this process's own; exchange get_reconfigure_handle() again")
        self._used.add(uuid)
        if _go_on(handles) and isinstance(dispatcher, Dispatcher):
            dispatcher.gather(len(handles), limit_s)
            return dispatcher
        dispatcher.abort("this group was reconfigured; make it again with new_group()")
        if len(handles) == 1:
            return SoloDispatcher()
        config = Config(
            job_name=f"{self._name}.{uuid}",
            members_max=len(handles),
            bind=mine,
            peers=",".join(addresses),
            key_file=self._key_file,
        )
        return Dispatcher(config, addresses.index(mine), len(handles), limit_s, self._kept)


def _lost(error: Optional[GroupError]) -> tuple[int, ...]:
    return error.lost if isinstance(error, MemberLostError) else ()
