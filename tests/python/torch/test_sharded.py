# SPDX-License-Identifier: Apache-2.0
"""Models that the processes of a group hold among them (FSDP2, tensor parallelism, DDP), on the CPU by Gloo; with
SPOTNIK_TEST_DEVICE=cuda on a GPU that all processes share.

Claims: two groups of two train as one process without Spotnik does, with what a script has between backward() and
step(); all hold the same bits; groups of other sizes and plain members train in one job with them; a lost group's
successor, of another size, takes the state; what a group cannot hold is refused with words.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import random
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
import torch.distributed
import torch.distributed.checkpoint as dcp
from cluster import Cluster, Member, Tell
from cluster import alone as run_alone
from programs import data, network
from torch import nn
from torch._dynamo.utils import counters
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
from spotnik import ArgumentError
from spotnik.torch import _shard_memory, _shards

Make = Callable[..., Cluster]
DEVICE = os.environ.get("SPOTNIK_TEST_DEVICE", "cpu")
EPOCHS = 5  # of 11 steps; the last one of each has 3 samples: some processes have none


@dataclasses.dataclass
class Case:
    """How a script makes its model, and what its loop does."""

    cut: Optional[Callable[[nn.Module, int], Any]] = None  # shards it among that number of processes; None: none do
    build: Callable[[], nn.Module] = network
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = lambda model: torch.optim.AdamW(
        model.parameters(), lr=0.01
    )
    clip: str = ""
    accumulate: int = 1
    syncs_late: bool = False
    scaler: bool = False
    weighs: bool = False  #: by the samples of one class
    draws: bool = False  #: its own batches
    tolerance: float = 1e-9


def fsdp(model: nn.Module, size: int, **policy: Any) -> nn.Module:
    mesh = init_device_mesh(DEVICE, (size,))
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, **policy)
    return fully_shard(model, mesh=mesh, **policy)


def root_alone(model: nn.Module, size: int) -> nn.Module:
    return fully_shard(model, mesh=init_device_mesh(DEVICE, (size,)))


def kept(model: nn.Module, size: int) -> nn.Module:
    return fsdp(model, size, reshard_after_forward=False)


def compiled(model: nn.Module, size: int) -> nn.Module:
    fsdp(model, size).compile(backend="eager")
    return model


def checkpointed(model: nn.Module, size: int) -> nn.Module:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

    apply_activation_checkpointing(model, check_fn=lambda layer: isinstance(layer, nn.Tanh))
    return fsdp(model, size)


def tensor_parallel(model: nn.Module, size: int) -> nn.Module:
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(model, init_device_mesh(DEVICE, (size,)), plan)


def both(model: nn.Module, size: int) -> nn.Module:
    mesh = init_device_mesh(DEVICE, (size // 2, 2), mesh_dim_names=("data", "tensor"))
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return fully_shard(model, mesh=mesh["data"])


def wrapped(model: nn.Module, size: int) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model)


def mixed(model: nn.Module, size: int) -> nn.Module:
    return fsdp(model, size, mp_policy=MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32))


def single(kind: str = "mlp") -> nn.Module:
    return network(kind, torch.float32)


def on_meta() -> nn.Module:
    whole = network()
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2)).double()
    model.whole = [whole]  # type: ignore[assignment]
    return model


def from_meta(model: nn.Module, size: int) -> nn.Module:
    from torch.distributed.tensor import distribute_tensor

    (whole,) = model.whole
    fsdp(model, size)
    model.to_empty(device=DEVICE)
    with torch.no_grad():
        for own, one in zip(model.parameters(), whole.parameters()):
            own.copy_(distribute_tensor(one.detach(), own.device_mesh, own.placements))
    return model


class Tied(nn.Module):
    """The same weight twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.last.weight = self.first.weight
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).tanh())[:, :2]


