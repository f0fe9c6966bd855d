# SPDX-License-Identifier: Apache-2.0
"""A job of which this process's *group* is one member (``include/spotnik/group.h``), with the surface of a Job.

The handle is that of the group, and each call on a job becomes the group's call of the same arguments. A process has
data of its own, as a member has: its gradients are reduced over the group first, its copy of the state is equal to
those of the others. It gets its part of the group's samples. Decides nothing of what the group does.
"""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import os
from typing import Any, Callable, Optional

from . import _native, errors
from ._handle import Alone
from ._native import Dtype, Op
from .config import Config, name_bytes
from .errors import ArgumentError, StateError
from .job import Job, Step

__all__ = ["GroupJob", "Place", "place"]

_PATIENCE_NS = 100_000_000  # between two looks at signals
_GOODBYES = 20  # of these, for processes that may have ended by themselves
_AGAIN = errors.AgainError.number
_opened = itertools.count()  # groups that this process has opened: each start of one has another name

#: Calls on a job that a group has with the same arguments.
_CALLS = {
    "spotnik_patience_set": "spotnik_group_patience_set",
    "spotnik_state_refresh_set": "spotnik_group_refresh_set",
    "spotnik_state_loads": "spotnik_group_loads",
    "spotnik_samples_decline": "spotnik_group_samples_decline",
    "spotnik_weight_set": "spotnik_group_weight_set",
    "spotnik_allreduce": "spotnik_group_combine",
    "spotnik_step_begin": "spotnik_group_step_begin",
    "spotnik_step_commit": "spotnik_group_step_commit",
    "spotnik_notice": "spotnik_group_notice",
    "spotnik_observe": "spotnik_group_observe",
    "spotnik_status": "spotnik_group_status",
}
#: Calls that only the leader's job can answer.
_LOOKS = ("spotnik_members", "spotnik_checkpoint_status", "spotnik_batch_status")
#: Calls on no job.
_FREE = ("spotnik_config_init_sized", "spotnik_strerror", "spotnik_last_error")


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a process in its group. `name` is new for every start of the group."""

    name: str
    rank: int
    size: int


def place() -> Optional[Place]:
    """The place that ``spotnik run --group`` has given this process, in a group of several; None: there is none."""
    text = os.environ.get("SPOTNIK_GROUP")
    if text is None:
        return None
    try:
        name, rank, size = text.rsplit(":", 2)
        found = Place(name, int(rank), int(size))
    except ValueError:
        raise ArgumentError(f"SPOTNIK_GROUP={text} is not NAME:RANK:SIZE") from None
    return found if found.size > 1 else None


class _Calls:
    """The library, with a group in place of each job. Collective calls go on until they are done."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        if name in _LOOKS:
            return self._of_leader(name)
        if name in _CALLS or name in _FREE or name.startswith("spotnik_group_"):
            return getattr(self._library, _CALLS.get(name, name))
        raise StateError(
            f"{name}() is not for groups of processes yet: start each process as a member of its own, "
            "with spotnik run and without --group"
        )

    def _of_leader(self, name: str) -> Callable[..., Any]:
        def look(group: int, *arguments: object) -> Any:
            job = self._library.spotnik_group_job(group)
            return getattr(self._library, name)(job, *arguments) if job else 0

        return look

    @staticmethod
    def until_done(call: Callable[[], int]) -> int:
        """Python's handlers of signals run between two tries."""
        code = call()
        while code == _AGAIN:
            code = call()
        return code

    def spotnik_state_add(self, group: int, *arguments: object) -> int:
        return self.until_done(lambda: int(self._library.spotnik_group_state_copy_add(group, *arguments)))

    def spotnik_state_digest(self, group: int) -> int:
        digest = ctypes.c_uint64()
        self.until_done(lambda: int(self._library.spotnik_group_digest(group, ctypes.byref(digest))))
        return digest.value

    def spotnik_leave(self, group: int) -> int:
        return self.until_done(lambda: int(self._library.spotnik_group_leave(group)))

    def spotnik_abandon(self, group: int) -> None:
        """Where the others do not come, they have gone on or ended: then this process ends its group by its end."""
        for _ in range(_GOODBYES):
            if self._library.spotnik_group_abandon(group) != _AGAIN:
                return

    def spotnik_log_next(self, _group: int, _entry: object) -> int:
        """Messages are read on the thread of the job; ``spotnik run`` shows them."""
        return 0


