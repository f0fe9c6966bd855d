# SPDX-License-Identifier: Apache-2.0
"""Loops that draw their own batches: members that do the work of one are told, and part_of() shares a batch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import ledger
import pytest
import torch
from cluster import Cluster, Tell, alone
from disturb import KILLS, disturb
from programs import SAMPLES, data
from test_features import together, told
from torch import nn

import spotnik.torch as spotnik
from spotnik import StateError

Make = Callable[..., Cluster]
STEPS = 24


class Words(logging.Handler):
    """Keeps warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record.getMessage())


def network(dropout: bool = False) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3 if dropout else 0.0), nn.Linear(8, 2)).double()


def in_order(step: int, size: int) -> torch.Tensor:
    return torch.arange(step * size, (step + 1) * size) % SAMPLES


def draws(tell: Tell, how: str) -> None:
    """As scripts do that were written for one process."""
    words = Words()
    logging.getLogger("spotnik.torch").addHandler(words)
    net = network(dropout=how == "dropout")
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    spotnik.prepare(net, opt)
    x, y = data().tensors
    own = torch.Generator().manual_seed(1)
    while spotnik.step() < STEPS:
        batch = in_order(spotnik.step(), 8)
        if how == "generator":
            batch = torch.randint(0, SAMPLES, (8,), generator=own)
        elif how == "random":
            batch = torch.randint(0, SAMPLES, (8,))
        elif how == "whole":  # a graph that is given whole, of which each member's loss looks at a few nodes
            batch = torch.randint(0, SAMPLES, (8,))
            nn.functional.cross_entropy(net(x)[batch], y[batch]).backward()
            opt.step()
            opt.zero_grad()
            continue
        elif how == "parts":
            batch = spotnik.part_of(batch)
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        opt.step()
        opt.zero_grad()
    tell(done=words.kept)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("order", "computed the same gradient"),
        ("generator", "computed the same gradient"),
        ("dropout", "gave the model the same samples"),
        ("random", ""),
        ("whole", ""),
        ("parts", ""),
    ],
)
def test_members_that_do_the_work_of_one_are_told_once(cluster: Make, how: str, what: str) -> None:
    job = cluster()
    job.gather(2)
    together(job, draws, 2, how=how)
    for line in job.lines("done"):
        assert len(line["done"]) == (1 if what else 0), line["done"]
        assert not what or (what in line["done"][0] and "spotnik.part_of(x), spotnik.part_of(y)" in line["done"][0])


def test_one_member_is_told_nothing(cluster: Make) -> None:
    job = cluster()
    together(job, draws, 1, how="order")
    assert job.lines("done")[0]["done"] == []


# ---- part_of() ----


def parts(tell: Tell, path: str, size: int, accumulate: int = 1, stop: str = "") -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    spotnik.prepare(net, opt, accumulate=accumulate, on_step=told(tell), metrics=("stop",))
    x, y = data().tensors
    ends = False
    while not ends and (stop or spotnik.step() < STEPS):
        at = spotnik.step()
        for number in range(accumulate):
            batch = in_order(at * accumulate + number, size)
            inputs, labels = spotnik.part_of(x[batch]), spotnik.part_of(y[batch])
            spotnik.tell("stop", bool(stop) and Path(stop).exists())
            (nn.functional.cross_entropy(net(inputs), labels) / accumulate).backward()
        ends = spotnik.told("stop") > 0
        opt.step()
        opt.zero_grad()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.job().status().member}")
    tell(done=spotnik.step())


def whole(tell: Tell, path: str, size: int, steps: int) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = data().tensors
    for step in range(steps):
        opt.zero_grad()
        batch = in_order(step, size)
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        opt.step()
    torch.save([p.detach() for p in net.parameters()], path)


@pytest.mark.parametrize(("members", "size", "accumulate"), [(1, 8, 1), (3, 8, 1), (3, 2, 1), (3, 8, 2)])
def test_parts_make_the_step_of_one_process(
    cluster: Make, tmp_path: Path, members: int, size: int, accumulate: int
) -> None:
    """Also where they are not equal, and where one member has nothing."""
    path, job = str(tmp_path / "final"), cluster()
    job.gather(members)
    together(job, parts, members, path=path, size=size, accumulate=accumulate)
    alone(whole, tmp_path, path=path, size=size * accumulate, steps=STEPS)
    ends = list(tmp_path.glob("final.*"))
    assert len(ends) == members
    for end in ends:
        assert ledger.distance(str(end), path) < 1e-9


def test_parts_of_members_that_come_and_go(cluster: Make, tmp_path: Path) -> None:
    """A step whose member was lost is the mean over what the others had, so only the replicas are compared."""
    job, stop = cluster(), tmp_path / "stop"
    path = str(tmp_path / "final")
    disturb(job, lambda: job.start(parts, path=path, size=8, stop=str(stop)), kills=KILLS, stop=stop)
    ledger.agreed(job)
    assert len({line["done"] for line in job.lines("done")}) == 1


def test_part_of_dealt_samples_is_refused() -> None:
    net = network()
    spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    try:
        spotnik.shard(torch.utils.data.DataLoader(data(), batch_size=8))
        with pytest.raises(StateError, match="this member's part already"):
            spotnik.part_of(torch.zeros(8))
    finally:
        spotnik.leave()
