# SPDX-License-Identifier: Apache-2.0
"""The process group: every collective against what it should give, kills, reconfigure, and what is refused."""

from __future__ import annotations

import os
import re
import signal
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cluster import Cluster, Member, Tell
from torch import nn

import spotnik.torch.distributed as survivors

Make = Callable[..., Cluster]
ROOT = Path(os.environ["SPOTNIK_ROOT"])
warnings.filterwarnings("ignore", category=FutureWarning)


def join(rank: int, size: int) -> None:
    dist.init_process_group("spotnik", store=dist.HashStore(), rank=rank, world_size=size)


def rows(tensor: torch.Tensor) -> list[torch.Tensor]:
    """`tensor` of every rank."""
    out = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(out, tensor)
    return out


def equal_everywhere(module: nn.Module) -> bool:
    flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    return all(torch.equal(row, flat) for row in rows(flat))


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))


def run(make: Make, program: Callable[..., Any], size: int = 3, **settings: Any) -> Cluster:
    """Run `program` on every rank to its end, and fail where one fails."""
    cluster = make()
    for rank in range(size):
        cluster.start(program, rank=rank, size=size, **settings)
    cluster.wait()
    assert [member.status for member in cluster.members] == [0] * size, cluster.errors()
    return cluster


# ---- collectives ----


def reductions(rank: int, n: int) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8):
        x = torch.full((3, 2), rank + 1, dtype=dtype)
        dist.all_reduce(x)
        assert x.tolist() == [[n * (n + 1) / 2] * 2] * 3, dtype
    for op, wanted in (("MAX", n), ("MIN", 1), ("AVG", (n + 1) / 2), ("PRODUCT", 6)):
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x, getattr(dist.ReduceOp, op))
        assert x.item() == wanted, op
    some, strided = torch.tensor([rank == 0]), torch.zeros(2, 4)[:, ::2]
    dist.all_reduce(some)
    dist.all_reduce(strided.add_(1))
    whole = torch.ones(2)
    dist.reduce(whole, 1)
    assert some.item() is True
    assert strided.tolist() == [[n, n], [n, n]]
    assert whole.tolist() == ([n, n] if rank == 1 else [1, 1])


def movements(rank: int, n: int) -> None:
    x = torch.tensor([float("nan"), -0.0]) if rank == 2 else torch.zeros(2)
    dist.broadcast(x, 2)
    assert x[0].isnan() and x[1].signbit()
    assert [row.tolist() for row in rows(torch.tensor([rank, 7]))] == [[other, 7] for other in range(n)]
    flat = torch.zeros(2 * n)
    dist.all_gather_into_tensor(flat, torch.full((2,), float(rank)))
    assert flat.tolist() == [i // 2 for i in range(2 * n)]
    gathered = [torch.zeros(1) for _ in range(n)] if rank == 1 else None
    dist.gather(torch.tensor([float(rank)]), gathered, 1)
    assert gathered is None or torch.cat(gathered).tolist() == list(range(n))
    one = torch.zeros(1)
    dist.scatter(one, [torch.tensor([i + 5.0]) for i in range(n)] if rank == 0 else None, 0)
    assert one.item() == rank + 5
    out = torch.zeros(n)
    dist.all_to_all_single(out, torch.arange(float(n)) + 10 * rank)
    assert out.tolist() == [10 * i + rank for i in range(n)]


def scatters(rank: int, n: int) -> None:
    part = torch.zeros(2)
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * n))
    assert part.tolist() == [2 * rank * n, (2 * rank + 1) * n]
    dist.reduce_scatter(part, [torch.full((2,), float(i)) for i in range(n)])
    assert part.tolist() == [rank * n] * 2


def objects(rank: int, n: int) -> None:
    everyone: list[Any] = [None] * n
    dist.all_gather_object(everyone, {"rank": rank, "text": "y" * rank})
    assert everyone == [{"rank": i, "text": "y" * i} for i in range(n)]
    told: list[Any] = ["a secret"] if rank == 1 else [None]
    dist.broadcast_object_list(told, 1)
    assert told == ["a secret"]


def in_flight(rank: int, n: int) -> None:
    tensors = [torch.full((4,), float(i)) for i in range(8)]
    before = steps_taken()
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
        work.wait()
    assert [tensor[0].item() for tensor in tensors] == [i * n for i in range(8)]
    dist.barrier()
    assert steps_taken() == before + 9  # one for each call


def steps_taken() -> int:
    """Steps of the job underneath."""
    group: Any = dist.group.WORLD
    return int(group._dispatcher._communicator.job.status().step_committed)


