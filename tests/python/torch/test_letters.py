# SPDX-License-Identifier: Apache-2.0
"""Claims: in a group with Options(p2p=True) send, recv and groups of some members give what they should; a loss ends
every pending call on every survivor, whatever the call; reconfigure() goes on from there, with newcomers, too."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from cluster import Cluster, Tell
from torch import nn

import spotnik.torch.distributed as survivors
from spotnik._native import Op
from spotnik.torch.distributed import _greeting, _post
from spotnik.torch.distributed._memory import combine

Make = Callable[..., Cluster]
ROOT = Path(os.environ["SPOTNIK_ROOT"])
BIG = 300_001  # elements: an odd number, and more than travel whole


def join(rank: int, size: int) -> None:
    dist.init_process_group(
        "spotnik", store=dist.HashStore(), rank=rank, world_size=size, pg_options=survivors.Options(p2p=True)
    )


# ---- what the calls give ----


def letters(rank: int, n: int) -> None:
    right, left = (rank + 1) % n, (rank - 1) % n
    for dtype, count in ((torch.float32, BIG), (torch.bfloat16, 3), (torch.bool, 1), (torch.complex64, 2)):
        told, heard = torch.full((count,), rank % 2, dtype=dtype), torch.empty(count, dtype=dtype)
        ops = [dist.P2POp(dist.irecv, heard, left), dist.P2POp(dist.isend, told, right)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        assert heard.eq(torch.full((), left % 2, dtype=dtype)).all(), dtype
    x = torch.zeros(2, 3)
    if rank == 0:
        sends = [dist.isend(torch.full((3, 2), float(tag)).t(), right, tag=tag) for tag in (1, 2)]
        for work in sends:
            work.wait()
    if rank == 1:
        for tag in (2, 1):  # in another order
            dist.recv(x, left, tag=tag)
            assert x.eq(tag).all()


def from_anybody(rank: int, n: int) -> None:
    x = torch.zeros(1)
    if rank:
        dist.send(torch.tensor([float(rank)]), 0)
        return
    ranks = [(dist.recv(x), x.item()) for _ in range(n - 1)]
    assert sorted(ranks) == [(other, other) for other in range(1, n)]


def wrong_size(rank: int, n: int) -> None:
    """An error of the one call; the others go on."""
    if rank == 0:
        dist.send(torch.ones(3), 1)
    if rank == 1:
        with pytest.raises(survivors.GroupError, match="rank 0 sent 12 bytes, and this recv has room for 8"):
            dist.recv(torch.ones(2), 0)


def to_itself(rank: int, n: int) -> None:
    x = torch.zeros(1)
    works = [dist.isend(torch.ones(1), rank), dist.irecv(x, rank)]
    for work in works:
        assert work is not None
        work.wait()
    assert x.item() == 1


def some(rank: int, n: int) -> None:
    """Two rows and two columns of four members, and all collectives in each."""
    for pairs in ([[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 1, 3]]):
        groups = {tuple(ranks): dist.new_group(ranks) for ranks in pairs}
        for ranks, group in groups.items():
            if rank in ranks:
                in_some(rank, ranks, group)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == n


def in_some(rank: int, ranks: tuple[int, ...], group: Any) -> None:
    k, place = len(ranks), ranks.index(rank)
    assert (dist.get_rank(group), dist.get_world_size(group)) == (place, k)
    for count in (1, BIG):
        x = torch.arange(float(count)) + rank
        dist.all_reduce(x, group=group)
        assert torch.equal(x, k * torch.arange(float(count)) + sum(ranks))
        dist.all_reduce(x.fill_(rank), dist.ReduceOp.AVG, group=group)
        assert x.eq(sum(ranks) / k).all()
        dist.broadcast(x.fill_(rank), ranks[1], group=group)
        assert x.eq(ranks[1]).all()
        part = torch.zeros(count)
        dist.reduce_scatter_tensor(part, torch.arange(float(k)).repeat_interleave(count), group=group)
        assert part.eq(k * place).all()
    rows = [torch.zeros(()) for _ in ranks]
    dist.all_gather(rows, torch.tensor(float(rank)), group=group)
    assert [row.item() for row in rows] == list(ranks)
    everyone: list[Any] = [None] * k
    dist.all_gather_object(everyone, "y" * rank, group=group)
    assert everyone == ["y" * other for other in ranks]
    dist.barrier(group)
    if place < 2:
        x = torch.tensor([float(rank)])
        dist.send(x, ranks[1], group=group) if place == 0 else dist.recv(x, ranks[0], group=group)
        assert x.item() == ranks[0]


def mesh(rank: int, n: int) -> None:
    """HSDP: FSDP2 in rows, replicas in columns, of a mesh of two dimensions; trains as one process does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
    inputs = torch.randn(4 * n, 8, generator=torch.Generator().manual_seed(1))
    ends = []
    for shards in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        if shards:
            fully_shard(model, mesh=grid)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(inputs[4 * rank : 4 * rank + 4] if shards else inputs).square().mean().backward()
            optimizer.step()
        ends.append([p.full_tensor() if shards else p for p in model.parameters()])  # type: ignore[attr-defined]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*ends))


