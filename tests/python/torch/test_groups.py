# SPDX-License-Identifier: Apache-2.0
"""Groups of processes that each hold a plain module, and are one member together.

Claims: groups of two and of three in one job train as one process does, whatever part of the samples each process has;
all processes hold the same bits, also where their modules began unlike; a killed process takes its group along, the
other group goes on, and a new group joins; what groups cannot do is refused with words.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from cluster import Cluster, Member, Tell, alone
from programs import data, network
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
from spotnik import ArgumentError, StateError
from spotnik.torch import _places, _replica

Make = Callable[..., Cluster]
EPOCHS = 5  # of 11 steps; in the last one of each some processes have no samples


def train(tell: Tell, place: Optional[str] = None, epochs: int = EPOCHS, remote: bool = False) -> None:
    rank = 0
    if remote:  # as on an accelerator, whose memory no other process sees
        _replica.accelerator_of = lambda tensor: torch.device("cpu")
    if place is not None:
        os.environ["SPOTNIK_GROUP"] = place
        rank = int(place.split(":")[1])
    model = network(seed=1 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    model, optimizer = spotnik.prepare(model, optimizer, seed=3)
    loader = spotnik.shard(DataLoader(data(), batch_size=20, shuffle=True))
    for _ in spotnik.epochs(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            optimizer.step()
            tell(step=spotnik.step())
        schedule.step()
    told = [parameter.tolist() for parameter in model.parameters()]
    tell(done=spotnik.step(), digest=f"{spotnik.digest():x}", size=spotnik.size(), parameters=told)


def start_group(job: Cluster, name: str, size: int, **settings: Any) -> list[Member]:
    name = f"{name}-{job.folder}"  # of this test alone
    return [job.start(train, place=f"{name}:{rank}:{size}", **settings) for rank in range(size)]


def largest_difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    pairs = zip(one["parameters"], other["parameters"])
    return max(float((torch.tensor(a) - torch.tensor(b)).abs().max()) for a, b in pairs)


def check_equal(job: Cluster, processes: int) -> list[dict[str, Any]]:
    assert not job.errors(), job.errors()
    ends = job.lines("done")
    assert len(ends) == processes
    assert len({line["digest"] for line in ends}) == 1
    return ends


@pytest.mark.parametrize("remote", [False, True])
def test_groups_train_as_one_process(cluster: Make, remote: bool, tmp_path: Path) -> None:
    oracle = alone(train, tmp_path)[-1]
    job = cluster()
    job.gather(2)
    start_group(job, "a", 2, remote=remote)
    start_group(job, "b", 3, remote=remote)
    job.wait()
    ends = check_equal(job, 5)
    assert {line["done"] for line in ends} == {55}
    for line in ends:
        assert largest_difference(line, oracle) < 1e-9


def test_a_killed_process_takes_its_group_along(cluster: Make) -> None:
    job = cluster()
    job.gather(2)
    first, second = start_group(job, "a", 2, epochs=40), start_group(job, "b", 2, epochs=40)
    third: list[Member] = []
    for member, line in job.events():
        if member is second[1] and line.get("step") == 10:
            job.kill(member)
        if not third and all(one.status is not None for one in second):
            third = start_group(job, "c", 2, epochs=40)
    assert [one.status for one in second] == [-9, -9]
    ends = check_equal(job, 4)
    assert [one.status for one in first + third] == [0] * 4
    assert len({line["done"] for line in ends}) == 1  # the lost group's samples may make a step of their own


def draw(tell: Tell, place: str, value: float) -> None:
    os.environ["SPOTNIK_GROUP"] = place
    model = torch.nn.Linear(1, 1, bias=False).double()
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model, optimizer = spotnik.prepare(model, optimizer)
    while spotnik.step() < 5:
        model(torch.full((1, 1), value, dtype=torch.float64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    tell(done=spotnik.step(), digest=f"{spotnik.digest():x}", weight=model.weight.item())


def test_processes_with_batches_of_their_own_weigh_the_same(cluster: Make) -> None:
    """In groups of any sizes: the mean is over the five processes, and not over the two groups."""
    job = cluster()
    job.gather(2)
    for name, values in {"a": (0.0, 1.0), "b": (2.0, 3.0, 4.0)}.items():
        for rank, value in enumerate(values):
            job.start(draw, place=f"{name}-{job.folder}:{rank}:{len(values)}", value=value)
    job.wait()
    assert [line["weight"] for line in check_equal(job, 5)] == [-10.0] * 5


def test_a_notice_to_any_process_is_that_of_its_group(cluster: Make) -> None:
    job = cluster()
    job.gather(2)
    first, second = start_group(job, "a", 2, epochs=40), start_group(job, "b", 2, epochs=40)
    for member, line in job.events():
        if member is second[1] and line.get("step") == 10:
            job.kill(member, signal.SIGTERM)
    assert [one.status for one in second] == [75, 75]
    assert [one.status for one in first] == [0, 0]
    assert not job.errors()


@pytest.mark.parametrize("choice", [{"sync": "localsgd"}, {"pauses": "epoch"}])
def test_what_groups_cannot_do_is_refused(choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTNIK_GROUP", "a:1:4")
    model = network(dtype=torch.float32)
    with pytest.raises(ArgumentError, match=f"{next(iter(choice))} is not for groups"):
        spotnik.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), **choice)


def test_a_process_group_of_several_hosts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTNIK_GROUP", "a:1:4")
    monkeypatch.setattr("spotnik.torch._checks.process_group_size", lambda: 8)
    model = network()
    with pytest.raises(StateError, match="a group stands on one host"):
        spotnik.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_place_under_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program has made a process group of the processes of this host, and of no others."""
    says = {"RUN_ID": "r", "RESTART_COUNT": "2"}
    for name, value in {**{f"TORCHELASTIC_{n}": v for n, v in says.items()}, "MASTER_PORT": "5"}.items():
        monkeypatch.setenv(name, value)
    for name, value in {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    assert _places.place_here() is None  # a member by itself, as before
    monkeypatch.setattr(_places, "process_group_size", lambda: 4)
    assert _places.place_here() == _places.Place("torchrun-r-5-2", 3, 4)
    monkeypatch.setenv("WORLD_SIZE", "8")  # two hosts
    monkeypatch.setattr(_places, "process_group_size", lambda: 8)
    assert _places.place_here() is None