def functional(rank: int, n: int) -> None:
    import torch.distributed._functional_collectives as functions

    world = dist.group.WORLD
    total = functions.wait_tensor(functions.all_reduce(torch.ones(3), "sum", world))
    whole = functions.wait_tensor(functions.all_gather_tensor(torch.full((1,), float(rank)), 0, world))
    part = functions.wait_tensor(functions.reduce_scatter_tensor(torch.arange(1.0 * n), "sum", 0, world))
    assert (total.tolist(), whole.tolist(), part.tolist()) == ([n] * 3, list(range(n)), [rank * n])


def collectives(tell: Tell, rank: int, size: int, part: str) -> None:
    join(rank, size)
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank, size, "spotnik")
    globals()[part](rank, size)
    dist.destroy_process_group()


PARTS = ["reductions", "movements", "scatters", "objects", "in_flight", "functional"]


@pytest.mark.parametrize("part", PARTS)
def test_collectives(cluster: Make, part: str) -> None:
    run(cluster, collectives, part=part)


# ---- what stands on them ----


def data_parallel(rank: int) -> None:
    torch.manual_seed(rank)  # DDP makes them equal
    model = nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=0.0001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    assert equal_everywhere(model)


def zero(rank: int) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 8) + rank).sum().backward()
        optimizer.step()
    assert equal_everywhere(model)