PARTS = [letters, from_anybody, wrong_size, to_itself, some, mesh]


def all_parts(tell: Tell, rank: int, size: int) -> None:
    join(rank, size)
    for part in PARTS:
        part(rank, size)
        tell(done=part.__name__)
        dist.barrier()
    dist.destroy_process_group()


def run(make: Make, program: Callable[..., Any], size: int, **settings: Any) -> Cluster:
    jobs = make()
    for rank in range(size):
        jobs.start(program, rank=rank, size=size, **settings)
    jobs.wait()
    assert [member.status for member in jobs.members] == [0] * size, jobs.errors()
    return jobs


def test_letters_and_groups_of_some_members(cluster: Make) -> None:
    run(cluster, all_parts, 4)


def alone(tell: Tell) -> None:
    dist.init_process_group(
        "spotnik", store=dist.HashStore(), rank=0, world_size=1, pg_options=survivors.Options(p2p=True)
    )
    to_itself(0, 1)
    x = torch.ones(1)
    dist.all_reduce(x, group=dist.new_group([0]))
    dist.barrier()
    assert survivors.reconfigure() == {0: 0}
    to_itself(0, 1)
    dist.destroy_process_group()


def test_alone(cluster: Make) -> None:
    jobs = cluster()
    jobs.start(alone)
    jobs.wait()
    assert jobs.members[0].status == 0, jobs.errors()


# ---- losses ----


def waits_in(call: str, rank: int, size: int, pair: Any) -> Callable[[], Any]:
    """A call that cannot end while the members of highest ranks are silent, or make other calls."""
    x = torch.ones(BIG)
    return {
        "recv": lambda: dist.recv(x, size - 1),  # from the one that will be lost
        "recv of the living": lambda: dist.recv(x, (rank + 1) % (size - 1)),
        "send": lambda: dist.send(x, size - 1),
        "anybody": lambda: dist.recv(x),
        "all": lambda: dist.all_reduce(x),
        "some": lambda: dist.all_reduce(x, group=pair),
        "many": lambda: [work.wait() for work in [dist.irecv(x, 0, tag=5), dist.isend(x, size - 1)] if work],
    }[call]


CALLS = [  # of ranks 0, 1 and 2
    ["recv", "recv of the living", "some"],
    ["send", "all", "all"],
    ["some", "recv of the living", "recv of the living"],
    ["anybody", "many", "recv"],
]