class GroupJob(Job):
    """A job this process's group is one member of. Every process makes the same calls in the same order.

    :meth:`observe` counts in the leader. The log of the library does not reach Python. Blobs, collectives other than
    all-reduces, strategies and ``wire`` raise StateError.
    """

    def __init__(self, config: Optional[Config], where: Place) -> None:
        super().__init__(config)
        self._library: Any = _Calls(self._library)
        self.place = where
        self._is_alike = False
        self._samples, self._is_counted, self._has_data = (where.rank, where.size), True, False
        self.samples_of_group = 0  #: in the step begun last

    def _join(self, native: _native.NativeConfig) -> int:
        group = ctypes.c_void_p()
        name = f"{self.place.name}/{next(_opened)}".encode()
        self.check(self._library.spotnik_group_open(name, self.place.rank, self.place.size, ctypes.byref(group)))
        self._library.spotnik_group_patience_set(group, _PATIENCE_NS)
        self.check(self._library.until_done(lambda: int(self._library.spotnik_group_join(group, native))))
        self._keeps_checkpoints = bool(native.checkpoint_dir)
        self._has_data = bool(native.samples)
        assert group.value is not None
        return group.value

    @property
    def loads(self) -> int:
        """As :attr:`Job.loads`; with the first step the copies of all processes become those of the leader."""
        return super().loads + self._is_alike

    def step_begin(self, strategy: bool = True) -> Step:
        """As :meth:`Job.step_begin`, with this process's part of the group's share."""
        whole = super().step_begin(strategy)
        self._is_alike = True
        self.samples_of_group = whole.sample_count
        step = self._begun = part_of(whole, self.place, self._samples)
        if whole.ranges or (not self._is_counted and not step.replay):
            self.weight_set(step.sample_count)
        elif not self._has_data and not step.replay:
            self.weight_set(1)  # a batch of its own: the group weighs as many as it has processes
        return step

    def weight_set(self, weight: int) -> None:
        """As :meth:`Job.weight_set`; 0 for a process whose samples another one counts."""
        super().weight_set(weight if self._is_counted else 0)

    # ---- sharded models ----

    def deal(self, part: int, parts: int, counts: bool) -> None:
        """Give this process part `part` of `parts` of the group's samples; one of those with the same `counts` them."""
        self._samples, self._is_counted = (part, parts), counts

    def memory(self, count: int) -> Any:
        """Take `count` bytes of the group's memory, zeroed: every process takes the same pieces in the same order."""
        import torch

        with Alone(self):
            pointer = self._library.spotnik_group_memory(self._job(), count)
            if not pointer:
                self.check(errors.NoMemoryError.number)
        return torch.frombuffer((ctypes.c_char * max(1, count)).from_address(pointer), dtype=torch.uint8)

    def shared_state_add(self, name: str, tensor: Any, dtype: Dtype) -> None:
        """Register a tensor in the group's memory, of which each process keeps its part up to date."""
        with Alone(self):
            arguments = (self._job(), name_bytes("name", name), tensor.data_ptr(), tensor.numel(), int(dtype))
            self.check(self._library.until_done(lambda: int(self._library.spotnik_group_state_add(*arguments))))
            self._state_owners.append(tensor)

    def parts_start(self, bucket: int, tensor: Any, dtype: Dtype, op: Op) -> None:
        """This process's part of the bucket lies in `tensor`, in the group's memory."""
        with Alone(self):
            arguments = (bucket, tensor.data_ptr(), tensor.numel(), int(dtype), int(op))
            self.check(self._library.spotnik_group_allreduce(self._job(), *arguments))
            self._step_owners.append(tensor)

    def samples_decline(self) -> None:
        """As :meth:`Job.samples_decline`: MEAN weighs every process 1."""
        super().samples_decline()
        self.weight_set(1)

    def _finish(self) -> None:
        """At the end of the interpreter: goodbye between steps; in the middle of one the group ends by this end."""
        if not self._in_step:
            super()._finish()

    def __del__(self) -> None:
        """Nothing: the group ends with the process."""


def part_of(step: Step, where: Place, samples: Optional[tuple[int, int]] = None) -> Step:
    """The step as one process of the group sees it: its part of the samples, its place among all processes.

    `samples`: (part, parts) where that is not one part for each process.
    """
    part, parts = samples or (where.rank, where.size)
    first, end = (step.sample_count * (part + more) // parts for more in (0, 1))
    return dataclasses.replace(
        step,
        rank=step.rank * where.size + where.rank if step.rank >= 0 else -1,
        size=step.size * where.size,
        sample_count=end - first,
        ranges=_cut(step.ranges, first, end),
        share=step.share * parts + (part if step.share < step.shares else 0),
        shares=step.shares * parts,
    )


def _cut(ranges: list[range], first: int, end: int) -> list[range]:
    """Samples `first` to `end`, counted through all ranges."""
    cut, at = [], 0
    for one in ranges:
        inside = one[max(0, first - at) : max(0, end - at)]
        cut += [inside] if inside else []
        at += len(one)
    return cut
