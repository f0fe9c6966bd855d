# SPDX-License-Identifier: Apache-2.0
"""Programs as public reports describe them, in which a training went wrong without an error: here it does not."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import SAMPLES, data, network
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler, Subset

import spotnik.torch as spotnik
from spotnik import ArgumentError

Make = Callable[..., Cluster]
BATCH, EPOCHS = 40, 4


def of_three(cluster: Make, program: Callable[..., None], **settings: Any) -> Cluster:
    job = cluster()
    job.gather(3)
    for _ in range(3):
        job.start(program, **settings)
    job.wait()
    return job


# ---- a codebook that is changed through .data ----


class Codes(nn.Module):
    """A codebook of more elements than travel, which each member moves towards its own samples."""

    def __init__(self, sneaks: bool) -> None:
        super().__init__()
        self.sneaks, self.layer = sneaks, nn.Linear(6, 2).double()
        self.register_buffer("codes", torch.zeros(1100, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (self.codes.data if self.sneaks else self.codes).add_(x.mean().item())
        return self.layer(x)


def moves_codes(tell: Tell, sneaks: bool) -> None:
    torch.manual_seed(1)
    net = Codes(sneaks)
    net, opt = spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    for _ in range(50):  # how often members compare follows from what that costs
        for x, y in spotnik.shard(DataLoader(data(), batch_size=BATCH)):
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            opt.zero_grad()


@pytest.mark.parametrize("sneaks", [False, True])
def test_a_large_codebook_that_members_move_apart_ends_the_job_by_name(cluster: Make, sneaks: bool) -> None:
    job = cluster()
    job.gather(3)
    for _ in range(3):
        job.start(moves_codes, sneaks=sneaks)
    list(job.events())
    words = [line["text"] for line in job.lines("error")]
    assert len(words) == 3 and all("buffer codes" in text for text in words), words


# ---- a data set that is changed between epochs ----


class Staged(Dataset[Any]):
    """Augments less from the second epoch on."""

    stage = 0

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, self.stage], dtype=torch.float64)


def changes_its_data(tell: Tell, persistent: bool) -> None:
    net = nn.Linear(2, 1).double()
    net, opt = spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.01))
    staged = Staged()
    loader = spotnik.shard(DataLoader(staged, batch_size=4, num_workers=1, persistent_workers=persistent))
    for epoch in range(3):
        staged.stage = epoch
        for x in loader:
            tell(epoch=epoch, stages=x[:, 1].tolist())
            net(x).mean().backward()
            opt.step()
            opt.zero_grad()


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_see_a_data_set_as_those_of_a_data_loader_do(tmp_path: Path, persistent: bool) -> None:
    lines = alone(changes_its_data, tmp_path, persistent=persistent)
    seen = {(line["epoch"], stage) for line in lines if "stages" in line for stage in line["stages"]}
    assert seen == ({(0, 0), (1, 0), (2, 0)} if persistent else {(0, 0), (1, 1), (2, 2)})


# ---- a collate function that drops samples ----


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())


def without_broken(samples: list[Any]) -> Any:
    return torch.utils.data.default_collate([one for one in samples if one[0][0] > -1])


def drops(tell: Tell, weighs: bool) -> None:
    heard = Heard()
    logging.getLogger("spotnik.torch").addHandler(heard)
    net = network()
    net, opt = spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    for x, y in spotnik.shard(DataLoader(data(), batch_size=BATCH, collate_fn=without_broken)):
        if weighs:
            spotnik.weigh(len(x))
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
        opt.zero_grad()
    tell(done=sum(float(p.detach().sum()) for p in net.parameters()), heard=heard.words)


def plainly_drops(tell: Tell) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(data(), batch_size=BATCH, collate_fn=without_broken):
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
        opt.zero_grad()
    tell(done=sum(float(p.detach().sum()) for p in net.parameters()))


def test_a_collate_function_that_drops_samples_is_told_or_weighed(cluster: Make, tmp_path: Path) -> None:
    ends = of_three(cluster, drops, weighs=True).lines("done")
    assert [line["done"] for line in ends] == [pytest.approx(alone(plainly_drops, tmp_path)[0]["done"])] * 3
    assert not any(line["heard"] for line in ends)
    told = [line["heard"] for line in of_three(cluster, drops, weighs=False).lines("done")]
    assert [len(words) for words in told] == [1] * 3 and all("spotnik.weigh(n)" in words[0] for words in told)


# ---- layers that are trained later ----


def thaws(tell: Tell, kind: str, is_plain: bool = False) -> None:
    net = network()
    opt: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    if kind == "sgd":
        opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    loader: Any = DataLoader(data(), batch_size=BATCH)
    if not is_plain:
        net, opt = spotnik.prepare(net, opt)
        loader = spotnik.shard(loader)
    net[0].requires_grad_(False)
    for epoch in range(EPOCHS) if is_plain else spotnik.epochs(EPOCHS):
        net[0].requires_grad_(epoch >= 2)
        for x, y in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
        tell(epoch=epoch, first=float(net[0].weight.detach().sum()))
    tell(done=sum(float(p.detach().sum()) for p in net.parameters()))


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_layers_frozen_after_prepare_are_unfrozen_later(cluster: Make, tmp_path: Path, kind: str) -> None:
    plain = alone(thaws, tmp_path, kind=kind, is_plain=True)
    job = of_three(cluster, thaws, kind=kind)
    assert not job.errors(), job.errors()
    assert [line["done"] for line in job.lines("done")] == [pytest.approx(plain[-1]["done"], abs=1e-9)] * 3
    first = [line["first"] for line in plain if "first" in line]
    assert first[0] == first[1] != first[2], "it was not frozen"


# ---- complex weights ----


class Waves(nn.Module):
    """A weight of complex numbers, kept as those or as real ones."""

    def __init__(self, as_real: bool) -> None:
        super().__init__()
        w = torch.randn(6, 2, dtype=torch.complex128, generator=torch.Generator().manual_seed(3))
        self.w = nn.Parameter(torch.view_as_real(w).clone() if as_real else w)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.to(torch.complex128) @ (torch.view_as_complex(self.w) if not self.w.is_complex() else self.w)).abs()


def waves(tell: Tell, is_plain: bool) -> None:
    net: nn.Module = Waves(as_real=not is_plain)
    opt: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    loader: Any = DataLoader(data(), batch_size=BATCH)
    if not is_plain:
        net, opt = spotnik.prepare(net, opt)
        loader = spotnik.shard(loader)
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
    (w,) = (p.detach() for p in net.parameters())
    tell(done=(torch.view_as_real(w) if is_plain else w).flatten().tolist())


def test_complex_weights_are_refused_with_what_is_exact(cluster: Make, tmp_path: Path) -> None:
    net = Waves(as_real=False)
    with pytest.raises(ArgumentError, match=r"torch.view_as_real\(w\)\), and torch.view_as_complex"):
        spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    plain = alone(waves, tmp_path, is_plain=True)[0]["done"]
    for line in of_three(cluster, waves, is_plain=False).lines("done"):
        assert line["done"] == pytest.approx(plain, abs=1e-9)


# ---- samplers and splits that are drawn by NumPy or random, and folders that are not sorted ----


class Shuffled(Sampler[int]):
    """Draws an order, by a generator of its own where there is a seed."""

    def __init__(self, seed: Optional[int]) -> None:
        self.own = random.Random(seed) if seed is not None else None

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        order = list(range(SAMPLES))
        if self.own is None:
            return iter(torch.randperm(SAMPLES).tolist())
        self.own.shuffle(order)
        return iter(order)


class Listed(Dataset[Any]):
    """As ImageFolder: names with their classes, in the order in which a folder lists them."""

    def __init__(self, seed: int, root: str) -> None:
        self.samples = [(f"{root}/{number}.png", number % 2) for number in range(SAMPLES)]
        random.Random(seed).shuffle(self.samples)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        return data()[int(Path(self.samples[index][0]).stem)]


def deals(tell: Tell, how: str, stop: str = "", seed: Optional[int] = None) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, metrics=("stop",))
    seed = os.getpid() if seed is None else seed
    loader: DataLoader[Any] = DataLoader(data(), batch_size=24, sampler=Shuffled(seed if how == "sampler" else None))
    if "subset" in how:
        chosen = random.Random(seed if how == "subset" else 1).sample(range(SAMPLES), 100)
        loader = DataLoader(Subset(data(), chosen), batch_size=24, shuffle=True)
    if "folder" in how:
        listed = Listed(seed if how == "folder" else 1, f"/{os.getpid()}")
        loader = DataLoader(Subset(listed, range(100)), batch_size=24, shuffle=True)
    sharded = spotnik.shard(loader)
    for _ in spotnik.epochs(10_000 if stop else 3):
        for x, y in sharded:
            spotnik.tell("stop", float(Path(stop).exists() if stop else 0))
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            opt.zero_grad()
            tell(at=spotnik.step())
            if spotnik.told("stop") > 0:
                return tell(done=True)
    tell(done=True)


@pytest.mark.parametrize("how", ["sampler", "subset", "folder", "torch's sampler", "subset by a seed", "sorted folder"])
def test_samples_that_are_others_on_each_member_end_the_job(cluster: Make, how: str) -> None:
    job = cluster()
    job.gather(2)
    for _ in range(2):
        job.start(deals, how=how)
    for _ in job.events():
        pass
    if how in ("sampler", "subset", "folder"):
        told = job.lines("error")  # who founded the job goes on without the other
        assert told and len(told) + len(job.lines("done")) == 2
        assert all("under the same numbers, so some would be computed twice" in line["text"] for line in told)
    else:
        assert len(job.lines("done")) == 2 and not job.errors()


@pytest.mark.parametrize("how", ["sampler", "folder"])
def test_a_newcomer_with_other_samples_ends_alone(cluster: Make, tmp_path: Path, how: str) -> None:
    job, stop, late = cluster(), tmp_path / "stop", []
    job.gather(2)
    for _ in range(2):
        job.start(deals, how=how, stop=str(stop), seed=7)
    for member, line in job.events():
        if line.get("at") == 12 and not late:
            late.append(job.start(deals, how=how, stop=str(stop), seed=8))
        if member in late and "ended" in line:
            stop.touch()
    (error,) = job.lines("error")
    assert error in late[0].lines and "this member deals other samples than the job has" in error["text"]
    assert [member.status for member in job.members] == [0, 0, 1]