def rounds(tell: Tell, rank: int, size: int, told: int) -> None:
    """Stand in a call, by the row `told` of the table, when the last rank is killed; and again, until one is left."""
    join(rank, size)
    number = 0
    while True:
        size, rank = dist.get_world_size(), dist.get_rank()
        pairs = [dist.new_group([2 * i, 2 * i + 1]) for i in range(size // 2)]
        group = pairs[rank // 2] if rank < 2 * len(pairs) else None
        x = torch.ones(1)
        dist.all_reduce(x)
        assert x.item() == size
        if group is not None:
            dist.all_reduce(x.fill_(1), group=group)
            assert x.item() == 2
        if size == 1:
            tell(end=number)
            return
        if rank == size - 1:
            tell(number=number, waits=True, last=True)
            signal.pause()
        kind = CALLS[told][rank]
        call = waits_in("all" if kind == "some" and group is None else kind, rank, size, group)
        tell(number=number, waits=True, last=False)
        with pytest.raises(survivors.MemberLostError) as caught:
            call()
        with pytest.raises(survivors.GroupError):
            dist.barrier()  # refused, whatever call has raised
        before = dist.group.WORLD
        moved = survivors.reconfigure()
        assert dist.group.WORLD is before and moved == {other: other for other in range(size - 1)}
        if group is not None and size > 2:  # the group of all goes on
            with pytest.raises(survivors.AbortedError, match="make it again"):
                dist.barrier(group)
        tell(number=number, raised=rank, lost=caught.value.lost, size=dist.get_world_size())
        number += 1


@pytest.mark.parametrize("told", range(len(CALLS)))
def test_a_loss_ends_every_pending_call(cluster: Make, told: int) -> None:
    jobs = cluster()
    for rank in range(4):
        jobs.start(rounds, rank=rank, size=4, told=told)
    for _member, line in jobs.events():
        ready = [one for one in jobs.lines("waits") if one["number"] == line.get("number")]
        if "waits" in line and len(ready) == 4 - line["number"]:
            jobs.kill(next(m for m in jobs.members if any(o.get("last") for o in m.lines) and m.running))
    assert not jobs.errors()
    for number in range(3):
        raised = [line for line in jobs.lines("raised") if line["number"] == number]
        assert sorted(line["raised"] for line in raised) == list(range(3 - number))
        assert {line["size"] for line in raised} == {3 - number}
        assert {tuple(line["lost"]) for line in raised} <= {(3 - number,), ()}
    assert jobs.lines("end") == [{"end": 3}]


def replaced(tell: Tell, rank: int, size: int) -> None:
    """A ring whose last member is killed; a newcomer learns from the others that there are letters."""
    join(rank, size)
    tell(joined=rank)
    x = torch.zeros(1)
    while dist.get_world_size() == size:
        try:
            for work in dist.batch_isend_irecv(
                [
                    dist.P2POp(dist.isend, torch.tensor([float(rank)]), (rank + 1) % size),
                    dist.P2POp(dist.irecv, x, (rank - 1) % size),
                ]
            ):
                work.wait()
            assert x.item() == (rank - 1) % size
            count = torch.ones(1)
            dist.all_reduce(count)
        except survivors.MemberLostError:
            survivors.reconfigure(size=size)
            tell(whole=rank)
            continue  # with the ring, as the newcomer does
        if has_newcomer(size):
            break
    dist.destroy_process_group()


def has_newcomer(size: int) -> bool:
    """All agree whether a newcomer has come: it says so."""
    news = torch.tensor([NEWS[0]])
    try:
        dist.all_reduce(news, dist.ReduceOp.MAX)
    except survivors.MemberLostError:
        survivors.reconfigure(size=size)
        return False
    return bool(news.item())


NEWS = [0]


def newcomer(tell: Tell, rank: int, size: int) -> None:
    NEWS[0] = 1
    replaced(tell, rank, size)


def test_a_newcomer_has_letters_too(cluster: Make) -> None:
    jobs = cluster()
    for rank in range(3):
        jobs.start(replaced, rank=rank, size=3)
    started = False
    for _member, _line in jobs.events():
        if not started and len(jobs.lines("joined")) == 3:
            started = True
            jobs.start(newcomer, rank=2, size=3)
            jobs.kill(jobs.members[2])
    assert not jobs.errors()
    assert [member.status for member in jobs.members] == [0, 0, -signal.SIGKILL, 0]


def stopped(tell: Tell, rank: int, size: int) -> None:
    """No connection ends: the view of the job tells."""
    join(rank, size)
    tell(ready=rank)
    if rank == 2:
        signal.pause()
    with pytest.raises(survivors.MemberLostError, match="rank 2 was lost"):
        dist.recv(torch.ones(1), 1 - rank)
    survivors.reconfigure()
    dist.barrier()
    tell(size=dist.get_world_size())
    dist.destroy_process_group()


def test_a_stopped_member_is_lost(cluster: Make) -> None:
    jobs = cluster()
    for rank in range(3):
        jobs.start(stopped, rank=rank, size=3)
    for _member, line in jobs.events():
        if "ready" in line and len(jobs.lines("ready")) == 3:
            jobs.kill(jobs.members[2], signal.SIGSTOP)
        if len(jobs.lines("size")) == 2 and jobs.members[2].running:
            jobs.kill(jobs.members[2])
    assert not jobs.errors()
    assert [line["size"] for line in jobs.lines("size")] == [2, 2]


def leaves(tell: Tell, rank: int, size: int) -> None:
    """A goodbye ends only what waits for that member; what it sent before arrives."""
    join(rank, size)
    x = torch.zeros(BIG)
    if rank == 2:
        work = dist.isend(torch.full((BIG,), 7.0), 0)
        dist.recv(torch.zeros(1), 1)
        dist.destroy_process_group()  # before its letter was taken
        assert work is not None
        return
    if rank == 1:
        dist.send(torch.zeros(1), 2)
        with pytest.raises(survivors.MemberLostError, match="have left"):
            dist.recv(x, 2)
        dist.send(x.fill_(5), 0)
    else:
        dist.recv(x, 1)
        assert x.eq(5).all()
        dist.recv(x, 2)
        assert x.eq(7).all()
    with pytest.raises(survivors.MemberLostError):
        dist.barrier()
    survivors.reconfigure()
    dist.barrier()
    dist.destroy_process_group()


def test_a_goodbye_ends_nothing_else(cluster: Make) -> None:
    run(cluster, leaves, 3)


def recipe(tell: Tell) -> None:
    page = (ROOT / "docs/guide/process-group.md").read_text()
    code = next(one for one in re.findall(r"```python\n(.*?)```", page, flags=re.S) if "p2p=True" in one)
    told = {"print": lambda step, rank, size: tell(step=step, rank=rank, size=size)}
    done: dict[str, Any] = {"__name__": "__main__", **told}
    exec(compile(code, "process-group.md", "exec"), done)
    tell(last=done["step"], ours=done["ours"].item())


def test_the_recipe_of_the_guide_survives_a_kill(cluster: Make) -> None:
    jobs = cluster()
    jobs.gather(3)
    for _ in range(3):
        jobs.start(recipe)
    for member, line in jobs.events():
        if line.get("step") == 50 and len([one for one in jobs.lines("step") if one["step"] == 50]) == 1:
            jobs.kill(next(other for other in jobs.members if other is not member))
    assert not jobs.errors()
    assert [(end["last"], end["ours"]) for end in jobs.lines("last")] == [(200, 200)] * 2
    assert {line["size"] for line in jobs.lines("step")} == {3, 2}


def unreachable(tell: Tell, rank: int, size: int) -> None:
    """Rank 1 reaches nobody: no member is lost, and all hear of it."""

    def refuse(*_: object) -> socket.socket:
        raise ConnectionRefusedError("a firewall")

    with patch.object(_post, "introduce", refuse), patch.object(_post, "_REACHED_S", 0.1):
        join(rank, size)
        with pytest.raises(survivors.MemberLostError, match="no connection"):
            dist.recv(torch.ones(1), 1 - rank)
    assert survivors.reconfigure() == {0: 0, 1: 1}
    x = torch.full((1,), float(rank))
    dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
    assert x.item() == 0
    dist.barrier()
    dist.destroy_process_group()


def test_letters_that_cannot_pass_are_no_silence(cluster: Make) -> None:
    run(cluster, unreachable, 2)


# ---- different calls, and strangers ----


def differ(tell: Tell, rank: int, size: int) -> None:
    """Different calls are found before their buckets meet, so the job goes on."""
    join(rank, size)
    with pytest.raises(survivors.CallMismatchError):
        dist.all_reduce(torch.ones(1 + rank))
    survivors.reconfigure()
    pair = dist.new_group([0, 1])
    if rank < 2:
        with pytest.raises(survivors.CallMismatchError):
            dist.all_reduce(torch.ones(1 + rank), group=pair)
    dist.barrier()
    dist.destroy_process_group()


def test_different_calls_leave_the_job_whole(cluster: Make) -> None:
    run(cluster, differ, 3)


@pytest.mark.parametrize(("theirs", "met"), [(b"secret", 4), (b"another", None)])
def test_only_members_of_the_circle_are_greeted(theirs: bytes, met: object) -> None:
    greeted: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen() -> None:
            sock, _ = listener.accept()
            with sock:
                greeted.append(_greeting.greet(sock, b"secret", 7))

        thread = threading.Thread(target=listen)
        thread.start()
        if met is None:
            with pytest.raises(OSError):
                _greeting.introduce(listener.getsockname(), theirs, 4, 7)
        else:
            _greeting.introduce(listener.getsockname(), theirs, 4, 7).close()
        thread.join()
    assert greeted == [met]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.float16])
def test_numbers_are_combined(dtype: torch.dtype) -> None:
    large = torch.iinfo(dtype).max if not dtype.is_floating_point else 1000
    ones = [torch.tensor([2, large], dtype=dtype), torch.tensor([3, 1], dtype=dtype)]
    assert combine(ones, Op.MIN).tolist() == [2, 1]
    assert combine(ones, Op.MAX).tolist() == [3, large]
    assert combine(ones, Op.PRODUCT).tolist() == [6, large]
    assert combine([one[:1] for one in ones], Op.SUM).tolist() == [5]