class Adapted(nn.Module):
    """LoRA: a frozen layer and a trained product beside it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.frozen = nn.Linear(6, 16).requires_grad_(False)
        self.down, self.up, self.head = nn.Linear(6, 3, bias=False), nn.Linear(3, 16, bias=False), nn.Linear(16, 2)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head((self.frozen(x) + self.up(self.down(x))).tanh())


def adamw(**choices: Any) -> Callable[[nn.Module], torch.optim.Optimizer]:
    return lambda model: torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=0.01, **choices)


CASES: dict[str, Case] = {
    "fsdp": Case(fsdp, clip="torch"),
    "root_alone": Case(root_alone, clip="exact"),
    "kept": Case(kept),
    "compiled": Case(compiled, build=Adapted, optimizer=adamw()),  # a Sequential is not compiled, unnoticed
    "checkpointed": Case(checkpointed),
    "tensor": Case(tensor_parallel, clip="torch"),
    "wrapped": Case(wrapped, clip="torch"),
    "wrapped_accumulated": Case(wrapped, accumulate=2),
    "accumulate": Case(fsdp, accumulate=3),
    "syncs_late": Case(fsdp, accumulate=3, syncs_late=True, clip="torch"),
    "scaler": Case(fsdp, single, scaler=True, clip="torch", tolerance=1e-5),
    "mixed": Case(mixed, single, tolerance=5e-2),
    "meta": Case(from_meta, on_meta),
    "tied": Case(root_alone, Tied),
    "adapted": Case(fsdp, Adapted, adamw()),
    "norm": Case(root_alone, lambda: network("norm"), tolerance=math.inf),  # it depends on the share
    "weighs": Case(fsdp, weighs=True),
    "weighs_late": Case(fsdp, accumulate=3, syncs_late=True, weighs=True),
    "draws": Case(fsdp, draws=True),
    "foreach": Case(fsdp, optimizer=adamw(foreach=True)),
    "fused": Case(fsdp, optimizer=adamw(fused=True)),
    "single": Case(root_alone, single, tolerance=1e-5),
    "both": Case(both, clip="torch"),
}


def join_process_group(place: str, port: int) -> int:
    _, rank, size = place.split(":")
    os.environ["SPOTNIK_GROUP"] = place
    store = torch.distributed.TCPStore("127.0.0.1", port, int(size), is_master=rank == "0")
    torch.distributed.init_process_group("gloo", store=store, rank=int(rank), world_size=int(size))
    return int(size)


def batches_of(case: Case, dtype: torch.dtype, epochs: int) -> Iterator[Iterable[Any]]:
    """Of each epoch."""
    if case.draws:
        yield drawn(dtype)
        return
    loader = spotnik.shard(DataLoader(data(dtype), batch_size=20 // case.accumulate, shuffle=True))
    for _ in spotnik.epochs(epochs):
        yield loader


def drawn(dtype: torch.dtype) -> Iterator[Any]:
    """Batches of three to seven samples, the same on all members, of which each takes its part."""
    x, y = data(dtype).tensors
    while spotnik.step() < 40:
        generator = torch.Generator().manual_seed(spotnik.step())
        chosen = torch.randint(len(x), (3 + spotnik.step() % 5,), generator=generator)
        yield spotnik.part_of(x[chosen]), spotnik.part_of(y[chosen])


def until_told(epoch: Iterable[Any], stop: Optional[str]) -> Iterator[Any]:
    """The batches of an epoch, until there is a file `stop`: all members see it in the same step."""
    for batch in epoch:
        if stop:
            spotnik.tell("stop", float(os.path.exists(stop)))
        yield batch
        if stop and spotnik.told("stop") > 0:
            return


def tell_of(tell: Tell, report: spotnik.StepReport) -> None:
    tell(step=report.number, samples=report.samples)


def train(
    tell: Tell,
    case: str = "fsdp",
    place: Optional[str] = None,
    port: int = 0,
    epochs: int = EPOCHS,
    checkpoint: Optional[str] = None,
    clip: Optional[str] = None,
    stop: Optional[str] = None,
    export: Optional[str] = None,
) -> None:
    what = CASES[case]
    model = what.build() if case == "meta" else what.build().to(DEVICE)
    if place is not None and what.cut is not None:
        model = what.cut(model, join_process_group(place, port))
    elif case == "meta":
        model = model.whole[0].to(DEVICE)
    optimizer = what.optimizer(model)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0, enabled=what.scaler)
    told = {"accumulate": what.accumulate, "checkpoint": checkpoint, "on_step": functools.partial(tell_of, tell)}
    model, optimizer = spotnik.prepare(model, optimizer, seed=3, metrics=["stop"] if stop else [], **told)
    clip = what.clip if clip is None else clip
    for epoch in batches_of(what, next(model.parameters()).dtype, epochs):
        for number, (x, y) in enumerate(until_told(epoch, stop), 1):
            if checkpoint and number == 1:
                tell(begun=whole(model))
            is_last = number % what.accumulate == 0
            x, y = x.to(DEVICE), y.to(DEVICE)
            if what.syncs_late and place is not None:
                model.set_requires_gradient_sync(is_last)
            losses, counts = nn.functional.cross_entropy(model(x), y, reduction="none"), torch.ones_like(y)
            if what.weighs:
                counts = y
                spotnik.weigh(counts.sum())
            loss = (losses * counts).sum() / counts.sum().clamp(1)
            scaler.scale(loss / what.accumulate).backward()
            if not is_last:
                continue
            scaler.unscale_(optimizer)
            if clip == "torch":
                nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            elif clip:
                spotnik.clip_grad_norm_(model.parameters(), 0.3)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        if stop and spotnik.told("stop") > 0:
            break
    assert (case == "compiled" and place is not None) == (counters["stats"]["unique_graphs"] > 0)
    total = 0 if what.draws else spotnik.samples()
    if export and spotnik.rank() < torch.distributed.get_world_size():
        dcp.save(states(model, optimizer), checkpoint_id=export)
    tell(done=spotnik.step(), digest=f"{spotnik.digest():x}", total=total, parameters=whole(model))
    if place is not None:
        torch.distributed.barrier()


def whole(model: nn.Module) -> list[Any]:
    return [getattr(one, "full_tensor", lambda one=one: one)().tolist() for one in model.parameters()]


def states(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return {"model": get_model_state_dict(model), "optimizer": get_optimizer_state_dict(model, optimizer)}


def read(tell: Tell, folder: str, place: str, port: int) -> None:
    """A program of FSDP2 without Spotnik."""
    model = fsdp(network(seed=9).to(DEVICE), join_process_group(place, port))
    optimizer = CASES["fsdp"].optimizer(model)
    held = states(model, optimizer)
    dcp.load(held, checkpoint_id=folder)
    set_model_state_dict(model, held["model"])
    set_optimizer_state_dict(model, optimizer, held["optimizer"])
    first, *_ = optimizer.param_groups[0]["params"]
    steps = int(optimizer.state[first]["step"].item())
    tell(done=steps, digest="", parameters=[one.full_tensor().tolist() for one in model.parameters()])
    torch.distributed.barrier()


def start_group(
    job: Cluster, name: str, size: int, program: Callable[..., None] = train, **settings: Any
) -> list[Member]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    name = f"{name}-{job.folder}"
    return [job.start(program, place=f"{name}:{rank}:{size}", port=port, **settings) for rank in range(size)]


def check_ends(job: Cluster, processes: int) -> list[dict[str, Any]]:
    assert not job.errors(), job.errors()
    ends = job.lines("done")
    assert len(ends) == processes
    assert len({line["digest"] for line in ends}) == 1
    assert all(line["parameters"] == ends[0]["parameters"] for line in ends)
    return ends


def largest_difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    pairs = zip(one["parameters"], other["parameters"])
    return max(float((torch.tensor(a) - torch.tensor(b)).abs().max()) for a, b in pairs)


@pytest.mark.parametrize("case", CASES)
def test_two_groups_train_as_one_process(cluster: Make, case: str, tmp_path: Path) -> None:
    oracle = run_alone(train, tmp_path, case=case)[-1]
    job = cluster()
    job.gather(2)
    size = 4 if case == "both" else 2
    for name in "ab":
        start_group(job, name, size, case=case)
    job.wait()
    end = check_ends(job, 2 * size)[0]
    assert end["done"] == oracle["done"] >= 40
    assert largest_difference(end, oracle) < CASES[case].tolerance


def test_groups_of_any_kind_and_plain_members_train_together(cluster: Make, tmp_path: Path) -> None:
    oracle = run_alone(train, tmp_path, clip="exact")[-1]
    job = cluster()
    job.gather(4)
    start_group(job, "a", 2, clip="exact")
    start_group(job, "b", 3, clip="exact")
    start_group(job, "c", 2, case="tensor", clip="exact")
    job.start(train, clip="exact")
    job.wait()
    assert largest_difference(check_ends(job, 8)[0], oracle) < 1e-9


def test_a_killed_process_takes_its_group_along(cluster: Make) -> None:
    job = cluster()
    job.gather(2)
    settings = {"epochs": 40, "clip": "exact"}
    first, second = start_group(job, "a", 2, **settings), start_group(job, "b", 2, **settings)
    third: list[Member] = []
    for member, line in job.events():
        if member is second[1] and line.get("step") == 10:
            job.kill(member)
        if not third and all(one.status is not None for one in second):
            third = start_group(job, "c", 3, **settings)
    assert [one.status for one in second] == [-9, -9]
    assert [one.status for one in first + third] == [0] * 5
    check_ends(job, 5)


def test_random_kills_drop_no_step_and_no_sample(cluster: Make, tmp_path: Path) -> None:
    """Processes of any rank, one after the other; a new group comes for each that is lost."""
    kills, chance = int(os.environ.get("SPOTNIK_TEST_KILLS", "6")), random.Random(4)
    settings = {"epochs": 1_000_000, "stop": str(tmp_path / "stop")}
    job = cluster()
    job.gather(3)
    groups = [start_group(job, f"g{number}", 2, **settings) for number in range(3)]
    ranks: list[int] = []
    samples: dict[int, int] = {}
    for _, line in job.events():
        if "samples" in line:
            assert samples.setdefault(line["step"], line["samples"]) == line["samples"]
        for group in [group for group in groups if all(one.status == -9 for one in group)]:
            groups.remove(group)
            groups.append(start_group(job, f"g{len(job.members)}", 2, **settings))
        trains = all(one.status is None and len(one.lines) > 3 for group in groups for one in group)
        if trains and len(ranks) < kills:
            ranks.append(chance.randrange(2))
            victim = chance.choice(groups)
            job.kill(victim[ranks[-1]])
            victim[0].lines.clear()  # it trains no more, whether it has ended or not
        elif trains:
            (tmp_path / "stop").touch()
    assert set(ranks) == {0, 1}, "leaders and siblings"
    assert sorted(member.status or 0 for member in job.members) == [-9] * 2 * kills + [0] * 6
    end = check_ends(job, 6)[0]
    assert sorted(samples) == list(range(1, end["done"] + 1))
    assert sum(samples.values()) == end["total"]


def test_a_program_of_fsdp2_reads_what_one_group_saves(cluster: Make, tmp_path: Path) -> None:
    job, other = cluster(), cluster()
    job.gather(2)
    for name in "ab":
        start_group(job, name, 2, clip="exact", export=str(tmp_path / "whole"))
    job.wait()
    end = check_ends(job, 4)[0]
    start_group(other, "c", 3, program=read, folder=str(tmp_path / "whole"))
    other.wait()
    again = check_ends(other, 3)[0]
    assert (again["done"], again["parameters"]) == (end["done"], end["parameters"])


def test_a_checkpoint_resumes_in_groups_of_any_size(cluster: Make, tmp_path: Path) -> None:
    oracle = run_alone(train, tmp_path, clip="exact", epochs=4)[-1]
    settings = {"clip": "exact", "checkpoint": str(tmp_path / "kept")}
    kept: list[Any] = []
    for epochs, (members, size) in enumerate([(2, 4), (3, 2), (1, 1), (2, 4)], 1):
        job = cluster()
        job.gather(members)
        for number in range(members):
            if size > 1:
                start_group(job, f"g{number}", size, epochs=epochs, **settings)
            else:
                job.start(train, epochs=epochs, **settings)
        job.wait()
        (end, *_) = check_ends(job, members * size)
        assert next(line["step"] for line in job.lines("step")) == 11 * epochs - 10, "it began anew"
        begun = [line["begun"] for line in job.lines("begun")]
        assert epochs == 1 or all(one == kept for one in begun), "it began with other weights"
        kept = end["parameters"]
    assert largest_difference(end, oracle) < 1e-9


# ---- refusals ----


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is the first of a group of four, of which the others are pretended."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    monkeypatch.setenv("SPOTNIK_GROUP", "a:0:4")
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield
    torch.distributed.destroy_process_group()


def hybrid(model: nn.Module) -> nn.Module:
    return fully_shard(model, mesh=init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("replicas", "shards")))


def stage(model: nn.Module) -> nn.Module:
    mesh = init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("stages", "shards"))
    return fully_shard(model, mesh=mesh["shards"])


def added_up(model: nn.Module) -> nn.Module:
    model = fsdp(model, 4)
    model[0].set_gradient_divide_factor(1.0)
    return model


def partly(model: nn.Module) -> nn.Module:
    fully_shard(model[0], mesh=init_device_mesh(DEVICE, (4,)))
    return model


def first_kind(model: nn.Module) -> nn.Module:
    class FullyShardedDataParallel(nn.Module):
        """As PyTorch's is recognised."""

    return model.append(FullyShardedDataParallel())


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (hybrid, "members of the job are the replicas"),
        (stage, "pipeline stages and groups over several hosts are not supported"),
        (partly, "in no layer that fully_shard"),
        (added_up, r"set_gradient_divide_factor\(1.0\) was called: in a group FSDP averages"),
        (first_kind, "is FSDP1"),
    ],
)
def test_what_a_group_cannot_hold_is_refused(four: None, cut: Callable[[nn.Module], nn.Module], words: str) -> None:
    model = cut(network())
    with pytest.raises(ArgumentError, match=words):
        spotnik.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("choice", [{"commit": "step"}, {"wire": "bf16"}])