def mesh(rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    n = dist.get_world_size()
    sharded = distribute_tensor(torch.arange(2.0 * n), init_device_mesh("cpu", (n,)), [Shard(0)])
    assert sharded.to_local().tolist() == [2 * rank, 2 * rank + 1]
    assert (sharded + sharded).redistribute(placements=[Replicate()]).to_local().tolist() == [
        2 * i for i in range(2 * n)
    ]


def sharded(rank: int) -> None:
    """FSDP2: every member has a part of each parameter; three members train as one does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    n = dist.get_world_size()
    inputs = torch.randn(4 * n, 8, generator=torch.Generator().manual_seed(1))
    ends = []
    for shards in (False, True):
        torch.manual_seed(0)
        model = network()
        if shards:
            for layer in (model[0], model[2], model):  # type: ignore[index]
                fully_shard(layer, mesh=init_device_mesh("cpu", (n,)))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(inputs[4 * rank : 4 * rank + 4] if shards else inputs).square().mean().backward()
            optimizer.step()
        ends.append([p.full_tensor() if shards else p for p in model.parameters()])  # type: ignore[attr-defined]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*ends))


def metrics(rank: int) -> None:
    import torchmetrics

    accuracy, mean = torchmetrics.classification.BinaryAccuracy(), torchmetrics.MeanMetric()
    accuracy.update(torch.tensor([0.9, 0.1]), torch.tensor([1, rank % 2]))  # rank 1 is half right, the others right
    mean.update(float(rank))
    assert (accuracy.compute().item(), mean.compute().item()) == (pytest.approx(5 / 6), 1.0)


def checkpoint(rank: int, path: str) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save({"w": torch.arange(4.0)}, checkpoint_id=path)
    loaded = {"w": torch.zeros(4)}
    dcp.load(loaded, checkpoint_id=path)
    assert loaded["w"].tolist() == [0, 1, 2, 3]


def users(tell: Tell, rank: int, size: int, part: str, **settings: Any) -> None:
    join(rank, size)
    globals()[part](rank, **settings)
    dist.destroy_process_group()


@pytest.mark.parametrize(
    "part", [pytest.param("data_parallel", marks=pytest.mark.quick), "zero", "mesh", "sharded", "metrics"]
)
def test_what_stands_on_collectives(cluster: Make, part: str) -> None:
    if part == "metrics":
        pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    run(cluster, users, part=part)


def test_distributed_checkpoint(cluster: Make, tmp_path: Path) -> None:
    run(cluster, users, part="checkpoint", path=str(tmp_path / "dcp"))


# ---- losses ----


def rounds(tell: Tell, rank: int, size: int, asynchronous: bool = False) -> None:
    """All-reduce until a member is lost, go on with the survivors, and so on until one is left."""
    join(rank, size)
    done = 0
    while True:
        x = torch.full((1000,), 1.0)
        try:
            works = [dist.all_reduce(x, async_op=True) for _ in range(3 if asynchronous else 1)]
            for work in works:
                work.wait()
            done += 1
            if done == 3:
                tell(rank=dist.get_rank(), at=dist.get_world_size())
        except survivors.MemberLostError as error:
            lost, before = error.lost, dist.get_world_size()
            assert asynchronous or x.eq(1).all(), "the input of a call without a result has changed"
            with pytest.raises(survivors.MemberLostError):
                dist.barrier()  # refused, too
            moved = survivors.reconfigure()
            total = torch.ones(1)
            dist.all_reduce(total)
            tell(lost=lost, done=done, before=before, moved=sorted(moved.items()), total=total.item())
            done = 0
            if dist.get_world_size() == 1:
                return


@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_survivor_raises_at_the_same_call_and_goes_on(cluster: Make, asynchronous: bool) -> None:
    jobs = cluster()
    ranks: dict[int, int] = {}  # of the member started as such
    for rank in range(4):
        jobs.start(rounds, rank=rank, size=4, asynchronous=asynchronous)
    heard: dict[int, dict[int, Any]] = {}
    for member, line in jobs.events():
        if "at" in line and line["at"] > 1:
            ranks[member.number] = line["rank"]
            heard.setdefault(line["at"], {})[member.number] = line["rank"]
            if len(heard[line["at"]]) == line["at"]:  # all have made calls since: kill the one of rank 1
                (victim,) = (m for m in jobs.members if heard[line["at"]].get(m.number) == 1)
                jobs.kill(victim)
    told = [member.lines for member in jobs.members]
    assert not jobs.errors()
    for before in (4, 3, 2):
        lines = [line for lines in told for line in lines if line.get("before") == before]
        assert len(lines) == before - 1
        assert {tuple(line["lost"]) for line in lines} == {(1,)}
        assert len({line["done"] for line in lines}) == 1, "survivors raised at different calls"
        assert {line["total"] for line in lines} == {before - 1}
        moved = [[old, old - (old > 1)] for old in range(before) if old != 1]
        assert all(line["moved"] == moved for line in lines)


def training(tell: Tell, rank: int, size: int) -> None:
    """DDP through a loss: the error of the backward pass names the member, and a new DDP goes on."""
    join(rank, size)
    torch.manual_seed(0)
    net = network()
    model = nn.parallel.DistributedDataParallel(net)
    for step in range(10_000):
        try:
            model(torch.randn(4, 8) + rank).sum().backward()
            if step == 5:
                tell(rank=rank, trains=True)
        except RuntimeError as error:
            assert "was lost" in str(error), error
            assert isinstance(dist.group.WORLD, survivors.SpotnikGroup)
            assert isinstance(dist.group.WORLD.error, survivors.MemberLostError)
            survivors.reconfigure()
            net.zero_grad()
            model = nn.parallel.DistributedDataParallel(net)
            model(torch.randn(4, 8) + rank).sum().backward()
            tell(after=dist.get_world_size(), equal=equal_everywhere(net), named="rank 2 was lost" in str(error))
            break
    dist.destroy_process_group()


@pytest.mark.quick
def test_ddp_raises_and_goes_on(cluster: Make) -> None:
    jobs = cluster()
    for rank in range(3):
        jobs.start(training, rank=rank, size=3)
    for _member, line in jobs.events():
        if "trains" in line and len(jobs.lines("trains")) == 3:
            jobs.kill(jobs.members[2])
    assert not jobs.errors()
    assert [(line["after"], line["equal"], line["named"]) for line in jobs.lines("after")] == [(2, True, True)] * 2


def waits(tell: Tell, rank: int, size: int) -> None:
    """A newcomer takes the place of a lost member when the survivors wait for it."""
    join(rank, size)
    x = torch.ones(1)
    try:
        while True:
            dist.all_reduce(x.fill_(1))
            tell(alive=rank)
            if dist.get_world_size() == size and rank == 2:
                signal.pause()
    except survivors.MemberLostError as error:
        tell(lost=error.lost)
        survivors.reconfigure(size=size)
        dist.all_reduce(x.fill_(1))
        tell(whole=x.item(), rank=dist.get_rank())
    dist.destroy_process_group()


def newcomer(tell: Tell, size: int) -> None:
    join(size - 1, size)
    x = torch.ones(1)
    dist.all_reduce(x)
    tell(whole=x.item(), rank=dist.get_rank())
    dist.destroy_process_group()


def test_a_newcomer_fills_the_place_of_a_lost_member(cluster: Make) -> None:
    jobs = cluster()
    for rank in range(3):
        jobs.start(waits, rank=rank, size=3)
    spare = False
    for _member, _line in jobs.events():
        if not spare and len({line["alive"] for line in jobs.lines("alive")}) == 3:
            spare = True
            jobs.start(newcomer, size=3)  # it waits while the group is whole
            jobs.kill(jobs.members[2])
    assert not jobs.errors()
    assert sorted((line["rank"], line["whole"]) for line in jobs.lines("whole")) == [(0, 3), (1, 3), (2, 3)]


# ---- a second group ----


def with_second_group(tell: Tell, rank: int, size: int, store: str) -> None:
    kept = dist.FileStore(store, size)
    dist.init_process_group("spotnik", store=kept, rank=rank, world_size=size)
    pipes = dist.new_group(backend="gloo", timeout=timedelta(seconds=5))
    x = torch.full((4,), float(rank))
    if rank < 2:
        dist.send(x, 1 - rank, group=pipes) if rank else dist.recv(x, 1, group=pipes)
    tell(ready=rank, got=x.tolist())
    if rank == 2:
        signal.pause()  # until it is killed
    with pytest.raises(RuntimeError):
        dist.recv(x, 2, group=pipes)  # an error of this group alone leads to no reconfiguration
    with pytest.raises(survivors.MemberLostError):
        dist.all_reduce(x)
    survivors.reconfigure()
    pipes = dist.new_group(backend="gloo", timeout=timedelta(seconds=60))
    y = torch.full((4,), 7.0 + rank)
    dist.send(y, 1, group=pipes) if rank == 0 else dist.recv(y, 0, group=pipes)
    dist.all_reduce(y)
    tell(last=y.tolist())
    os._exit(0)  # Gloo's groups would wait for the lost


def test_a_second_group_sends_and_is_made_anew(cluster: Make, tmp_path: Path) -> None:
    jobs = cluster()
    for rank in range(3):
        jobs.start(with_second_group, rank=rank, size=3, store=str(tmp_path / "store"))
    for _member, line in jobs.events():
        if "ready" in line and len(jobs.lines("ready")) == 3:
            jobs.kill(jobs.members[2])
    assert not jobs.errors()
    assert {line["ready"]: line["got"][0] for line in jobs.lines("ready")} == {0: 1.0, 1: 1.0, 2: 2.0}
    assert [line["last"] for line in jobs.lines("last")] == [[14.0] * 4] * 2


# ---- refusals ----


def refused(tell: Tell, rank: int, size: int) -> None:
    join(rank, size)
    x = torch.ones(2)
    for call, words in (
        (lambda: dist.all_reduce(x.to_sparse()), "to_dense"),
        (lambda: dist.all_reduce(x, dist.ReduceOp.BXOR), "use SUM, AVG"),
        (lambda: dist.send(x, (rank + 1) % size), 'dist.new_group(backend="gloo")'),
        (lambda: dist.recv(x, (rank + 1) % size), 'dist.new_group(backend="gloo")'),
        (lambda: dist.recv(x), "send and recv"),
        (lambda: dist.all_gather_into_tensor(x, x), "3 times the input"),
    ):
        with pytest.raises(survivors.NotSupportedError, match=re.escape(words)):
            call()
    if rank < 2:  # torch asks the members of the group alone
        with pytest.raises(survivors.NotSupportedError, match='backend="gloo"'):
            dist.new_group([0, 1])
    dist.all_reduce(x)  # a refusal changes nothing
    assert x.tolist() == [size, size]
    with pytest.raises(survivors.GroupError) as caught:
        (dist.barrier if rank else lambda: dist.all_reduce(x))()
    tell(differ=str(caught.value))
    with pytest.raises(survivors.GroupError):
        dist.barrier()


def test_refusals_say_what_to_do(cluster: Make) -> None:
    jobs = run(cluster, refused)
    # Who hears last may be told that the others are gone.
    assert any("differ" in line["differ"] for line in jobs.lines("differ"))


def lonely(tell: Tell) -> None:
    with pytest.raises(survivors.WaitError, match="1 of 2 members were here"):
        dist.init_process_group("spotnik", store=dist.HashStore(), rank=0, world_size=2, timeout=timedelta(seconds=0.2))


def test_a_member_that_does_not_come_is_told(cluster: Make) -> None:
    jobs = cluster()
    member: Member = jobs.start(lonely)
    jobs.wait()
    assert member.status == 0, jobs.errors()


# ---- the guide ----


def recipe(tell: Tell) -> None:
    page = (ROOT / "docs/guide/process-group.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, flags=re.S)[0]
    told = {"print": lambda step, rank, size: tell(step=step, rank=rank, size=size)}
    done: dict[str, Any] = {"__name__": "__main__", **told}
    exec(compile(code, "process-group.md", "exec"), done)
    tell(last=done["step"], weights=done["net"].weight.tolist())


def test_the_recipe_of_the_guide_survives_a_kill(cluster: Make) -> None:
    jobs = cluster()
    jobs.gather(3)
    for _ in range(3):
        jobs.start(recipe)
    for member, line in jobs.events():
        if line.get("step") == 50 and len([one for one in jobs.lines("step") if one["step"] == 50]) == 1:
            jobs.kill(next(other for other in jobs.members if other is not member))
    assert not jobs.errors()
    ends = jobs.lines("last")
    assert [end["last"] for end in ends] == [200, 200]
    assert ends[0]["weights"] == ends[1]["weights"]
    assert {line["size"] for line in jobs.lines("step")} == {3, 2}
