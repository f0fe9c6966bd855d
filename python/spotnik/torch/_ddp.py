# SPDX-License-Identifier: Apache-2.0
"""For programs that have DistributedDataParallel: its buckets travel through the job.

DistributedDataParallel cannot lose a worker, so each process makes it a group of its own (world size 1); the
communication hook does the averaging, and the job the surviving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

from ..errors import ArgumentError
from ._buckets import Slot
from ._places import place_here
from ._session import Session, current

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


def check_group(model: DistributedDataParallel) -> None:
    """A group of several would wait for the lost for ever; that of this process's own group ends with it."""
    size, where = model.process_group.size(), place_here()
    if size != (1 if where is None else where.size):
        raise ArgumentError(
            f"this DistributedDataParallel is in a process group of {size}, which cannot lose any of them. Start its "
            "processes as one member, by 'spotnik run --group'; or give each process its own: "
            'init_process_group("gloo", store=HashStore(), rank=0, world_size=1)'
        )


def hook_on(model: DistributedDataParallel, session: Session) -> None:
    """Let the gradients of `model` come through its communication hook."""
    session.gradients.by_ddp = True
    model.register_comm_hook(session, allreduce_hook)


class _Run:
    """The buckets of one backward pass that wait for the commit."""

    def __init__(self) -> None:
        self.waiting: list[tuple[GradBucket, torch.futures.Future[torch.Tensor]]] = []


_runs: dict[int, _Run] = {}


def allreduce_hook(state: Optional[Session], bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of DistributedDataParallel over the members of the job.

    For ``ddp.register_comm_hook(None, spotnik.allreduce_hook)`` after ``prepare(ddp.module, optimizer)``; prepare() of
    the wrapped model registers it by itself. Buckets go out while backward runs; the last one waits for the commit.
    """
    session = state if state is not None else current()
    gradients = session.gradients
    gradients.by_ddp = True
    if gradients.armed and gradients.passes + 1 < gradients.accumulate:  # it goes on to add up
        unchanged: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        unchanged.set_result(bucket.buffer())
        return unchanged
    run = _runs.setdefault(id(session), _Run())
    slots = {id(slot.parameter): slot for slot in gradients.slots}
    with torch.no_grad():
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            _take(session, slots[id(parameter)], gradient)
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    run.waiting.append((bucket, future))
    if bucket.is_last():
        del _runs[id(session)]
        session.commit_for_ddp()
        _deliver(run, gradients.job is not None)
    return future


if torch.distributed.is_available():  # register_comm_hook() looks at annotations, and wants them as types
    allreduce_hook.__annotations__.update(
        {"bucket": torch.distributed.GradBucket, "return": torch.futures.Future[torch.Tensor]}  # type: ignore[attr-defined]
    )


def _take(session: Session, slot: Slot, gradient: torch.Tensor) -> None:
    slot.fired = session.gradients.accumulate
    session.gradients.take(slot, gradient)


@torch.no_grad()
def _deliver(run: _Run, travelled: bool) -> None:
    """Averages are the gradients of the parameters; none where no member used one. In a job of one all stay."""
    for bucket, future in run.waiting:
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()) if travelled else ():
            if parameter.grad is None:
                gradient.zero_()
            else:
                gradient.copy_(parameter.grad)
        future.set_result(bucket.buffer())
