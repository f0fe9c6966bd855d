# SPDX-License-Identifier: Apache-2.0
"""PyTorch's reconfigure interface (2.14): groups made anew from handles, in the shape of PyTorch's own contract.

Where the installed PyTorch has no such interface the tests are skipped: dev/python.sh installs an older one. `make
test-frameworks` runs them with a newer one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cluster import Cluster, Tell

import spotnik.torch.distributed as survivors

if not hasattr(dist, "_reconfigure"):
    pytest.skip("this PyTorch has no reconfigure interface (2.14 has)", allow_module_level=True)

Make = Callable[..., Cluster]
LIMIT = timedelta(seconds=60)
SIZE = 3


class Meeting:
    """One process of the contract: a group without members, and a store to exchange handles by."""

    def __init__(self, rank: int, folder: str) -> None:
        self.rank = rank
        self.store = dist.FileStore(f"{folder}/store", -1)
        dist.init_process_group(
            "spotnik",
            world_size=SIZE,
            rank=rank,
            store=self.store,
            timeout=LIMIT,
            enable_reconfigure=True,
        )
        assert dist._supports_reconfigure()

    def handles(self, what: str, ranks: Any = range(SIZE)) -> list[str]:
        self.store.set(f"{what}.{self.rank}", dist._get_reconfigure_handle())
        return [self.store.get(f"{what}.{rank}").decode() for rank in ranks]

    def reconfigure(self, uuid: int, handles: Any) -> None:
        dist._reconfigure(uuid, handles, timeout=LIMIT).wait()
        assert dist.get_world_size() == len(handles)

    def whole(self, uuid: int = 1) -> list[str]:
        handles = self.handles(f"whole{uuid}")
        self.reconfigure(uuid, handles)
        assert dist.get_rank() == self.rank
        return handles

    def barrier(self, what: str, ranks: Any = range(SIZE)) -> None:
        self.store.set(f"{what}.{self.rank}", "1")
        for rank in ranks:
            self.store.get(f"{what}.{rank}")

    @staticmethod
    def total() -> float:
        tensor = torch.full((4,), dist.get_rank() + 1.0)
        dist.all_reduce(tensor)
        return float(tensor[0])


def basic(one: Meeting) -> None:
    with pytest.raises(survivors.GroupError, match=r"call reconfigure\(\) first"):
        dist.barrier()
    one.whole()
    assert one.total() == 6
    one.reconfigure(2, one.handles("again"))  # the same members
    assert one.total() == 6


def shrink(one: Meeting, gone: int) -> None:
    """A member that lives is left out."""
    one.whole()
    handles = one.handles("shrink")
    if one.rank != gone:
        one.reconfigure(2, [handle for rank, handle in enumerate(handles) if rank != gone])
        assert dist.get_rank() == one.rank - (one.rank > gone)
        assert one.total() == 3
        tensor = torch.full((4,), 42.0 if dist.get_rank() == 0 else 0.0)
        dist.broadcast(tensor, group_src=0)
        assert tensor.tolist() == [42.0] * 4
    one.barrier("shrunk")


def last(one: Meeting) -> None:
    shrink(one, SIZE - 1)


def middle(one: Meeting) -> None:
    shrink(one, SIZE // 2)


def down_and_up(one: Meeting) -> None:
    one.reconfigure(10 + one.rank, [dist._get_reconfigure_handle()])
    assert one.total() == 1
    one.whole(2)
    assert one.total() == 6
    one.barrier("whole")
    one.reconfigure(20 + one.rank, [dist._get_reconfigure_handle()])
    assert one.total() == 1


def late(one: Meeting) -> None:
    """Two begin, and the third comes later; the three in an order of their own."""
    if one.rank < 2:
        one.reconfigure(1, one.handles("first", range(2)))
        assert one.total() == 3
    handles = one.handles("all")[::-1]
    one.reconfigure(2, handles)
    assert dist.get_rank() == SIZE - 1 - one.rank
    assert one.total() == 6


def aborted(one: Meeting) -> None:
    one.whole()
    dist.get_backend_impl(None, torch.device("cpu")).abort()
    with pytest.raises(survivors.GroupError):
        dist.barrier()
    one.whole(2)
    assert one.total() == 6


def used(one: Meeting) -> None:
    one.reconfigure(10 + one.rank, [dist._get_reconfigure_handle()])
    with pytest.raises(RuntimeError, match="already used"):
        one.reconfigure(10 + one.rank, [dist._get_reconfigure_handle()])
    handle = dist._get_reconfigure_handle()
    with pytest.raises(NotImplementedError, match="no handle of this backend"):
        one.reconfigure(30, [handle, "x"])


def contract(tell: Tell, case: str, rank: int, folder: str) -> None:
    one = Meeting(rank, folder)
    globals()[case](one)
    one.barrier("end")
    dist.destroy_process_group()


@pytest.mark.parametrize("case", ["basic", "last", "middle", "down_and_up", "late", "aborted", "used"])
def test_contract(cluster: Make, case: str) -> None:
    job = cluster()
    job.environment.clear()  # the key comes by the store
    for rank in range(SIZE):
        job.start(contract, case=case, rank=rank, folder=str(job.folder))
    job.wait()
    assert [member.status for member in job.members] == [0] * SIZE, job.errors()


def bereaved(tell: Tell, rank: int, folder: str) -> None:
    one = Meeting(rank, folder)
    one.whole()
    dispatcher = dist.group.WORLD._dispatcher  # type: ignore[union-attr]
    try:
        while True:
            dist.all_reduce(torch.ones(4))
            tell(alive=rank)
            if rank == 1:
                signal.pause()
    except survivors.MemberLostError as error:
        assert error.lost == (1,)
        assert dist.get_backend_impl(None, torch.device("cpu")).get_error().name == "COMM_ERROR"
    one.reconfigure(2, one.handles("survivors", (0, 2)))
    assert dist.group.WORLD._dispatcher is dispatcher, "survivors that agree need no new job"  # type: ignore[union-attr]
    tell(total=one.total(), rank=dist.get_rank())
    dist.destroy_process_group()


def test_survivors_go_on_in_their_job(cluster: Make) -> None:
    job = cluster()
    del job.environment["SPOTNIK_PEERS"]
    for rank in range(SIZE):
        job.start(bereaved, rank=rank, folder=str(job.folder))
    killed = False
    for _, _line in job.events():
        if not killed and {line["alive"] for line in job.lines("alive")} == {0, 1, 2}:
            killed = True
            job.kill(job.members[1])
    assert not job.errors()
    assert sorted((line["rank"], line["total"]) for line in job.lines("total")) == [(0, 3), (1, 3)]


def without(tell: Tell) -> None:
    dist.init_process_group("spotnik", store=dist.HashStore(), rank=0, world_size=1)
    assert not dist._supports_reconfigure()
    with pytest.raises(NotImplementedError, match="enable_reconfigure=True"):
        dist._get_reconfigure_handle()


def test_a_group_without_it_says_so(cluster: Make) -> None:
    job = cluster()
    job.start(without)
    job.wait()
    assert job.members[0].status == 0, job.errors()