def test_choices_that_shards_do_not_have(four: None, choice: dict[str, Any]) -> None:
    model = fsdp(network(), 4)
    with pytest.raises(ArgumentError, match="leave these out"):
        spotnik.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), **choice)


def test_a_gradient_is_handed_over_cut_as_its_parameter(four: None) -> None:
    """Tensor parallelism leaves the gradient of an embedding whole, and others as sums of each process's own."""
    mesh, whole = init_device_mesh(DEVICE, (4,)), torch.arange(16.0).view(8, 2)
    parameter = DTensor.from_local(torch.zeros(2, 2), mesh, [Shard(0)])
    cut = _shard_memory._as_cut(DTensor.from_local(whole, mesh, [Replicate()], run_check=False), parameter)
    assert torch.equal(cut.to_local(), whole[:2])
    parameter, part = (DTensor.from_local(whole, mesh, [one], run_check=False) for one in (Replicate(), Partial()))
    assert _shard_memory._as_cut(part, parameter).placements == parameter.placements, "one process's sum is no gradient"


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_a_norm_has_the_same_bits_in_any_parts(pieces: int) -> None:
    generator = torch.Generator().manual_seed(1)
    gradient = torch.randn(10_000, generator=generator) * torch.logspace(-12, 3, 10_000)
    parts = [torch.nn.Parameter(torch.zeros_like(one)) for one in gradient.chunk(pieces)]
    for part, one in zip(parts, gradient.chunk(pieces)):
        part.grad = one.clone()
    norm = spotnik.clip_grad_norm_(parts, 1.0)
    assert norm == _shards._norm([gradient])
    assert norm == pytest.approx(float(gradient.double().norm()), rel=1e-12)
    assert float(torch.cat([part.grad for part in parts]).double().norm()) == pytest.approx(1.0, abs=1e-5)
